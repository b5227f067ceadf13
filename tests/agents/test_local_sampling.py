"""The sampler against probability theory and against the library's own warpers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from factgym.agents.local import LocalSettings
from factgym.agents.local.engine import ResolvedSampling, Sampler, resolve_sampling
from factgym.core.seeds import derive

torch = pytest.importorskip("torch", reason="needs the extra 'local'")
transformers = pytest.importorskip("transformers", reason="needs the extra 'local'")
from transformers import (  # noqa: E402 - after the check that it is there
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)


def logits_of(rows: int, words: int, seed: int = 0, spread: float = 2.0) -> Any:
    return torch.randn(rows, words, generator=torch.Generator().manual_seed(seed)) * spread


def drawn(choice: ResolvedSampling, logits: Any, seeds: list[int]) -> list[int]:
    ids = torch.zeros(len(seeds), 1, dtype=torch.long)
    return Sampler(choice, seeds, [0] * len(seeds), "cpu")(ids, logits).argmax(-1).tolist()


def filtered(choice: ResolvedSampling, logits: Any) -> Any:
    ids = torch.zeros(len(logits), 1, dtype=torch.long)
    return Sampler(choice, [0] * len(logits), [0] * len(logits), "cpu").filtered(ids, logits)


@pytest.mark.parametrize(
    "choice",
    [
        ResolvedSampling(),
        ResolvedSampling(temperature=0.7),
        ResolvedSampling(temperature=1.5, top_k=6),
        ResolvedSampling(top_p=0.8),
        ResolvedSampling(min_p=0.1),
    ],
    ids=str,
)
def test_samples_follow_the_softmax_of_the_filtered_logits(choice: ResolvedSampling) -> None:
    """Chi-square over 20,000 rows that have the same logits and different seeds."""
    from scipy.stats import chisquare

    rows = 20_000
    logits = logits_of(1, 12, seed=3).expand(rows, -1)
    expected = filtered(choice, logits[:1]).softmax(-1)[0].double()
    counts = torch.bincount(torch.tensor(drawn(choice, logits, [derive(5, n) for n in range(rows)])), minlength=12)
    possible = expected > 0
    assert not counts[~possible].any()
    assert chisquare(counts[possible], rows * expected[possible] / expected.sum()).pvalue > 1e-3


def test_successive_draws_of_one_row_are_independent() -> None:
    """Pairs of successive tokens of one generator against the product of their probabilities."""
    from scipy.stats import chisquare

    steps, rows = 40, 500
    logits = torch.tensor([[0.0, 0.5, 1.0]]).expand(rows, -1)
    sampler = Sampler(ResolvedSampling(), [derive(9, n) for n in range(rows)], [0] * rows, "cpu")
    ids = torch.zeros(rows, 1, dtype=torch.long)
    tokens = torch.stack([sampler(ids, logits).argmax(-1) for _ in range(steps)])
    pairs = torch.bincount((tokens[0::2] * 3 + tokens[1::2]).flatten(), minlength=9)
    single = logits[0].softmax(-1).double()
    expected = torch.outer(single, single).flatten()
    assert chisquare(pairs, pairs.sum().item() * expected / expected.sum()).pvalue > 1e-3


@pytest.mark.parametrize(
    ("choice", "warpers"),
    [
        (ResolvedSampling(temperature=0.6), [TemperatureLogitsWarper(0.6)]),
        (ResolvedSampling(temperature=0.6, top_k=20), [TemperatureLogitsWarper(0.6), TopKLogitsWarper(20)]),
        (
            ResolvedSampling(temperature=0.6, top_k=20, top_p=0.95),
            [TemperatureLogitsWarper(0.6), TopKLogitsWarper(20), TopPLogitsWarper(0.95)],
        ),
        (ResolvedSampling(top_p=0.5), [TopPLogitsWarper(0.5)]),
        (ResolvedSampling(top_p=0.01), [TopPLogitsWarper(0.01)]),
        (ResolvedSampling(top_k=500), []),
        (ResolvedSampling(temperature=1.3, min_p=0.05), [TemperatureLogitsWarper(1.3), MinPLogitsWarper(0.05)]),
    ],
    ids=["warm", "top-k", "top-k and top-p", "top-p", "one token", "all tokens", "min-p"],
)
def test_filters_agree_with_the_librarys(choice: ResolvedSampling, warpers: list[Any]) -> None:
    logits = logits_of(64, 200, seed=1)
    expected = logits
    for warper in warpers:
        expected = warper(None, expected)
    result = filtered(choice, logits)
    assert torch.equal(result.isinf(), expected.isinf())
    assert torch.allclose(result.softmax(-1), expected.softmax(-1), atol=1e-6)


def test_top_p_is_taken_row_by_row() -> None:
    both = torch.stack([torch.tensor([9.0, 0.0, 0.0, 0.0]), torch.tensor([1.0, 1.0, 1.0, 0.9])])
    retained = (~filtered(ResolvedSampling(top_p=0.9), both).isinf()).sum(-1).tolist()
    assert retained == [1, 4]


def test_a_row_is_drawn_alike_in_every_batch() -> None:
    logits, seeds = logits_of(32, 500), [derive(1, n) for n in range(32)]
    whole = drawn(ResolvedSampling(temperature=0.9, top_p=0.95), logits, seeds)
    for rows in ([7], [7, 3], [3, 7, 31], list(range(31, -1, -1))):
        part = drawn(ResolvedSampling(temperature=0.9, top_p=0.95), logits[rows], [seeds[row] for row in rows])
        assert part == [whole[row] for row in rows]
    assert len(set(drawn(ResolvedSampling(), logits[:1].expand(32, -1), seeds))) > 8


def test_temperature_zero_is_the_argmax_whatever_the_seed() -> None:
    logits = logits_of(16, 300)
    for seed in (0, 1):
        assert drawn(ResolvedSampling(temperature=0), logits, [seed] * 16) == logits.argmax(-1).tolist()


def test_logprobs_are_the_models_own_before_temperature_and_filters() -> None:
    logits = logits_of(8, 100)
    sampler = Sampler(ResolvedSampling(temperature=0.3, top_k=5), list(range(8)), [0] * 8, "cpu", logprobs=True)
    chosen = [sampler(torch.zeros(8, 1, dtype=torch.long), item).argmax(-1) for item in (logits, logits.flip(-1))]
    own = [item.double().log_softmax(-1) for item in (logits, logits.flip(-1))]
    expected = [[own[t][row, chosen[t][row]].item() for t in (0, 1)] for row in range(8)]
    assert torch.allclose(torch.tensor(sampler.logprobs()), torch.tensor(expected), atol=1e-5)


def test_repetition_penalty_agrees_with_the_librarys_and_does_not_see_padding() -> None:
    logits = logits_of(2, 50)
    ids = torch.tensor([[3, 4, 5, 6], [9, 9, 7, 8]])
    sampler = Sampler(ResolvedSampling(temperature=0, repetition_penalty=1.3), [0, 0], [0, 2], "cpu")
    penalised = sampler(ids, logits)
    library = RepetitionPenaltyLogitsProcessor(1.3)
    assert torch.allclose(penalised[:1], library(ids[:1], logits[:1].clone()))
    assert torch.allclose(penalised[1:], library(ids[1:, 2:], logits[1:].clone()))


def test_logits_that_are_not_numbers_are_noticed_row_by_row() -> None:
    sampler = Sampler(ResolvedSampling(), [1, 2], [0, 0], "cpu")
    good, bad = logits_of(2, 10), logits_of(2, 10)
    bad[1] = math.nan
    for logits in (good, bad, good, bad):
        sampler(torch.zeros(2, 1, dtype=torch.long), logits)
    assert sampler.finite_steps()[0] >= 4
    assert sampler.finite_steps()[1] == 1


def test_gaps_are_filled_from_the_models_generation_config_where_it_samples() -> None:
    own = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05}
    assert resolve_sampling(LocalSettings(), own) == ResolvedSampling(0.6, 0.95, 20, 0.0, 1.05)
    assert resolve_sampling(LocalSettings(temperature=0, top_k=3), own) == ResolvedSampling(0, 0.95, 3, 0.0, 1.05)
    assert resolve_sampling(LocalSettings(), {**own, "do_sample": False}) == ResolvedSampling(repetition_penalty=1.05)
    assert resolve_sampling(LocalSettings(top_p=0.5), {}) == ResolvedSampling(top_p=0.5)
