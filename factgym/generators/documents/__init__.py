"""Claims over a user's own documents, made by corrupting their sentences."""
