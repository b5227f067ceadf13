"""A run as training data and as a table: chat lines for supervised tuning, preference pairs, Parquet.

Runs are streamed: what is held at once is one episode, and some numbers about each of the others.
"""

from factgym.agents.export.files import Summary
from factgym.agents.export.preferences import PreferenceOptions, export_preferences
from factgym.agents.export.sft import SftOptions, export_sft
from factgym.agents.export.table import export_table

__all__ = ["PreferenceOptions", "SftOptions", "Summary", "export_preferences", "export_sft", "export_table"]
