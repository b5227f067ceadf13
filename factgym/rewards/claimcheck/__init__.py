"""ClaimCheck's reward: the gold of its examples, the evidence of a submission, and the components with their rubrics.

Source: "A Correct Verdict Is Not Enough: RL for Evidence-Grounded Claim Verification".
"""
