"""Difficulty bands: groups of episodes by their solve rate, and the tasks to keep for training."""
