"""EVE's evaluation: `report` for runs of `eve-solver`, `benchmark` with the paper's tables, `evolution` of both phases."""
