"""SEVA's process reward for structured fact attribution, component by component, and the ways to combine them.

Source: "SEVA: Self-Evolving Verification Agent with Process Reward for Fact Attribution", section 2.3, Algorithm 1 and
appendix C. `read_output` parses an output, `score_output` scores every component once, a rubric combines them, and
`report_of` makes the reward report.
"""
