"""One example from plan to record: its claims and the rules that decide them, its document, its words, its question."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact, Status, Verdict, final_verdict
from factgym.generators.synthetic.clause import frames, question_clause
from factgym.generators.synthetic.corruption import Draft, draft_claim, invent_rule
from factgym.generators.synthetic.document import (
    Document,
    Form,
    Layout,
    Section,
    Setting,
    finish,
    render,
    sections_for,
    word_fact,
)
from factgym.generators.synthetic.facts import Concept, Date, Fact, Quantity, Term, rule_in_force
from factgym.generators.synthetic.grammar import Voice, draw_frame, sentence_case, unmark
from factgym.generators.synthetic.lexicon import DOMAINS, OOD_DOMAINS, Topic, load_domain
from factgym.generators.synthetic.multihop import plan_multihop
from factgym.generators.synthetic.rules import Rulebook


@dataclass(frozen=True, slots=True)
class Scenario:
    """An example with the facts behind it: those of the document, and each claim as a draft."""

    example: ClaimExample
    facts: tuple[Fact, ...]
    drafts: tuple[Draft, ...]


def build(split: str, seed: int, index: int, verdict: Verdict, masked: bool = False) -> Scenario:
    """Return the scenario of item `index`. masked: show its sentences without the words of the lexicon.

    The order of the draws decides every generated item.
    """
    rng = random.Random(f"factgym claims {seed} {split} {index}")
    domain = load_domain(rng.choice(OOD_DOMAINS if split == "ood" else DOMAINS))
    book = Rulebook(rng, rng.choice(domain.style["currency"]))
    setting = Setting(split, seed, index, rng, domain, book, split == "hard" or rng.random() < 0.15, masked)
    if split == "multihop":
        drafts, sections = plan_multihop(setting, verdict)
    else:
        topics = rng.sample(domain.topics, min(3, len(domain.topics)))
        drafts = _draft_claims(setting, verdict, topics)
        sections = _plan_sections(setting, topics, drafts)
    facts = tuple(fact for section in sections for fact in section.facts)
    words = _Wording(setting, sections, facts)
    claims = tuple(words.claim(draft) for draft in drafts)
    example = ClaimExample(
        id=f"synthetic-{split}-{seed}-{index:05d}",
        split=split,
        domain=domain.id,
        question=words.question(drafts),
        answer=" ".join(claim.text for claim in claims),
        passages=words.document.passages,
        claims=claims,
        verdict=final_verdict(claim.status for claim in claims),
    )
    assert example.verdict == verdict
    return Scenario(example, facts, tuple(drafts))


# The plan of a single-hop example.

_STATUSES: dict[str, tuple[Status, ...]] = {
    "supported": ("supported",),
    "unsupported": ("unsupported",),
    "overclaim": ("overclaim", "unsupported"),
    "contradicted": ("contradicted", "overclaim", "unsupported"),
}
"""Statuses of the further claims of an answer with this verdict."""


def _draw_statuses(verdict: Verdict, rng: random.Random) -> list[Status]:
    """Draw the statuses of one to three claims that make up a verdict."""
    if verdict == "partially_supported":
        wrong: tuple[Status, ...] = ("unsupported", "contradicted", "overclaim")
        statuses: list[Status] = ["supported", *rng.choices(wrong, k=1)]
        if rng.random() < 0.3:
            statuses.append(rng.choice(("supported", *wrong)))
    else:
        count = rng.choices((1, 2, 3), (0.38, 0.44, 0.18))[0]
        statuses = [verdict, *(rng.choice(_STATUSES[verdict]) for _ in range(count - 1))]
    rng.shuffle(statuses)
    return statuses


def _draft_claims(setting: Setting, verdict: Verdict, topics: Sequence[Topic]) -> list[Draft]:
    """Draw the claims. An invented rule is sometimes on the matter of a supported claim, as in answers that add too much."""
    rng, book, subtle = setting.rng, setting.book, setting.subtle
    drafts: list[Draft] = []
    for at, status in enumerate(_draw_statuses(verdict, rng)):
        topic = topics[0] if at == 0 or rng.random() < 0.8 else topics[1]
        carried = [draft for draft in drafts if draft.status == "supported" and draft.topic is topic]
        invented = None
        if status == "unsupported" and carried and rng.random() < 0.2:
            invented = invent_rule(topic, carried[-1].rule, book)
        drafts.append(invented or draft_claim(status, topic, book, subtle))
    return drafts


def _plan_sections(setting: Setting, topics: Sequence[Topic], drafts: Sequence[Draft]) -> list[Section]:
    """Plan three to six sections; each rule goes into a section of its topic, its siblings mostly into another."""
    rng = setting.rng
    count = rng.randint(3, 6)
    alone = {draft.topic.id for draft in drafts if draft.alone}
    section_topics: list[Topic] = list(dict.fromkeys(draft.topic for draft in drafts))
    while len(section_topics) < count:
        topic = topics[0] if rng.random() < 0.5 and section_topics.count(topics[0]) < 3 else rng.choice(topics)
        if topic.id in alone:
            topic = rng.choice([free for free in topics if free.id not in alone] or setting.domain.topics)
        section_topics.append(topic)
    rng.shuffle(section_topics)
    sections = sections_for(section_topics, rng)
    for draft in drafts:
        fitting = [section for section in sections if section.topic.id == draft.topic.id]
        if any(draft.rule in section.facts for section in fitting):
            continue
        home = rng.choice(fitting)
        home.facts.append(draft.rule)
        for sibling in draft.siblings:
            elsewhere = [section for section in fitting if section is not home]
            (rng.choice(elsewhere) if elsewhere and rng.random() < 0.75 else home).facts.append(sibling)
    for section in sections:
        section.add_decoys(setting, max(rng.choice((2, 3, 3, 4)) - len(section.facts), 1))
    return sections


# The words of an example.

_FRESH: dict[Status, tuple[float, ...]] = {
    "supported": (0.5, 0.75, 0.95),
    "contradicted": (0.0, 0.3, 0.7),
    "overclaim": (0.2, 0.5, 0.9),
    "unsupported": (0.0, 0.0, 0.1),
}
"""How freely a claim is reworded. Claims that hold are reworded most, so that shared words are no sign of support."""

_SLOT_OF_CORRUPTION = {
    "number": "quantity", "version": "quantity", "trigger": "anchor", "entity": "authority", "condition": "condition",
    "channel": "channel", "date": "date", "scope": "party", "condition_dropped": "condition", "detail": "channel",
    "exception_dropped": "exception", "exception_generalised": "condition", "modality": "modality",
}  # fmt: skip
_MODALITIES = {"must": "an obligation", "should": "a recommendation", "may": "a permission"}


class _Wording:
    """Words the document of an example, then its claims and its question in the words that the document chose."""

    def __init__(self, setting: Setting, sections: Sequence[Section], facts: Sequence[Fact]) -> None:
        self.setting, self.rng, self.facts = setting, setting.rng, facts
        rng, style = setting.rng, setting.domain.style
        self.voice = Voice(rng, style, {}, numbers=rng.choice(style["numbers"]), dates=rng.choice(style["dates"]))
        self.voice.masked = setting.masked
        form = cast(Form, rng.choice(style.get("layout", ("prose",))))
        title_format = rng.choice(style.get("title", ("{org} - {title}, {label}",)))
        layout = Layout(form, title_format, 0 if setting.split == "multihop" else rng.randrange(len(style["label"])))
        title = rng.choice(setting.domain.titles)
        self.document: Document = render(setting, title, sections, self.voice, layout, rng.choice((0.2, 0.45, 0.7)))

    def claim(self, draft: Draft) -> GoldClaim:
        """Word a claim in a voice of its own, which chooses new wordings mostly where the claim is faithful."""
        rng, style = self.rng, self.setting.domain.style
        voice = Voice(
            rng, self.voice.style, self.voice.used, rng.choice(_FRESH[draft.status]), record=False, focus=draft.focus,
            numbers=rng.choice(("digits", "words")), dates=self.voice.dates, frames=self.voice.frames,
        )  # fmt: skip
        section_name = f"the {style['section'][0]} on {rng.choice(draft.topic.subject.forms)}"
        preface = ""
        if rng.random() < 0.14:
            preface = rng.choice(frames("lead")["document"]).format(document=style["document"][0])
        (sentence,) = word_fact(draft.claim, voice, 0.0, section_name, preface)
        text, span = unmark(sentence.text)
        start, end = span or (0, len(text.rstrip(".")))
        return GoldClaim(
            text=finish(text),
            status=draft.status,
            facts=self._gold_facts(draft),
            unsupported_span=text[start:end].rstrip(".") if draft.focus else "",
            corruption=draft.corruption,
            reason=_reason(draft, rule_in_force(draft.rule, self.facts), voice),
        )

    def _gold_facts(self, draft: Draft) -> tuple[GoldFact, ...]:
        """The sentences that decide: the rule's own, those of the limits in play, and the definitions of its terms."""
        terms = {term for _, term in draft.rule.terms()}
        stated = self.document.placed[draft.rule]
        deciding = [sentence for sentence in stated if not sentence.slots.isdisjoint(draft.quoted | {"main"})]
        for fact in self.facts:
            defines = fact.kind == "define" and fact.term in terms
            if defines or (fact.kind == "waive" and fact.about == draft.rule.about):
                deciding += self.document.placed[fact]
        return tuple(sentence.fact for sentence in deciding)

    def question(self, drafts: Sequence[Draft]) -> str:
        """Ask one or two questions, at an organisation and, unless they name it themselves, a document.

        More claims are asked about by their subject.
        """
        rng, org, title = self.rng, self.document.org, self.document.title
        voice = replace(self.voice, fresh=0.5, record=False, focus=frozenset())
        first = drafts[0]
        subject = rng.choice(first.topic.subject.forms)
        clauses: list[str] = []
        if len(drafts) > 2 or (len(drafts) == 2 and rng.random() < 0.4):
            clauses.append(question_clause(replace(first.rule, kind="state"), voice, subject))
            drafts = ()
        one_topic = len({draft.topic.id for draft in drafts}) < len(drafts)
        if one_topic and all(draft.rule.kind == "state" for draft in drafts):
            drafts = drafts[:1]
        for draft in drafts:
            asks_claim = draft.corruption in ("party", "irrelevant", "invented")
            fact = draft.claim if asks_claim else rule_in_force(draft.rule, self.facts)
            clauses.append(question_clause(fact, voice, rng.choice(draft.topic.subject.forms)))
        clauses = list(dict.fromkeys(clauses))
        names_document = any(f"the {noun}" in clause for noun in self.voice.style["document"] for clause in clauses)
        where = frames("question")["where"]
        possessive = f"{org}'" if org.endswith("s") else f"{org}'s"
        words = {"org": org, "title": title, "possessive": possessive, "q": ", and ".join(clauses)}
        text = draw_frame(where[1:2] if names_document else where, words.__getitem__, self.voice.rng)
        return sentence_case(text) + "?"


