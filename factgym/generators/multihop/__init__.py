"""A generated world of invented names, and questions of one to four hops about it."""
