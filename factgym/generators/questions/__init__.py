"""A generated world of entities and relations, and factual questions about it."""
