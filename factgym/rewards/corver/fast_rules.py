"""Whether the rules are compiled: the first valid triplets of many sentences by numba, where it is there and worth it.

numba takes a second to load the compiled rules and, the first time on a machine, some twenty to compile them. That
happens in a thread, and only for who asks for many sentences; Python reads the sentences until then, and the few that
have no stand-ins (see `stand_ins`) in any case. Both find the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, get_args

import numpy as np

from factgym.core.errors import ConfigError, did_you_mean
from factgym.corpora.cooccurrence.engine import Loading, need
from factgym.rewards.corver.fallback_judges import StandIns
from factgym.rewards.corver.triplets import Triplet

Engine = Literal["auto", "numba", "python"]

_rules = Loading("factgym.rewards.corver.compiled_rules")
_asked = itertools.count()
_MANY = 20
"""Batches after which it is worth loading numba."""
_FEW = 16
"""Sentences of which a batch has at least so many."""


def check_engine(engine: str) -> None:
    """Raise ConfigError for an engine that does not exist."""
    if engine not in get_args(Engine):
        known = get_args(Engine)
        raise ConfigError(f"engine is one of {', '.join(known)}, not {engine!r:.80}.{did_you_mean(engine, known)}")


def compiled_rules(engine: Engine, sentences: int) -> Any:
    """The module `compiled_rules`, or None for Python: by choice, for few sentences, without numba or while it loads."""
    if engine == "python" or sentences < _FEW:
        return None
    if _rules.found is None and (engine == "numba" or next(_asked) >= _MANY):
        _rules.start()
        if engine == "numba":
            _rules.wait()
            need(_rules, "extraction")
    return _rules.found


@cache
def _lexicon(compiled: Any) -> Any:
    return compiled.make_lexicon()


def first_triplets(compiled: Any, sentences: Sequence[str]) -> list[list[Triplet] | None]:
    """The first valid triplet of each sentence, or nothing; None for a sentence that the compiled rules cannot read."""
    most = compiled.MAX_CHARS
    texts = ["" if one[-1:] == "?" else one[:most] for one in sentences]
    stand_ins = StandIns()
    others = {i: stand_ins.encode(one) for i, one in enumerate(texts) if not one.isascii()}
    for i, encoded in others.items():
        texts[i] = encoded or ""
    text = np.frombuffer("".join(texts).encode("latin-1"), np.uint8)
    bounds = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=bounds[1:])
    out = np.empty(compiled.BYTES_PER_CHAR * len(text) + 1, np.uint8)
    places = np.zeros((len(texts), 4), np.int64)
    compiled.read_many(_lexicon(compiled), text, bounds, out, places)
    written = out[: places.max(initial=0)].tobytes().decode("latin-1")
    found: list[list[Triplet] | None] = [
        [Triplet(written[a:b], written[b:c], written[c:d])] if d else [] for a, b, c, d in places.tolist()
    ]
    for i, encoded in others.items():
        decoded = [Triplet(*map(stand_ins.decode, one)) for one in found[i] or ()]
        found[i] = None if encoded is None else decoded
    return found
