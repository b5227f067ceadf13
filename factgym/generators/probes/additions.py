"""Additions: a false presupposition, or a detail that the source cannot settle.

A presupposition is said in passing, as if it were known ("After the 1987 inquiry, …"; "the only …"). An unanswerable
wrap adds what no source of the kind would say: what someone privately felt, what an unpublished diary holds. Both name
things on which the source is silent; each has many wordings, so that the wording alone does not give the label away.
"""

from __future__ import annotations

import re

from factgym.generators.probes.base import Draft, NoProbe
from factgym.generators.probes.statement import with_opening, with_tail
from factgym.generators.probes.work import NEGATED, Work
from factgym.generators.synthetic.words import listed

_OPENINGS = (
    "Despite the earlier court ruling",
    "Despite a temporary ban by regulators",
    "Despite repeated protests by residents",
    "Despite the well-known privacy scandal",
    "Even with the nationwide boycott",
    "Because of the second parliamentary inquiry",
)
_PAST_OPENINGS = (
    "After the second parliamentary inquiry",
    "Even after the nationwide boycott",
    "After the much-discussed warehouse fire",
    "Before the failed merger talks",
    "Even before the disputed referendum",
    "Because of the earlier bribery case",
    "Following the widely reported hoax",
    "After the record-breaking auction",
)
_TAILS = (
    "even after the nationwide boycott",
    "despite a temporary ban by regulators",
    "despite the earlier court ruling",
    "despite repeated protests by residents",
    "even after the widely reported hoax",
    "despite the well-known privacy scandal",
)
_PERSON_OPENINGS = (
    "After recovering from a serious accident",
    "Despite having dropped out of law school",
    "After returning from military service",
    "Having already declined a knighthood",
    "After years of legal trouble",
    "Despite having announced an early retirement",
)
_WRAPS = (
    "a fact first noted in an unpublished diary",
    "something that few experts privately believed",
    "as a lost letter from an unnamed witness confirms",
    "a point that later interviews never mentioned",
    "a detail that was cut from an earlier draft",
    "something that an abandoned survey had tried to measure",
    "a fact that several insiders secretly hoped to hide",
    "as an anonymous insider once whispered",
)
_PAST_WRAPS = (
    "something that close friends had secretly predicted",
    "as several anonymous insiders had quietly hoped",
    "much to the private relief of everybody involved",
    "as was rumored among neighbors for weeks",
    "to the surprise of most outside observers",
    "something that took considerably more effort than anyone had planned",
)
_WRAP_OPENINGS = (
    "According to an unpublished diary",
    "As a lost letter from an unnamed witness confirms",
    "As an anonymous insider once whispered",
    "According to a survey that was later abandoned",
)
_KIND_OF_THING = re.compile(r"\b(?P<be>is|was) (?P<article>an?) (?P<next>[A-Za-z][\w'-]*)(?= )")
_NOT_UNIQUE = frozenset(
    listed(
        "lot number few little kind type part variety piece bit group series set pair form way member result good bad great"
        " common combination mix mixture person fan time sort couple variation total majority minority possibility chance"
        " large small long very more most highly better much day year symptom sign 1 2 fact former current retired"
    )
)
_UNIQUE = ("the only", "the first", "the most famous", "the best-known")


def presuppose(work: Work) -> Draft | NoProbe:
    """Takes something for granted that the source does not have."""
    openings = [(one, True) for one in _OPENINGS] + [(one, False) for one in _TAILS]
    if _is_past(work):
        openings += [(one, True) for one in _PAST_OPENINGS]
    if _is_person(work):
        openings += [(one, True) for one in _PERSON_OPENINGS * 2]
    return _added(work, openings, "presupposition")


def wrap(work: Work) -> Draft | NoProbe:
    """Adds a detail that nothing in the source can settle."""
    phrases = [(one, False) for one in _WRAPS] + [(one, True) for one in _WRAP_OPENINGS]
    if _is_past(work) and not NEGATED.search(work.body.text):
        phrases += [(one, False) for one in _PAST_WRAPS]
    return _added(work, phrases, "unsettled_detail")


def _is_past(work: Work) -> bool:
    """Whether the claim tells of something that happened."""
    verb = work.verb
    if verb is None or re.search(r"\bborn\b", work.body.text):
        return False
    return verb.tense == "past" or (
        verb.word in ("was", "were") and re.match(r" \w+ed\b", work.body.text[verb.end :]) is not None
    )


def single_out(work: Work) -> Draft | NoProbe:
    """Presupposes that there is one: "a member" as "the only member"."""
    text = work.body.text
    for match in _KIND_OF_THING.finditer(text):
        before = text[: match.start()]
        if match["next"].lower() in _NOT_UNIQUE or before.count('"') % 2 or match["next"] == "lot":
            continue
        if work.verb is None or work.verb.start != match.start() or re.search(r"\b[Tt]here $", before):
            continue
        fitting = [one for one in _UNIQUE if not any(work.mentions(word) for word in one[4:].split("-")[0].split())]
        if fitting:
            new = f"{match['be']} {work.rng.choice(fitting)} {match['next']}"
            return Draft(work.whole(before + new + text[match.end() :]), "scope_inflation", "uniqueness")
    return NoProbe("no_place", "the claim does not say that something is one of a kind")


def _is_person(work: Work) -> bool:
    name = work.names[0] if work.names else None
    if name is None or name.start or work.verb is None or work.verb.start != name.end + 1:
        return False
    return work.pool.kinds.of(name.text, work.body.text, name.span) == "person" and _is_past(work)


def _added(work: Work, phrases: list[tuple[str, bool]], variant: str) -> Draft | NoProbe:
    """The statement with the first of the phrases, in a drawn order, on which the source is silent and that fits."""
    if re.match(r"I\b|My\b|I['’]", work.body.text):
        return NoProbe("no_place", "the claim is about its speaker")
    if re.search(r",[^,]*\b(?:after|despite|before|even|since)\b", work.body.text, re.I):
        return NoProbe("no_place", "the claim has such a phrase already")
    work.rng.shuffle(phrases)
    for phrase, opens in phrases:
        if not work.silent_on(phrase, 1.0):
            continue
        text = work.body.text
        made = with_opening(text, phrase, work.spans, work.source) if opens else with_tail(text, phrase)
        if made is not None and not (
            opens
            and re.match(
                r"(?:In|On|After|Before|During|As|Since|By|At|Despite|Yes|No|For|However|Finally|Additionally)\b", text
            )
        ):
            return Draft(work.whole(made), "fabrication", variant)
    return NoProbe("no_place", "no phrase fits the claim")
