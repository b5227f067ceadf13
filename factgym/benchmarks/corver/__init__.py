"""CorVer's evaluation: `report` and `compare` for runs, `calibration` of counts, `benchmark`, and `paper` for its tables."""
