"""CorVer's reward: sentences earn by how often a corpus contains their entities together, besides response rewards.

Source: "Verifiable Rewards Beyond Math and Code: Lightweight Corpus-Grounded Process Supervision for Factual Question
Answering", sections 3 and 4, appendices A.2 and B.
"""
