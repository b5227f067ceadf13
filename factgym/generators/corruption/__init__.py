"""Corruption operators over sentences of real documents; `operators.OPERATORS` lists them."""
