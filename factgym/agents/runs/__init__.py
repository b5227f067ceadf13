"""Runs on disk: a folder with `manifest.json` (the settings of the run) and `episodes.jsonl` (one episode a line)."""
