"""CorVer: factual questions, and a reward that looks every sentence of the answer up in a corpus."""
