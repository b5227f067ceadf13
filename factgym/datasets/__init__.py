"""Public benchmarks: readers of their files, and the records that these and the generators share."""
