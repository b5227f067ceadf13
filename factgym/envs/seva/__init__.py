"""SEVA: is a claim attributable to its source, and which evidence, reasoning and diagnosis say so."""
