"""What generated claims are about: kinds of places and bodies, and what is counted, named or decided there.

A topic has a value for each year. Its forms are templates over `{s}` (the subject), `{v}` (the value), `{y}` (the year)
and `{a}` (who reports it). Claims, questions and reports word the same thing differently, as people and sources do, and
no form is kept for one label.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from factgym.generators.synthetic.grammar import listed


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that can be claimed of a subject and a year.

    values: "low high step" of a whole number, or words of which one holds. unit: what follows the number.
    claim, question, report: wordings; a question has no value. check: the same as a question for yes or no.
    """

    id: str
    values: tuple[str, ...]
    unit: str
    claim: tuple[str, ...]
    question: tuple[str, ...]
    check: str
    report: tuple[str, ...]

    def value(self, rng: random.Random) -> str:
        """A value as it is written."""
        if not self.values[0].isdigit():
            return rng.choice(self.values)
        low, high, step = map(int, self.values)
        return f"{rng.randrange(low, high + 1, step):,}{self.unit}"

    def other(self, rng: random.Random, value: str) -> str:
        """Another value, far enough from the given one to be no rounding of it."""
        if not self.values[0].isdigit():
            return rng.choice([other for other in self.values if other != value])
        while True:
            other = self.value(rng)
            if abs(_number(other) - _number(value)) >= 0.25 * max(_number(other), _number(value)):
                return other


def _number(text: str) -> int:
    return int("".join(letter for letter in text if letter.isdigit()))


def _whole(low: int, high: int, step: int) -> tuple[str, ...]:
    return str(low), str(high), str(step)


_MONTHS = listed("January February March April May June July August September October November December")
_PEOPLE = (
    "Ana Duarte", "Viktor Lindqvist", "Grace Okafor", "Tomas Hrubec", "Leila Haddad", "Paul Renner", "Mina Sato",
    "Carlos Ibarra", "Ingrid Falk", "Samuel Boateng", "Nora Whitfield", "Dmitri Volkov",
)  # fmt: skip
_TRADES = ("the textile trade", "steel making", "tourism", "fishing", "printing", "dairy farming", "ship repair")

KINDS: dict[str, tuple[str, ...]] = {
    "city": ("{stem}",),
    "company": ("{stem} Foods", "{stem} Steel", "{stem} Motors", "{stem} Textiles", "{stem} Energy"),
    "university": ("the University of {stem}",),
    "hospital": ("{stem} Hospital",),
    "airport": ("{stem} Airport",),
}
"""Kind of subject -> what it may be called."""

