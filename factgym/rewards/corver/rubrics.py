"""How CorVer's components are combined: as published, strictly, and with the paper's ablations.

Every component is scored once, so one episode can be read under any of these:

    reference   judge + format + cooccurrence
    strict      judge_boundary + format_strict + cooccurrence_strict     (the environments' default)

all with weight 1 (λ_j, λ_f, λ_c). `strict` differs from the published reward where that can be had for less than the
work; each difference has its exploit:

- Repeating one well-supported sentence: the mean over the tokens rises with each copy (the paper's L2 saw it in
  training). A sentence whose text stood before in its block earns what an unsupported one does; one that asks for the
  same words as an earlier one of its block earns nothing positive. The answer may restate what the thought said.
- Pronouns only, and other sentences that nothing can be looked up for: 0 dodges the −0.3, and thins out the −0.3 of
  others. They earn `unchecked_reward`, by default what an unsupported sentence does. An answer of a few words, which
  the prompt asks for, stays at 0 beside a thought that can be checked (the judge sees to it), and so does a refusal;
  otherwise a completion in which nothing at all can be checked earns `none_reward` throughout.
- Truisms and namesakes: a sentence is on the topic when the question, the answer or an earlier sentence that is on it
  names one of its two entities wholly; one that is not earns `unchecked_reward` (where the question is known).
- One endless sentence: its first triplet vouches for all of its tokens. Over `max_sentence_chars` it earns
  `unchecked_reward`.
- One-word answers and dumps of candidates: the boundary judge.
- Think blocks of dots, text outside the blocks, white space that makes the alignment fail: the strict format.

Under both rewards more support never costs: a sentence's reward does not fall when its count rises.
"""

from __future__ import annotations

from collections.abc import Mapping

from factgym.core.errors import ConfigError, did_you_mean
from factgym.rewards.rubric import Rubric

COMPONENTS = (
    *("judge", "judge_boundary", "format", "format_strict"),
    *("cooccurrence", "cooccurrence_strict", "cooccurrence_mean", "cooccurrence_strict_mean"),
)
"""What every score holds.

judge, judge_boundary: the two judges' rewards. format, format_strict: ± format_reward. cooccurrence: the sentences'
rewards averaged over the characters inside the blocks; cooccurrence_mean: averaged over the sentences, for the
ablation without alignment.
"""

GATES = ("format", "format_strict", "good", "good_boundary")
"""1.0 or 0.0: whether the format holds, whether the answer is right. The presets use none; a rubric of yours may."""

SENTENCE_COMPONENTS: Mapping[str, str] = {"cooccurrence": "reward", "cooccurrence_strict": "strict_reward"}
"""The components that are delivered token by token -> the field of a scored sentence that holds the value."""

_MEANS = {"cooccurrence": "cooccurrence_mean", "cooccurrence_strict": "cooccurrence_strict_mean"}

REFERENCE = Rubric("reference", {"judge": 1.0, "format": 1.0, "cooccurrence": 1.0})
"""As published: λ_j R_j + λ_f R_f + λ_c r_c, all λ = 1."""

STRICT = Rubric("strict", {"judge_boundary": 1.0, "format_strict": 1.0, "cooccurrence_strict": 1.0})
"""The same sum over the components that close the holes; ours."""

RUBRICS: Mapping[str, Rubric] = {"reference": REFERENCE, "strict": STRICT}
"""The presets by name."""

_ABLATIONS = {"-no-cooccurrence": "cooccurrence", "-no-judge": "judge", "-no-alignment": "alignment"}


def find_rubric(
    name: str,
    *,
    cooccurrence: bool = True,
    judge: bool = True,
    alignment: bool = True,
    judged_by: str | None = None,
) -> Rubric:
    """A preset with the paper's ablations, which show in its name and may be given in it ("strict-no-judge").

    cooccurrence=False: without the sentence term (A1, vanilla GRPO). judge=False: without the judge (A2).
    alignment=False: the sentences' mean as part of the response return, no credit per token (A3). judged_by:
    "reference" or "boundary" for the other preset's judge. Raises ConfigError for an unknown name.
    """
    flags = {"cooccurrence": cooccurrence, "judge": judge, "alignment": alignment}
    base = name
    while (suffix := next((one for one in _ABLATIONS if base.endswith(one)), None)) is not None:
        base = base.removesuffix(suffix)
        flags[_ABLATIONS[suffix]] = False
    if base not in RUBRICS:
        raise ConfigError(
            f"there is no CorVer rubric {name!r:.80}.{did_you_mean(base, RUBRICS)} Use {', '.join(RUBRICS)}, "
            f"with {', '.join(_ABLATIONS)} at its end for an ablation."
        )
    return _ablated(_judged(RUBRICS[base], judged_by), flags)


def _judged(rubric: Rubric, judge: str | None) -> Rubric:
    if judge not in (None, "reference", "boundary"):
        raise ConfigError(f"judged_by must be 'reference' or 'boundary', not {judge!r:.80}")
    wanted = {"reference": "judge", "boundary": "judge_boundary", None: ""}[judge]
    if not wanted or wanted in rubric.weights:
        return rubric
    weights = {wanted if one in ("judge", "judge_boundary") else one: w for one, w in rubric.weights.items()}
    return Rubric(f"{rubric.name}-judged-{judge}", weights, rubric.gated)


def _ablated(rubric: Rubric, flags: Mapping[str, bool]) -> Rubric:
    weights, name = dict(rubric.weights), rubric.name
    for suffix, flag in _ABLATIONS.items():
        name += "" if flags[flag] else suffix
    if not flags["cooccurrence"]:
        weights = {one: weight for one, weight in weights.items() if one not in SENTENCE_COMPONENTS}
    if not flags["judge"]:
        weights = {one: weight for one, weight in weights.items() if one not in ("judge", "judge_boundary")}
    if not flags["alignment"]:
        weights = {_MEANS.get(one, one): weight for one, weight in weights.items()}
    return rubric if name == rubric.name else Rubric(name, weights, rubric.gated)
