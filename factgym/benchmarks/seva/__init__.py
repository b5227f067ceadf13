"""SEVA's evaluation: `report` for runs, `benchmark` for the five data sets, `paper` for its tables."""
