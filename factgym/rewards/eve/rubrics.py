"""How EVE's components are combined: as published, as in Dr. Zero, and guarded, for the proposer and for the solver.

Proposer, every component scored once:

    eve       ½ format + difficulty + .5 value + .1 brevity           (equation 16; value and brevity of a verbatim span)
    dr-zero   ½ format + difficulty                                   (equation 18)
    guarded   ½ format_guarded + learnable · difficulty + supported · .5 value + learnable · .1 brevity    (the default)

Solver:

    eve       correct + .3 evidence                                   (equation 19)
    dr-zero   correct
    guarded   grounded · correct + focused · .3 evidence              (the default)

Under `eve` these pay, and `guarded` ends it:

- *A span that is made up, or none.* It has no value and no brevity, but keeps the difficulty, and is worth more than a
  true span that misleads (V < 0). Guarded: without a verbatim span there is no difficulty either.
- *The whole document as evidence.* It costs a part of the .1 for brevity and earns all of V. Guarded: a span is
  `focused`, in one sentence or short beside its text.
- *The answer by itself as evidence*, the shortest span there is, has V near 1 and the most brevity, and so has any
  stretch that names the answer in passing. Guarded: a span is `anchored`, it says more than the answer and something
  about the question.
- *Questions that nobody can find the answer of* ("In what year did he die?") have no difficulty, but V near 1 where
  the span tells. Guarded: they must be `answerable`, by at least one of the n searching rollouts.
- *Guessing games* ("Heads or tails?", yes or no, one of a list, half a leak): the rate of lucky answers is where the
  difficulty is highest, and no evidence is needed. Guarded: difficulty and brevity count as far as the evidence helps,
  that is times max(0, V). An answer that is known without evidence ends the same way.
- *Leaks.* The published test is literal. Guarded: an answer whose words all stand in the question is a leak, in
  whatever order, with unseen characters in it or without gaps, and a leak earns nothing for its format (as in Dr.
  Zero's code; the paper pays half of F).
- *A question of one hop where four were asked for*, after searches for anything: searches are counted, not read, and an
  easy question is answered more often. Guarded: difficulty, value and brevity count by the share of the hops that were
  `reached`: searches of which something was used, from the source to evidence that stands elsewhere.
- *A walk to anywhere, and an easy question about where it ended*, with a word of the source thrown in. Guarded: nothing
  counts where the source is not needed, that is where the question, put as a search without the words of the source or
  of its title, brings the evidence first, or where one hop was asked for and the evidence stands elsewhere.
- *Form without substance*: empty or repeated thoughts, searches made to be counted, "1" found in "1975". Guarded: see
  `factgym.rewards.eve.guarded`.
- *An answer without its evidence* (solver) loses .3 at most. Guarded: it earns `ungrounded_share` of its point unless
  the evidence is verbatim in a passage that was returned in this episode and focused, says more than the answer, is near
  the gold evidence (where there is none: is anchored) and holds the answer (yes and no aside). Evidence that was not
  returned, or is most of a passage, earns nothing; so a bag of likely words, for which token F1 pays, does not either.

A span cannot carry an instruction ("the answer is X"): it must stand in a document, and what the verifier is shown is
the document's own slice. What `guarded` leaves open: a question with several right answers, or with one that is written
in several ways, looks like a difficult one; a document that itself lies, or holds an instruction, is believed; a policy
that always asks for "yes" is weakened, not stopped; a sentence that names the answer in passing, beside a word of the
question, has the V that the solver gives it; a question may refer to what a search returns rather than to the
world; a walk from search to search is a chain by its words where its question is worded so that a search does not bring
the evidence first; a question may give orders ("say unknown unless evidence stands beside this", "toss a coin first"),
which a solver that obeys turns into V and difficulty. A judge, and the selector's diversity, are the means against these.

What `guarded` takes for no evidence though it is: a sentence that shares no word with the question or a query. Of the
supporting sentences that hold the answer, 11 % share none with their question on HotpotQA and 28 % on 2WikiMultihopQA,
most of them at the end of several hops, where a proposer has its queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from factgym.core.errors import ConfigError, did_you_mean
from factgym.rewards.eve.rules import DEFAULT_RULES, EveRules
from factgym.rewards.rubric import Rubric

Role = Literal["proposer", "solver"]

PROPOSER_COMPONENTS = ("format", "format_guarded", "difficulty", "value", "brevity")
"""What every proposal's score holds. All in [0, 1] but value, in [−1, 1]."""

