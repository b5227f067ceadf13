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
from factgym.datasets.evidence_search import EvidenceSearch
from factgym.datasets.evidence_store import KnowledgeStore
from factgym.generators.fact_check_topics import TOPICS
from factgym.generators.fact_checks import MAX_SIZE, SPLITS, GeneratedFactChecks, generated_store
from factgym.generators.invented_names import stem

YEAR = re.compile(r"\b20\d\d\b")


@pytest.fixture(scope="module")
def checks() -> GeneratedFactChecks:
    return GeneratedFactChecks("dev", size=400)


def test_labels_are_balanced_in_every_run_of_four(checks: GeneratedFactChecks) -> None:
    for start in range(0, len(checks), 4):
        assert Counter(one.label for one in checks[start : start + 4]) == Counter(LABELS)


def test_a_claim_depends_on_seed_split_and_place_alone(checks: GeneratedFactChecks) -> None:
    again = GeneratedFactChecks("dev", size=9)
    assert [again[place] for place in range(9)] == list(checks[:9])
    other = [GeneratedFactChecks("dev", seed=1), GeneratedFactChecks("train"), GeneratedFactChecks("test")]
    assert all(one[0].claim != checks[0].claim for one in other)
    assert len({one.fingerprint() for one in [*other, checks, again]}) == 5


def test_splits_sizes_and_mistakes() -> None:
    assert [len(GeneratedFactChecks(split)) for split in SPLITS] == list(SPLITS.values())
    for wrong in ({"split": "validation"}, {"size": 0}, {"size": MAX_SIZE + 1}):
        with pytest.raises(ConfigError):
            GeneratedFactChecks(**wrong)
    with pytest.raises(IndexError):
        GeneratedFactChecks("dev", size=4)[4]


@pytest.mark.parametrize("split", SPLITS)
def test_no_two_claims_of_a_split_are_about_the_same_subject(split: str) -> None:
    names = [stem(split, 0, place) for place in range(MAX_SIZE)]
    assert len(set(names)) == MAX_SIZE
    for check, name in zip(GeneratedFactChecks(split, size=60), names, strict=False):
        assert name in check.claim


def reported(check: FactCheck) -> list[str]:
    return [
        answer.explanation or answer.text
        for asked in check.questions
        for answer in asked.answers
        if answer.text != NO_ANSWER
    ]


def test_the_gold_answers_stand_in_the_evidence_and_lie_before_the_claim(checks: GeneratedFactChecks) -> None:
    for place in range(200):
        made = checks.with_evidence(place)
        for text in reported(made.check):
            piece = next(one for one in made.evidence if text in one.text)
            assert piece.date is not None and made.check.claim_date is not None
            assert piece.date < made.check.claim_date and str(piece.date.year) in piece.url


def figures(text: str) -> set[str]:
    """Numbers, and names inside the sentence, that are no years."""
    return {one for one in re.findall(r"\d[\d,]*\d|\d|\b[A-Z][a-z]+ [A-Z][a-z]+\b", text) if not YEAR.fullmatch(one)}


def test_labels_follow_from_what_was_reported(checks: GeneratedFactChecks) -> None:
    """A plain reading of the claim's year: what is said of it carries the claim, contradicts it, or is missing."""
    numeric = 0
    for place in range(len(checks)):
        check = checks[place]
        missing = any(answer.text == NO_ANSWER for asked in check.questions for answer in asked.answers)
        assert missing == (check.label == "Not Enough Evidence")
        attributed = [one for one in check.questions if one.question.startswith("According to")]
        assert (len(attributed) == 2) == (check.label == "Conflicting Evidence/Cherrypicking")
        if len(check.questions) == 1 and re.search(r"\d", re.sub(YEAR, "", check.claim)):
            numeric += 1
            claimed = figures(check.claim) & {one for text in reported(check) for one in figures(text)}
            numbers = {one for one in claimed if one[0].isdigit()}
            assert bool(numbers) == (check.label == "Supported"), (check.claim, reported(check))
    assert numeric > 50


def test_at_most_five_questions_and_one_answer_each_so_that_everything_can_be_earned(
    checks: GeneratedFactChecks,
) -> None:
    for check in checks:
        assert 1 <= len(check.questions) <= 5
        assert all(len(one.answers) == 1 for one in check.questions)
        assert len({one.question for one in check.questions}) == len(check.questions)
        assert len(evidence_strings(check)) == len(check.questions)


def words_of(check: FactCheck) -> set[str]:
    """What a policy is shown before it has looked: words, pairs of words, and the metadata."""
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
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for check in GeneratedFactChecks("train"):
        for word in words_of(check):
            seen[word][check.label] += 1
    right = 0
    held_out = GeneratedFactChecks("test")
    for check in held_out:
        score = {
            label: sum(
                math.log((seen[word][label] + 1) / (seen[word].total() + 4))
                for word in words_of(check)
                if word in seen
            )
            for label in LABELS
        }
        right += max(score, key=lambda label: score[label]) == check.label
    # A die is right in 125 of 500, with a standard deviation of 9.7.
    assert right < 125 + 4 * 9.7


def test_no_form_of_a_topic_is_empty_or_lacks_its_parts() -> None:
    for topics in TOPICS.values():
        assert len(topics) >= 5 and len({one.id for one in topics}) == len(topics)
        for topic in topics:
            for form in (*topic.claim, topic.check, *topic.report):
                assert "{s}" in form and "{v}" in form and "{y}" in form
            assert all("{s}" in form and "{y}" in form and "{v}" not in form for form in topic.question)
            assert all("{a}" in form for form in topic.report)


def test_the_haystack_holds_all_reports_once_and_says_what_it_is(checks: GeneratedFactChecks) -> None:
    store = generated_store(checks)
    assert isinstance(store, KnowledgeStore) and not store.per_claim
    everything = {one.id for place in range(len(checks)) for one in checks.with_evidence(place).evidence}
    assert {one.id for one in store.passages()} == everything
    assert "generated haystack" in store.note and f"{len(everything):,}" in store.note
    assert store.describe()["passages"] == len(everything)
    again = pickle.loads(pickle.dumps(store))
    assert again.fingerprint() == store.fingerprint()


def test_the_gold_evidence_can_be_found_and_is_not_found_first_by_the_claim_alone(checks: GeneratedFactChecks) -> None:
    search = EvidenceSearch(generated_store(checks))
    by_answer = by_claim = total = 0
    for place in range(150):
        for text in reported(checks[place]):
            total += 1
            for query in (text, checks[place].claim):
                found = any(text in hit.evidence.text for hit in search.search(place, [query], 3)[0])
                by_answer += found and query == text
                by_claim += found and query != text
    assert by_answer > 0.97 * total
    assert by_claim < 0.9 * total
