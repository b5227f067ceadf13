"""Task sets: each task is a claim and its source, as a policy sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

from factgym.core.tasks import shared
from factgym.datasets.attribution import AttributionClaim, Claims, read_benchmark, stratified
from factgym.envs.seva.config import SevaConfig
from factgym.envs.task_sets import ItemTask, ItemTaskSet, text_hash
from factgym.generators.attribution import SyntheticAttribution
from factgym.rewards.seva.scoring import SevaGold
from factgym.tools.untrusted import neutralise

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
        key = ("seva", config.source, config.chosen_split, config.size, path, config.seed, config.max_source_chars)
        return shared(key, lambda: cls(_load_claims(config), config))

    def make(self, index: int) -> SevaTask:
        item = self.items[index]
        source = truncate_source(item.source, self.config.max_source_chars)
        gold = SevaGold(item.label, item.error_type)
        return SevaTask(item.id, neutralise(item.claim), source, gold, item, origin=(self, index))

    def fingerprint(self) -> str:
        return text_hash(f"{self.items.fingerprint()}:{self.config.max_source_chars}")


def truncate_source(text: str, max_chars: int) -> str:
    """Return the source as it is shown: neutralised, and with a mark where it was cut."""
    cut = len(text) - max_chars
    return f"{neutralise(text[:max_chars])}… [cut: {cut} more characters]" if cut > 0 else neutralise(text)


def _load_claims(config: SevaConfig) -> Claims:
    if config.source == "synthetic":
        return SyntheticAttribution(config.chosen_split, seed=config.seed, size=config.size)
    claims = read_benchmark(config.source, config.require_path(_CONTENT))
    if config.size is None or config.size >= len(claims):
        return claims
    return stratified(claims, config.size, config.seed)
