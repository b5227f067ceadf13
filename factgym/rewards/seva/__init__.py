"""SEVA's process reward for structured fact attribution, component by component, and the ways to combine them.

Source: "SEVA: Self-Evolving Verification Agent with Process Reward for Fact Attribution", section 2.3, Algorithm 1 and
appendix C.
"""
