"""Paraphrase and antonym: the claim's words change, and its meaning turns round, widens, or stays.

A negation goes in or out with the right auxiliary, a word gives way to its opposite ("negation_flip"); a word that
limits gives way to one that does not ("scope_inflation"); a rewrite that says the same keeps the label.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from factgym.generators.corruption.base import capitalise, has_words
from factgym.generators.corruption.paraphrase import reword
from factgym.generators.probes.base import Draft, NoProbe
from factgym.generators.probes.lexicon import ANTONYMS, PARTICIPLES, PAST, THIRD
from factgym.generators.probes.statement import ending_of, has_gap, lowered, with_article
from factgym.generators.probes.work import Work
from factgym.generators.synthetic.words import MONTHS

_NEGATIVE = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|nor|neither|without|cannot|nowhere|hardly|few|little|barely|scarcely|zero)\b|n['’]t\b",
    re.I,
)
_LOOSE = re.compile(
    r"\b(?:some|any|many|most|all|every|each|few|several|both|either|only|also|always|sometimes|often|usually|may|might|could"
    r"|if|unless|until|because|but|or|at least|more than|less than|probably|possibly|just|even|except|there|would|should|too"
    r"|already|still|yet|almost|nearly|one of|nothing|no one|at one point|while|although|however|despite|since|so that)\b",
    re.I,
)
_NOT_ALL = re.compile(
    r"\b(?:some|many|several|few|most(?= [a-z]+s\b)|sometimes|often|usually|can|may|might|could|one of|both)\b", re.I
)
"""What holds of some does not speak against its opposite's holding of others."""
_POLAR_ITEMS = re.compile(
    r"\b(?:any|ever|yet|anymore|either|at all|anyone|anything|but|until|unless|only|because)\b", re.I
)
_AFTER_BE = frozenset({"likely", "unlikely", "legal", "illegal", "able", "unable", "possible", "impossible", "known"})
"""Words whose opposite only fits behind "is"."""
_BE = frozenset({"is", "are", "was", "were"})
_MODALS = frozenset({"will", "can", "must", "has", "have", "had"})
_NOT_VERB_AFTER_HAVE = re.compile(
    r" (?:been|never|also|already|\w+ed|won|sung|made|written|become|had|sold|led|met|played)\b"
)
_LIFT = re.compile(
    r"\b(?P<aux>is|are|was|were|has|have|had|will|can|could|would|should|must) not (?!(?:only|too|both|very|all|necessarily|always|just|even|every|that|so)\b)(?P<next>\w+)"
)
_LIFT_SHORT = re.compile(r"\b(?P<aux>is|are|was|were|has|have|had|could|would|should)n['’]t (?P<next>\w+)")
_LIFT_DO = re.compile(r"\b(?P<do>do|does|did)(?: not|n['’]t) (?P<verb>[a-z]+)\b")
_WIDER: tuple[tuple[str, str], ...] = (
    (r"\b[Aa]lmost all\b", "all"),
    (r"\b[Nn]early all\b", "all"),
    (r"\b[Mm]any (?:of the )?(?=[a-z]+s\b)", "all "),
    (r"\b[Ss]ome (?=[a-z]+s\b)", "all "),
    (r"\b[Ss]ome of the (?=[a-z]+s\b)", "all of the "),
    (r"\b[Mm]ost of the (?=[a-z]+s\b)", "all of the "),
    (r"^Most (?=(?:people|[a-z]+(?<!u)s)\b)", "all "),
    (r"\b[Ss]ome (?=people\b)", "all "),
    (r"\b[Mm]any (?=people\b)", "all "),
    (r"\b(?:usually|often|sometimes|generally|typically|frequently|commonly|occasionally|rarely)\b", "always"),
    (r"\b(?:may|might|can|could) (?=(?:cause|lead|help|result|increase|reduce|affect|occur)\b)", "will always "),
    (r"\b(?:mainly|mostly|largely|primarily|partly|partially|predominantly)\b", "exclusively"),
    (r"\b(?:somewhat|fairly|relatively|slightly|quite)\b", "extremely"),
)  # fmt: skip
_WIDENINGS = tuple((re.compile(pattern), new) for pattern, new in _WIDER)
_SAME: tuple[tuple[str, str], ...] = (
    (r"\blocated in\b", "situated in"),
    (r"\bapproximately\b", "about"),
    (r"\bbegan (?=(?:in|on|at|as|with|to)\b)", "started "),
    (r"\bstarted (?=(?:in|on|at|as|with|to)\b)", "began "),
    (r"\bpassed away\b", "died"),
    (r"\bcreated by\b", "made by"),
    (r"\b(?:an? )?movie\b", "film"),
    (r"\bnumerous\b", "many"),
    (r"\bpurchased\b(?= (?:the|an?|his|her|its|their)\b)", "bought"),
    (r"\battempted to\b", "tried to"),
    (r"\bin order to\b", "to"),
    (r"\bprior to\b", "before"),
    (r"\bis a resident of\b", "lives in"),
    (r"\breceived\b(?= an?\b)", "got"),
    (r"\bfounded in\b", "established in"),
    (r"\bestablished in\b", "founded in"),
    (r"\btelevision\b(?= (?:series|show))", "TV"),
    (r"\bTV\b(?= (?:series|show))", "television"),
    (r"\bassisted\b", "helped"),
)  # fmt: skip
_SYNONYMS = tuple((re.compile(pattern), new) for pattern, new in _SAME)
_END_TIME = re.compile(
    rf" (?P<phrase>(?:in (?:(?:{'|'.join(MONTHS)}) )?(?:1\d{{3}}|20[0-2]\d)|on (?:{'|'.join(MONTHS)}) \d{{1,2}}, \d{{4}}))$"
)


