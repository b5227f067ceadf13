"""ProFact: METEOR, the assignment of AVeriTeC's scorer, and the reward of each stage (ProFact, section 3.3)."""
