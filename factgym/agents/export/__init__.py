"""A run as training data and as a table: chat lines for supervised tuning, preference pairs, Parquet.

Runs are streamed: memory holds one episode, and some numbers about each of the others.
"""

from factgym.agents.export.source import Summary
from factgym.agents.export.table import export_table
from factgym.agents.export.training import PreferenceOptions, SftOptions, export_preferences, export_sft

__all__ = ["PreferenceOptions", "SftOptions", "Summary", "export_preferences", "export_sft", "export_table"]
