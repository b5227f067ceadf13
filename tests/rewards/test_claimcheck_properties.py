"""Properties of ClaimCheck's reward, and a brute-force twin of its set arithmetic (characters as sets)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import VERDICTS, ClaimExample, GoldClaim, GoldFact
from factgym.rewards.claimcheck import COMPONENTS, GATES, RUBRICS, QuoteRules, gold_of, score_submission
from factgym.rewards.rubric import Rubric

TEXTS = {
    "E1": "The depot closes at nine. Drivers return the keys before they leave. Late keys are logged by security.",
    "E2": "Security keeps the log for thirty days. The log is destroyed afterwards under supervision.",
    "E3": "Visitors wear badges at all times. Badges are collected at the gate.",
}
ANSWER = "Drivers return the keys before they leave and the log is kept for ninety days."
SPAN = "for ninety days"
FACTS = (
    GoldFact("E1", TEXTS["E1"].index("Drivers"), TEXTS["E1"].index(" Late")),
    GoldFact("E2", 0, TEXTS["E2"].index(" The log")),
)
EXAMPLE = ClaimExample(
    "keys", "test", "x", "?", ANSWER, tuple(Passage(i, "t", text) for i, text in TEXTS.items()),
    (GoldClaim(ANSWER, "contradicted", FACTS, SPAN, "number"),), "contradicted",
)  # fmt: skip
GOLD = gold_of(EXAMPLE)

ids = st.sampled_from(["E1", "E2", "E3", "E9"])
quotes = st.one_of(
    st.sampled_from(
        ["", "not in any text at all", *(s + "." for t in TEXTS.values() for s in t.rstrip(".").split(". "))]
    ),
    st.builds(
        lambda i, a, b: TEXTS[i][min(a, b) : max(a, b)],
        st.sampled_from(list(TEXTS)),
        st.integers(0, 110),
        st.integers(0, 110),
    ),
)
spans = st.one_of(
    st.just(""), st.just("nowhere in the answer"),
    st.builds(lambda a, b: ANSWER[min(a, b) : max(a, b)], st.integers(0, len(ANSWER)), st.integers(0, len(ANSWER))),
)  # fmt: skip
claims = st.fixed_dictionaries(
    {
        "claim": st.just(ANSWER),
        "status": st.just("contradicted"),
        "evidence_ids": st.lists(ids, max_size=4),
        "quote": st.one_of(quotes, st.lists(quotes, max_size=4)),
        "unsupported_span": spans,
    }
)
submissions = st.fixed_dictionaries(
    {"claims": st.lists(claims, min_size=1, max_size=4), "final_verdict": st.sampled_from(VERDICTS)}
)
reads = st.sets(st.sampled_from(list(TEXTS)))


def score(submission: dict[str, Any], read: set[str]):
    return score_submission(submission, GOLD, TEXTS.get, read)


@settings(max_examples=400, deadline=None)
@given(submissions, reads)
def test_components_gates_and_totals_stay_in_the_unit_interval(submission, read):
    found = score(submission, read)
    assert all(0.0 <= value <= 1.0 for value in (*found.components.values(), *found.gates.values()))
    for rubric in RUBRICS.values():
        assert 0.0 <= rubric.total(found.components, found.gates) <= 1.0 + 1e-12


@settings(max_examples=400, deadline=None)
@given(submissions, reads)
def test_agrees_with_character_sets(submission, read):
    """The twin: passages and answer as sets of character positions, every definition written out once more."""
    found = score(submission, read)
    cited = {one for claim in submission["claims"] for one in claim["evidence_ids"]}
    counted = cited & read
    right, given_ = len(counted & {"E1", "E2"}), len(counted) + len(cited - set(TEXTS))
    expected = 2 * (right / given_) * (right / 2) / (right / given_ + right / 2) if right else 0.0
    assert found.components["evidence"] == pytest.approx(expected)
    quoted = {(one.passage, place) for one in found.quotes for place in range(one.start, one.end)}
    rules = QuoteRules()
    hits = [
        len({(f.passage, p) for p in range(f.start, f.end)} & quoted) >= rules.fact_share * (f.end - f.start)
        for f in FACTS
    ]
    allowed = rules.allowance_factor * sum(f.end - f.start for f in FACTS) + rules.allowance_chars
    assert found.components["coverage"] == pytest.approx(
        sum(hits) / 2 * min(1.0, allowed / len(quoted)) if quoted else 0.0
    )
    start = ANSWER.index(SPAN)
    truth = set(range(start, start + len(SPAN)))
    marked: set[int] = set()
    invented = 0
    for claim in submission["claims"]:
        span = claim["unsupported_span"].strip()
        at = ANSWER.find(span)
        if span and at >= 0:
            marked |= set(range(at, at + len(span)))
        else:
            invented += len(span)
    shared = len(marked & truth)
    expected = 2 * shared / (len(marked) + invented + len(truth)) if shared else 0.0
    assert found.components["span"] == pytest.approx(expected)


@settings(max_examples=200, deadline=None)
@given(submissions, reads, st.sampled_from(list(TEXTS)))
def test_reading_less_never_earns_more_without_a_citation_that_hurts(submission, read, unread):
    """Forgetting a gold passage that was read can only lower evidence, coverage and both gated rewards' verdict."""
    if unread == "E3":
        return
    before, after = score(submission, read | {unread}), score(submission, read - {unread})
    assert after.components["evidence"] <= before.components["evidence"] + 1e-12
    assert after.components["verdict"] == before.components["verdict"]


@settings(max_examples=200, deadline=None)
@given(submissions)
def test_without_reading_only_form_label_and_span_are_paid(submission):
    found = score(submission, set())
    assert found.components["evidence"] == found.components["quote"] == found.components["coverage"] == 0.0
    assert set(found.gates.values()) == {0.0}


def test_a_rubric_names_what_exists():
    with pytest.raises(ConfigError, match="Did you mean 'verdict'"):
        Rubric("mine", {"verdikt": 1.0}).check(COMPONENTS, GATES)
    with pytest.raises(ConfigError, match="no gate"):
        Rubric("mine", {"verdict": 1.0}, {"verdict": "valid"}).check(COMPONENTS, GATES)
    with pytest.raises(ConfigError, match="finite"):
        Rubric("mine", {"verdict": float("nan")})
