"""ClaimCheck's reward against the paper: its check value and every output that it prints.

Source: "A Correct Verdict Is Not Enough: RL for Evidence-Grounded Claim Verification". The submissions below are the
paper's, word for word; the scores are reasoned out beside them from the formulas, not read off the code.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import factgym
from factgym.core.errors import ConfigError
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import STATUSES, VERDICTS, ClaimExample, GoldClaim, GoldFact
from factgym.rewards.claimcheck.evidence import QuoteRules
from factgym.rewards.claimcheck.gold import gold_of
from factgym.rewards.claimcheck.scoring import (
    COMPONENTS,
    GATED,
    GATES,
    GUESS,
    JUDGED,
    NO_SUBMISSION,
    R0,
    RUBRICS,
    V2,
    ClaimScore,
    _reasons_hold,
    chance_stakes,
    score_submission,
    span_credits,
)
from factgym.rewards.rubric import Rubric
from factgym.text.folding import fold

VENDOR_E1 = "Vendors may begin onboarding only after the security questionnaire is approved."
VENDOR_E2 = "Once procurement confirms the vendor record, vendors must act within 2 business days."
VENDOR_FIRST = (
    "Vendors may begin onboarding after the security questionnaire is approved and procurement confirms the vendor "
    "record, and they must act within 2 business days."
)
VENDOR_SECOND = "Approval is automatic and cannot be delayed."


def passages(*texts: str) -> tuple[Passage, ...]:
    return tuple(Passage(f"E{i}", "Policy", text) for i, text in enumerate(texts, 1))


def whole(passage: str, text: str) -> GoldFact:
    return GoldFact(passage, 0, len(text))


VENDORS = ClaimExample(
    id="vendors",
    split="test",
    domain="company policies",
    question="What conditions apply before vendors may begin onboarding?",
    answer=f"{VENDOR_FIRST} {VENDOR_SECOND}",
    passages=passages(VENDOR_E1, VENDOR_E2, "Invoices are paid monthly.", "Badges are returned.", "Visitors sign in."),
    claims=(
        GoldClaim(VENDOR_FIRST, "supported", (whole("E1", VENDOR_E1), whole("E2", VENDOR_E2))),
        GoldClaim(VENDOR_SECOND, "unsupported", (whole("E1", VENDOR_E1),), VENDOR_SECOND, "addition"),
    ),
    verdict="partially_supported",
)

DAYS_E1 = "Vendors must submit a reimbursement request within 3 days when the expense is approved by a manager."
DAYS_ANSWER = "Vendors must submit a reimbursement request within 4 days."
DAYS = ClaimExample(
    id="days",
    split="hard",
    domain="company policies",
    question="What is the deadline for vendors to submit a reimbursement request?",
    answer=DAYS_ANSWER,
    passages=passages(DAYS_E1, "Employees must submit a reimbursement request within 4 days."),
    claims=(GoldClaim(DAYS_ANSWER, "contradicted", (whole("E1", DAYS_E1),), "within 4 days", "number"),),
    verdict="contradicted",
)

LEAVE_E1 = "Employees must submit the leave request within 21 working days."
LEAVE = ClaimExample(
    id="leave",
    split="test",
    domain="HR rules",
    question="When must employees submit the leave request?",
    answer=LEAVE_E1,
    passages=passages(LEAVE_E1),
    claims=(GoldClaim(LEAVE_E1, "supported", (whole("E1", LEAVE_E1),)),),
    verdict="supported",
)


def score(
    example: ClaimExample,
    submission: dict[str, object],
    read: tuple[str, ...] = ("E1", "E2"),
    rules: QuoteRules = QuoteRules(),  # noqa: B008 - immutable
) -> ClaimScore:
    texts = {passage.id: passage.text for passage in example.passages}
    return score_submission(submission, gold_of(example), texts.get, read, rules)


def claim(text: str, status: str, ids: list[str], quote: str | list[str] = "", span: str = "") -> dict[str, object]:
    return {"claim": text, "status": status, "evidence_ids": ids, "quote": quote, "unsupported_span": span}


def verdict(final: str, *claims: dict[str, object], used: tuple[str, ...] = ()) -> dict[str, object]:
    return {"claims": list(claims), "final_verdict": final, "evidence_used": list(used)}


def papers(scored: ClaimScore) -> dict[str, float]:
    """The components of the paper's rewards."""
    return {name: scored.components[name] for name in {**R0.weights, **V2.weights}}


def totals(scored: ClaimScore) -> tuple[float, float, float]:
    return tuple(rubric.total(scored.components, scored.gates) for rubric in (R0, GATED, V2))  # type: ignore[return-value]


def test_the_papers_v2_score_of_970():
    """Its final adapter: all components 1 but the unsupported span at 0.4 gives 0.970."""
    components = dict.fromkeys(V2.weights, 1.0) | {"span": 0.4}
    assert V2.total(components, {"validity": 1.0}) == pytest.approx(0.970, abs=1e-12)


