"""How fast we are, beside a peer measured in the same run: `python -m factgym.benchmarks.speed env`."""