TOPICS: dict[str, tuple[Topic, ...]] = {
    "city": (
        Topic(
            "unemployment", _whole(3, 24, 1), " percent",
            ("unemployment in {s} stood at {v} in {y}", "{v} of workers in {s} were without a job in {y}"),
            ("What was the unemployment rate in {s} in {y}?", "How high was unemployment in {s} during {y}?"),
            "Was the unemployment rate in {s} {v} in {y}?",
            ("{a} put the jobless rate of {s} at {v} for {y}.", "In {y}, {a} counted {v} of the labour force of {s} as jobless."),
        ),
        Topic(
            "burglaries", _whole(120, 2400, 20), "",
            ("there were {v} burglaries in {s} in {y}", "the police of {s} recorded {v} burglaries in {y}"),
            ("How many burglaries were recorded in {s} in {y}?", "What number of burglaries did {s} have in {y}?"),
            "Were {v} burglaries recorded in {s} in {y}?",
            ("Break-ins in {s} came to {v} in {y}, {a} reported.", "{a} lists {v} burglaries for {s} in {y}."),
        ),
        Topic(
            "population", _whole(12000, 480000, 1000), "",
            ("{s} had {v} inhabitants in {y}", "{v} people lived in {s} in {y}"),
            ("How many people lived in {s} in {y}?", "What was the population of {s} in {y}?"),
            "Did {v} people live in {s} in {y}?",
            ("The register showed {v} residents of {s} at the end of {y}, says {a}.", "{a} gives the population of {s} in {y} as {v}."),
        ),
        Topic(
            "budget", _whole(40, 900, 10), " million euros",
            ("the council of {s} spent {v} on roads in {y}", "{s} put {v} into its roads in {y}"),
            ("How much did {s} spend on roads in {y}?", "What did the council of {s} spend on its roads in {y}?"),
            "Did {s} spend {v} on roads in {y}?",
            ("Road works cost the council of {s} {v} in {y}, according to {a}.", "{a} books {v} for the roads of {s} in {y}."),
        ),
        Topic(
            "mayor", _PEOPLE, "",
            ("{v} was elected mayor of {s} in {y}", "the voters of {s} made {v} their mayor in {y}"),
            ("Who was elected mayor of {s} in {y}?", "Who won the mayoral election in {s} in {y}?"),
            "Did {v} win the mayoral election in {s} in {y}?",
            ("{v} won the ballot for mayor of {s} in {y}, {a} confirmed.", "In {y} the mayor's office of {s} went to {v}, as {a} records."),
        ),
        Topic(
            "trade", _TRADES, "",
            ("most jobs in {s} came from {v} in {y}", "{s} lived mainly on {v} in {y}"),
            ("Which trade gave {s} most of its jobs in {y}?", "What was the main source of work in {s} in {y}?"),
            "Was {v} the main source of work in {s} in {y}?",
            ("The largest employer branch of {s} in {y} was {v}, says {a}.", "{a} names {v} as the leading branch of {s} for {y}."),
        ),
    ),
    "company": (
        Topic(
            "staff", _whole(200, 9800, 50), "",
            ("{s} employed {v} people in {y}", "{v} people worked for {s} in {y}"),
            ("How many people did {s} employ in {y}?", "How large was the staff of {s} in {y}?"),
            "Did {s} employ {v} people in {y}?",
            ("The payroll of {s} ran to {v} names in {y}, {a} shows.", "{a} states a work force of {v} at {s} for {y}."),
        ),
        Topic(
            "revenue", _whole(20, 980, 10), " million euros",
            ("{s} had sales of {v} in {y}", "{s} took in {v} in {y}"),
            ("What were the sales of {s} in {y}?", "How much revenue did {s} have in {y}?"),
            "Did {s} have sales of {v} in {y}?",
            ("Turnover at {s} reached {v} in {y}, according to {a}.", "{a} puts the revenue of {s} at {v} for {y}."),
        ),
        Topic(
            "layoffs", _whole(40, 1900, 20), "",
            ("{s} laid off {v} workers in {y}", "{v} workers lost their jobs at {s} in {y}"),
            ("How many workers did {s} lay off in {y}?", "How many jobs were cut at {s} in {y}?"),
            "Did {s} lay off {v} workers in {y}?",
            ("{a} counts {v} dismissals at {s} in {y}.", "In {y}, {v} employees of {s} were dismissed, says {a}."),
        ),
        Topic(
            "chief", _PEOPLE, "",
            ("{v} ran {s} in {y}", "{v} was the head of {s} in {y}"),
            ("Who was the chief executive of {s} in {y}?", "Who ran {s} in {y}?"),
            "Was {v} the chief executive of {s} in {y}?",
            ("{a} names {v} as chief executive of {s} for {y}.", "The executive board of {s} was led by {v} in {y}, according to {a}."),
        ),
        Topic(
            "recall", _MONTHS, "",
            ("{s} recalled its products in {v} {y}", "a recall by {s} began in {v} {y}"),
            ("In which month of {y} did {s} recall its products?", "When in {y} did {s} begin its recall?"),
            "Did {s} recall its products in {v} {y}?",
            ("{a} dates the product recall of {s} to {v} {y}.", "Goods of {s} were called back from shops in {v} {y}, says {a}."),
        ),
    ),
    "university": (
        Topic(
            "students", _whole(2000, 58000, 500), "",
            ("{s} had {v} students in {y}", "{v} students were enrolled at {s} in {y}"),
            ("How many students did {s} have in {y}?", "What was the enrolment at {s} in {y}?"),
            "Did {s} have {v} students in {y}?",
            ("Enrolment at {s} came to {v} in {y}, {a} found.", "{a} gives {v} as the number of students at {s} for {y}."),
        ),
        Topic(
            "fee", _whole(200, 9000, 100), " euros",
            ("a year at {s} cost {v} in {y}", "{s} charged its students {v} in {y}"),
            ("How high was the yearly tuition fee at {s} in {y}?", "What did {s} charge its students in {y}?"),
            "Was the yearly tuition fee at {s} {v} in {y}?",
            ("Tuition at {s} was set at {v} for {y}, according to {a}.", "{a} lists a fee of {v} for {s} in {y}."),
        ),
        Topic(
            "dropout", _whole(4, 52, 1), " percent",
            ("{v} of students left {s} without a degree in {y}", "{s} lost {v} of its students in {y}"),
            ("What share of students dropped out of {s} in {y}?", "How high was the dropout rate at {s} in {y}?"),
            "Was the dropout rate at {s} {v} in {y}?",
            ("{a} reports a dropout rate of {v} at {s} for {y}.", "In {y}, {v} of those enrolled gave up their studies at {s}, says {a}."),
        ),
        Topic(
            "rector", _PEOPLE, "",
            ("{v} became rector of {s} in {y}", "{s} chose {v} as its rector in {y}"),
            ("Who became rector of {s} in {y}?", "Whom did {s} choose as rector in {y}?"),
            "Did {v} become rector of {s} in {y}?",
            ("The senate of {s} elected {v} as its head in {y}, {a} noted.", "{a} records the election of {v} as rector of {s} in {y}."),
        ),
        Topic(
            "grants", _whole(2, 140, 2), " million euros",
            ("{s} won {v} in research grants in {y}", "research grants brought {s} {v} in {y}"),
            ("How much did {s} win in research grants in {y}?", "What sum in research grants went to {s} in {y}?"),
            "Did {s} win {v} in research grants in {y}?",
            ("Third-party funds of {s} amounted to {v} in {y}, according to {a}.", "{a} shows research money of {v} for {s} in {y}."),
        ),
    ),
    "hospital": (
        Topic(
            "beds", _whole(60, 1400, 10), "",
            ("{s} had {v} beds in {y}", "{v} beds were in use at {s} in {y}"),
            ("How many beds did {s} have in {y}?", "What was the number of beds at {s} in {y}?"),
            "Did {s} have {v} beds in {y}?",
            ("The capacity of {s} was {v} beds in {y}, {a} states.", "{a} counted {v} beds at {s} in {y}."),
        ),
        Topic(
            "waiting", _whole(8, 240, 2), " days",
            ("patients of {s} waited {v} for an operation in {y}", "an operation at {s} took {v} of waiting in {y}"),
            ("How long did patients of {s} wait for an operation in {y}?", "What was the waiting time at {s} in {y}?"),
            "Did patients of {s} wait {v} for an operation in {y}?",
            ("{a} measured a mean wait of {v} for surgery at {s} in {y}.", "Surgery at {s} came after {v} on average in {y}, says {a}."),
        ),
        Topic(
            "births", _whole(150, 6200, 50), "",
            ("{v} children were born at {s} in {y}", "{s} counted {v} births in {y}"),
            ("How many children were born at {s} in {y}?", "What was the number of births at {s} in {y}?"),
            "Were {v} children born at {s} in {y}?",
            ("Midwives of {s} helped with {v} deliveries in {y}, according to {a}.", "{a} registers {v} newborns at {s} for {y}."),
        ),
        Topic(
            "infections", _whole(10, 620, 5), "",
            ("{v} patients caught an infection at {s} in {y}", "{s} had {v} hospital infections in {y}"),
            ("How many patients caught an infection at {s} in {y}?", "How many infections did {s} have in {y}?"),
            "Did {v} patients catch an infection at {s} in {y}?",
            ("{a} lists {v} infections acquired at {s} in {y}.", "Hygiene records of {s} show {v} infected patients in {y}, says {a}."),
        ),
        Topic(
            "director", _PEOPLE, "",
            ("{v} was the director of {s} in {y}", "{s} was led by {v} in {y}"),
            ("Who was the director of {s} in {y}?", "Who led {s} in {y}?"),
            "Was {v} the director of {s} in {y}?",
            ("{a} names {v} as medical director of {s} for {y}.", "The head of {s} in {y} was {v}, according to {a}."),
        ),
    ),
    "airport": (
        Topic(
            "passengers", _whole(100, 9800, 50), " thousand",
            ("{s} served {v} passengers in {y}", "{v} passengers used {s} in {y}"),
            ("How many passengers did {s} serve in {y}?", "What was the number of passengers at {s} in {y}?"),
            "Did {s} serve {v} passengers in {y}?",
            ("Travellers at {s} numbered {v} in {y}, {a} reported.", "{a} gives traffic of {v} passengers for {s} in {y}."),
        ),
        Topic(
            "delays", _whole(4, 62, 1), " percent",
            ("{v} of flights from {s} were late in {y}", "{s} had {v} of its flights delayed in {y}"),
            ("What share of flights from {s} was late in {y}?", "How many flights from {s} were delayed in {y}?"),
            "Were {v} of flights from {s} late in {y}?",
            ("Late departures from {s} made up {v} in {y}, says {a}.", "{a} found {v} of departures from {s} behind schedule in {y}."),
        ),
        Topic(
            "noise", _whole(20, 4800, 20), "",
            ("{s} drew {v} complaints about noise in {y}", "{v} people complained about noise from {s} in {y}"),
            ("How many complaints about noise did {s} draw in {y}?", "How many people complained about noise from {s} in {y}?"),
            "Did {s} draw {v} complaints about noise in {y}?",
            ("{a} received {v} letters of protest against aircraft noise at {s} in {y}.", "Protests against noise at {s} came to {v} in {y}, according to {a}."),
        ),
        Topic(
            "runway", _MONTHS, "",
            ("{s} opened its new runway in {v} {y}", "the new runway of {s} opened in {v} {y}"),
            ("In which month of {y} did {s} open its new runway?", "When in {y} did the new runway of {s} open?"),
            "Did {s} open its new runway in {v} {y}?",
            ("{a} dates the first landing on the new runway of {s} to {v} {y}.", "Traffic on the new runway of {s} began in {v} {y}, says {a}."),
        ),
        Topic(
            "subsidy", _whole(1, 60, 1), " million euros",
            ("{s} received {v} of public money in {y}", "the state gave {s} {v} in {y}"),
            ("How much public money did {s} receive in {y}?", "What did the state give {s} in {y}?"),
            "Did {s} receive {v} of public money in {y}?",
            ("Subsidies to {s} amounted to {v} in {y}, according to {a}.", "{a} shows aid of {v} for {s} in {y}."),
        ),
    ),
}  # fmt: skip
"""Kind of subject -> its topics."""

AGENCIES = (
    "the regional statistics office", "the national audit office", "an independent inspectorate", "the annual report",
    "a parliamentary inquiry", "the trade register", "a study by the state bank", "the court of auditors",
    "the ombudsman", "a survey by the research institute",
)  # fmt: skip
"""Who reports."""

SPEAKERS = (
    "Harriet Cole", "Anton Berger", "Lucia Ferri", "Mohamed Saleh", "Petra Novak", "James Tillman", "Sofia Lund",
    "Rafael Mendes", "Agnes Kovacs", "Daniel Osei",
)  # fmt: skip
SOURCES = ("Facebook", "Twitter", "a television interview", "a newspaper column", "a speech", "a radio programme")
LOCATIONS = ("GB", "US", "IN", "NG", "KE", "DE", "PL", "BR", "ZA", "AU")
