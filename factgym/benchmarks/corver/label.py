"""What a run is, read off its manifest: who answered which questions, under which prompt, and what counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from factgym.agents.runs.read import Run
from factgym.benchmarks.corver.ablations import variant_of

NO_COUNTER = "no counter"
DEFAULT_EXTRACTOR = "rule"


@dataclass(frozen=True, slots=True)
class RunLabel:
    """Empty where the manifest does not tell. counter: what counted, or `NO_COUNTER`. variant: which ablation, if any."""

    folder: str
    env: str
    agent: str
    source: str
    split: str
    n: int | None
    k: int | None
    seed: int | None
    prompt: str
    reward: str
    judge: str
    counter: str
    extractor: str
    variant: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)

    def questions(self) -> str:
        """`nq-open dev, n = 60`; with the samples of each where there are several."""
        size = f"n = {self.n:,}" if self.n is not None else "n unknown"
        size += f" × {self.k}" if self.k and self.k > 1 else ""
        return ", ".join(filter(None, (" ".join(filter(None, (self.source, self.split))), size)))

    def setting(self) -> str:
        """How they were asked and what scored the answers, in one line."""
        parts = [self.env]
        parts += [f"{self.prompt} prompt" if self.prompt else "", f"reward {self.reward}" if self.reward else ""]
        parts.append(f"{self.judge} judge" if self.judge else "")
        parts += [f"counts: {self.counter}" if self.counter != NO_COUNTER else NO_COUNTER]
        parts.append(f"extractor {self.extractor}" if self.extractor not in ("", DEFAULT_EXTRACTOR) else "")
        return " · ".join(filter(None, parts))


def label_of(run: Run) -> RunLabel:
    """The label of a run."""
    manifest = run.manifest
    found = manifest.get("config")
    config: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    path = config.get("path")
    source = _text(config.get("source"))
    return RunLabel(
        folder=str(run.folder),
        env=_text(manifest.get("env")),
        agent=_text(manifest.get("agent")),
        source=Path(path).stem if source == "file" and isinstance(path, str) else source,
        split=_text(config.get("split")),
        n=_number(manifest.get("n")),
        k=_number(manifest.get("k")),
        seed=_number(manifest.get("seed")),
        prompt=_text(config.get("prompt")),
        reward=_named(config.get("reward")),
        judge=_judge(config),
        counter=_counter(config, source),
        extractor=_named(config.get("extractor")),
        variant=variant_of(config),
    )


def _judge(config: Mapping[str, Any]) -> str:
    """The judge whose labels a run reports: the one asked for, else that of its reward."""
    named = _text(config.get("judge"))
    reward = _named(config.get("reward"))
    return named or ("" if not reward else "reference" if reward.startswith("reference") else "boundary")


def _counter(config: Mapping[str, Any], source: str) -> str:
    named = config.get("counter")
    if named == "none":
        return NO_COUNTER
    if named is not None:
        options = config.get("counter_options")
        said = ", ".join(f"{key} {value}" for key, value in options.items()) if isinstance(options, Mapping) else ""
        return f"{_named(named)} ({said})" if said else _named(named)
    return "its own generated corpus" if source == "synthetic" else NO_COUNTER


def _named(value: Any) -> str:
    if isinstance(value, Mapping):
        return _text(value.get("name")) or "a user's own"
    return _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
