"""Training: self-evolution loops of verifiers (SEVA) and of proposer and solver (EVE), and the difficulty filter."""
