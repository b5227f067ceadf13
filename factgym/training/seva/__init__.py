"""SEVA's self-evolution loop: verify, reflect, probe, refine."""