def negate(work: Work) -> Draft | NoProbe:
    """Takes the negation out, puts one in, or puts a word's opposite in its place."""
    text = work.body.text
    made = _lifted(text)
    if made is not None:
        return Draft(work.whole(made), "negation_flip", "negation_removed")
    ways: list[tuple[str, Callable[[Work], str | None]]] = [("negation_added", _imposed), ("antonym", _opposite)]
    work.rng.shuffle(ways)
    for name, way in ways:
        made = way(work)
        if made is not None:
            return Draft(work.whole(made), "negation_flip", name)
    return NoProbe("no_place", "no verb or word whose opposite is sure")


def _lifted(text: str) -> str | None:
    if len(_NEGATIVE.findall(text)) != 1 or _POLAR_ITEMS.search(text):
        return None
    match = _LIFT.search(text) or _LIFT_SHORT.search(text)
    if match:
        return f"{text[: match.start()]}{match['aux']} {match['next']}{text[match.end() :]}"
    match = _LIFT_DO.search(text)
    if match is None or match["verb"] not in PAST:
        return None
    verb = match["verb"]
    form = {"do": verb, "does": THIRD[verb], "did": PAST[verb]}[match["do"]]
    return text[: match.start()] + form + text[match.end() :]


def _imposed(work: Work) -> str | None:
    text, verb = work.body.text, work.verb
    if (
        verb is None
        or text.startswith(("Yes", "Oh "))
        or _NEGATIVE.search(text)
        or _LOOSE.search(text)
        or _joined_clauses(text)
    ):
        return None
    before, after = text[: verb.start], text[verb.end :]
    if verb.base is not None:
        support = {"past": "did not", "third": "does not", "base": "do not"}[verb.tense]
        return f"{before}{support} {verb.base}{after}"
    if verb.word in _BE or (verb.word in _MODALS and (verb.word[0] != "h" or _NOT_VERB_AFTER_HAVE.match(after))):
        return f"{before}cannot{after}" if verb.word == "can" else f"{before}{verb.word} not{after}"
    if verb.word in ("has", "have", "had"):
        support = {"has": "does not", "have": "do not", "had": "did not"}[verb.word]
        return f"{before}{support} have{after}"
    return None


def _joined_clauses(text: str) -> bool:
    """Whether two statements are joined, of which a negation would turn only one."""
    return re.search(r",? and (?:\w+ ){0,2}(?:is|was|were|are|has|had|\w+ed)\b|;|: ", text) is not None


def _opposite(work: Work) -> str | None:
    text = work.body.text
    found = [
        match
        for match in re.finditer(r"(?<![\w-])[a-z]+(?![\w-])", text)
        if match[0] in ANTONYMS
        and not _in_name(work, match.start())
        and not has_words(work.source, ANTONYMS[match[0]])
    ]
    found = [match for match in found if _turnable(text, match)]
    if (
        not found
        or _NEGATIVE.search(text)
        or _NOT_ALL.search(text)
        or re.search(r"\b(?:or|if|although|but|than)\b", text)
    ):
        return None
    match = work.rng.choice(found)
    new = ANTONYMS[match[0]]
    return with_article(text[: match.start()], new) + new + text[match.end() :]


