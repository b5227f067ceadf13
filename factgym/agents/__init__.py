"""Policies: scripted agents by name, models, rollouts, and runs on disk."""
