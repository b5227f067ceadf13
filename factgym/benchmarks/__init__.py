"""What a run was worth: statistics, tables, pages, audits; and how fast we are."""
