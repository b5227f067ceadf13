"""Candidates of exact dense search on a device of torch: a GPU in half precision, or the CPU in bfloat16.

Scores of low precision choose candidates, and `StoredDense` scores them again by the vectors on disk. A bound of what
rounding can have cost says whether a passage that was not chosen could be among the hits; where it could, more are
chosen, up to a limit. Codes of 8 bits are searched in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from factgym.core.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from factgym.corpora.dense import Vectors

_BLOCK = 262_144
"""Vectors that are moved to the device, and multiplied with a batch of queries, at a time."""
_QUERIES = 64
"""Queries that are multiplied with a block at a time."""
_STRIP = 8_192
"""Codes that are decoded at a time: few enough to stay in the processor's cache until they are multiplied."""
_SPARE = 64
"""Candidates for each query at first, besides those that are requested; four times as many each time they do not do."""
_MAX_CANDIDATES = 8_192
"""Candidates besides those that are requested, above which low precision has decided nothing."""


class DeviceVectors:
    """Vectors on a device of torch.

    rows: shape (count, dimension), half precision. device: torch's name of it, as "cuda", "cuda:1" or "cpu".
    """

    def __init__(self, rows: NDArray[np.float16], device: str) -> None:
        torch = check_device(device)
        # bfloat16 is what CPUs multiply fast, half precision what GPUs do; both add up in single precision.
        precision = torch.bfloat16 if device.startswith("cpu") else torch.float16
        self.unit = float(torch.finfo(precision).eps) / 2
        self._blocks: list[Any] = []
        self._error = self._largest = 0.0
        for start in range(0, len(rows), _BLOCK):
            block = torch.from_numpy(np.array(rows[start : start + _BLOCK]))
            try:
                moved = block.to(device).to(precision)
            except torch.OutOfMemoryError:
                raise ConfigError(
                    f"{len(rows):,} vectors of {rows.shape[1]} dimensions take {rows.nbytes / 1e9:.1f} GB, which the "
                    f"device {device!r} does not have: search without search_device, or build an approximate index with "
                    "`factgym corpus encode CORPUS --approximate ivf`"
                ) from None
            exact, rounded = block.float(), moved.float().cpu()
            self._error = max(self._error, float((exact - rounded).norm(dim=1).max()))
            self._largest = max(self._largest, float(exact.norm(dim=1).max()))
            self._blocks.append(moved)
        self._device, self._precision, self._count = device, precision, len(rows)

    def _products(self, queries: Any, block: Any) -> Any:
        return queries @ block.T

    def search(
        self, queries: Vectors, k: int, rescore: Callable[[Vectors, NDArray[np.int64]], list[list[tuple[int, float]]]]
    ) -> list[list[tuple[int, float]] | None]:
        """Return the `k` best positions with their scores for each query; None where low precision cannot tell them.

        rescore: exact scores of candidates, best first, for some queries and rows of positions; at most `k` each.
        """
        results: list[list[tuple[int, float]] | None] = [None for _ in queries]
        limit = min(self._count, k + _MAX_CANDIDATES)
        pending, size = list(range(len(queries))), min(limit, k + _SPARE)
        while pending:
            candidates, bounds = self._candidates(queries[pending], size)
            undecided = []
            for i, hits, bound in zip(pending, rescore(queries[pending], candidates), bounds.tolist(), strict=True):
                if size == self._count or hits[-1][1] >= bound:
                    results[i] = hits
                else:
                    undecided.append(i)
            if size == limit:
                break
            pending, size = undecided, min(limit, 4 * size)
        return results

    def _candidates(self, queries: Vectors, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the `size` best positions of each query, and a bound that no other position's exact score exceeds."""
        import torch

        exact = torch.from_numpy(np.ascontiguousarray(queries))
        rounded = exact.to(self._device).to(self._precision)
        best, positions = [], []
        for first in range(0, len(rounded), _QUERIES):
            # The best of each block are merged with the best of those before it.
            scores: Any = None
            indices: Any = None
            start = 0
            for block in self._blocks:
                top = torch.topk(self._products(rounded[first : first + _QUERIES], block), min(size, len(block)), dim=1)
                if start:
                    top_scores = torch.cat([scores, top.values], dim=1)
                    top_indices = torch.cat([indices, top.indices + start], dim=1)
                    scores, order = torch.topk(top_scores, min(size, top_scores.shape[1]), dim=1)
                    indices = top_indices.gather(1, order)
                else:
                    scores, indices = top.values, top.indices
                start += len(block)
            best.append(scores[:, -1].float().cpu())
            positions.append(indices.cpu())
        least = torch.cat(best).double()
        # |q·v - q'·v'| <= |q - q'| |v| + |q'| |v - v'|, and the rounding of sum and score (Cauchy and Schwarz).
        lengths = rounded.float().cpu().norm(dim=1).double()
        error = (exact - rounded.float().cpu()).norm(dim=1).double() * self._largest + lengths * self._error
        error += 2 * self.unit * (least.abs() + error) + 1e-5 * lengths * self._largest
        return torch.cat(positions).numpy(), (least + error).numpy()


class CodeVectors(DeviceVectors):
    """Vectors of whole numbers from -128 to 127, on the CPU. codes: the numbers plus 128, a tensor of bytes, as it is mapped.

    bfloat16 holds them exactly, and each search decodes them anew, so that processes share the mapping and need no copy.
    """

    def __init__(self, codes: Any) -> None:
        torch = check_device("cpu")
        self._device, self._precision, self._count = "cpu", torch.bfloat16, len(codes)
        self.unit, self._error = float(torch.finfo(torch.bfloat16).eps) / 2, 0.0
        self._blocks = list(codes.split(_BLOCK))
        self._largest = max(float(part.float().norm(dim=1).max()) for _, part in _decode(codes))

    def _products(self, queries: Any, block: Any) -> Any:
        products = queries.new_empty(len(queries), len(block))
        for start, part in _decode(block):
            products[:, start : start + len(part)] = queries @ part.T
        return products


def _decode(codes: Any) -> Iterator[tuple[int, Any]]:
    """Yield parts of the codes less 128 and where each begins; a part holds until the next."""
    import torch

    signed, decoded = (torch.empty((_STRIP, codes.shape[1]), dtype=dtype) for dtype in (torch.uint8, torch.bfloat16))
    for start in range(0, len(codes), _STRIP):
        size = min(_STRIP, len(codes) - start)
        # A flipped sign bit makes a byte the two's complement of the byte less 128.
        torch.bitwise_xor(codes[start : start + size], 128, out=signed[:size])
        yield start, decoded[:size].copy_(signed[:size].view(torch.int8))


def check_device(device: str) -> Any:
    """Return torch, where it has the device. Raises MissingExtraError and ConfigError."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("search_device", "dense") from error
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise ConfigError(f"search_device is cpu, cuda or cuda:N, not {device[:40]!r}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"search_device={device!r}: torch has no GPU here; leave it out, or give cpu")
    return torch