@pytest.mark.parametrize("rubric", RUBRICS.values())
def test_weights_sum_to_one(rubric):
    assert sum(rubric.weights.values()) == pytest.approx(1.0, abs=1e-12)


def test_vendors_supervised_output_misses_the_unsupported_sentence():
    """It cites both passages (E = 1) with one true quote (Q = 1) of two facts (C = 1/2), marks nothing although a
    sentence is unsupported (S = 0), and says supported when it is not (V = 0, F = 0)."""
    scored = score(
        VENDORS, verdict("supported", claim(VENDOR_FIRST, "supported", ["E1", "E2"], VENDOR_E1), used=("E1", "E2"))
    )
    assert papers(scored) == {
        "json": 1, "verdict": 0, "evidence": 1, "quote": 1, "coverage": 0.5, "span": 0, "guard": 0,
    }  # fmt: skip
    # R0: .10 + .20 + .20; the gate has no verdict to act on; v2: .05 + .20 + .20 + .15/2.
    assert totals(scored) == pytest.approx((0.5, 0.5, 0.525))


def test_vendors_gated_output_has_the_verdict_but_the_wrong_span():
    """V = F = 1 now. The marked span is in the answer but shares no character with the unsupported sentence."""
    span = "and procurement confirms the vendor record, and they must act within 2 business days."
    scored = score(
        VENDORS, verdict("partially_supported", claim(VENDOR_FIRST, "supported", ["E1", "E2"], VENDOR_E1, span))
    )
    assert papers(scored) == {
        "json": 1, "verdict": 1, "evidence": 1, "quote": 1, "coverage": 0.5, "span": 0, "guard": 1,
    }  # fmt: skip
    # A span was given, so W_E = 1 and the gated reward is R0; v2's gate is E·Q·C = 1/2.
    assert totals(scored) == pytest.approx((0.9, 0.9, 0.05 + 0.30 * 0.5 + 0.20 + 0.20 + 0.15 * 0.5 + 0.05))


def test_vendors_complete_output_scores_one():
    scored = score(
        VENDORS,
        verdict(
            "partially_supported",
            claim(VENDOR_FIRST, "supported", ["E1", "E2"], [VENDOR_E1, VENDOR_E2]),
            claim(VENDOR_SECOND, "unsupported", ["E1"], VENDOR_E1, VENDOR_SECOND),
        ),
    )
    assert totals(scored) == pytest.approx((1.0, 1.0, 1.0))


def test_three_days_against_four_supervised_output_is_right():
    """Everything is right; the whole statement is marked where "within 4 days" would do. S is the F1 of 13 gold
    characters, all marked, against 58 marked ones."""
    scored = score(DAYS, verdict("contradicted", claim(DAYS_ANSWER, "contradicted", ["E1"], DAYS_E1, DAYS_ANSWER)))
    assert len(DAYS_ANSWER) == 58
    assert len("within 4 days") == 13
    span = 2 * 13 / (58 + 13)
    assert scored.components["span"] == pytest.approx(span)
    assert totals(scored) == pytest.approx((0.9 + 0.1 * span, 0.9 + 0.1 * span, 0.95 + 0.05 * span))


def test_three_days_against_four_gated_output_softens_the_label():
    """The same evidence with the verdict overclaim: only the verdict's credit is lost."""
    scored = score(DAYS, verdict("overclaim", claim(DAYS_ANSWER, "overclaim", ["E1"], DAYS_E1, DAYS_ANSWER)))
    span = 2 * 13 / (58 + 13)
    assert scored.components["verdict"] == 0
    assert totals(scored) == pytest.approx((0.6 + 0.1 * span, 0.6 + 0.1 * span, 0.65 + 0.05 * span))


def test_the_empty_verdict_of_the_reward_hacking_table():
    """A right label without evidence. R0 pays .10 + .30 + .10 (nothing to mark) + .10; both gates take the verdict's
    part, and v2 leaves .05 + .05 + .05."""
    scored = score(LEAVE, verdict("supported", claim(LEAVE_E1, "supported", [])), read=())
    assert totals(scored) == pytest.approx((0.6, 0.3, 0.15))


def test_evidence_that_was_not_read_is_not_cited():
    submission = verdict("supported", claim(LEAVE_E1, "supported", ["E1"], LEAVE_E1))
    assert totals(score(LEAVE, submission, read=("E1",))) == pytest.approx((1.0, 1.0, 1.0))
    assert totals(score(LEAVE, submission, read=())) == pytest.approx((0.6, 0.3, 0.15))


def test_a_missing_submission_scores_zero():
    assert score_submission(None, gold_of(LEAVE), lambda _: LEAVE_E1, ()) is NO_SUBMISSION
    assert totals(NO_SUBMISSION) == (0.0, 0.0, 0.0)


def test_a_citation_that_does_not_exist_costs_precision():
    scored = score(LEAVE, verdict("supported", claim(LEAVE_E1, "supported", ["E1", "E9"], LEAVE_E1)))
    assert scored.components["evidence"] == pytest.approx(2 / 3)  # precision 1/2, recall 1
    assert scored.gates["evidence_weight"] == pytest.approx((0.5 + 1 + 1 + 1) / 4)


