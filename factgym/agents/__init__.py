"""Whoever plays: scripted agents by name, playing, and runs on disk."""
