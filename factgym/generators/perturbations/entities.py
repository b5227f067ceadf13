"""Entities: the wrong party of a rule ("party", *contradicted*), another name of the same kind in a claim.

The actors that a document keeps apart are read off it: capitalised names and roles that do things ("Distributor
shall", "NETGEAR agrees") and that occur in one sentence outside a definition (so that "Automattic Inc. (the
"Company")" is never taken for two), and for lower-case prose a short list of roles grouped so that synonyms never
replace each other. A claim's name is replaced by one of its kind that neither source nor claim mentions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from factgym.generators.base import word_table
from factgym.generators.perturbations.grammar import Cues, agree_article, contains_words, in_main_clause
from factgym.generators.perturbations.names import Name, gender_in, gender_of
from factgym.generators.perturbations.operator import NEGATED, Edit, NoEdit, Operator, Statement

_CUES = Cues("entities")

_NAME = r"[A-Z][A-Za-z’'&]*[A-Za-z](?: (?:[A-Z][A-Za-z&]*[A-Za-z]|of)){0,2}"
_MAX_PARTIES = 6
_MIN_ACTS = 3
_ROLE_GROUP = {
    role: number for number, roles in enumerate(word_table("english")["roles"]) for role in roles.split(", ")
}
_ROLE_NAMES = "|".join(sorted(_ROLE_GROUP, key=lambda role: (-len(role), role)))
_ROLE = re.compile(
    rf"\b(?P<article>[Tt]he|[Yy]our|[Oo]ur) (?P<role>{_ROLE_NAMES})\b"
    r"(?= (?:must|will|shall|may|can|is|approves|determines|decides|should|has)\b)"
)
_YOUR_DUTY = re.compile(r"You (?:are|alone are) (?P<duty>(?:solely |fully )?responsible for)\b")


def find_parties(sentences: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return pairs of actors that a document keeps apart, the most active first, among its six most active names.

    Two names are apart where at least two sentences that define neither mention both.
    """
    acts = Counter(
        match["name"]
        for sentence in sentences
        for match in _CUES.acts.finditer(sentence)
        if not _CUES.not_actors.match(match["name"])
    )
    ranked = sorted(acts.items(), key=lambda item: (-item[1], item[0]))
    names = [name for name, count in ranked if count >= _MIN_ACTS][:_MAX_PARTIES]
    pairs = []
    # Two names in one sentence that does not define either are different actors, not aliases of one.
    for first, second in combinations(names, 2):
        shared = [text for text in sentences if contains_words(text, first) and contains_words(text, second)]
        defining = sum(_CUES.defines.search(text) is not None for text in shared)
        if first not in second and second not in first and len(shared) - defining >= 2:
            pairs.append((first, second))
    return tuple(pairs)


def swap_named_party(statement: Statement) -> Edit | None:
    """Put another named party in the subject's position, where the document says nothing like it of that party."""
    sentence = statement.text
    for match in _CUES.acts.finditer(sentence):
        old = match["name"]
        act = " ".join(sentence[match.end("name") :].split()[:4])
        rivals = [second if old == first else first for first, second in statement.parties if old in (first, second)]
        rivals = [
            name for name in rivals if not contains_words(sentence, name) and not statement.mentions(f"{name} {act}")
        ]
        if not rivals or sentence.count(old) > 1 or not _CUES.one_way.match(sentence, match.end("name")):
            continue
        if in_main_clause(sentence[: match.start("name")]):
            new = statement.rng.choice(rivals)
            return Edit(*match.span("name"), new, reason=f"The document says this of {old}, not of {new}.")
    return None


