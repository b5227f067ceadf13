"""One example from plan to record: which claims, on which rules, in which document, in which words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact, Status, Verdict, final_verdict
from factgym.generators.synthetic.corruption import Draft, draft_claim, invent_rule
from factgym.generators.synthetic.document import (
    Document,
    Form,
    Layout,
    Placed,
    Section,
    Setting,
    add_decoys,
    finish,
    render,
    sections_for,
    word_fact,
)
from factgym.generators.synthetic.facts import Fact, rule_in_force
from factgym.generators.synthetic.grammar import Voice, unmark
from factgym.generators.synthetic.lexicon import DOMAINS, OOD_DOMAINS, Topic, load_domain
from factgym.generators.synthetic.multihop import plan_multihop
from factgym.generators.synthetic.questions import ask, question_clause, reason_for
from factgym.generators.synthetic.rules import Rulebook


@dataclass(frozen=True, slots=True)
class Scenario:
    """An example with the facts behind it: what the document states, and each claim as a draft."""

    example: ClaimExample
    facts: tuple[Fact, ...]
    drafts: tuple[Draft, ...]


def build(split: str, seed: int, index: int, verdict: Verdict, masked: bool = False) -> Scenario:
    """The scenario of item `index`; `masked` shows its sentences without the words of the lexicon."""
    rng = random.Random(f"factgym claims {seed} {split} {index}")
    domain = load_domain(rng.choice(OOD_DOMAINS if split == "ood" else DOMAINS))
    book = Rulebook(rng, rng.choice(domain.style["currency"]))
    setting = Setting(split, seed, index, rng, domain, book, split == "hard" or rng.random() < 0.15, masked)
    drafts, sections = plan_multihop(setting, verdict) if split == "multihop" else _plan(setting, verdict)
    document, voice = _write(setting, sections)
    facts = tuple(fact for section in sections for fact in section.facts)
    claims = [_claim(setting, draft, document, voice, facts) for draft in drafts]
    clauses = _question_clauses(setting, drafts, voice, facts)
    example = ClaimExample(
        id=f"synthetic-{split}-{seed}-{index:05d}",
        split=split,
        domain=domain.id,
        question=ask(clauses, document.org, document.title, voice),
        answer=" ".join(claim.text for claim in claims),
        passages=document.passages,
        claims=tuple(claims),
        verdict=final_verdict(claim.status for claim in claims),
    )
    assert example.verdict == verdict
    return Scenario(example, facts, tuple(drafts))


def _plan(setting: Setting, verdict: Verdict) -> tuple[list[Draft], list[Section]]:
    """Draw the claims of a single-hop example and the sections that decide them."""
    topics = setting.rng.sample(setting.domain.topics, min(3, len(setting.domain.topics)))
    drafts = _drafts(setting, verdict, topics)
    return drafts, _sections(setting, topics, drafts)


def _statuses(verdict: Verdict, rng: random.Random) -> list[Status]:
    """The statuses of one to three claims that make up a verdict."""
    if verdict == "partially_supported":
        wrong = rng.choices(("unsupported", "contradicted", "overclaim"), k=1)
        statuses: list[Status] = ["supported", *wrong]  # type: ignore[list-item]
        if rng.random() < 0.3:
            statuses.append(rng.choice(("supported", "unsupported", "contradicted", "overclaim")))
        rng.shuffle(statuses)
        return statuses
    count = rng.choices((1, 2, 3), (0.38, 0.44, 0.18))[0]
    statuses = [verdict]
    allowed: dict[str, tuple[Status, ...]] = {
        "supported": ("supported",),
        "unsupported": ("unsupported",),
        "overclaim": ("overclaim", "unsupported"),
        "contradicted": ("contradicted", "overclaim", "unsupported"),
    }
    statuses += [rng.choice(allowed[verdict]) for _ in range(count - 1)]
    rng.shuffle(statuses)
    return statuses


def _drafts(setting: Setting, verdict: Verdict, topics: Sequence[Topic]) -> list[Draft]:
    """Draw the claims. Often an invented rule concerns the matter of a supported claim, as in answers that add too much."""
    rng, book, subtle = setting.rng, setting.book, setting.subtle
    drafts: list[Draft] = []
    for at, status in enumerate(_statuses(verdict, rng)):
        topic = topics[0] if at == 0 or rng.random() < 0.8 else topics[1]
        carried = [item for item in drafts if item.status == "supported" and item.topic is topic]
        made = None
        if status == "unsupported" and carried and rng.random() < 0.45:
            made = invent_rule(topic, carried[-1].rule, book, subtle)
        drafts.append(made or draft_claim(status, topic, book, subtle))
    return drafts


def _sections(setting: Setting, topics: Sequence[Topic], drafts: Sequence[Draft]) -> list[Section]:
    rng = setting.rng
    count = rng.randint(3, 6)
    alone = {item.topic.id for item in drafts if item.alone}
    layout: list[Topic] = list(dict.fromkeys(item.topic for item in drafts))
    while len(layout) < count:
        topic = topics[0] if rng.random() < 0.5 and layout.count(topics[0]) < 3 else rng.choice(topics)
        if topic.id in alone:
            topic = rng.choice([other for other in topics if other.id not in alone] or setting.domain.topics)
        layout.append(topic)
    rng.shuffle(layout)
    sections = sections_for(layout, rng)
    for item in drafts:
        _place(item, sections, rng)
    for section in sections:
        size = rng.choice((2, 3, 3, 4))
        add_decoys(section, setting.book, setting.domain, max(size - len(section.facts), 1))
    return sections


def _place(item: Draft, sections: Sequence[Section], rng: random.Random) -> None:
    """Put a draft's rule into a section of its topic, and its siblings into another where there is one."""
    homes = [section for section in sections if section.topic.id == item.topic.id]
    if any(item.rule in section.facts for section in homes):
        return
    home = rng.choice(homes)
    home.facts.append(item.rule)
    for sibling in item.siblings:
        elsewhere = [section for section in homes if section is not home]
        (rng.choice(elsewhere) if elsewhere and rng.random() < 0.75 else home).facts.append(sibling)


