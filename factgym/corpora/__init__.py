"""Documents, passages, claims, indexes over them, and the generators and operators that make claims."""
