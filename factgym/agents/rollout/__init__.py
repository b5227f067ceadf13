"""Rollouts: which episodes, playing one, playing thousands at once, and the record of each."""
