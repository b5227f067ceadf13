"""Pure functions from a submission to reward components, and rubrics that combine them."""
