"""Measurements of this code beside its peers in the same run: `python -m perf NAME`."""
