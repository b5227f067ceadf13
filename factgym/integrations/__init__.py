"""Integrations with other frameworks, each in its own module with its own extra. Importing this package imports none of them."""
