"""ClaimCheck: list, search, read and submit over policy documents."""
