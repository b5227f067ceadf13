"""Seeds of runs and models; they live in `factgym.core.seeds`, where environments draw theirs too."""

from __future__ import annotations

from factgym.core.seeds import MAX_SEED, derive

__all__ = ["MAX_SEED", "derive"]
