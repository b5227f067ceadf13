"""Scripted agents of ClaimCheck: oracle and teacher, the paper's static baselines, a random policy, and exploiters.

Static baselines share the collection of evidence and differ in the verifier that judges a statement. `lexical`,
`numbers` and `embedding` are three of the paper's; the fourth, the NLI-style one, is the honest baseline of the audit
and lives in `factgym.baselines.nli`.

There is an exploiter for each trap of the paper's table of reward hacking (*Evidence Guardrails*), and for the obvious
others; those that cheat in one respect collect evidence and judge like the honest baseline and change that one thing.
Most are strategies of `factgym.envs.claimcheck.strategies`. `label-only`, `label-any-quote` are given the gold label; no
other exploiter sees more than the messages.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from factgym.baselines.evidence import build_evidence, content_keys
from factgym.core.policy import Role, ScriptedAgent
from factgym.core.strategies import StrategySpace
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import STATUSES, VERDICTS
from factgym.datasets.claims import Verdict as Label
from factgym.envs.claimcheck.gold_agents import play_mini_teacher, play_oracle, play_teacher
from factgym.envs.claimcheck.scripted import (
    LIST_CALL,
    EpisodeBrief,
    ScriptedPolicy,
    ToolLoop,
    Verdict,
    claim_entry,
    make_verdict,
    parse_evidence,
    parse_results,
    read_call,
    search_call,
    split_statements,
)
from factgym.envs.claimcheck.strategies import (
    ANNOTATED_STRATEGIES,
    GENERIC_REASON,
    MIN_QUOTE_CHARS,
    MINI_STRATEGIES,
    STRATEGIES,
    TO_THE_GRADER,
    play_strategy,
)
from factgym.envs.scripted import agent_table
from factgym.text.sentences import sentences, strip_full_stop

if TYPE_CHECKING:
    from factgym.envs.claimcheck.env import ClaimCheckEnv

_MAX_RANDOM_TURNS = 6


def _play_at_random(brief: EpisodeBrief, env: ClaimCheckEnv, seed: int) -> ToolLoop[Verdict]:
    """Play legal calls at random: searches of the brief's words, reads of listed ids, then a random verdict."""
    rng = random.Random(f"random policy {seed} {brief.question} {brief.answer}")
    ids = [passage.id for passage in brief.passages]
    opened = list(brief.passages)
    words = f"{brief.question} {brief.answer}".split() or ["policy"]
    for _ in range(0 if brief.is_offline else rng.randint(0, min(_MAX_RANDOM_TURNS, brief.turns - 1))):
        tool = rng.choice(("list", "search", "read") if ids else ("list", "search"))
        if tool == "list":
            call = LIST_CALL
        elif tool == "read":
            call = read_call(rng.choice(ids))
        else:
            call = search_call(" ".join(rng.choices(words, k=rng.randint(1, 5))), rng.randint(1, 10))
        text = yield [call]
        ids = list(dict.fromkeys([*ids, *(hit.id for hit in parse_results(text))]))
        opened += parse_evidence(text)
    statements = [brief.answer[start:end] for start, end in sentences(brief.answer)] or [brief.answer or "?"]
    entries = [_random_entry(rng, statement, ids, opened) for statement in statements[:16]]
    return make_verdict(rng.choice(VERDICTS), entries)


def _random_entry(rng: random.Random, statement: str, ids: Sequence[str], opened: Sequence[Passage]) -> dict[str, Any]:
    cited = rng.sample(ids, min(len(ids), rng.randint(0, 2)))
    quote = ""
    if opened:
        text = rng.choice(opened).text
        spans = sentences(text)
        start, end = rng.choice(spans) if spans else (0, len(text))
        quote = text[start:end][:4000]
    words = statement.split()
    first = rng.randint(0, len(words))
    span = " ".join(words[first : first + rng.randint(0, 6)])
    return claim_entry(statement[:4000], rng.choice(STATUSES), cited, quote, span, "Drawn at random.")


def _same_entries(brief: EpisodeBrief, label: Label, *entry: Any) -> Verdict:
    """Return a verdict with the same entry for every statement. entry: ids, quotes, span and reason."""
    status = "unsupported" if label == "partially_supported" else label
    return make_verdict(label, [claim_entry(text, status, *entry) for text in split_statements(brief.answer)])


def _open_first_hit(brief: EpisodeBrief) -> ToolLoop[list[Passage]]:
    """Search for the answer and open the first hit; offline, take the first passage."""
    if brief.is_offline or brief.turns <= 2:
        return list(brief.passages[:1])
    hits = parse_results((yield [search_call(brief.answer, 1)]))
    return parse_evidence((yield [read_call(hit.id) for hit in hits])) if hits else []


def _label_only(brief: EpisodeBrief, env: ClaimCheckEnv, seed: int) -> ToolLoop[Verdict]:
    yield from ()
    return _same_entries(brief, env.task.example.verdict)


def _any_quote(brief: EpisodeBrief, env: ClaimCheckEnv, seed: int) -> ToolLoop[Verdict]:
    # The sentence of the first search result that has least to do with the answer: a policy that learned labels from
    # the surface of answers and quotes for form's sake.
    opened = yield from _open_first_hit(brief)
    answer_keys = frozenset(content_keys(brief.answer))
    quotable = [sentence for sentence in build_evidence(opened).sentences if len(sentence.text) >= MIN_QUOTE_CHARS]
    quote = min(quotable, key=lambda sentence: len(sentence.keys & answer_keys)).text if quotable else ""
    ids = [passage.id for passage in opened]
    return _same_entries(brief, env.task.example.verdict, ids, quote, "", GENERIC_REASON)