@pytest.mark.parametrize(
    ("quote", "valid"),
    [
        (DAYS_E1, True),
        ("within 3 days  when\nthe expense", True),  # white space folds
        ("ｗithin 3 days when the expense", True),  # so does NFKC
        ("Within 3 days when the expense", False),  # nothing looser: case
        ("within 3 days when an expense", False),
        ("within 3", False),  # too short to show anything
        ("Employees must submit a reimbursement request within 4 days.", False),  # in E2, which is not cited
    ],
)
def test_rules_of_a_valid_quote(quote, valid):
    scored = score(DAYS, verdict("contradicted", claim(DAYS_ANSWER, "contradicted", ["E1"], quote)))
    assert scored.components["quote"] == float(valid)


def test_repeating_a_true_quote_does_not_drown_a_false_one():
    claims = [claim(DAYS_ANSWER, "contradicted", ["E1"], DAYS_E1) for _ in range(9)]
    claims.append(claim(DAYS_ANSWER, "contradicted", ["E1"], "Vendors never submit anything at all."))
    assert score(DAYS, verdict("contradicted", *claims)).components["quote"] == 0.5


def test_a_quote_must_hold_wherever_it_is_given():
    """The same words under a passage that does not hold them are a false quote, however often they were right."""
    claims = [claim(DAYS_ANSWER, "contradicted", ["E1"], DAYS_E1), claim(DAYS_ANSWER, "contradicted", ["E2"], DAYS_E1)]
    assert score(DAYS, verdict("contradicted", *claims)).components["quote"] == 0.0


def test_the_same_sentence_in_two_passages_and_twice_in_one_is_covered_by_quoting_it():
    again = "There are no exceptions to this."
    texts = (f"Guests sign in. {again} Guests sign out. {again}", f"Staff wear badges. {again}")
    second = texts[0].rindex(again)
    facts = (GoldFact("E1", second, second + len(again)), GoldFact("E2", texts[1].index(again), len(texts[1])))
    example = ClaimExample(
        "again", "test", "x", "?", "No exceptions.", passages(*texts),
        (GoldClaim("No exceptions.", "supported", facts),), "supported",
    )  # fmt: skip
    one_each = [claim("No exceptions.", "supported", [passage], again) for passage in ("E1", "E2")]
    assert totals(score(example, verdict("supported", *one_each))) == pytest.approx((1.0, 1.0, 1.0))


def copied_passage() -> tuple[ClaimExample, list[str]]:
    sentences = [f"Rule number {i} says that department {i} files form {i} on day {i} of the month." for i in range(8)]
    text = " ".join(sentences)
    start = text.index(sentences[3])
    fact = GoldFact("E1", start, start + len(sentences[3]))
    example = ClaimExample(
        "copy", "test", "x", "?", sentences[3], (Passage("E1", "t", text),),
        (GoldClaim(sentences[3], "supported", (fact,)),), "supported",
    )  # fmt: skip
    return example, sentences


def test_a_copied_passage_is_no_quote():
    example, sentences = copied_passage()
    scored = score(example, verdict("supported", claim(sentences[3], "supported", ["E1"], " ".join(sentences))))
    assert (scored.components["quote"], scored.components["coverage"]) == (0.0, 0.0)


def test_quoting_every_sentence_shrinks_coverage():
    """The one gold fact is covered, but 8 sentences of 74 characters exceed the allowance of 2 · 74 + 300."""
    example, sentences = copied_passage()
    scored = score(example, verdict("supported", claim(sentences[3], "supported", ["E1"], sentences)))
    length = len(sentences[3])
    assert scored.components["coverage"] == pytest.approx((2 * length + 300) / (8 * length))
    precise = score(example, verdict("supported", claim(sentences[3], "supported", ["E1"], sentences[3:4])))
    assert precise.components["coverage"] == 1.0


SILENT_TEXTS = (
    "The agreement starts in May. A party may whistle at meetings.",
    "The agreement ends in June. No party sells songs to others.",
    "Meetings are held on Mondays. The party brings its own instruments.",
    "Notices are sent by post. A party answers within a week.",
)
SILENT = ClaimExample(
    "nda", "dev", "contracts", "?", "The party may sing.", passages(*SILENT_TEXTS),
    (GoldClaim("The party may sing.", "unsupported", (), "The party may sing."),), "unsupported", ("E1", "E2", "E3"),
)  # fmt: skip
ALL_READ = ("E1", "E2", "E3", "E4")


def silence(ids: list[str], quote: str | list[str]) -> tuple[float, float, float]:
    entry = claim(SILENT.answer, "unsupported", ids, quote, SILENT.answer)
    scored = score(SILENT, verdict("unsupported", entry), ALL_READ)
    return scored.components["evidence"], scored.components["coverage"], V2.total(scored.components, scored.gates)