def _turnable(text: str, match: re.Match[str]) -> bool:
    """Whether the word stands where its opposite can stand."""
    before, after = text[: match.start()], text[match.end() :]
    word = match[0]
    if re.search(r"\b(?:second|third|fourth|fifth|\w+th|\d(?:st|nd|rd|th)) $", before):
        return False
    if before.count('"') % 2 or after.startswith((" name", " person", " party", " time", " language", " lady", "'")):
        return False
    if word in ("most", "more", "least", "better", "best", "fewer") and not re.match(r" [a-z]+", after):
        return False
    if word in ("most", "least") and not before.endswith("the "):
        return False
    if word in ("before", "after", "inside", "outside", "above", "below"):
        return re.match(r" (?:the|his|her|its|their|[A-Z\d])", after) is not None
    if word in ("left", "right", "light", "real", "hot", "second", "fell", "rose", "last", "like", "known", "public"):
        return word == "last" and before.endswith("the ")
    if word in _AFTER_BE:
        return re.search(r"\b(?:is|are|was|were) $", before) is not None
    if word in ("first",):
        return before.endswith(("the ", "his ", "her ", "its ", "their "))
    return word not in ("more", "fewer") or re.match(r" [a-z]+s\b", after) is not None


def _in_name(work: Work, at: int) -> bool:
    return any(start <= at < end for start, end in work.spans)


def widen(work: Work) -> Draft | NoProbe:
    """Takes away what limits the claim."""
    text = work.body.text
    fitting = []
    for pattern, new in _WIDENINGS:
        match = pattern.search(text)
        if match and not _NEGATIVE.search(text) and not has_words(work.source, new.split()[-1]):
            fitting.append((match, new))
    if not fitting:
        return NoProbe("no_place", "no word that limits the claim")
    match, new = work.rng.choice(fitting)
    new = capitalise(new) if match.start() == 0 else new
    return Draft(work.whole(text[: match.start()] + new + text[match.end() :]), "scope_inflation", "qualifier")


def restate(work: Work) -> Draft | NoProbe:
    """Says the same in other words; the label and the error of the claim stay."""
    ways: list[tuple[str, Callable[[Work], str | None]]] = [
        ("passive", _passive),
        ("fronted", _fronted),
        ("synonym", _synonym),
        ("reworded", _reworded),
    ]
    for name, way in ways:
        made = way(work)
        if made is not None and made != work.body.text:
            return Draft(work.whole(made), work.error_type, name)
    return NoProbe("no_place", "no rewrite that is sure to say the same")


def _passive(work: Work) -> str | None:
    """ "Alan Metter directed Billboard Dad." as "Billboard Dad was directed by Alan Metter."."""
    text, verb = work.body.text, work.verb
    head, stop = ending_of(text)
    if verb is None or verb.word not in PARTICIPLES or len(work.names) != 2:
        return None
    agent, thing = work.names
    if agent.start or agent.end + 1 != verb.start or thing.start != verb.end + 1 or thing.end != len(head):
        return None
    return f"{thing.text} was {verb.word} by {agent.text}{stop}"


def _fronted(work: Work) -> str | None:
    """ "X died in 1821." as "In 1821, X died."."""
    head, stop = ending_of(work.body.text)
    match = _END_TIME.search(head)
    told = work.verb is not None and (work.verb.tense == "past" or work.verb.word in ("was", "were"))
    if match is None or not told or len(head[: match.start()].split()) < 3 or "," in head[: match.start()]:
        return None
    if _NEGATIVE.search(head):
        return None
    if re.search(r"\b(?:and|that|who|which|when|from|between|until|since)\b", head[: match.start()]):
        return None
    rest = lowered(head[: match.start()], work.spans, work.source)
    comma = " ," if has_gap(work.body.text) else ","
    return None if rest is None else f"{capitalise(match['phrase'])}{comma} {rest}{stop}"


def _synonym(work: Work) -> str | None:
    text = work.body.text
    fitting = [
        (match, new)
        for pattern, new in _SYNONYMS
        if (match := pattern.search(text)) and not _in_name(work, match.start())
    ]
    if not fitting:
        return None
    match, new = work.rng.choice(fitting)
    if match[0].startswith(("a ", "an ")):
        new = f"a {new}"
    return text[: match.start()] + new + text[match.end() :]


def _reworded(work: Work) -> str | None:
    made = reword(work.body.text, "", work.rng)
    if '"' in work.body.text or "as well as" in work.body.text or made.casefold() == work.body.text.casefold():
        return None
    return made
