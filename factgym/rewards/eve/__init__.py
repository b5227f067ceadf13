"""EVE: a proposer rewarded for evidence that makes its answer findable, and a solver rewarded for recovering both.

Source: "EVE-Agent: Evidence-Verifiable Self-Evolving Agents", sections 2 and 3, appendices B and D.
"""