def test_silence_is_shown_by_the_three_nearest_passages():
    """Human labels of silence carry no span. All three nearest cited and the closest sentence quoted: everything is
    right, .05 + .30 + .20 + .20 + .15 + .05 + .05."""
    assert silence(["E1", "E2", "E3"], "A party may whistle at meetings.") == pytest.approx((1.0, 1.0, 1.0))


def test_a_single_passage_does_not_show_the_silence_of_a_document():
    """Precision 1, recall 1/3: F1 is 1/2, and so is the gate; v2 pays .05 + .15 + .10 + .20 + .15 + .05 + .05."""
    assert silence(["E1"], "A party may whistle at meetings.") == pytest.approx((0.5, 1.0, 0.75))


def test_any_sentence_does_not_show_a_silence():
    """A true quote that has nothing to do with the statement covers nothing, so that the verdict earns nothing."""
    assert silence(["E1", "E2", "E3"], "The agreement starts in May.") == pytest.approx((1.0, 0.0, 0.55))


def test_silence_without_evidence_is_paid_for_form_only():
    assert silence([], "") == pytest.approx((0.0, 0.0, 0.15))


# Properties, and a brute-force implementation of the set arithmetic

KEY_TEXTS = {
    "E1": "The depot closes at nine. Drivers return the keys before they leave. Late keys are logged by security.",
    "E2": "Security keeps the log for thirty days. The log is destroyed afterwards under supervision.",
    "E3": "Visitors wear badges at all times. Badges are collected at the gate.",
}
KEY_ANSWER = "Drivers return the keys before they leave and the log is kept for ninety days."
KEY_SPAN = "for ninety days"
KEY_FACTS = (
    GoldFact("E1", KEY_TEXTS["E1"].index("Drivers"), KEY_TEXTS["E1"].index(" Late")),
    GoldFact("E2", 0, KEY_TEXTS["E2"].index(" The log")),
)
KEYS = ClaimExample(
    "keys", "test", "x", "?", KEY_ANSWER, tuple(Passage(i, "t", text) for i, text in KEY_TEXTS.items()),
    (GoldClaim(KEY_ANSWER, "contradicted", KEY_FACTS, KEY_SPAN, "number"),), "contradicted",
)  # fmt: skip
KEYS_GOLD = gold_of(KEYS)

key_ids = st.sampled_from(["E1", "E2", "E3", "E9"])
quotes = st.one_of(
    st.sampled_from(
        ["", "not in any text at all", *(s + "." for t in KEY_TEXTS.values() for s in t.rstrip(".").split(". "))]
    ),
    st.builds(
        lambda i, a, b: KEY_TEXTS[i][min(a, b) : max(a, b)],
        st.sampled_from(list(KEY_TEXTS)),
        st.integers(0, 110),
        st.integers(0, 110),
    ),
)
spans = st.one_of(
    st.just(""), st.just("nowhere in the answer"),
    st.builds(lambda a, b: KEY_ANSWER[min(a, b) : max(a, b)], st.integers(0, len(KEY_ANSWER)), st.integers(0, len(KEY_ANSWER))),
)  # fmt: skip
key_claims = st.fixed_dictionaries(
    {
        "claim": st.just(KEY_ANSWER),
        "status": st.just("contradicted"),
        "evidence_ids": st.lists(key_ids, max_size=4),
        "quote": st.one_of(quotes, st.lists(quotes, max_size=4)),
        "unsupported_span": spans,
    }
)
submissions = st.fixed_dictionaries(
    {"claims": st.lists(key_claims, min_size=1, max_size=4), "final_verdict": st.sampled_from(VERDICTS)}
)
reads = st.sets(st.sampled_from(list(KEY_TEXTS)))


def score_keys(submission: dict[str, Any], read: set[str]) -> ClaimScore:
    return score_submission(submission, KEYS_GOLD, KEY_TEXTS.get, read)


@given(submissions, reads)
def test_components_gates_and_totals_stay_in_the_unit_interval(submission, read):
    scored = score_keys(submission, read)
    lowest = {"statements": GUESS.status[1], "judgement": GUESS.verdict[1]}
    assert all(
        lowest.get(name, 0.0) <= value <= 1.0 for name, value in (*scored.components.items(), *scored.gates.items())
    )
    for rubric in RUBRICS.values():
        assert 0.0 <= rubric.total(scored.components, scored.gates) <= 1.0 + 1e-12


