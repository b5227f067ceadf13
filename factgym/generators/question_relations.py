"""What the generated world can say and ask: kinds of subjects, their facts, and the words for both.

Every statement is one plain sentence with subject and object in full. A lead is one sentence that states all facts of a
subject, as encyclopedias begin; fillers name nobody. `{s}` is the subject, `{o}` the object of a statement, and the
relation's own name is its object in a lead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of fact. value: the kind of its object. questions, statements: at least one each, the usual one first."""

    name: str
    value: str
    questions: tuple[str, ...]
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of subject. leads: each states every relation. stub: says that it exists and no fact."""

    name: str
    relations: tuple[Relation, ...]
    leads: tuple[str, ...]
    fillers: tuple[str, ...]
    stub: str


_BOOK = Kind(
    "book",
    (
        Relation(
            "author", "person",
            ("Who wrote the novel {s}?", "Which writer is the author of {s}?"),
            ("{s} was written by {o}.", "{o} wrote the novel {s}."),
        ),
        Relation(
            "year", "year",
            ("In which year was the novel {s} first published?", "When did the novel {s} first appear in print?"),
            ("{s} was first published in {o}.", "{s} first appeared in {o}."),
        ),
        Relation(
            "setting", "town",
            ("In which town is the novel {s} set?", "Where does the story of {s} take place?"),
            ("{s} is set in the town of {o}.", "{s} takes place in {o}."),
        ),
        Relation(
            "publisher", "press",
            ("Which publisher brought out the novel {s}?", "Who published the first edition of {s}?"),
            ("{s} was first published by {o}.", "{o} brought out the novel {s}."),
        ),
    ),
    (
        "{s} is a novel by {author}, first published by {publisher} in {year} and set in {setting}.",
        "First published in {year} by {publisher}, {s} is a novel by {author} whose story takes place in {setting}.",
        "In {year} the house of {publisher} brought out {s}, which {author} wrote and which takes place in {setting}.",
    ),
    (
        "The book was well received and was soon read far beyond its home.",
        "Critics praised its plain style and its sense of weather.",
        "A second edition with woodcuts followed some time later.",
        "Its last chapter was rewritten several times before it went to print.",
    ),
    "{s} is a novel that a few letters of its time mention in passing.",
)  # fmt: skip

_PERSON = Kind(
    "person",
    (
        Relation(
            "birthplace", "town",
            ("In which town was {s} born?", "What is the birthplace of {s}?"),
            ("{s} was born in the town of {o}.", "{s} came from {o}."),
        ),
        Relation(
            "birth", "year",
            ("In which year was {s} born?", "What is the year of birth of {s}?"),
            ("{s} was born in the year {o}.", "{s} was born in {o}."),
        ),
        Relation(
            "university", "university",
            ("At which university did {s} study?", "Which university did {s} attend?"),
            ("{s} studied for some years at {o}.", "{s} attended {o}."),
        ),
        Relation(
            "award", "award",
            ("Which prize did {s} receive?", "What prize was awarded to {s}?"),
            ("{s} was awarded the {o}.", "{s} received the {o}."),
        ),
    ),
    (
        "{s}, who was born in {birthplace} in {birth}, studied at {university} and received the {award}.",
        "Born in {birth} in the town of {birthplace}, {s} attended {university} and later received the {award}.",
        "The {award} went to {s}, who was born in {birthplace} in {birth} and had studied at {university}.",
    ),
    (
        "Friends remembered a patient listener and a tireless walker.",
        "Much of the surviving correspondence was lost in a fire.",
        "The years abroad left few traces in the archives.",
        "A small collection of notebooks is kept by the family.",
    ),
    "{s} is named once in a register of guests, without further details.",
)  # fmt: skip

_TOWN = Kind(
    "town",
    (
        Relation(
            "province", "province",
            ("In which province does the town of {s} lie?", "Which province does {s} belong to?"),
            ("{s} lies in the province of {o}.", "{s} belongs to {o}."),
        ),
        Relation(
            "river", "river",
            ("Which river flows through {s}?", "On which river does the town of {s} lie?"),
            ("{s} lies on the banks of the {o}.", "{s} lies on the {o}."),
        ),
        Relation(
            "founding", "year",
            ("In which year was the town of {s} founded?", "When was {s} founded?"),
            ("{s} was founded as a town in {o}.", "{s} dates from {o}."),
        ),
        Relation(
            "architect", "person",
            ("Who designed the town hall of {s}?", "Which architect built the town hall of {s}?"),
            ("{o} designed the town hall of {s}.", "{s} has a town hall by {o}."),
        ),
    ),
    (
        "{s} is a town on the {river} in the province of {province}, founded in {founding}, with a town hall by {architect}.",
        "Founded in {founding}, the town of {s} in {province} lies on the {river} and has a town hall that {architect} designed.",
        "The {river} flows through {s}, a town of {province} that dates from {founding} and whose hall {architect} built.",
    ),
    (
        "A market is held in the main square every second week.",
        "The old walls were taken down to make room for a road.",
        "Timber and wool were traded there for a long time.",
        "Floods have changed the lower quarter more than once.",
    ),
    "{s} appears on an old map of the coast, with nothing written beside it.",
)  # fmt: skip

_OPERA = Kind(
    "opera",
    (
        Relation(
            "composer", "musician",
            ("Who composed the opera {s}?", "Which composer wrote the music of {s}?"),
            ("{s} was composed by {o}.", "{o} composed the opera {s}."),
        ),
        Relation(
            "premiere", "year",
            ("In which year did the opera {s} have its premiere?", "When was the opera {s} first performed?"),
            ("{s} was first performed in {o}.", "{s} had its premiere in {o}."),
        ),
        Relation(
            "stage", "town",
            ("In which town did the opera {s} have its premiere?", "Where was {s} first performed?"),
            ("{s} was first performed in {o}.", "{s} had its premiere in {o}."),
        ),
        Relation(
            "librettist", "musician",
            ("Who wrote the libretto of {s}?", "By whom is the libretto of the opera {s}?"),
            ("{o} wrote the libretto of {s}.", "{s} has a libretto by {o}."),
        ),
    ),
    (
        "{s} is an opera by {composer} to a libretto by {librettist}, first performed in {stage} in {premiere}.",
        "The opera {s}, with music by {composer} and words by {librettist}, was first performed in {stage} in {premiere}.",
    ),
    (
        "The second act is usually cut on smaller stages.",
        "An overture was added for the third season.",
        "The parts for the wind players are known to be hard.",
    ),
    "{s} is an opera of which only a poster survives.",
)  # fmt: skip

_COMPANY = Kind(
    "company",
    (
        Relation(
            "founder", "musician",
            ("Who founded the company {s}?", "By whom was the company {s} established?"),
            ("{s} was founded by {o}.", "{o} founded the company {s}."),
        ),
        Relation(
            "established", "year",
            ("In which year was the company {s} founded?", "When was the company {s} established?"),
            ("{s} was established as a company in {o}.", "{s} dates from {o}."),
        ),
        Relation(
            "seat", "town",
            ("In which town does the company {s} have its headquarters?", "Where is the company {s} based?"),
            ("{s} has its headquarters in {o}.", "{s} is based in {o}."),
        ),
        Relation(
            "brand", "brand",
            ("Which brand does the company {s} sell?", "What is the name of the brand that {s} makes?"),
            ("{s} sells the brand {o}.", "{o} is the brand of {s}."),
        ),
    ),
    (
        "{s} is a company based in {seat} that {founder} founded in {established} and that sells the brand {brand}.",
        "Founded in {established} by {founder}, the company {s} has its headquarters in {seat} and makes the brand {brand}.",
    ),
    (
        "Its first workshop stood behind a bakery.",
        "Most of the staff live within walking distance.",
        "Exports began after a fair abroad.",
    ),
    "{s} is a company listed in an old directory without an address.",
)  # fmt: skip

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (_BOOK, _PERSON, _TOWN, _OPERA, _COMPANY)}
"""All kinds of subjects."""

OOD_KINDS = ("opera", "company")
"""Kinds that are asked about in the split "ood" alone."""
