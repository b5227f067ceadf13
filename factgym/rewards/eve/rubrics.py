"""Constants, rubrics and reports of EVE's rewards: as published, as in Dr. Zero, and guarded.

Source: "EVE-Agent: Evidence-Verifiable Self-Evolving Agents", sections 3 and 4.1.

Proposer, every component scored once:

    eve       ½ format + difficulty + .5 value + .1 brevity           (equation 16; value and brevity of a verbatim span)
    dr-zero   ½ format + difficulty                                   (equation 18)
    guarded   ½ format_guarded + learnable · difficulty + supported · .5 value + learnable · .1 brevity    (the default)

Solver:

    eve       correct + .3 evidence                                   (equation 19)
    dr-zero   correct
    guarded   grounded · correct + focused · .3 evidence              (the default)

Exploits that `eve` pays for, and the gate of `guarded` that closes each:

- *A made-up span, or none.* It has no value and no brevity, but keeps the difficulty, and is worth more than a true
  span that misleads (V < 0). Guarded: no difficulty without a verbatim span either.
- *The whole document as evidence.* It costs a part of the .1 for brevity and earns all of V. Guarded: a span is
  `focused`, within one sentence or short beside its text.
- *The bare answer as evidence*, the shortest possible span, has V near 1 and the most brevity, and so has any stretch
  that names the answer in passing. Guarded: a span is `anchored`, it says more than the answer and something about the
  question.
- *Unanswerable questions* ("In what year did he die?") have no difficulty, but V near 1 where the span tells. Guarded:
  they must be `answerable`, by at least one of the n searching rollouts.
- *Guessing games* ("Heads or tails?", yes or no, one of a list, half a leak): the rate of lucky answers is where the
  difficulty is highest, and no evidence is needed. Guarded: difficulty and brevity are multiplied by max(0, V). An
  answer that is known without evidence ends the same way.
- *Leaks.* The published test is literal. Guarded: an answer whose words all occur in the question is a leak, in
  whatever order, with invisible characters in it or without gaps, and a leak earns nothing for its format (as in Dr.
  Zero's code; the paper pays half of F).
- *A question of one hop where four were requested*, after searches for anything: searches are counted, not read, and an
  easy question is answered more often. Guarded: difficulty, value and brevity are multiplied by the share of the hops
  that were `reached`: of the documents that the proposer was shown, those without which the solver gives no right answer,
  removed from the corpus in turn. A chain that makes no sense is needed by nobody.
- *A walk to anywhere, and an easy question about where it ended*, with a word of the source thrown in, or with words
  glued together to hide them. Guarded: nothing counts where the source is not needed: where the solver is right without
  it, where the question, searched without the terms of the source or of its title, returns the evidence first, or where
  one hop was requested and the evidence is elsewhere.
- *Form without substance*: empty or repeated thoughts, searches made to be counted, "1" found in "1975". Guarded: see
  `factgym.rewards.eve.proposal.guarded_parts`.
- *An answer without its evidence* (solver) loses .3 at most. Guarded: it earns `ungrounded_share` of its point unless
  the evidence is verbatim in a passage that was returned in this episode and focused, says more than the answer, is near
  the gold evidence (where there is none: is anchored) and contains the answer (yes and no aside). Evidence that was not
  returned, or is most of a passage, earns nothing; nor does a bag of likely words, for which token F1 pays.

A span cannot carry an instruction ("the answer is X"): it must occur in a document, and the verifier is shown the
document's own slice. Left open by `guarded`: a question with several right answers, or with one that is written in
several ways, looks like a difficult one; a document that itself lies, or holds an instruction, is believed; a policy
that always asks for "yes" is weakened, not stopped; a sentence that names the answer in passing, beside a word of the
question, has the V that the solver gives it; a question may refer to the result of a search rather than to the world;
two unrelated sentences are a chain where the solver joins them; a question may give orders ("say unknown unless evidence
is shown", "toss a coin first"), which a solver that obeys turns into V and difficulty. A judge, and the selector's
diversity, are the remedies.

False negatives of `guarded`: a sentence with far fewer words of the question and the queries than another one in sight
with the answer does not count as evidence. Of the supporting sentences that contain the answer, 15 % fail on HotpotQA and
9 % on 2WikiMultihopQA, of the other sentences that contain it 60 % and 69 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from factgym.core.config import AtLeastOne, UnitFloat, check_fields
from factgym.core.episode import RewardReport, SpanCredit
from factgym.core.errors import ConfigError, did_you_mean
from factgym.rewards.rubric import Rubric

Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]

MAX_HOPS = 4
"""The largest number of hops in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EveRules:
    """Constants of EVE's rewards; the defaults are the paper's (sections 3.1, 3.2, 4.1).

    n: rollouts of the searching solver per question, at least 2. m: search-disabled answers with the evidence, and as
    many without it. format_weight, lambda_v, lambda_b: weights of the format, of the evidence's value and of its
    brevity in the proposer's reward (equation 16); that of the difficulty is 1. lambda_e: weight of the evidence in the
    solver's reward (equation 19). max_evidence_tokens: length at which brevity reaches 0 (equation 15).
    short_answer_words, long_answer_words: largest number of words for the format's full and half point. hop_weights:
    relative frequency of 1, 2, 3 … hops.

    The rest is ours and read by the guarded reward only. min_evidence_terms: content words of a span besides the
    answer's. max_evidence_share: largest share of its text's words that a span of several sentences may have.
    removal_chance: so many rollouts without a document have to fail, before it counts as a hop, that chance alone makes
    them fail with this probability at most (`removal_rollouts`); 0: hops are not measured, which the guarded reward
    needs. min_think_words: different words that a thought needs. min_evidence_f1: token F1 with the gold evidence that a
    solver's evidence needs. min_relation: share of the best sentence's relation to the question (`is_related`) that
    evidence needs; chosen on HotpotQA and 2WikiMultihopQA. ungrounded_share: share of the solver's point for an answer without evidence from the
    episode.

    Raises ConfigError for a value out of range.
    """

    n: Annotated[int, Field(ge=2)] = 5
    m: AtLeastOne = 5
    format_weight: Amount = 0.5
    lambda_v: Amount = 0.5
    lambda_b: Amount = 0.1
    lambda_e: Amount = 0.3
    max_evidence_tokens: AtLeastOne = 256
    short_answer_words: Count = 5
    long_answer_words: Count = 10
    hop_weights: tuple[Amount, ...] = (4.0, 3.0, 2.0, 1.0)
    min_evidence_terms: Count = 2
    max_evidence_share: UnitFloat = 0.5
    removal_chance: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    min_think_words: Count = 5
    min_evidence_f1: UnitFloat = 0.3
    min_relation: UnitFloat = 0.6
    ungrounded_share: UnitFloat = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        if not any(self.hop_weights):
            raise ConfigError("EveRules.hop_weights need a weight above 0")
        if self.short_answer_words > self.long_answer_words:
            raise ConfigError("EveRules.short_answer_words must not exceed long_answer_words")