@given(submissions, reads)
def test_agrees_with_character_sets(submission, read):
    """A second implementation with passages and answer as sets of character positions."""
    scored = score_keys(submission, read)
    cited = {id_ for claim in submission["claims"] for id_ in claim["evidence_ids"]}
    counted = cited & read
    right, given_ = len(counted & {"E1", "E2"}), len(counted) + len(cited - set(KEY_TEXTS))
    expected = 2 * (right / given_) * (right / 2) / (right / given_ + right / 2) if right else 0.0
    assert scored.components["evidence"] == pytest.approx(expected)
    quoted = {(match.passage, at) for match in scored.quotes for at in range(match.start, match.end)}
    rules = QuoteRules()
    hits = [
        len({(f.passage, p) for p in range(f.start, f.end)} & quoted) >= rules.fact_share * (f.end - f.start)
        for f in KEY_FACTS
    ]
    allowed = rules.allowance_factor * sum(f.end - f.start for f in KEY_FACTS) + rules.allowance_chars
    assert scored.components["coverage"] == pytest.approx(
        sum(hits) / 2 * min(1.0, allowed / len(quoted)) if quoted else 0.0
    )
    start = KEY_ANSWER.index(KEY_SPAN)
    truth = set(range(start, start + len(KEY_SPAN)))
    marked: set[int] = set()
    invented = 0
    for claim in submission["claims"]:
        span = claim["unsupported_span"].strip()
        at = KEY_ANSWER.find(span)
        if span and at >= 0:
            marked |= set(range(at, at + len(span)))
        else:
            invented += len(span)
    shared = len(marked & truth)
    expected = 2 * shared / (len(marked) + invented + len(truth)) if shared else 0.0
    assert scored.components["span"] == pytest.approx(expected)


@given(submissions, reads, st.sampled_from(list(KEY_TEXTS)))
def test_reading_less_never_earns_more_without_a_citation_that_hurts(submission, read, unread):
    """Not reading a gold passage can only lower evidence and leaves the verdict."""
    if unread == "E3":
        return
    before, after = score_keys(submission, read | {unread}), score_keys(submission, read - {unread})
    assert after.components["evidence"] <= before.components["evidence"] + 1e-12
    assert after.components["verdict"] == before.components["verdict"]


@given(submissions)
def test_without_reading_only_form_label_and_span_are_paid(submission):
    scored = score_keys(submission, set())
    assert scored.components["evidence"] == scored.components["quote"] == scored.components["coverage"] == 0.0
    assert set(scored.gates.values()) == {0.0}


def test_a_rubric_names_existing_components():
    with pytest.raises(ConfigError, match="Did you mean 'verdict'"):
        Rubric("mine", {"verdikt": 1.0}).check(COMPONENTS, GATES)
    with pytest.raises(ConfigError, match="no gate"):
        Rubric("mine", {"verdict": 1.0}, {"verdict": "valid"}).check(COMPONENTS, GATES)
    with pytest.raises(ConfigError, match="finite"):
        Rubric("mine", {"verdict": float("nan")})


# The judged reward, statement by statement

ONE_PASSAGE = QuoteRules(silence_passages=1, silence_share=1.0)

COMPLETE = (
    claim(VENDOR_FIRST, "supported", ["E1", "E2"], [VENDOR_E1, VENDOR_E2]) | {"reason": "Both passages say so."},
    claim(VENDOR_SECOND, "unsupported", ["E1"], VENDOR_E1, VENDOR_SECOND) | {"reason": "Nothing is said of delays."},
)


def judged(*claims: dict[str, object], final: str = "partially_supported") -> float:
    scored = score(VENDORS, verdict(final, *claims), rules=ONE_PASSAGE)
    return JUDGED.total(scored.components, scored.gates)


def edited(**changes: object) -> list[dict[str, object]]:
    return [entry | changes for entry in COMPLETE]


def test_complete_work_on_every_statement_earns_one():
    assert judged(*COMPLETE) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("claims", "final", "total"),
    [
        # Statements that are none of the answer's: the form alone, although v2 pays 1.
        (edited(claim="x"), "partially_supported", 0.05),
        # Wrong statuses from which another verdict follows: .05 + .15 - .35/3 - .30/4 + .10.
        (edited(status="contradicted"), "partially_supported", 0.05 + 0.15 - 0.35 / 3 - 0.30 / 4 + 0.10),
        # One of two statuses wrong, and a verdict that does not follow from them.
        ([COMPLETE[0], COMPLETE[1] | {"status": "supported"}], "partially_supported",
         0.05 + 0.15 + 0.35 * (1 - 1 / 3) / 2 - 0.30 / 4 + 0.10 + 0.05 / 2),
        # A wrong verdict over right statuses.
        (COMPLETE, "supported", 0.05 + 0.15 + 0.35 - 0.30 / 4 + 0.10 + 0.05),
        # Half of the statements: half of each share; nothing is marked.
        (COMPLETE[:1], "supported", 0.05 + 0.15 / 2 + 0.35 / 2 - 0.30 / 8 + 0.05 / 2),
        # Every status for every statement.
        ([entry | {"status": status} for entry in COMPLETE for status in ("supported", "contradicted")],
         "partially_supported", 0.05 + 0.15 - 0.35 / 3 + 0.30 + 0.10),
        # Two entries of something else beside the two statements: half of everything but the form and the marked part.
        ([*COMPLETE, claim("Bananas are yellow.", "unsupported", []), claim("Cats sleep.", "supported", [])],
         "partially_supported", 0.05 + 0.95 / 2),
        # No reasons, and a reason that quotes invented words.
        (edited(reason=""), "partially_supported", 0.95),
        (edited(reason="It reads “vendors are rich”."), "partially_supported", 0.95),
    ],
)  # fmt: skip
def test_statement_level_work_counts(claims: list[dict[str, object]], final: str, total: float) -> None:
    assert judged(*claims, final=final) == pytest.approx(total)


