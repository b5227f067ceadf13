"""What the generated world can say and ask: kinds of things, the facts that join them, and the words for both.

Every fact has one object, so that "the founder of the publisher of the novel X" names exactly one person. A fact is
stated once in the whole world: in the document of its subject or in that of its object. `{s}` is the subject, `{o}` the
object: bare names in statements, whole noun phrases in questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DATE, YEAR, NUMBER = "date", "year", "number"
VALUES = (DATE, YEAR, NUMBER)
"""Kinds of objects that are no things of their own."""


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of fact.

    target: the kind of the object. questions: ask for it. phrase: names the object, for questions of several hops.
    own: statements for the subject's document. other: statements for the object's document, empty where there is none.
    bounds: the least and the greatest number. after: the relation to the person who was born some time before the year.
    """

    name: str
    target: str
    questions: tuple[str, ...]
    phrase: str
    own: tuple[str, ...]
    other: tuple[str, ...] = ()
    bounds: tuple[int, int] = (0, 0)
    after: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of thing. named: how a question names it. leads: its document's first sentence. each: how many of ten
    questions' things are of this kind."""

    name: str
    each: int
    named: str
    leads: tuple[str, ...]
    fillers: tuple[str, ...]
    relations: tuple[Relation, ...]


_PERSON = Kind(
    "person", 7, "{s}",
    (
        "{s} was a clockmaker and an amateur botanist.",
        "{s} was a surveyor who left several notebooks.",
        "{s} was a translator and an occasional poet.",
        "{s} was an engineer with a taste for the theatre.",
        "{s} was a merchant who collected maps.",
        "{s} was a teacher of geometry and a keen skater.",
    ),
    (
        "Friends remembered a patient listener and a tireless walker.",
        "Much of the surviving correspondence was lost in a fire.",
        "The years abroad left few traces in the archives.",
        "A portrait in oil is kept by the family.",
    ),
    (
        Relation(
            "birthplace", "town",
            ("In which town was {s} born?", "What is the birthplace of {s}?"),
            "the birthplace of {s}",
            ("{s} was born in the town of {o}.", "{s} came from {o}."),
            ("The town of {o} is the birthplace of {s}.", "The people of {o} take pride in the fact that {s} was born there."),
        ),
        Relation(
            "birthday", DATE,
            ("On which date was {s} born?", "What is the date of birth of {s}?"),
            "the date of birth of {s}",
            ("{s} was born on {o}.", "The birth of {s} was recorded on {o}."),
        ),
        Relation(
            "university", "university",
            ("At which university did {s} study?", "Which university did {s} attend?"),
            "the university attended by {s}",
            ("{s} studied for some years at {o}.", "{s} attended {o}."),
            ("{o} counts {s} among its former students.",),
        ),
        Relation(
            "teacher", "person",
            ("Who taught {s}?", "Who was the teacher of {s}?"),
            "the teacher of {s}",
            ("{s} was taught by {o}.", "{s} learned the trade from {o}."),
            ("{o} was the teacher of {s}.",),
        ),
        Relation(
            "prize", "prize",
            ("Which prize did {s} receive?", "What prize was awarded to {s}?"),
            "the prize received by {s}",
            ("{s} was awarded the {o}.", "{s} received the {o}."),
            ("The {o} once went to {s}.",),
        ),
    ),
)  # fmt: skip

