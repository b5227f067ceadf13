"""Generated fact checks: their labels follow from their evidence, and from nothing else; their haystack holds it."""

from __future__ import annotations

import math
import pickle
import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from factgym.core.errors import ConfigError
from factgym.datasets.averitec import LABELS, NO_ANSWER, FactCheck, evidence_strings
from factgym.datasets.evidence import KnowledgeStore
from factgym.datasets.evidence_search import EvidenceSearch
from factgym.generators.fact_checks import MAX_SIZE, SPLITS, GeneratedFactChecks, generated_store, subject_kinds
from factgym.generators.invented_names import stem

YEAR = re.compile(r"\b20\d\d\b")


@pytest.fixture(scope="module")
def checks() -> GeneratedFactChecks:
    return GeneratedFactChecks("dev", size=400)


def test_labels_are_balanced_in_every_run_of_four(checks: GeneratedFactChecks) -> None:
    for start in range(0, len(checks), 4):
        assert Counter(check.label for check in checks[start : start + 4]) == Counter(LABELS)


def test_an_item_depends_on_seed_split_and_index_alone(checks: GeneratedFactChecks) -> None:
    again = GeneratedFactChecks("dev", size=9)
    assert [again[index] for index in range(9)] == list(checks[:9])
    others = [GeneratedFactChecks("dev", seed=1), GeneratedFactChecks("train"), GeneratedFactChecks("test")]
    assert all(split[0].claim != checks[0].claim for split in others)
    assert len({split.fingerprint() for split in [*others, checks, again]}) == 5


def test_splits_sizes_and_mistakes() -> None:
    assert [len(GeneratedFactChecks(split)) for split in SPLITS] == list(SPLITS.values())
    for wrong in ({"split": "validation"}, {"size": 0}, {"size": MAX_SIZE + 1}):
        with pytest.raises(ConfigError):
            GeneratedFactChecks(**wrong)
    with pytest.raises(IndexError):
        GeneratedFactChecks("dev", size=4)[4]


@pytest.mark.parametrize("split", SPLITS)
def test_no_two_claims_of_a_split_are_about_the_same_subject(split: str) -> None:
    names = [stem(split, 0, index) for index in range(MAX_SIZE)]
    assert len(set(names)) == MAX_SIZE
    for check, name in zip(GeneratedFactChecks(split, size=60), names, strict=False):
        assert name in check.claim


def reported(check: FactCheck) -> list[str]:
    return [
        answer.explanation or answer.text
        for question in check.questions
        for answer in question.answers
        if answer.text != NO_ANSWER
    ]


def test_gold_answers_are_in_the_evidence_and_predate_the_claim(checks: GeneratedFactChecks) -> None:
    for index in range(200):
        generated = checks.with_evidence(index)
        for text in reported(generated.check):
            report = next(report for report in generated.evidence if text in report.text)
            assert report.date is not None and generated.check.claim_date is not None
            assert report.date < generated.check.claim_date and str(report.date.year) in report.url


def figures(text: str) -> set[str]:
    """Numbers but years, and names inside the sentence."""
    matches = re.findall(r"\d[\d,]*\d|\d|\b[A-Z][a-z]+ [A-Z][a-z]+\b", text)
    return {match for match in matches if not YEAR.fullmatch(match)}


def test_labels_follow_from_the_reports(checks: GeneratedFactChecks) -> None:
    """A plain reading of the reports on the claim's year: they carry the claim, contradict it, or are missing."""
    numeric = 0
    for check in checks:
        missing = any(answer.text == NO_ANSWER for question in check.questions for answer in question.answers)
        assert missing == (check.label == "Not Enough Evidence")
        attributed = [item for item in check.questions if item.question.startswith("According to")]
        assert (len(attributed) == 2) == (check.label == "Conflicting Evidence/Cherrypicking")
        if len(check.questions) == 1 and re.search(r"\d", re.sub(YEAR, "", check.claim)):
            numeric += 1
            claimed = figures(check.claim) & {figure for text in reported(check) for figure in figures(text)}
            numbers = {figure for figure in claimed if figure[0].isdigit()}
            assert bool(numbers) == (check.label == "Supported"), (check.claim, reported(check))
    assert numeric > 50


def test_at_most_five_questions_with_an_answer_each(checks: GeneratedFactChecks) -> None:
    for check in checks:
        assert 1 <= len(check.questions) <= 5
        assert all(len(question.answers) == 1 for question in check.questions)
        assert len({question.question for question in check.questions}) == len(check.questions)
        assert len(evidence_strings(check)) == len(check.questions)


def words_of(check: FactCheck) -> set[str]:
    """Features that a policy sees before it searches: words, pairs of words, and the metadata."""
    words = re.findall(r"\w+", check.claim.lower())
    about = {
        f"speaker {check.speaker}",
        f"at {check.location}",
        f"on {check.reporting_source}",
        f"parts {len(words) // 12}",
    }
    lag = check.claim_date.year - int(YEAR.findall(check.claim)[0]) if check.claim_date else 0
    return {*words, *(f"{a} {b}" for a, b in pairwise(words)), *about, f"lag {lag}"}


def test_the_wording_of_a_claim_does_not_tell_its_label() -> None:
    """Naive Bayes over words, pairs and metadata of 1,200 claims labels 500 others no better than a die."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for check in GeneratedFactChecks("train"):
        for word in words_of(check):
            counts[word][check.label] += 1
    right = 0
    held_out = GeneratedFactChecks("test")
    for check in held_out:
        score = {
            label: sum(
                math.log((counts[word][label] + 1) / (counts[word].total() + 4))
                for word in words_of(check)
                if word in counts
            )
            for label in LABELS
        }
        right += max(score, key=lambda label: score[label]) == check.label
    # A die is right in 125 of 500, with a standard deviation of 9.7.
    assert right < 125 + 4 * 9.7


def test_no_form_of_a_topic_is_empty_or_lacks_its_parts() -> None:
    for kind in subject_kinds():
        assert len(kind.topics) >= 5 and len({topic.id for topic in kind.topics}) == len(kind.topics)
        for topic in kind.topics:
            assert topic.values or topic.range[0] < topic.range[1]
            for form in (*topic.claims, topic.check, *topic.reports):
                assert "{s}" in form and "{v}" in form and "{y}" in form
            assert all("{s}" in form and "{y}" in form and "{v}" not in form for form in topic.questions)
            assert all("{a}" in form for form in topic.reports)


def test_the_haystack_holds_all_reports_once_and_describes_itself(checks: GeneratedFactChecks) -> None:
    store = generated_store(checks)
    assert isinstance(store, KnowledgeStore) and not store.per_claim
    reports = {report.id for index in range(len(checks)) for report in checks.with_evidence(index).evidence}
    assert {report.id for report in store.passages()} == reports
    assert "generated haystack" in store.note and f"{len(reports):,}" in store.note
    assert store.describe()["passages"] == len(reports)
    again = pickle.loads(pickle.dumps(store))
    assert again.fingerprint() == store.fingerprint()


def test_a_search_by_the_answer_finds_the_gold_evidence_and_one_by_the_claim_often_not(
    checks: GeneratedFactChecks,
) -> None:
    search = EvidenceSearch(generated_store(checks))
    by_answer = by_claim = total = 0
    for index in range(150):
        for text in reported(checks[index]):
            total += 1
            for query in (text, checks[index].claim):
                is_hit = any(text in hit.evidence.text for hit in search.search(index, [query], 3)[0])
                by_answer += is_hit and query == text
                by_claim += is_hit and query != text
    assert by_answer > 0.97 * total
    assert by_claim < 0.9 * total
