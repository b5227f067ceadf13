"""Configuration and task sets: each task is a claim and its source, as a policy sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from factgym.core.config import AtLeastOne, DataConfig
from factgym.core.errors import ConfigError
from factgym.core.tasks import shared
from factgym.core.untrusted import neutralise
from factgym.datasets.attribution import AttributionClaim, Claims, balanced, read_benchmark, stratified, without_cues
from factgym.envs.task_sets import ItemTask, ItemTaskSet, text_hash
from factgym.generators.attribution import SPLITS, MiniatureAttribution, SyntheticAttribution
from factgym.rewards.rubric import Rubric
from factgym.rewards.seva.rubrics import find_rubric
from factgym.rewards.seva.scoring import SevaGold

Source = Literal["synthetic", "fever", "truthfulqa", "halueval", "clearfacts", "anli"]

REWARD = "balanced"
"""The default reward; the card explains why it is not the paper's own."""


class SevaConfig(DataConfig):
    """Settings of `seva*`.

    source: origin of the claims. split: part of generated claims ("validation", "train", "test", "ood"); a file has
    "test" only. size: number of claims: of generated ones the first, of a file's a stratified slice drawn by `seed`,
    all by default. path: file or folder of a source that is not generated. reward: the name of a preset ("balanced",
    "grounded", "process", "binary", "50/50" …) or a `Rubric` over the same components. repair: the first submission is a
    draft, which is answered with a review, and the second one counts. max_source_chars: a longer source is cut there,
    with a mark. cues: "remove" takes the known cue of TruthfulQA or HaluEval out (`datasets.attribution.without_cues`)
    before the slice is drawn. balance: draw as many claims of either label from a file, so that a constant label earns no
    more than chance; an evaluation has all of them. world: of generated claims, rules of documents or, for
    small models, the short sentences of a small vocabulary ("miniature"). passages: of a generated document that the
    source has, those that decide first; all by default.
    """

    max_turns: AtLeastOne = 1
    source: Source = "synthetic"
    reward: str | Rubric = REWARD
    repair: bool = False
    cues: Literal["keep", "remove"] = "keep"
    balance: bool = False
    max_source_chars: AtLeastOne = 60_000
    world: Literal["documents", "miniature"] = "documents"
    passages: AtLeastOne | None = None

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if self.source == "synthetic" and self.path is not None:
            raise ConfigError("generated claims have no path: use seva-fever or another environment over files")
        if self.source != "synthetic" and (self.world != "documents" or self.passages is not None):
            raise ConfigError(f"world and passages are settings of generated claims, not of source={self.source!r}")
        _ = self.rubric

    @property
    def splits(self) -> tuple[str, ...]:
        if self.source != "synthetic":
            return ("test",)
        splits = MiniatureAttribution.SPLITS if self.world == "miniature" else SPLITS
        return ("validation", *(split for split in splits if split != "validation"))

    @property
    def rubric(self) -> Rubric:
        return self.reward if isinstance(self.reward, Rubric) else find_rubric(self.reward)


_CONTENT = "a file or folder of claims with sources and labels"


@dataclass(frozen=True, slots=True)
class SevaTask(ItemTask):
    """One claim to check. claim, source: as the policy sees them, neutralised and cut. item: as read or generated."""

    id: str
    claim: str
    source: str
    gold: SevaGold
    item: AttributionClaim = field(repr=False)


class SevaTaskSet(ItemTaskSet[SevaTask, SevaConfig]):
    """The claims of one configuration."""

    @classmethod
    def of(cls, config: SevaConfig) -> SevaTaskSet:
        path = None if config.source == "synthetic" else config.require_path(_CONTENT).resolve()
        key = (
            *("seva", config.source, config.chosen_split, config.size, path, config.seed),
            *(config.max_source_chars, config.cues, config.balance, config.world, config.passages),
        )
        return shared(key, lambda: cls(_load_claims(config), config))

    def make(self, index: int) -> SevaTask:
        item = self.items[index]
        source = truncate_source(item.source, self.config.max_source_chars)
        limit = min(len(item.source), self.config.max_source_chars)
        evidence = tuple((start, end) for start, end in item.meta.get("evidence") or () if end <= limit)
        gold = SevaGold(item.label, item.error_type, evidence)
        return SevaTask(item.id, neutralise(item.claim), source, gold, item, origin=(self, index))

    def fingerprint(self) -> str:
        return text_hash(f"{self.items.fingerprint()}:{self.config.max_source_chars}")


def truncate_source(text: str, max_chars: int) -> str:
    """Return the source as it is shown: neutralised, and with a mark where it was cut."""
    cut = len(text) - max_chars
    return f"{neutralise(text[:max_chars])}… [cut: {cut} more characters]" if cut > 0 else neutralise(text)


def _load_claims(config: SevaConfig) -> Claims:
    """Return the claims of a configuration: generated, or read and then cleared of cues, balanced and sampled."""
    if config.source == "synthetic":
        generator = MiniatureAttribution if config.world == "miniature" else SyntheticAttribution
        return generator(config.chosen_split, seed=config.seed, size=config.size, passages=config.passages)
    claims: Claims = read_benchmark(config.source, config.require_path(_CONTENT))
    if config.cues == "remove":
        claims = without_cues(config.source, claims, config.seed)
    if config.balance:
        claims = balanced(claims, config.seed)
    if config.size is None or config.size >= len(claims):
        return claims
    return stratified(claims, config.size, config.seed)
