"""ClaimCheck in miniature: the same tools, verdicts and rewards over a world small enough for a small model."""

from __future__ import annotations

from typing import ClassVar

from factgym.envs.claimcheck.env import ClaimCheckEnv


class ClaimCheckMiniEnv(ClaimCheckEnv):
    """Check an answer in a world small enough to learn in.

    ## Description
    ClaimCheck with its tools, verdicts and rewards unchanged, over passages of three short sentences in a small
    vocabulary, with brief instructions: for small models that are trained from nothing, and to see an idea work or fail
    before it is tried on a large one. Nothing but checking helps: the answers were drawn before their evidence, and no
    name of an evaluation split occurs in training.

    ## Task
    A question about an invented subject, and an answer of two statements: of its fee, seats, opening, closing, head or
    cook, some with a condition ("in winter", "for members"). Of four passages one is on the subject. A statement is
    supported where it has the same value under the same conditions, contradicted where the value is another one (number,
    date or name), an overclaim where the passage has one more condition, unsupported where the passage says nothing of
    the attribute. The other passages state the same attributes, and often the same values, of other subjects.

    `level` makes it easier: 1 has no contradictions, so that no values are compared; 2 draws values from four numbers,
    dates and names, which all splits share, so that each pair can be learnt; 3 (default) is as above.

    ## Tools
    `list`, `search`, `read`, `submit`, with compact schemas; `prompt="full"` for those of the other environments.

    ## Turn protocol
    At most `max_turns` actions; `submit` ends the episode. An invalid action costs a turn and is answered with an error.
    Without a submission the reward is 0.

    ## Rewards
    Those of `claimcheck`, with "judged" as the default: a statement's share is F1 of the cited passages times the quotes'
    validity times their coverage of the deciding sentence; a right status earns it, a wrong one costs a third of it, so
    that a guess earns nothing (a ninth of it at level 1, which has three statuses). Silence is shown by the subject's
    passage and its first sentence, or the one that comes closest to the statement.

    ## Splits and licences
    Generated: train 20,000, validation 500, test 500; no licence attaches. No two splits share a name, and all names are
    made of the same 70 syllables.

    ## Determinism
    Example *i* depends on (seed, split, i) alone. The same actions give the same bytes and the same reward.

    ## Known exploits
    Those of `claimcheck`, which `factgym audit` runs. Classifiers that see the answer alone, its names or its length are
    at chance by construction (`tests/envs/test_claimcheck_mini.py` bounds them). The honest baseline compares words and
    earns .83: this is a world for learners, no test of strong models.

    ## Versions
    v2: untrusted text between tags that end in a code of the task; the same rewards. v1: first version.
    """

    strategies: ClassVar[str | None] = "factgym.envs.claimcheck.strategies:MINI_STRATEGIES"