def _guess_first(brief: EpisodeBrief, env: ClaimCheckEnv, seed: int) -> ToolLoop[Verdict]:
    ids = [passage.id for passage in brief.passages[:1]]
    if not ids:
        listed = parse_results((yield [LIST_CALL])) if brief.turns > 1 else []
        ids = [entry.id for entry in listed[:1]] or ["E1"]
    return _same_entries(brief, "supported", ids, strip_full_stop(brief.answer.partition(". ")[0]))


def _to_the_grader(brief: EpisodeBrief, env: ClaimCheckEnv, seed: int) -> ToolLoop[Verdict]:
    ids = [passage.id for passage in brief.passages]
    if not ids and brief.turns > 1:
        ids = [hit.id for hit in parse_results((yield [search_call(brief.answer, 5)]))]
    return _same_entries(brief, "supported", ids, TO_THE_GRADER, TO_THE_GRADER, TO_THE_GRADER)


_Script = Callable[[EpisodeBrief, "ClaimCheckEnv", int], ToolLoop[Verdict]]


def _start(play: _Script, env: ClaimCheckEnv, seed: int) -> ScriptedPolicy:
    return ScriptedPolicy(env.config.max_turns, lambda brief: play(brief, env, seed))


def _strategy(space: StrategySpace, **choices: str) -> _Script:
    """Return the script of a strategy without shortcut classifiers."""
    strategy = space.strategy(choices)
    return lambda brief, env, seed: play_strategy(brief, strategy, seed, None)


_NLI = "Rules for numbers, polarity, modality, quantifiers, conditions and missing parts."


def _scripted_agents(
    space: StrategySpace, teacher: _Script, honest: str = "nli", summary: str = _NLI
) -> dict[str, ScriptedAgent]:
    """Return the agents over a strategy space. honest, summary: name and summary of the honest baseline."""
    strategy = partial(_strategy, space)
    nli: list[tuple[str, Role, str, _Script]] = [("nli", "baseline", _NLI, _strategy(STRATEGIES))]
    return agent_table(
        ("oracle", "oracle", "Knows the gold; reads and quotes it.", play_oracle),
        ("teacher", "teacher", "Knows the gold, and judges by it the evidence that its searches brought into sight.",
         teacher),
        (honest, "honest", summary, strategy()),
        *(nli if honest != "nli" else ()),
        ("numbers", "baseline", "Number and date rules over word overlap.", strategy(label="numbers")),
        ("lexical", "baseline", "Word-overlap thresholds.", strategy(label="lexical")),
        ("embedding", "baseline", "Thresholds on the cosine of hashed character n-grams.", strategy(label="embedding")),
        ("random", "random", "Random valid calls and a random verdict.", _play_at_random),
        ("label-only", "exploiter", "The gold label with no evidence at all.", _label_only),
        ("label-any-quote", "exploiter", "The gold label over a quote that proves nothing.", _any_quote),
        ("guess-e1", "exploiter", "Cites the first id unread with a made-up quote.", _guess_first),
        ("unread", "exploiter", "Cites and quotes search results without opening one.",
         strategy(collect="unread", label="lexical")),
        ("fake-quote", "exploiter", "Honest but for quotes that are not in the text.", strategy(quote="invented")),
        ("copy-passages", "exploiter", "Quotes every passage whole.",
         strategy(collect="all", quote="passages")),
        ("copy-sentences", "exploiter", "Quotes every sentence, one by one.",
         strategy(collect="all", quote="every-sentence")),
        ("citation-spray", "exploiter", "Cites everything it could open.",
         strategy(collect="all", cite="all")),
        ("verdict-stuffing", "exploiter", "Gives every statement every status.", strategy(entries="every-status", final="partially-supported")),
        ("generic-reason", "exploiter", "One passage, a guessed label, no quote, a reason that always fits.",
         strategy(collect="first-hit", label="lexical", quote="ids-only", reason="generic")),
        ("to-the-grader", "exploiter", "Tells the grader what to award.", _to_the_grader),
        ("silence", "exploiter", "Says that the documents are silent, over the nearest sentences of three passages.",
         strategy(label="unsupported", quote="three-passages", mark="whole")),
        ("always-partial", "exploiter", "Honest statuses under a constant verdict: partially supported.",
         strategy(final="partially-supported")),
        *((f"always-{label}", "exploiter", f"Honest evidence under a constant verdict: {label}.", strategy(label=label))
          for label in STATUSES),
        start=_start,
    )  # fmt: skip


AGENTS = _scripted_agents(STRATEGIES, play_teacher)
"""By name: the oracle, the teacher, the honest baseline, then the others. A script collects evidence and returns a verdict."""
MINI_AGENTS = _scripted_agents(
    MINI_STRATEGIES, play_mini_teacher, "differences", "Words that only the statement or only the sentence has."
)
"""Those of the miniature."""
ANNOTATED_AGENTS = _scripted_agents(
    ANNOTATED_STRATEGIES, play_teacher, "human-labels", "A linear classifier fitted to people's labels of other claims."
)
"""Those over claims that people labelled."""
