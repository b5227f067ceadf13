"""Text perturbations: one operator protocol, shared text machinery, and two tables of operators.

`operator` has the protocol; `grammar`, `names` and `clauses` the text machinery. `corruptions` is the table for
sentences of documents (ClaimCheck), `probes` the one for claims with a source (SEVA).
"""
