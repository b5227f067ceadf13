"""Runs on disk: a folder with `manifest.json` (what the run was made with) and `episodes.jsonl` (one episode a line)."""

EPISODES = "episodes.jsonl"
MANIFEST = "manifest.json"

ROLLOUTS = "rollouts"
"""Folder of an iteration's run within a self-evolution."""

TRIPLES = "triples.jsonl"
DOCUMENTS = "documents.jsonl"
"""Files of a data set that a self-evolution writes: its rows, and the documents that they quote."""

EVE_EVOLUTION = "factgym evolve eve"
"""The manifest's "what" of EVE's self-evolution."""

EVOLUTION_DATA = "data"
"""Folder of the data set within a self-evolution."""

FILTER_SUMMARY = "filter.json"
"""What a difficulty filter wrote beside its run."""
