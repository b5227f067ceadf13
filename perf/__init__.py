"""How fast we are, beside a peer measured in the same run: `python -m perf env`."""
