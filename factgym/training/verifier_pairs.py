"""Pairs of a passage and a claim, with whether the passage carries it: minimal pairs of documents, and natural ones.

False claims are true sentences with one change of a kind of `KINDS`. The operators of `generators.perturbations` leave
alone whatever a person could dispute, and so most plain sentences; the edits beside them exchange words, names and values
more freely, and a few in a hundred have the wrong label. Natural pairs are the claims of SciFact's training split (CC BY
4.0). What evaluates a verifier never trains one, nor do the abstracts that SciFact's validation split cites.
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from factgym.check.words import DETERMINERS, OPPOSITES, PREPOSITIONS, TABLES, Word, near, words_of
from factgym.core.errors import DataError
from factgym.core.paths import read_text
from factgym.corpora.passage_files import iter_passages
from factgym.datasets.grounding import read_claims
from factgym.generators.perturbations import corruptions, probes
from factgym.generators.perturbations.grammar import agree_article
from factgym.generators.perturbations.names import find_names, kind_alone
from factgym.generators.perturbations.operator import Edit, Operator, Statement
from factgym.text.sentences import passage_ranges
from factgym.text.wordnet import bases

EDITS: Mapping[str, Any] = tomllib.loads(files(__package__).joinpath("verifier_pairs.toml").read_text("utf-8"))
_MIN_WORDS, _MAX_WORDS, _DONORS = 5, 45, 20
_TRUE_SHARE, _QUOTE_SHARE, _OTHER_SHARE = 0.45, 0.03, 0.08
"""Shares of true claims; of tries at them that are word for word; of false claims that are another sentence."""
_SYNONYMS = [frozenset(line.split()) for line in TABLES["synonyms"]["groups"].splitlines()]
_LIMITED = re.compile(EDITS["limited"], re.I)
_TAIL = re.compile(EDITS["rules"]["shortened"][-1][0])
_PLACE = re.compile(r"\b(?:in|at|near|from|to|of) (?:the )?$")


class TrainingPair(NamedTuple):
    """A premise, a claim, whether the premise carries it, how it was made, and the title of the document."""

    premise: str
    claim: str
    is_true: bool
    kind: str
    document: str


Maker = Callable[[Statement], str | None]
"""An edit of a true sentence. Donors are other sentences of its document, and of others."""


def _put(site: Statement, start: int, end: int, new: str) -> str:
    """Return the sentence with other words at a span; an article before them agrees."""
    text = " ".join((agree_article(site.text[:start], new) + new + site.text[end:]).split())
    return text[:1].upper() + text[1:] if site.text[:1].isupper() else text


def _draw(site: Statement, start: int, end: int, choices: Iterable[str]) -> str | None:
    """Return the sentence with one of the choices that it does not have at a span; None where there is none."""
    new = [choice for choice in choices if choice.casefold() not in site.text.casefold()]
    return _put(site, start, end, site.rng.choice(new)) if new else None


@lru_cache(maxsize=65_536)
def _forms(text: str) -> tuple[tuple[Word, tuple[int, str]], ...]:
    """Return the nouns (0), verbs (1) and adjectives (2) of a sentence that are surely such, with their endings."""
    forms, words = [], words_of(text)
    for number, word in enumerate(words):
        if word.kind != "word" or len(word.lower) < 3:
            continue
        noun, verb, adjective = (bases(word.lower, part) for part in range(3))
        is_noun = noun and (not verb or words[number - 1].lower in DETERMINERS | PREPOSITIONS)
        part = 0 if is_noun else None if noun else 1 if verb else 2 if adjective else None
        ending = next((end for end in ("ed", "ing", "s") if re.search(rf"[^s]{end}$", word.lower)), "")
        if part is not None and (ending or word.lower in bases(word.lower, part)):
            forms.append((word, (part, ending)))
    return tuple(forms)


def _word(site: Statement, part: int, *, is_subject: bool | None = None, is_synonym: bool = False) -> str | None:
    """Exchange a noun, verb or adjective for another of its form. is_subject: before the verb or after it."""
    forms = _forms(site.text)
    verb = next((word.start for word, form in forms if form[0] == 1), site.verb.start if site.verb else 0)
    own = [w for w in forms if w[1][0] == part and (is_subject is None or (w[0].start < verb) is is_subject)]
    if not own:
        return None
    word, form = site.rng.choice(own)
    others = sorted({other.lower for text in site.donors for other, f in _forms(text) if f == form})
    if is_synonym:
        words = frozenset[str]().union(*(g for g in _SYNONYMS if not g.isdisjoint(bases(word.lower, part))))
        return _draw(site, word.start, word.end, [new for new in others if not words.isdisjoint(bases(new, part))])
    return _draw(site, word.start, word.end, [new for new in others if near(new).isdisjoint(near(word.lower))])


def _name(site: Statement, *, is_place: bool = False) -> str | None:
    names = [name for name in site.names if not is_place or _PLACE.search(site.text[: name.start])]
    if not names:
        return None
    name = site.rng.choice(names)
    others = [other.text for text in (site.source, *site.donors) for other in find_names(text)]
    same = [other for other in others if kind_alone(other) == kind_alone(name.text) and name.text not in other]
    return _draw(site, *name.span, same)


def _detail(site: Statement) -> str | None:
    tails = [match[0] for text in site.donors if (match := _TAIL.search(text)) and match[0] not in site.source]
    return _draw(site, len(site.text) - 1, len(site.text) - 1, tails)


def _rule(rows: Sequence[Sequence[str]], *, is_true: bool = False) -> Maker:
    """Return the edit that applies one of the rules that fit. rows: a pattern and its replacements, or words that exclude each other."""
    rules = [(re.compile(pattern, re.I * (pattern[0] != "^")), new) for pattern, *new in rows if new]
    rules += [(re.compile(rf"(?<=\w )(?:{words})\b"), words.split("|")) for words, *new in rows if not new]

    def edit(site: Statement) -> str | None:
        matches = [(match, new) for pattern, new in rules for match in pattern.finditer(site.text)]
        if not matches or (is_true and _LIMITED.search(site.text)):
            return None
        match, new = site.rng.choice(matches)
        text = _put(site, *match.span(), site.rng.choice([word for word in new if word != match[0]]))
        return text if len(text.split()) >= _MIN_WORDS - 1 else None

    return edit


def _operator(site: Statement, operator: Operator) -> str | None:
    edit = operator.propose(site)
    return edit.apply(site.text) if isinstance(edit, Edit) else None


_OPERATORS = {**corruptions.OPERATORS} | {o.name: o for row in probes.OPERATORS.values() for o in row}
_OPPOSITES = [[rf"\b{word}\b", *sorted(others)] for word, others in OPPOSITES.items() if word not in PREPOSITIONS]
_MAKERS: Mapping[str, Maker] = {
    **{kind: partial(_word, **options) for kind, options in EDITS["words"].items()},
    **{kind: _rule(rows) for kind, rows in (*EDITS["rules"].items(), ("antonym", _OPPOSITES))},
    **{"name": _name, "place": partial(_name, is_place=True), "detail": _detail},
    **{name: partial(_operator, operator=operator) for name, operator in _OPERATORS.items()},
    "shortened": _rule(EDITS["rules"]["shortened"], is_true=True),
}
KINDS = {kind: [_MAKERS[name] for name in names.split()] for kind, names in EDITS["kinds"].items()}
"""Kind of a claim -> the edits that make it, which are tried in a drawn order; "reworded" is true, the others are false."""


def read_sources(path: Path) -> list[tuple[str, list[str]]]:
    """Return title and sentences of the documents of a folder or file, in any layout of `corpora.passage_files`."""
    documents: dict[str, list[str]] = {}
    for passage in iter_passages(path):
        sentences = (" ".join(passage.text[start:end].split()) for start, end in passage_ranges(passage.text))
        documents.setdefault(passage.title.partition(" › ")[0], []).extend(sentences)
    return list(documents.items())


def make_pairs(documents: Sequence[tuple[str, Sequence[str]]], count: int, seed: int = 0) -> list[TrainingPair]:
    """Return about `count` pairs in a random order. documents: titles and sentences. Raises DataError for none to use."""
    rng = random.Random(f"verifier:{seed}")
    places = [(title, texts, n) for title, texts in documents for n, text in enumerate(texts) if _is_usable(text)]
    if not places:
        raise DataError("the documents hold no sentence to train on: give prose of at least some pages")
    pairs: list[TrainingPair] = []
    counts: Counter[str] = Counter()
    for _ in range(8 * count):
        if len(pairs) >= count:
            break
        title, texts, n = rng.choice(places)
        first, last = rng.choice(((0, 0), (0, 0), (1, 0), (0, 1), (1, 1), (2, 1)))
        premise = rng.choice(("", f"{title}\n")) + " ".join(texts[max(0, n - first) : n + last + 1])
        nearby = texts[max(0, n - _DONORS) : n + _DONORS]
        donors = [text for text in nearby if _is_usable(text) and text not in premise]
        rng.shuffle(donors)
        donors += [other[number] for _, other, number in rng.choices(places, k=_DONORS)]
        is_true = counts["true"] < _TRUE_SHARE * (len(pairs) + 1)
        if made := _claim(Statement(texts[n], premise, rng, donors=tuple(donors)), counts, is_true):
            counts.update([made[0], *["true"] * is_true])
            pairs.append(TrainingPair(premise, made[1], is_true, made[0], title))
    return pairs


def _is_usable(text: str) -> bool:
    return _MIN_WORDS <= len(text.split()) <= _MAX_WORDS and text[0].isupper() and text.endswith(".")


def _claim(site: Statement, counts: Mapping[str, int], is_true: bool) -> tuple[str, str] | None:
    """Return kind and text of a claim; None where no edit applies. counts: of the kinds so far."""
    rng, text = site.rng, site.text
    if rng.random() < (_QUOTE_SHARE if is_true else _OTHER_SHARE):
        return ("quote", text) if is_true else ("other", site.donors[0])
    for _ in range(rng.choice((2, 3, 4) if is_true else (0, 0, 1, 2))):
        site = replace(site, text=rng.choice(KINDS["reworded"])(site) or site.text)
    if is_true:
        return None if site.text == text else ("reworded", site.text)
    # Kinds that seldom apply are tried first, so that each has about as many pairs.
    for kind in sorted(rng.sample(sorted(KINDS.keys() - {"reworded"}), 5), key=lambda kind: counts.get(kind, 0)):
        for maker in rng.sample(KINDS[kind], len(KINDS[kind])):
            made = maker(site)
            if made and made.casefold() not in site.source.casefold():
                return kind, made
    return None


def question_pairs(path: Path, seed: int = 0) -> Iterator[TrainingPair]:
    """Yield the questions of a file in SQuAD's layout as statements: with their answer, and with another of the same text.

    A question without an answer (SQuAD 2.0) is a false statement with its plausible answer. Raises DataError for other layouts.
    """
    rng = random.Random(f"questions:{seed}")
    rules = [(re.compile(pattern), new) for pattern, new in EDITS["questions"]["statements"]]
    for title, text, rows in _paragraphs(path):
        ranges = passage_ranges(text)
        answers = [(row["answers"] or row.get("plausible_answers") or [None])[0] for row in rows]
        for row, answer in zip(rows, answers, strict=True):
            question = " ".join(row["question"].split()).rstrip("? ")
            rule = next(((m, new) for pattern, new in rules if (m := pattern.match(question))), None)
            if rule is None or answer is None:
                continue
            start, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
            held = [n for n, (first, last) in enumerate(ranges) if first < end and start < last]
            before, after = rng.choice(((0, 0), (1, 0), (0, 1), (1, 1)))
            premise = text[ranges[max(0, held[0] - before)][0] : ranges[min(len(ranges) - 1, held[-1] + after)][1]]
            texts = {a["text"].casefold() for a in row["answers"]}
            same = [
                a["text"]
                for a in answers
                if a and _looks_like(a["text"], answer["text"], texts) and a["text"] in premise
            ]
            for value, is_true in ((answer["text"], bool(texts)), (rng.choice(same) if same else "", False)):
                if value:
                    claim = " ".join(rule[0].expand(rule[1].replace("ANSWER", value.replace("\\", ""))).split())
                    kind = "question" if texts else "unanswerable"
                    yield TrainingPair(premise, f"{claim[:1].upper()}{claim[1:]}.", is_true, kind, title)


def _paragraphs(path: Path) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    try:
        for article in json.loads(read_text(path))["data"]:
            yield from ((article["title"], part["context"], part["qas"]) for part in article["paragraphs"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: is not in SQuAD's layout (data, paragraphs, context, qas)") from error


def _looks_like(text: str, answer: str, right: Collection[str]) -> bool:
    """Whether a text could be mistaken for an answer: both are numbers, names or words, and none of `right` says the same."""
    shapes = [(any(map(str.isdigit, t)), t[:1].isupper(), len(t.split()) > 3) for t in (text, answer)]
    words = set(text.casefold().split())
    return shapes[0] == shapes[1] and all(words.isdisjoint(answer_text.split()) for answer_text in right)


def natural_pairs(data: Path) -> Iterator[TrainingPair]:
    """Yield SciFact's training claims with their rationales, or with the abstract's beginning where it is silent."""
    held_out = {p.id.partition(".")[0] for e in read_claims("scifact", data, "validation") for p in e.passages}
    for example in read_claims("scifact", data, "train"):
        text = {passage.id: passage.text for passage in example.passages}
        premise = " ".join(text[fact.passage][fact.start : fact.end] for fact in example.claims[0].facts[:3])
        premise = premise or next(iter(text.values()))[:600]
        if held_out.isdisjoint(id_.partition(".")[0] for id_ in text):
            is_true = example.verdict == "supported"
            yield TrainingPair(premise, example.answer, is_true, "SciFact", example.passages[0].title)