def test_v2_paid_in_full_for_wrong_statuses_of_statements_that_do_not_exist():
    entries = edited(claim="x", status="contradicted", reason="")
    scored = score(VENDORS, verdict("partially_supported", *entries))
    assert V2.total(scored.components, scored.gates) == pytest.approx(1.0)


def test_a_sentence_may_be_split_and_repeated():
    first, second = VENDOR_FIRST.split(", and ")
    parts = [COMPLETE[0] | {"claim": part} for part in (first, second)]
    assert judged(*parts, COMPLETE[1], COMPLETE[1]) == pytest.approx(1.0)


def test_a_guess_earns_nothing_beside_the_evidence():
    """The mean over all statuses of a statement, and over all verdicts that they allow: A = D = 0."""
    every = [score(LEAVE, verdict(status, claim(LEAVE_E1, status, ["E1"], LEAVE_E1))) for status in STATUSES]
    assert sum(scored.components["statements"] for scored in every) == pytest.approx(0.0)
    finals = [score(LEAVE, verdict(final, claim(LEAVE_E1, "supported", ["E1"], LEAVE_E1))) for final in VERDICTS]
    assert sum(scored.components["judgement"] for scored in finals) == pytest.approx(0.0)


@given(
    st.dictionaries(st.sampled_from(STATUSES), st.integers(1, 400), min_size=2),
    st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4),
)
def test_no_constant_and_no_prior_earns_anything_over_the_labels_of_a_data_set(counts, prior):
    """Over complete evidence, the mean of A and of D over all tasks; a right label is worth more than a wrong one."""
    rules = QuoteRules()
    stakes = chance_stakes(counts, rules)
    silent = tuple(passage.id for passage in DAYS.passages)
    means = dict.fromkeys(STATUSES, 0.0)
    for gold in counts:
        facts = (whole("E1", DAYS_E1),) if gold != "unsupported" else ()
        example = replace(
            DAYS, claims=(GoldClaim(DAYS_ANSWER, gold, facts),), verdict=gold, nearest=() if facts else silent
        )
        texts = {passage.id: passage.text for passage in DAYS.passages}
        quotes = [DAYS_E1] if facts else [DAYS_E1, DAYS.passages[1].text]
        ids = ["E1"] if facts else list(silent)
        by_label = {}
        for label in STATUSES:
            submission = verdict(label, claim(DAYS_ANSWER, label, ids, quotes))
            components = score_submission(submission, gold_of(example), texts.get, silent, rules, stakes).components
            assert components["grounding"] == pytest.approx(1.0 if facts else rules.silence_share)
            assert components["statements"] == pytest.approx(components["judgement"])
            by_label[label] = components["statements"]
            means[label] += counts[gold] * components["statements"]
        assert all(by_label[gold] > value for label, value in by_label.items() if label != gold)
    assert all(means[label] == pytest.approx(0.0, abs=1e-9) for label in counts)
    assert all(means[label] < 0.0 for label in STATUSES if label not in counts)
    assert sum(share * means[label] for share, label in zip(prior, STATUSES, strict=True)) <= 1e-9


def test_any_sentence_close_to_a_statement_shows_that_the_documents_are_silent_on_it():
    """The rule from which a statement was made is one way to show it; v2 knows no other."""
    texts = ("Guests sign the book at the gate.", "Guests may use the pool on Sundays.", "Invoices are paid monthly.")
    statement = "Guests may use the sauna on Sundays."
    example = ClaimExample(
        "sauna", "test", "x", "?", statement, passages(*texts),
        (GoldClaim(statement, "unsupported", (whole("E1", texts[0]),), statement.rstrip("."), "irrelevant"),),
        "unsupported",
    )  # fmt: skip
    shares = []
    for id_, text in zip(("E1", "E2", "E3"), texts, strict=True):
        entry = claim(statement, "unsupported", [id_], text, statement)
        scored = score(example, verdict("unsupported", entry), ("E1", "E2", "E3"), ONE_PASSAGE)
        shares.append((scored.components["grounding"], V2.total(scored.components, scored.gates)))
    assert shares == [
        (1.0, pytest.approx(1.0, abs=0.001)),
        (1.0, pytest.approx(0.35, abs=0.001)),
        (0.0, pytest.approx(0.35, abs=0.001)),
    ]


def test_citing_what_was_listed_but_not_read_costs_precision_statement_by_statement():
    """The paper's evidence score ignores such ids, so that citing every id in sight cost nothing."""
    scored = [
        score(VENDORS, verdict("partially_supported", *claims), read=("E1", "E2"), rules=ONE_PASSAGE)
        for claims in (COMPLETE, [entry | {"evidence_ids": [*entry["evidence_ids"], "E3"]} for entry in COMPLETE])
    ]
    clean, padded = (JUDGED.total(row.components, row.gates) for row in scored)
    assert clean == pytest.approx(1.0)
    assert padded == pytest.approx(0.05 + 0.95 * (4 / 5 + 2 / 3) / 2 + 0.05 * (1 - (4 / 5 + 2 / 3) / 2))