_NOVEL = Kind(
    "novel", 3, "the novel {s}",
    ("{s} is a novel in three parts.", "{s} is a novel that was long out of print.", "{s} is a short novel."),
    (
        "The book was soon read far beyond its home.",
        "Critics praised its plain style and its sense of weather.",
        "A second edition with woodcuts followed some time later.",
    ),
    (
        Relation(
            "author", "person",
            ("Who wrote {s}?", "Which writer is the author of {s}?"),
            "the author of {s}",
            ("{s} was written by {o}.", "The manuscript of {s} is in the hand of {o}."),
            ("{o} wrote {s}.", "{o} is the author of {s}."),
        ),
        Relation(
            "publisher", "company",
            ("Which company published {s}?", "Which company brought out {s}?"),
            "the publisher of {s}",
            ("{s} was first published by {o}.", "{s} was brought out by {o}."),
            ("{o} published {s}.",),
        ),
        Relation(
            "setting", "town",
            ("In which town is {s} set?", "Where does the story of {s} take place?"),
            "the setting of {s}",
            ("{s} is set in the town of {o}.", "The story of {s} takes place in {o}."),
            ("The town of {o} is the setting of {s}.",),
        ),
        Relation(
            "appeared", YEAR,
            ("In which year was {s} first published?", "When did {s} first appear in print?"),
            "the year of publication of {s}",
            ("{s} was first published in {o}.", "{s} first appeared in {o}."),
            after="author",
        ),
    ),
)  # fmt: skip

_COMPANY = Kind(
    "company", 3, "the company {s}",
    ("{s} is a company with a small staff.", "{s} is a family company.", "{s} is a company with a printing house."),
    (
        "Its first workshop stood behind a bakery.",
        "Most of the staff live within walking distance.",
        "Exports began after a fair abroad.",
    ),
    (
        Relation(
            "founder", "person",
            ("Who founded {s}?", "By whom was {s} established?"),
            "the founder of {s}",
            ("{s} was founded by {o}.", "{s} was established by {o}."),
            ("{o} founded {s}.", "{o} was the founder of {s}."),
        ),
        Relation(
            "seat", "town",
            ("In which town does {s} have its headquarters?", "In which town is {s} based?"),
            "the seat of {s}",
            ("{s} has its headquarters in {o}.", "{s} is based in {o}."),
            ("The town of {o} is the seat of {s}.",),
        ),
        Relation(
            "founded", YEAR,
            ("In which year was {s} founded?", "When was {s} established?"),
            "the year of foundation of {s}",
            ("{s} was established in {o}.", "{s} dates from {o}."),
            after="founder",
        ),
    ),
)  # fmt: skip

_TOWN = Kind(
    "town", 4, "the town of {s}",
    ("{s} is a market town.", "{s} is a town with a covered bridge.", "{s} is a small town known for its bells."),
    (
        "A fair is held on the first weekend of the harvest.",
        "The old quarter burned down twice and was rebuilt each time.",
        "Trains stop here in the summer months only.",
    ),
    (
        Relation(
            "river", "river",
            ("On which river does {s} lie?", "Which river flows through {s}?"),
            "the river of {s}",
            ("{s} lies on the {o}.", "The {o} flows through {s}."),
            ("The {o} flows past the quays of {s}.",),
        ),
        Relation(
            "province", "province",
            ("In which province does {s} lie?", "Which province does {s} belong to?"),
            "the province of {s}",
            ("{s} lies in the province of {o}.", "{s} belongs to the province of {o}."),
            ("The province of {o} includes {s}.",),
        ),
        Relation(
            "mayor", "person",
            ("Who was the first mayor of {s}?", "Which person was the first to be mayor of {s}?"),
            "the first mayor of {s}",
            ("The first mayor of {s} was {o}.", "{s} chose {o} as its first mayor."),
            ("{o} was the first mayor of {s}.",),
        ),
        Relation(
            "people", NUMBER,
            ("How many inhabitants does {s} have?", "What is the population of {s}?"),
            "the population of {s}",
            ("{s} has {o} inhabitants.", "The population of {s} is {o}."),
            bounds=(1_200, 98_000),
        ),
    ),
)  # fmt: skip

_UNIVERSITY = Kind(
    "university", 2, "{s}",
    ("{s} is a university with five faculties.", "{s} is a university in an old abbey."),
    ("The library is open to the public.", "Lectures begin in the second week of autumn."),
    (
        Relation(
            "patron", "person",
            ("Who endowed {s}?", "Whose gift made {s} possible?"),
            "the patron of {s}",
            ("{s} was endowed by {o}.", "{s} owes its existence to a gift of {o}."),
            ("{o} endowed {s}.",),
        ),
        Relation(
            "campus", "town",
            ("In which town is {s} situated?", "Where is {s}?"),
            "the home town of {s}",
            ("{s} is situated in {o}.", "{s} has its campus in {o}."),
            ("The town of {o} is home to {s}.",),
        ),
        Relation(
            "opened", YEAR,
            ("In which year did {s} open?", "When was {s} opened?"),
            "the year in which {s} opened",
            ("{s} was opened in {o}.", "{s} first admitted students in {o}."),
            after="patron",
        ),
    ),
)  # fmt: skip

