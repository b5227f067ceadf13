"""Runs on disk: a folder with `manifest.json` (what the run was made with) and `episodes.jsonl` (one episode a line)."""

EPISODES = "episodes.jsonl"
MANIFEST = "manifest.json"
