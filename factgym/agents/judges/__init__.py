"""Judges: a policy with a fixed prompt, or a fallback that is labelled as such, grades a case by a rubric."""
