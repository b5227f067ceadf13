"""An NLI-style verifier without a model, and the text features that scripted agents of all families share.

`evidence.build_evidence` and `evidence.parse_statement` tokenize; `nli.predict_entailment` verifies a statement;
`premise` and `semantics` are its parts, `phrases.toml` their word lists, patterns and weights; `fitting` trains linear
verifiers.
"""