# Typographic marks in quotes: the default reward reads a keyboard's marks as the passage's.

REMOTE_E1 = "An employee’s “remote day” needs the manager’s approval – in writing – within 5‑10 days."
REMOTE_E2 = "An employee’s “office day” needs no approval. It costs £50, never more than −5 % of the rent."
REMOTE = ClaimExample(
    id="remote",
    split="test",
    domain="HR rules",
    question="What does a remote day need?",
    answer="A remote day needs the manager's approval.",
    passages=passages(REMOTE_E1, REMOTE_E2),
    claims=(GoldClaim("A remote day needs the manager's approval.", "supported", (whole("E1", REMOTE_E1),)),),
    verdict="supported",
)


def quoted(quote: str | list[str]) -> ClaimScore:
    return score(REMOTE, verdict("supported", claim(REMOTE.answer, "supported", ["E1"], quote)))


def judged_total(scored: ClaimScore) -> float:
    return JUDGED.total(scored.components, scored.gates)


def test_straight_marks_count_in_the_default_reward_and_not_in_the_papers():
    exact = quoted(REMOTE_E1)
    typed = quoted("An employee's \"remote day\" needs the manager's approval - in writing - within 5-10 days.")
    assert judged_total(typed) == judged_total(exact) > 0.9
    assert [match.is_verbatim for match in typed.quotes] == [False]
    assert papers(typed) == papers(quoted("Something that no passage says.")) and typed.quotes[0].passage == "E1"


def test_curly_marks_count_where_the_passage_has_straight_ones():
    typed = REMOTE_E1.replace("’", "'").replace("“", '"').replace("”", '"')
    example = replace(
        REMOTE, passages=passages(typed), claims=(replace(REMOTE.claims[0], facts=(whole("E1", typed),)),)
    )
    scored = score(example, verdict("supported", claim(REMOTE.answer, "supported", ["E1"], REMOTE_E1)), ("E1",))
    assert judged_total(scored) == judged_total(quoted(REMOTE_E1))


@pytest.mark.parametrize(
    "quote",
    [
        # A splice of two passages, of one passage with a part left out, and words in another order.
        'An employee\'s "remote day" needs no approval.',
        "An employee's \"remote day\" needs the manager's approval - within 5-10 days.",
        "the manager's approval needs an employee's \"remote day\"",
        # A sentence of a passage that is not cited, and words or marks that change what is said.
        'An employee\'s "office day" needs no approval.',
        "An employee's \"remote day\" needs a manager's approval",
        'An employees "remote day" needs the managers approval',
        "needs the manager's approval - in writing - within 5 10 days",
        "needs the manager's approval, in writing, within 5-10 days",
        'AN EMPLOYEE\'S "REMOTE DAY" NEEDS',
        "employee\"s 'remote day' needs the",
    ],
)
def test_typographic_folding_lets_no_splice_and_no_other_sentence_pass(quote):
    assert not quoted(quote).quotes
    assert quoted(quote).components["grounding"] == 0.0


@pytest.mark.parametrize("quote", ["It costs $50, never more than -5 % of", "It costs £50, never more than 5 % of"])
def test_signs_and_currencies_are_no_typography(quote):
    read = ("E1", "E2")
    scored = score(REMOTE, verdict("supported", claim(REMOTE.answer, "supported", ["E2"], quote)), read)
    assert not scored.quotes
    right = quote.replace("$", "£").replace(" 5", " -5")
    assert score(REMOTE, verdict("supported", claim(REMOTE.answer, "supported", ["E2"], right)), read).quotes


MARKS = st.text(alphabet="ab'’‘\"“”-–—‑ \n…ﬁ", min_size=12, max_size=40)


@given(MARKS, st.integers(0, 20), st.integers(12, 30), st.integers(0, 40), st.sampled_from("'’\"–-ac "))
def test_a_quote_counts_where_its_marks_alone_differ(text, start, length, position, char):
    """By the plainest rule: marks replaced in both texts one by one, then folded, then looked for as a substring."""

    def plain(value: str) -> str:
        for marks, key in (("’‘", "'"), ("“”", '"'), ("–—‑", "-")):
            for mark in marks:
                value = value.replace(mark, key)
        return fold(value)

    quote = text[start : start + length]
    quote = quote[:position] + char + quote[position + 1 :]
    example = replace(REMOTE, passages=passages(text), claims=(replace(REMOTE.claims[0], facts=(whole("E1", text),)),))
    rules = QuoteRules(max_quote_sentences=40)
    scored = score(example, verdict("supported", claim(REMOTE.answer, "supported", ["E1"], quote)), ("E1",), rules)
    assert bool(scored.quotes) == (len(quote.strip()) >= 12 and plain(quote) in plain(text))
    assert bool(scored.components["quote"]) == (len(quote.strip()) >= 12 and fold(quote) in fold(text))


