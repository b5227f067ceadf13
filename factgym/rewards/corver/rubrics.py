"""Constants of CorVer's reward and the rubrics that combine its components.

Every component is scored once, so one episode can be read under any of these:

    reference        judge + format + cooccurrence
    reference-code   judge + format_code + cooccurrence
    strict           judge_boundary + format_strict + cooccurrence_strict     (the environments' default)

all with weight 1 (λ_j, λ_f, λ_c). `strict` differs from the published reward where an exploit pays without the work:

- Repetition: the mean over the tokens rises with each copy of a well-supported sentence (the paper's L2 saw it in
  training). A sentence whose text occurred earlier in its block earns the unsupported reward; one with the same query
  as an earlier sentence of its block earns nothing positive. The answer may restate the thought.
- Pronouns: the published reward of 0 for a sentence without a query dodges the −0.3 and dilutes the −0.3 of others. A
  sentence whose subject is a pronoun earns `unchecked_reward`, by default that of an unsupported sentence. One that
  states no fact at all ("Let me think.") counts as if it were not there: it earns the mean of the others. A think block
  of such sentences alone earns `unchecked_reward`, a completion in which nothing can be checked `none_reward`. A short
  answer, which the prompt asks for, and a refusal stay at 0 (the judge scores them).
- Names taken apart ("Fedora belongs to Staesov"): a sentence has to connect two different entities; one whose words are
  those of a single name, in the question or in the completion, earns `unchecked_reward`.
- Truisms and namesakes: a sentence is on topic when the question, the answer or an earlier sentence on topic contains
  one of its two entities in full; any other earns `unchecked_reward` (where the question is known).
- One endless sentence: its first triplet counts for all of its tokens. Above `max_sentence_chars` it earns
  `unchecked_reward`.
- One-word answers, lists of candidates, hedges and denials: the boundary judge.
- Guesses: published, a refusal costs as much as a wrong answer, so the most frequent answer to questions of a kind pays
  whatever its chance. `refusal_reward` lies between the two: a guess pays where it is right more than once in six times.
- Think blocks of dots, text outside the blocks, white space that breaks the alignment: the strict format.

Both rewards are monotone: a sentence's reward does not fall when its count rises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from factgym.core.config import AtLeastOne, FiniteFloat, UnitFloat, check_fields
from factgym.core.errors import ConfigError, did_you_mean
from factgym.rewards.rubric import Rubric

Rule = Literal["first", "min", "relcheck"]
JudgeRule = Literal["reference", "boundary"]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorverRules:
    """Constants of the components; the defaults are the paper's (section 4, B.1, B.3). Weights are a rubric's.

    rule: how a sentence's triplets become one count. "first" takes the first valid triplet; "min" the lowest count of
    all valid ones; "relcheck" is "first", and a count of at least `high_count` is repeated with the relation's words
    added: where that count is 0, the sentence earns `relation_reward`.
    exact_counts: whether counts are recorded in full. With False, for training, a counter that has `count_up_to` stops
    at `high_count` (for the relation's words at 1), and recorded counts are the smaller of the two, whatever the
    counter; every reward is the same, at a fraction of the time. "min" has to know which count is the lowest, and
    always counts in full.
    judge: which of the two judges the score's label (good, bad, na) follows.

    none_reward, low_reward, middle_reward, high_reward: the reward of a sentence at a count of 0, below `low_count`,
    below `high_count`, and from there on. A sentence without a query earns 0.
    good_reward, bad_reward, na_reward: the judge's rewards. format_reward: given for the format, or taken.
    min_alignment: the share of tokens inside the blocks that must fall into a sentence; below it a completion has no
    sentence term. min_think_chars: of the think block, for the format.

    For the strict components only (see `factgym.rewards.corver.rubrics`): refusal_reward is the boundary judge's reward
    of a refusal, in place of na_reward; unchecked_reward is the reward of a sentence
    that cannot be checked, is off topic or longer than max_sentence_chars, min_think_words the number of different
    words that a think block needs. For the boundary judge: max_answer_words of an answer,
    max_other_words beside the gold answer in an answer without a verb, and min_gold_share, the share of a gold answer's
    content words that a part of it must exceed. Raises ConfigError for a value out of range.
    """

    rule: Rule = "first"
    exact_counts: bool = True
    judge: JudgeRule = "reference"
    low_count: AtLeastOne = 5
    high_count: Count = 20
    none_reward: FiniteFloat = -0.3
    low_reward: FiniteFloat = -0.1
    middle_reward: FiniteFloat = 0.0
    high_reward: FiniteFloat = 0.1
    relation_reward: FiniteFloat = -0.05
    good_reward: FiniteFloat = 2.0
    bad_reward: FiniteFloat = -1.0
    na_reward: FiniteFloat = -1.0
    format_reward: FiniteFloat = 1.0
    min_alignment: UnitFloat = 0.5
    min_think_chars: Count = 30
    refusal_reward: FiniteFloat = -0.5
    unchecked_reward: FiniteFloat = -0.3
    max_sentence_chars: Count = 400
    min_think_words: Count = 5
    max_answer_words: Count = 60
    max_other_words: Count = 5
    min_gold_share: UnitFloat = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        if self.low_count > self.high_count:
            raise ConfigError("CorverRules: high_count must be at least low_count")
        if not self.none_reward <= self.low_reward <= self.middle_reward <= self.high_reward:
            raise ConfigError("CorverRules: the rewards must not fall from none_reward to high_reward")
        for name in ("unchecked_reward", "relation_reward"):
            if not self.none_reward <= getattr(self, name) <= self.high_reward:
                raise ConfigError(f"CorverRules.{name} must lie between none_reward and high_reward")

    def count_reward(self, count: int | None) -> float:
        """Return the tiered reward of a count (equation 2); 0 for None, a sentence without a query."""
        if count is None:
            return 0.0
        if count >= self.high_count:
            return self.high_reward
        if count >= self.low_count:
            return self.middle_reward
        return self.low_reward if count > 0 else self.none_reward


DEFAULT_RULES = CorverRules()

COMPONENTS = (
    *("judge", "judge_boundary", "format", "format_code", "format_strict"),
    *("cooccurrence", "cooccurrence_strict", "cooccurrence_mean", "cooccurrence_strict_mean"),
)
"""Components of every score.

judge, judge_boundary: the two judges' rewards. format, format_code, format_strict: ± format_reward. cooccurrence: the sentences'
rewards averaged over the characters inside the blocks; cooccurrence_mean: averaged over the sentences, for the
ablation without alignment.
"""

GATES = ("format", "format_strict", "good", "good_boundary")
"""1.0 or 0.0: whether the format holds, whether the answer is right. No preset uses them; a custom rubric may."""

SENTENCE_COMPONENTS: Mapping[str, str] = {"cooccurrence": "reward", "cooccurrence_strict": "strict_reward"}
"""Components that are delivered token by token -> the field of a scored sentence that holds the value."""

_MEANS = {"cooccurrence": "cooccurrence_mean", "cooccurrence_strict": "cooccurrence_strict_mean"}
_JUDGES = {"reference": "judge", "boundary": "judge_boundary"}

REFERENCE = Rubric("reference", {"judge": 1.0, "format": 1.0, "cooccurrence": 1.0})
"""As published: λ_j R_j + λ_f R_f + λ_c r_c, all λ = 1."""

REFERENCE_CODE = Rubric("reference-code", {"judge": 1.0, "format_code": 1.0, "cooccurrence": 1.0})
"""As published, with the format rule of the authors' code in place of the appendix's."""

STRICT = Rubric("strict", {"judge_boundary": 1.0, "format_strict": 1.0, "cooccurrence_strict": 1.0})
"""The same sum over the components that close the exploits above; ours."""

RUBRICS: Mapping[str, Rubric] = {"reference": REFERENCE, "reference-code": REFERENCE_CODE, "strict": STRICT}
"""The presets by name."""

_ABLATIONS = ("cooccurrence", "judge", "alignment")


def find_rubric(name: str, *, judged_by: str | None = None) -> Rubric:
    """Return a preset with the paper's ablations, which its name may request ("strict-no-judge").

    -no-cooccurrence: without the sentence term (A1, vanilla GRPO). -no-judge: without the judge (A2). -no-alignment:
    the sentences' mean as part of the response return, no credit per token (A3). judged_by: "reference" or "boundary"
    for the other preset's judge. Raises ConfigError for an unknown name.
    """
    base, *ablated = name.split("-no-")
    if base not in RUBRICS or not set(ablated) <= set(_ABLATIONS):
        raise ConfigError(
            f"there is no CorVer rubric {name!r:.80}.{did_you_mean(base, RUBRICS)} Use {', '.join(RUBRICS)}, "
            f"with {', '.join(f'-no-{part}' for part in _ABLATIONS)} at its end for an ablation."
        )
    rubric = RUBRICS[base]
    if judged_by is not None and judged_by not in _JUDGES:
        raise ConfigError(f"judged_by must be 'reference' or 'boundary', not {judged_by!r:.80}")
    if judged_by is not None and _JUDGES[judged_by] not in rubric.weights:
        judges = dict.fromkeys(_JUDGES.values(), _JUDGES[judged_by])
        weights = {judges.get(component, component): weight for component, weight in rubric.weights.items()}
        rubric = Rubric(f"{rubric.name}-judged-{judged_by}", weights, rubric.gated)
    if not ablated:
        return rubric
    dropped = [*SENTENCE_COMPONENTS] if "cooccurrence" in ablated else []
    dropped += _JUDGES.values() if "judge" in ablated else []
    renamed = _MEANS if "alignment" in ablated else {}
    weights = {renamed.get(part, part): weight for part, weight in rubric.weights.items() if part not in dropped}
    suffixes = "".join(f"-no-{part}" for part in _ABLATIONS if part in ablated)
    return Rubric(rubric.name + suffixes, weights, rubric.gated)