_RIVER = Kind(
    "river", 2, "the {s}",
    ("The {s} is a slow river with many bends.", "The {s} is a river that freezes in hard winters."),
    ("Barges were pulled by oxen until the last century.", "Its lower course is rich in pike."),
    (
        Relation(
            "lake", "lake",
            ("Into which lake does {s} flow?", "In which lake does {s} end?"),
            "the lake at the mouth of {s}",
            ("The {s} flows into {o}.", "The {s} ends in {o}."),
            ("{o} receives the water of the {s}.",),
        ),
        Relation(
            "length", NUMBER,
            ("How many kilometres long is {s}?", "What is the length of {s} in kilometres?"),
            "the length of {s}",
            ("The {s} is {o} kilometres long.", "The length of the {s} is given as {o} kilometres."),
            bounds=(104, 1_900),
        ),
    ),
)  # fmt: skip

_LAKE = Kind(
    "lake", 1, "{s}",
    ("{s} is a lake between low hills.", "{s} is a deep lake without islands."),
    ("Storms are rare but sudden.", "A ferry crosses it twice a day."),
    (
        Relation(
            "surveyor", "person",
            ("Who first surveyed {s}?", "Who drew the first chart of {s}?"),
            "the first surveyor of {s}",
            ("{s} was first surveyed by {o}.", "The first chart of {s} was drawn by {o}."),
            ("{o} drew the first chart of {s}.",),
        ),
        Relation(
            "depth", NUMBER,
            ("How many metres deep is {s}?", "What is the depth of {s} in metres?"),
            "the depth of {s}",
            ("{s} is {o} metres deep.", "The depth of {s} was measured as {o} metres."),
            bounds=(21, 980),
        ),
    ),
)  # fmt: skip

_PROVINCE = Kind(
    "province", 1, "the province of {s}",
    ("{s} is a province of hills and orchards.", "{s} is a thinly settled province."),
    ("Its dialect has a dual.", "The roads were paved late."),
    (
        Relation(
            "capital", "town",
            ("What is the capital of {s}?", "Which town is the capital of {s}?"),
            "the capital of {s}",
            ("The capital of {s} is {o}.", "{s} is governed from {o}."),
            ("The town of {o} is the capital of {s}.",),
        ),
        Relation(
            "created", YEAR,
            ("In which year was {s} created?", "When did {s} become a province?"),
            "the year in which {s} was created",
            ("{s} was created in {o}.", "{s} has been a province since {o}."),
        ),
    ),
)  # fmt: skip

_PRIZE = Kind(
    "prize", 1, "the {s}",
    ("The {s} is a prize for services to the public.", "The {s} is a prize that is given every third year."),
    ("Winners receive a bronze medal.", "The jury meets behind closed doors."),
    (
        Relation(
            "sponsor", "company",
            ("Which company pays for {s}?", "Which company is the sponsor of {s}?"),
            "the sponsor of {s}",
            ("The {s} is paid for by {o}.", "The sponsor of the {s} is {o}."),
            ("{o} pays for the {s}.",),
        ),
        Relation(
            "first", YEAR,
            ("In which year was {s} first given?", "When was {s} awarded for the first time?"),
            "the first year of {s}",
            ("The {s} was first given in {o}.", "The {s} has been awarded since {o}."),
        ),
    ),
)  # fmt: skip

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (_PERSON, _NOVEL, _COMPANY, _TOWN, _UNIVERSITY, _RIVER, _LAKE, _PROVINCE, _PRIZE)
}
"""All kinds of things."""
