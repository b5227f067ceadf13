"""EVE: a proposer that writes questions with evidence, and a solver that answers them with evidence."""