DEFAULT_RULES = EveRules()

Role = Literal["proposer", "solver"]

PROPOSER_COMPONENTS = ("format", "format_guarded", "difficulty", "value", "brevity")
"""Components of every proposal's score, all in [0, 1] but value, in [−1, 1]."""

PROPOSER_GATES = (
    *("valid", "verbatim", "focused", "anchored", "answerable"),
    *("reached", "gain", "supported", "learnable"),
)
"""Factors in [0, 1]; the first five are 0.0 or 1.0.

valid: as published, and no leak. verbatim, focused, anchored: properties of the span. answerable: k > 0. reached: share
of the requested hops after the first that were made, see `share_reached`. gain: max(0, V). supported: `reached` where the first five are all 1.0, else 0;
1.0 where V is negative, so that breaking a gate does not avoid the penalty. learnable: `supported` times gain.
"""

SOLVER_COMPONENTS = ("correct", "evidence")
"""Components of every solution's score, each in [0, 1]: exact match, and token F1 with the gold evidence."""

SOLVER_GATES = ("verbatim", "focused", "anchored", "backed", "grounded")
"""Each 0.0 or 1.0, except grounded: 1.0 where all the others are, else `ungrounded_share`.

focused: verbatim, and within one sentence or short beside its passage. anchored: the span says more than the answer, and
is near the gold evidence (token F1 of at least `min_evidence_f1`), or about the question where there is no gold. backed:
the span contains the answer, or an accepted form of it that the gold evidence contains; also 1.0 for yes and no, and
where the gold evidence contains no form of the answer.
"""

