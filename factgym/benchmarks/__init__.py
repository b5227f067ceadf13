"""Evaluation of runs: statistics, tables, pages, audits, and one benchmark for each paper."""
