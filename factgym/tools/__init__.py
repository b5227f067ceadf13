"""Tools as typed functions, the toolbox that checks and calls them, and the tools over evidence."""
