"""Readers of real documents: folders of Markdown, text and JSONL, and ContractNLI."""
