"""Pure functions from what was submitted to components, and rubrics that combine them."""