def _write(setting: Setting, sections: Sequence[Section]) -> tuple[Document, Voice]:
    """Word the document; the voice comes back with the wordings that it chose."""
    rng, style = setting.rng, setting.domain.style
    voice = Voice(rng, style, {}, numbers=rng.choice(style["numbers"]), dates=rng.choice(style["dates"]))
    voice.masked = setting.masked
    form = cast(Form, rng.choice(style.get("layout", ("prose",))))
    title = rng.choice(style.get("title", ("{org} - {title}, {label}",)))
    layout = Layout(form, title, 0 if setting.split == "multihop" else rng.randrange(len(style["label"])))
    document = render(
        setting.domain,
        setting.org,
        rng.choice(setting.domain.titles),
        sections,
        voice,
        layout,
        rng.choice((0.2, 0.45, 0.7)),
    )
    return document, voice


_FRESH: dict[Status, tuple[float, ...]] = {
    "supported": (0.5, 0.75, 0.95),
    "contradicted": (0.0, 0.3, 0.7),
    "overclaim": (0.0, 0.4, 0.8),
    "unsupported": (0.0, 0.0, 0.3),
}
"""How freely a claim is reworded. Claims that hold are reworded most, so that shared words are no sign of support."""


def _claim_voice(setting: Setting, voice: Voice, item: Draft) -> Voice:
    """A voice for one claim: anew for the most part when faithful, closer to the document's words when not."""
    rng = setting.rng
    fresh = rng.choice(_FRESH[item.status])
    return Voice(
        rng, voice.style, voice.used, fresh, record=False, focus=item.focus, numbers=rng.choice(("digits", "words")),
        dates=voice.dates, frames=voice.frames,
    )  # fmt: skip


def _claim(setting: Setting, item: Draft, document: Document, voice: Voice, facts: Sequence[Fact]) -> GoldClaim:
    speaker = _claim_voice(setting, voice, item)
    (sentence,) = word_fact(item.claim, speaker, 0.0, _place_name(item, setting), _preface(setting))
    text, span = unmark(sentence.text)
    if item.focus and span is None:
        span = (0, len(text.rstrip(".")))
    return GoldClaim(
        text=finish(text),
        status=item.status,
        facts=_gold_facts(item, document, facts),
        unsupported_span=text[span[0] : span[1]].rstrip(".") if span and item.focus else "",
        corruption=item.corruption,
        reason=reason_for(item, rule_in_force(item.rule, facts), speaker),
    )


def _preface(setting: Setting) -> str:
    """Now and then, words that say whose rule it is."""
    if setting.rng.random() >= 0.14:
        return ""
    return setting.rng.choice(_PREFACES).format(document=setting.domain.style["document"][0])


_PREFACES = (
    "according to the {document}, ",
    "the {document} says that ",
    "the {document} provides that ",
    "as the {document} has it, ",
    "it is laid down that ",
    "the rule is that ",
)


def _place_name(item: Draft, setting: Setting) -> str:
    noun = setting.domain.style["section"][0]
    return f"the {noun} on {setting.rng.choice(item.topic.subject.forms)}"


def _gold_facts(item: Draft, document: Document, facts: Sequence[Fact]) -> tuple[GoldFact, ...]:
    """The sentences that decide: the rule's own, those of the limits in play, and the definitions of its terms."""
    terms = {term for _, term in item.rule.terms()}
    deciding: list[Placed] = [
        placed for placed in document.placed[item.rule] if not placed.slots.isdisjoint(item.quoted | {"main"})
    ]
    for fact in facts:
        if (fact.kind == "define" and fact.term in terms) or (fact.kind == "waive" and fact.about == item.rule.about):
            deciding += document.placed[fact]
    return tuple(placed.fact for placed in deciding)


def _question_clauses(setting: Setting, drafts: Sequence[Draft], voice: Voice, facts: Sequence[Fact]) -> list[str]:
    """One or two question clauses; more claims are asked about by their subject."""
    asker = replace(voice, fresh=0.5, record=False, focus=frozenset())
    first = drafts[0]
    subject = setting.rng.choice(first.topic.subject.forms)
    if len(drafts) > 2 or (len(drafts) == 2 and setting.rng.random() < 0.4):
        return [question_clause(replace(first.rule, kind="state"), asker, subject)]
    clauses = []
    if len({item.topic.id for item in drafts}) < len(drafts) and all(item.rule.kind == "state" for item in drafts):
        drafts = drafts[:1]
    for item in drafts:
        fact = (
            item.claim if item.corruption in ("party", "irrelevant", "invented") else rule_in_force(item.rule, facts)
        )
        clauses.append(question_clause(fact, asker, setting.rng.choice(item.topic.subject.forms)))
    return list(dict.fromkeys(clauses))
