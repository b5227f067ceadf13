"""Configuration of the ProFact environments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from factgym.core.config import AtLeastOne, DataConfig
from factgym.core.errors import ConfigError, did_you_mean
from factgym.datasets.evidence import MAX_PASSAGE_CHARS
from factgym.generators.fact_checks import SPLITS
from factgym.rewards.profact.stages import COMPONENTS, GATES, RUBRICS
from factgym.rewards.rubric import Rubric

Source = Literal["synthetic", "averitec"]

REWARD = "guarded"
"""The default reward; the card gives the reason why it is not the paper's own."""

MAX_QUESTIONS = 10
"""Number of questions that the official scorer reads."""


class ProFactConfig(DataConfig):
    """Settings of `profact*`.

    source: "synthetic" (generated claims) or "averitec" (files in AVeriTeC's layout), by default what `path` implies.
    split: "dev" by default; of files any name with a file. size: number of claims, from the first. path: a file or
    folder of claims. store: the folder of AVeriTeC's knowledge store; without it the gold evidence of the whole split is
    the haystack, and every report says so. scope: search a claim's own evidence ("claim") or all of the store
    ("global"). index: "bm25", "bm25s", "rank-bm25", "dense" or "hybrid"; index_options: its arguments (for "dense"
    encoder=…, preset="e5", "qwen3" or "plain"). k: pieces of evidence per search. cache_dir: folder of cached indexes.
    max_passage_chars: of one piece of evidence. exclude_later: omit evidence dated after the claim. max_questions: how
    many of the posed questions are accepted. reward: "guarded", "process" (the paper's), "noprocess" or a `Rubric` over
    the same components.
    """

    source: Source | None = None
    store: str | None = None
    scope: Literal["claim", "global"] = "claim"
    index: str = "bm25"
    index_options: dict[str, Any] | None = None
    k: AtLeastOne = 3
    cache_dir: str | None = None
    max_passage_chars: int = MAX_PASSAGE_CHARS
    exclude_later: bool = False
    max_questions: Annotated[int, Field(ge=1, le=MAX_QUESTIONS)] = 5
    reward: str | Rubric = REWARD

    def model_post_init(self, context: Any, /) -> None:
        """Check the settings against each other."""
        super().model_post_init(context)
        if self.chosen_source == "synthetic" and self.path is not None:
            raise ConfigError("generated claims have no path: leave source out, or set source='averitec'")
        if self.chosen_source == "synthetic" and self.store is not None:
            raise ConfigError("store is the evidence of claims in files: give their path too")
        self.rubric.check(COMPONENTS, GATES)

    def check_split(self) -> None:
        """Raise ConfigError for a split that generated claims do not have; files may have any."""
        if self.chosen_source == "synthetic" and self.split is not None and self.split not in SPLITS:
            raise ConfigError(
                f"generated claims have no split {self.split!r:.80}.{did_you_mean(self.split, SPLITS)} "
                f"They have: {', '.join(SPLITS)}."
            )

    @property
    def chosen_source(self) -> Source:
        """The source, with the default filled in."""
        return self.source or ("synthetic" if self.path is None else "averitec")

    @property
    def splits(self) -> tuple[str, ...]:
        """The usual splits; the first is the default."""
        return tuple(SPLITS) if self.chosen_source == "synthetic" else ("dev", "train")

    @property
    def rubric(self) -> Rubric:
        """The rubric that `reward` names. Raises ConfigError for an unknown name."""
        if isinstance(self.reward, Rubric):
            return self.reward
        if self.reward not in RUBRICS:
            raise ConfigError(
                f"there is no ProFact reward {self.reward!r:.80}.{did_you_mean(self.reward, RUBRICS)} "
                f"Use {', '.join(RUBRICS)} or a Rubric."
            )
        return RUBRICS[self.reward]