def swap_role(statement: Statement) -> Edit | None:
    """Replace the only role of a sentence by a role of another group that the document names too."""
    sentence = statement.text
    matches = list(_ROLE.finditer(sentence))
    if len(matches) != 1 or contains_words(sentence[matches[0].end() :], matches[0]["role"]):
        return None
    match = matches[0]
    old = match["role"]
    if not in_main_clause(sentence[: match.start()]):
        return None
    roles = [
        role
        for article in ("the", "your")
        for role, group in _ROLE_GROUP.items()
        if group != _ROLE_GROUP[old] and f"{article} {role}" in statement.source
        if role.endswith("s") == old.endswith("s") and not contains_words(sentence, role)
    ]
    roles = list(dict.fromkeys(roles))
    if not roles:
        return None
    new = statement.rng.choice(roles)
    reason = f"The document says this of {match['article'].lower()} {old}, not of the {new}."
    return Edit(*match.span("role"), new, reason=reason)


def swap_duty(statement: Statement) -> Edit | None:
    """ "You are responsible for …" as "We are responsible for …"."""
    match = _YOUR_DUTY.match(statement.text)
    if match is None or re.search(r"\b(?:we|us|not|own)\b", statement.text[match.end() :]):
        return None
    reason = "The document puts this on you, not on us."
    return Edit(0, match.end(), f"We are {match['duty']}", span="We are", reason=reason)


def swap_party(statement: Statement) -> Edit | NoEdit:
    """Name the wrong actor. Sentences about shared or mutual duties are left alone."""
    if _CUES.shared.search(statement.text):
        return NoEdit()
    return swap_named_party(statement) or swap_role(statement) or swap_duty(statement) or NoEdit()


PARTY = Operator("party", ("contradicted",), swap_party, _CUES.party_site)

_EXCHANGED = {"you": "us", "us": "you", "your": "our", "our": "your", "Your": "Our", "Our": "Your"}
_SUBJECTS = {"You": "We", "We": "You", "you": "we", "we": "you"}
_PRONOUN = re.compile(r"\b(?:you|we|us|your|our|yours|ours|yourself|ourselves)\b", re.I)


def exchange_parties(statement: Statement) -> Edit | NoEdit:
    """Exchange giver and receiver of a duty: "You must notify us" as "We must notify you".

    They are two parties that the document keeps apart, or its author and its reader. What else names them in the
    sentence is exchanged too.
    """
    sentence = statement.text
    match = _CUES.gives.search(sentence)
    if match is None or _CUES.shared.search(sentence) or not in_main_clause(sentence[: match.start()]):
        return NoEdit()
    giver, receiver = match["giver"], match["receiver"]
    parts = (
        sentence[: match.start()],
        sentence[match.end("giver") : match.end("receiver")],
        sentence[match.end("receiver") :],
    )
    if giver in _SUBJECTS:
        words, other, subject = _PRONOUN, _EXCHANGED, _SUBJECTS[giver]
        used = [word[0] for part in parts for word in words.finditer(part)]
        # Of further pronouns only possessives have the same form as subject and object.
        fits = {giver.lower(), receiver} in ({"you", "us"}, {"we", "you"}) and used.count(receiver) == 1
        fits = fits and other.keys() >= set(used) and {*used} <= {receiver, "your", "our", "Your", "Our"}
    else:
        names = f"(?:{re.escape(giver)}|{re.escape(receiver)})"
        words, other, subject = re.compile(rf"\b{names}\b"), {giver: receiver, receiver: giver}, receiver
        fits = not {(giver, receiver), (receiver, giver)}.isdisjoint(statement.parties)
        # A name inside a longer one ("Distributor Price List") is no party; one before the duty has a duty of its own.
        fits = fits and not re.search(rf"[A-Z][\w’'-]* {names}\b|\b{names}(?: [A-Z]|-)", sentence)
        fits = fits and not words.search(parts[0])
    before, duty, rest = (words.sub(lambda word: other.get(word[0], ""), part) for part in parts)
    act = " ".join(parts[1].split()[:2])
    # Both may owe it to each other.
    if not fits or statement.mentions(f"{subject}{parts[1][: parts[1].index(act) + len(act)]}"):
        return NoEdit()
    reason = f"The document says this of {giver} towards {receiver}, not the other way round."
    return Edit(0, len(sentence), f"{before}{subject}{duty}{rest}", f"{subject}{duty}", reason=reason)