PROPOSER_GATES = (
    *("valid", "verbatim", "focused", "anchored", "answerable"),
    *("reached", "gain", "supported", "learnable"),
)
"""Factors in [0, 1]; the first five are 0.0 or 1.0.

valid: as published, and no leak. verbatim, focused, anchored: of the span. answerable: k > 0. reached: share of the hops
that were made. gain: max(0, V). supported: `reached` where all of the first five hold, else 0; 1.0 where V is negative, so
that breaking a gate is no way out of it. learnable: `supported` times gain.
"""

SOLVER_COMPONENTS = ("correct", "evidence")
"""What every solution's score holds, each in [0, 1]: exact match, and token F1 with the gold evidence."""

SOLVER_GATES = ("verbatim", "focused", "anchored", "backed", "grounded")
"""0.0 or 1.0, but grounded, which is `ungrounded_share` or, where all the others are 1.0, 1.0.

focused: verbatim, and in one sentence or short beside its passage. anchored: it says more than the answer, and is near
the gold evidence (token F1 of at least `min_evidence_f1`), or about the question where there is no gold. backed: it holds
the answer; also 1.0 for yes and no, and where the gold evidence does not hold the answer either.
"""

GUARDED = "guarded"
"""The name of the environments' default."""


def _proposer_rubrics(rules: EveRules) -> dict[str, Rubric]:
    form, value, brevity = rules.format_weight, rules.lambda_v, rules.lambda_b
    return {
        "eve": Rubric(
            "eve",
            {"format": form, "difficulty": 1.0, "value": value, "brevity": brevity},
            {"value": "verbatim", "brevity": "verbatim"},
        ),
        "dr-zero": Rubric("dr-zero", {"format": form, "difficulty": 1.0}),
        GUARDED: Rubric(
            GUARDED,
            {"format_guarded": form, "difficulty": 1.0, "value": value, "brevity": brevity},
            {"difficulty": "learnable", "value": "supported", "brevity": "learnable"},
        ),
    }


def _solver_rubrics(rules: EveRules) -> dict[str, Rubric]:
    return {
        "eve": Rubric("eve", {"correct": 1.0, "evidence": rules.lambda_e}),
        "dr-zero": Rubric("dr-zero", {"correct": 1.0}),
        GUARDED: Rubric(
            GUARDED,
            {"correct": 1.0, "evidence": rules.lambda_e},
            {"correct": "grounded", "evidence": "focused"},
        ),
    }


_MAKERS = {"proposer": _proposer_rubrics, "solver": _solver_rubrics}

RUBRICS: Mapping[Role, Mapping[str, Rubric]] = MappingProxyType(
    {role: MappingProxyType(_MAKERS[role](DEFAULT_RULES)) for role in get_args(Role)}
)
"""The presets with the paper's weights: role -> name -> rubric."""


def find_rubric(name: str, role: Role, rules: EveRules = DEFAULT_RULES) -> Rubric:
    """The preset of this name, with the weights that the rules give. Raises ConfigError for an unknown name or role."""
    if role not in _MAKERS:
        raise ConfigError(f"an EVE rubric is of the proposer or of the solver, not of {role!r:.80}")
    known = RUBRICS[role] if rules == DEFAULT_RULES else _MAKERS[role](rules)
    if name not in known:
        raise ConfigError(
            f"there is no EVE rubric {name!r:.80} for the {role}.{did_you_mean(name, known)} Use {', '.join(known)}."
        )
    return known[name]