GUARDED = "guarded"
"""The environments' default rubric."""


def _presets(role: Role, rules: EveRules) -> dict[str, Rubric]:
    if role == "solver":
        weights = {"correct": 1.0, "evidence": rules.lambda_e}
        return {
            "eve": Rubric("eve", weights),
            "dr-zero": Rubric("dr-zero", {"correct": 1.0}),
            GUARDED: Rubric(GUARDED, weights, {"correct": "grounded", "evidence": "focused"}),
        }
    rest = {"difficulty": 1.0, "value": rules.lambda_v, "brevity": rules.lambda_b}
    guards = {"difficulty": "learnable", "value": "supported", "brevity": "learnable"}
    format_weight = rules.format_weight
    return {
        "eve": Rubric("eve", {"format": format_weight, **rest}, {"value": "verbatim", "brevity": "verbatim"}),
        "dr-zero": Rubric("dr-zero", {"format": format_weight, "difficulty": 1.0}),
        GUARDED: Rubric(GUARDED, {"format_guarded": format_weight, **rest}, guards),
    }


RUBRICS: Mapping[Role, Mapping[str, Rubric]] = {role: _presets(role, DEFAULT_RULES) for role in get_args(Role)}
"""The presets with the paper's weights: role -> name -> rubric."""


def find_rubric(name: str, role: Role, rules: EveRules = DEFAULT_RULES) -> Rubric:
    """Return the preset of this name with the weights of the rules. Raises ConfigError for an unknown name or role."""
    if role not in RUBRICS:
        raise ConfigError(f"an EVE rubric is of the proposer or of the solver, not of {role!r:.80}")
    presets = RUBRICS[role] if rules == DEFAULT_RULES else _presets(role, rules)
    if name not in presets:
        raise ConfigError(
            f"there is no EVE rubric {name!r:.80} for the {role}.{did_you_mean(name, presets)} "
            f"Use {', '.join(presets)}."
        )
    return presets[name]


@dataclass(frozen=True, slots=True)
class EveScore:
    """Score of a proposal or of a solution.

    components, gates: name -> value. blocks: ranges of the message's blocks, None for an absent one, each with the
    components credited to it. facts: JSON data for the report's metrics.
    """

    components: dict[str, float]
    gates: dict[str, float]
    blocks: Sequence[tuple[tuple[int, int] | None, tuple[str, ...]]]
    facts: dict[str, Any]


def build_report(
    score: EveScore, rubric: Rubric, *, message: int = 0, metrics: Mapping[str, Any] | None = None
) -> RewardReport:
    """Return the report of a score under a rubric: all components, weights, credits on the blocks, and metrics.

    message: index of the message that the blocks were parsed from. The difficulty is credited to the question block,
    value and brevity to the evidence block, a solver's point to its answer block; shares of 0 and the format, which
    belongs to no block, have no span. metrics: further facts.
    """
    shares = rubric.shares(score.components, score.gates)
    spans = [
        SpanCredit(message, *block, credit)
        for block, components in score.blocks
        if block is not None and (credit := sum(shares.get(name, 0.0) for name in components))
    ]
    facts = {**score.facts, "gates": dict(score.gates), **(metrics or {})}
    return rubric.report(score.components, score.gates, spans=tuple(spans), metrics=facts)
