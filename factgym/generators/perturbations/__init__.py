"""Text perturbations: one operator protocol (`operator`), shared text machinery (`grammar`, `names`, `clauses`), and
two tables of operators: `corruptions` for sentences of documents (ClaimCheck), `probes` for claims with a source (SEVA)."""
