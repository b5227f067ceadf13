"""Text as such: what a person sees of it, with offsets that lead back, and the language that it is in."""
