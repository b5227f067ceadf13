"""ProFact's evaluation: `report` for runs and files of `predictions`, `benchmark`, and the paper's tables."""
