"""Statistics of verifiers: `intervals` (Wilson, Student, ratios), `bootstrap` (BCa), `classification`."""
