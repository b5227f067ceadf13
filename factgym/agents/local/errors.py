"""The fault inside a local model that its worker answers by halving the batch."""

from __future__ import annotations


class NoRoomError(Exception):
    """The device had no room for a batch."""
