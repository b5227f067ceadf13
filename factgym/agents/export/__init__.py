"""A run as training data and as a table: chat lines for supervised tuning, preference pairs, Parquet.

Runs are streamed: memory holds one episode, and some numbers about each of the others.
"""