def _reason(draft: Draft, rule: Fact, voice: Voice) -> str:
    """Return the reason for a claim's status, with the values of both sides where they differ in one.

    rule: the document's, with its terms resolved.
    """
    rng, reasons = voice.rng, frames("reason")
    if draft.status == "supported":
        return rng.choice(reasons["supported"])
    options = reasons.get(f"{draft.corruption}_{draft.status}") or reasons[draft.corruption]
    slot = _SLOT_OF_CORRUPTION.get(draft.corruption, "")
    if slot == "quantity" and rule.frequency is not None:
        slot = "frequency"
    plain = replace(voice, focus=frozenset(), fresh=0.0)  # without span marks
    words = {
        "true": _value_words(getattr(rule, slot, None), plain),
        "claimed": _value_words(getattr(draft.claim, slot, None), plain),
        "party": _value_words(draft.claim.party, plain),
        "other": _value_words(rule.party, plain),
    }
    return sentence_case(rng.choice(options).format(**words))


def _value_words(value: object, voice: Voice) -> str:
    match value:
        case Concept() | Term():
            return voice.word(value)
        case Quantity():
            return voice.quantity(value)
        case Date():
            return replace(voice, masked=False).date(value)
        case str():
            return _MODALITIES.get(value, value)
    return ""
