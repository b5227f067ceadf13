"""Scripted agents of EVE's environments."""