def test_credits_go_to_typed_quotes_under_the_default_reward_alone():
    typed = "An employee's \"remote day\" needs the manager's approval - in writing - within 5-10 days."
    scored, text = quoted(typed), f"I quote {typed}"
    for rubric, credited in ((JUDGED, True), (V2, False)):
        shares = rubric.shares(scored.components, scored.gates)
        spans = span_credits(shares, scored, gold_of(REMOTE), {}, [{"role": "assistant", "content": text}], 0)
        assert sum(span.value for span in spans) == pytest.approx(rubric.total(scored.components, scored.gates))
        assert ((8, len(text)) in [(span.start, span.end) for span in spans]) == credited


REASON_TEXTS = (
    "Employees may work from home for two days a week if Simon Ward agrees.",
    "Article 4: The U.S. office pays 1,500 dollars (15 %) by 3 March 2020 to Smith-Jones.",
)


def reason_holds(reason):
    entry = SimpleNamespace(claim={"reason": reason}, cited=("E7",))
    return _reasons_hold([entry], REASON_TEXTS)


@pytest.mark.parametrize(
    "reason",
    [
        REASON_TEXTS[0],
        REASON_TEXTS[1].upper(),
        "The passage says two days.",
        "It allows 2 days.",
        "Staff may telework if the manager agrees, as E7 says.",
        "Both sentences say so, the first one clearly; nothing is said about weekends.",
        "Simon Ward's agreement is needed. SIMON agrees. So does simon.",
        "The Wards agree.",
        "Payment of $1500 is due on March 3rd, or 2020-03-03.",
        "Fifteen per cent are paid by the US office.",
        "Smith–Jones is paid, and so is Jones.",
        "It does NOT say so; one would expect it in Article 4.",
        "It says “Two days a week” and 'if Simon Ward agrees'.",
        'It says "Employees may … a week".',
    ],
)
def test_an_honest_reason_holds_however_it_is_put(reason):
    assert reason_holds(reason)


@pytest.mark.parametrize(
    "reason",
    [
        "The text says Simmons.",
        "The text says Peter.",
        "Microsoft's office pays.",
        "sarah agrees.",
        "The Paris office pays. NASA does not.",
        "It says 5 days.",
        "It says five days.",
        "Within 4 March 2020.",
        "§ 12 says so.",
        "Sixteen per cent.",
        "It says “three days”.",
        "It says 'three days'.",
        "It says «three days».",
        "Both sentences say Paul.",
        "Simon Peters agrees.",
    ],
)
def test_a_reason_with_a_name_a_number_or_words_that_are_nowhere_does_not_hold(reason):
    assert not reason_holds(reason)


def test_the_reasons_of_the_gold_hold():
    for env_id in ("claimcheck", "claimcheck-multihop", "claimcheck-hard"):
        tasks = factgym.make(env_id).tasks
        for example in (tasks[index].example for index in range(40)):
            texts = {passage.id: passage.text for passage in example.passages}
            for gold in example.claims:
                entry = SimpleNamespace(claim={"reason": gold.reason or "So it is."}, cited=())
                assert _reasons_hold([entry], [gold.text, *(texts[fact.passage] for fact in gold.facts)]), gold.reason


def test_words_in_a_reason_may_have_straight_marks():
    entry = claim(REMOTE.answer, "supported", ["E1"], REMOTE_E1) | {"reason": 'It says "the manager\'s approval".'}
    scored = score(REMOTE, verdict("supported", entry))
    assert scored.components["reason"] == 1.0
    entry["reason"] = 'It says "the director\'s approval".'
    assert score(REMOTE, verdict("supported", entry)).components["reason"] == 0.0


@pytest.mark.parametrize("typographic", [True, False], ids=["in the answer", "in the verdict"])
def test_a_marked_span_may_have_a_keyboards_marks_in_the_default_reward_and_not_in_the_papers(typographic):
    """What is marked is "manager’s “written” approval", with the marks of one side replaced."""
    wrong = "An employee’s “remote day” needs the manager’s “written” approval."
    span = "manager’s “written” approval"
    typed, typed_span = ("".join({"’": "'", "“": '"', "”": '"'}.get(c, c) for c in text) for text in (wrong, span))
    if not typographic:
        wrong, span, typed, typed_span = typed, typed_span, wrong, span
    example = replace(
        REMOTE,
        answer=wrong,
        claims=(replace(REMOTE.claims[0], text=wrong, status="contradicted", unsupported_span=span),),
        verdict="contradicted",
    )

    def marked(text: str, part: str):
        return score(example, verdict("contradicted", claim(text, "contradicted", ["E1"], REMOTE_E1, part)), ("E1",))

    exact, other = marked(wrong, span), marked(typed, typed_span)
    assert judged_total(exact) == judged_total(other) == judged_total(marked(wrong, typed_span))
    assert exact.components["marked"] == exact.components["span"] == other.components["marked"] == 1.0
    assert other.components["span"] == 0.0
    assert marked(wrong, typed_span.replace("written", "verbal")).components["marked"] == 0.0