EXCHANGE = Operator("exchange", ("contradicted",), exchange_parties, _CUES.gives)

_MAX_DONORS = 24
# Contexts in which a name is part of a title, of a compound or of a longer name.
_TITLE_BEFORE = (" named ", " called ", " titled ", " film ", " song ", " album ", " movie ", " novel ", " series ")
_NOT_ADJECTIVE = ("-", "the ", "of ", "dialectal ", "into ", " in ")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")


def swap_name(statement: Statement) -> Edit | NoEdit:
    """Replace one name of a certain kind by another of its kind that the source does not mention."""
    if NEGATED.search(statement.text):
        return NoEdit("no_site", "the denial of one name may be right for another")
    swappable = [(name, kind) for name in statement.names if (kind := _swappable_kind(statement, name))]
    if not swappable:
        return NoEdit("no_site", "no name of a certain kind")
    statement.rng.shuffle(swappable)
    for name, kind in swappable:
        donor = _find_donor(statement, name, kind)
        if donor is not None:
            before = agree_article(statement.text[: name.start], donor)
            variant = kind.split(" ")[0]
            return Edit(0, name.end, before + donor, donor, variant=variant, error_type="entity_substitution")
    return NoEdit("no_donor", f"the source mentions every {swappable[0][1]} of the pool")


def _swappable_kind(statement: Statement, name: Name) -> str:
    """The kind of a name, "" where it is uncertain or where a swap would break a title, a compound or a place pair."""
    text = statement.text
    before, after = text[: name.start], text[name.end :]
    small_before = before.lower()
    quoted = before.endswith(("'", "“", "``", "`` ", *_TITLE_BEFORE))
    if quoted or (_CUES.title_mark.search(before) and before.count('"') % 2):
        return ""
    # A word of the name elsewhere in the claim: the swap would leave half of the name behind.
    remainder = (statement.lead + text).replace(name.text, " ", 1)
    if any(re.search(rf"\b{re.escape(word[0])}", remainder) for word in _LONG_WORD.finditer(name.text)):
        return ""
    if text.count(name.text) != 1 or name.text in statement.lead or before.endswith("-"):
        return ""
    if _CUES.inside_name.match(after) and not re.match(r"['’]s? [a-z]", after):
        return ""
    kind = statement.pool.kind_of(name.text, text, name.span)
    if kind == "person" and small_before.endswith("the "):
        return ""
    if kind == "demonym" and (after.startswith(("-", " language")) or small_before.endswith(_NOT_ADJECTIVE)):
        return ""
    if kind in ("city", "country", "state"):
        compound = re.match(r",? ?[A-Z]", after.lstrip(" ")) and not after.startswith((".", " ."))
        if compound or re.search(r"[A-Z][\w.]* ?, $", before) or re.match(r" [a-z]+er\b", after):
            return ""
        if small_before.endswith(("the ", "a ", "an ", "island of ")):
            return ""
    return kind


def _find_donor(statement: Statement, name: Name, kind: str) -> str | None:
    """A name of the pool of the same kind, gender, number and about the same length that the evidence lacks."""
    donors: Sequence[str] = statement.pool.names.get(kind, ())
    gender = gender_of(name.text) if kind == "person" else ""
    if kind == "person" and not gender and gender_in(statement.lead + statement.text):
        return None
    if gender:
        donors = [donor for donor in donors if gender_of(donor) == gender]
    words = len(name.text.split(" "))
    for donor in statement.rng.sample(donors, min(_MAX_DONORS, len(donors))):
        similar = abs(len(donor.split(" ")) - words) <= 1 and donor.endswith("s") == name.text.endswith("s")
        parts = [donor, *(word[0] for word in _LONG_WORD.finditer(donor))]
        if (similar or kind == "person") and not any(statement.mentions(part) for part in parts):
            return donor
    return None


ENTITY = Operator("entity", ("entity_substitution",), swap_name)
