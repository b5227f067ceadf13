"""The addition of postings, compiled with numba: the same sums as NumPy's, some four times as fast.

Imported only through `cooccurrence.engine.LazyModule`, in the background. Compiled for fixed types and cached on disk.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray


def _add(scores: NDArray[np.float64], passages: NDArray[np.int32], values: NDArray[np.float64]) -> None:
    for i in range(len(passages)):
        scores[passages[i]] += values[i]


add: Callable[..., None] = numba.njit(
    types.void(
        types.Array(types.float64, 1, "C"),
        types.Array(types.int32, 1, "C", readonly=True),
        types.Array(types.float64, 1, "C", readonly=True),
    ),
    nogil=True,
    cache=True,
)(_add)
