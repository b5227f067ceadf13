"""SEVA's loop: Verify → Reflect → Probe → Refine, round by round (section 2.5 and Algorithm 2).

`docs/guides/evolve.md` lists the files of a round. Every file is whole or absent, so that an evolution that was killed
at any point continues where it was: a stage whose file exists is not repeated, nor is a finished episode of Verify."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

import factgym
from factgym.agents.agent import Model, agent_with_rules
from factgym.agents.judges.base import Judge
from factgym.agents.judges.policy import judge_from
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs import files
from factgym.agents.runs.read import read_run
from factgym.core.errors import ConfigError
from factgym.core.seeds import derive
from factgym.datasets.attribution import AttributionClaim
from factgym.training.rollouts import SILENT, Callbacks, collect_rollouts
from factgym.training.seva.dataset import Example, draw_replay, example_of, read_probes, write_dataset
from factgym.training.seva.probes import make_probes, quotas_by_source
from factgym.training.seva.profile import (
    Profile,
    ceiling_allocation,
    failures_of,
    profile_of,
    random_allocation,
    weakness_weights,
    write_rules,
)
from factgym.training.seva.proposer import PolicyProposer
from factgym.training.seva.settings import BenchmarkSplits, EvolveSettings, ExperimentArm, Split, open_benchmark
from factgym.training.trainer import Dataset, Trainer, call_trainer, describe_trainer, open_dataset, train_once

VERSION = 1
REFERENCE = "weakness"
"""The arm whose numbers of probes limit the controls."""


@dataclass(slots=True)
class Verifier:
    """The model of the present round, which is closed when the arm ends or fails."""

    model: Model


@dataclass(frozen=True)
class Evolution:
    """An evolution on disk.

    start: opens the seed verifier, and opens it again after it was closed. trainer: trains it. judge: of the
    cross-check; the rules' fallback by default. proposer: writes probes in place of the rules; "claims": see `make_probes`.
    """

    out: Path
    settings: EvolveSettings
    start: Callable[[], Model]
    trainer: Trainer
    judge: Judge = field(default_factory=lambda: judge_from(None, "probe-check"))
    proposer: PolicyProposer | Literal["claims"] | None = None
    limits: Limits | None = None
    callbacks: Callbacks = SILENT

    def run(self, arms: Sequence[str] = (REFERENCE,), rounds: int = 3, *, resume: bool = False) -> None:
        """`run_async`, from a thread without a running event loop."""
        asyncio.run(self.run_async(arms, rounds, resume=resume))

    async def run_async(self, arms: Sequence[str] = (REFERENCE,), rounds: int = 3, *, resume: bool = False) -> None:
        """Measure the seed, then run the rounds of each arm; finished parts are not repeated.

        rounds: of each arm; more of them on a later call continue. resume: continue in a folder that is not empty.
        Raises ConfigError, DataError, RolloutError, PolicyError and errors of the trainer; finished parts stay on disk.
        """
        if rounds < 1:
            raise ConfigError(f"an evolution has at least one round, not {rounds}")
        if not arms:
            raise ConfigError("an evolution needs an arm: weakness, random or mix")
        ordered = [self.settings.arm(name) for name in sorted(set(arms), key=lambda name: (name != REFERENCE, name))]
        with files.locked_folder(self.out):
            files.open_folder(self.out, await self._manifest(), resume=resume)
            try:
                await self._measure_seed()
                for arm in ordered:
                    await self._run_arm(arm, rounds)
            finally:
                await self.judge.close()
                if isinstance(self.proposer, PolicyProposer):
                    await self.proposer.close()

    @cached_property
    def benchmarks(self) -> tuple[BenchmarkSplits, ...]:
        """The measured benchmarks."""
        settings = self.settings
        return tuple(
            open_benchmark(name, path=settings.path, size=settings.size, seed=settings.seed, prompt=settings.prompt)
            for name in settings.benchmarks
        )

    def source(self, name: str) -> BenchmarkSplits:
        """A source of probes and replay: the "material" split of a measured benchmark, all of any other."""
        if name not in self._sources:
            settings = self.settings
            self._sources[name] = open_benchmark(
                name, path=settings.path, size=settings.material, seed=settings.seed, measured=False
            )
        return self._sources[name]

    @cached_property
    def _sources(self) -> dict[str, BenchmarkSplits]:
        return {benchmark.name: benchmark for benchmark in self.benchmarks}

    def source_claims(self, name: str) -> list[AttributionClaim]:
        """The claims of a source, at most `settings.material`."""
        return self.source(name).claims("material")[: self.settings.material]

    def folder(self, arm: str, number: int) -> Path:
        """Folder of a round; round 0, the seed's, is that of every arm."""
        return self.out / "round-0" if number == 0 else self.out / arm / f"round-{number}"

    async def _manifest(self) -> dict[str, Any]:
        start = self.start()
        agent = start.describe()
        await start.close()
        return {
            "what": "factgym evolve seva",
            "version": VERSION,
            "factgym": factgym.__version__,
            "settings": self.settings.describe(),
            "agent": agent,
            "trainer": describe_trainer(self.trainer),
            "judge": self.judge.describe(),
            "proposer": self.proposer.describe() if isinstance(self.proposer, PolicyProposer) else self.proposer,
            "fingerprints": {benchmark.name: benchmark.fingerprint() for benchmark in self.benchmarks},
        }

    async def _measure_seed(self) -> None:
        """Round 0: train the seed verifier on gold claims where `warm_up` asks for it, and measure it."""
        settings, folder = self.settings, self.folder("", 0)
        manifest = {"what": "seed", "round": 0, "seed": settings.seed, "warm_up": settings.warm_up}
        files.open_folder(folder, manifest, resume=True)
        if (folder / files.METRICS).exists():
            return
        verifier = Verifier(self.start())
        try:
            if settings.warm_up:
                self.callbacks.step("round 0: training the seed verifier")
                if not (folder / files.TRAIN).exists():
                    names = settings.warm_sources or (settings.source,)
                    pool = [Example(claim) for name in names for claim in self.source_claims(name)]
                    chosen = draw_replay([], pool, settings.warm_up, derive(settings.seed, "warm-up"))
                    seeds = [Example(example.item) for example in chosen]
                    write_dataset(folder / files.TRAIN, seeds, prompt=settings.prompt)
                verifier.model = await self._train(verifier.model, folder, 0)
            await self._verify("", 0, verifier, {"what": "seed"})
        finally:
            await verifier.model.close()

    async def _run_arm(self, arm: ExperimentArm, rounds: int) -> None:
        """Run the rounds of an arm that are not finished, from the verifier of the last finished one."""
        first = next(number for number in count(1) if not (self.folder(arm.name, number) / files.METRICS).exists())
        if first > rounds:
            return
        number = first - 1 if first > self._first_trained else 0
        if number or self.settings.warm_up:
            model = await call_trainer(self.trainer.load, self.folder(arm.name, number) / files.MODEL)
        else:
            model = self.start()
        verifier = Verifier(model)
        try:
            for number in range(first, rounds + 1):
                await self._run_round(arm, number, verifier)
        finally:
            await verifier.model.close()

    @property
    def _first_trained(self) -> int:
        """The first round with training; with rules, the round before it changes the prompt alone."""
        return 2 if self.settings.rules else 1

    def _rules(self, arm: str, number: int) -> str:
        if number < 1 or not self.settings.rules or (number > 1 and not self.settings.keep_rules):
            return ""
        return (self.folder(arm, 1) / files.RULES).read_text("utf-8").rstrip("\n")

    async def _run_round(self, arm: ExperimentArm, number: int, verifier: Verifier) -> None:
        """Run a round and leave its verifier in `verifier`."""
        settings, folder = self.settings, self.folder(arm.name, number)
        before = self.folder(arm.name, number - 1) / files.VERIFY
        trained = self.folder(arm.name, number - 1 if number > self._first_trained else 0) / files.TRAINED
        refined = "trained" if number >= self._first_trained else "rules"
        manifest = {
            "what": "rules" if refined == "rules" else "training",
            "arm": arm.describe(),
            "round": number,
            "budget": settings.budget(number),
            "seeds": {name: derive(settings.seed, name, number) for name in ("probe", "replay", "train")},
            "verify_seed": settings.seed,
            "verifier": files.read_json(trained)["model"] if trained.exists() else "as it was given",
            "sources": {name: self.source(name).fingerprint() for name in arm.shares},
        }
        files.open_folder(folder, manifest, resume=True)

        # Reflect: the previous verifier's accuracy by category, as weights that sum to 1.
        reflected = partial(episodes_of, self.benchmarks, before, "reflect")
        profile = Profile.from_dict(
            _cached(folder / files.PROFILE, lambda: profile_of(reflected(), prior=settings.prior).to_dict())
        )
        weights = weakness_weights(profile.accuracy)
        # Probe: ⌈w·B⌉ claims of each category, after the judge's cross-check.
        allocation = _cached(folder / files.ALLOCATION, lambda: self._allocate(arm, number, weights))
        self.callbacks.step(f"{arm.name}, round {number}: {sum(allocation['counts'].values())} probes")
        report = await self._make_probes(arm, number, allocation)
        # Refine: rules in the prompt, or training on probes and replay.
        header: dict[str, Any] = {"what": refined, "probes": report}
        if refined == "rules":
            if not (folder / files.RULES).exists():
                rules = write_rules(profile, weights, failures_of(reflected())) + "\n"
                files.write_bytes(folder / files.RULES, rules.encode("utf-8", "replace"))
        else:
            await verifier.model.close()
            dataset = self._training_data(arm, number)
            verifier.model = await self._train(verifier.model, folder, number)
            rows = list(dataset.rows())
            counts = {name: Counter(str(row[name]) for row in rows) for name in ("origin", "label")}
            header["train"] = {"lines": dataset.lines}
            header["train"] |= {name: dict(sorted(counter.items())) for name, counter in counts.items()}
        await self._verify(arm.name, number, verifier, header)

    def _allocate(self, arm: ExperimentArm, number: int, weights: Mapping[str, Any]) -> dict[str, Any]:
        """The allocation of a round. A control requests and retains as many probes as the reference arm, if it ran."""
        budget = self.settings.budget(number)
        metrics = self.folder(REFERENCE, number) / files.METRICS
        reference = files.read_json(metrics)["probes"] if arm.name != REFERENCE and metrics.exists() else None
        counts = ceiling_allocation(weights, budget)
        if arm.probes == "none":
            counts = dict.fromkeys(counts, 0)
        elif arm.probes == "random":
            total = reference["asked"] if reference else sum(counts.values())
            counts = random_allocation(total, derive(self.settings.seed, "allocation", number))
        return {
            "probes": arm.probes,
            "budget": budget,
            "weights": {name: str(value) for name, value in weights.items()},
            "shares_of_budget": {name: round(float(value), 6) for name, value in weights.items()},
            "counts": counts,
            "total": sum(counts.values()),
            "limit": reference["kept"] if reference else None,
            "by_source": quotas_by_source(counts, arm.shares),
        }

    async def _make_probes(self, arm: ExperimentArm, number: int, allocation: Mapping[str, Any]) -> dict[str, Any]:
        folder = self.folder(arm.name, number)
        report = folder / files.REPORT
        if not report.exists():
            batch = await make_probes(
                allocation["by_source"],
                {name: self.source_claims(name) for name in arm.shares},
                self.judge,
                derive(self.settings.seed, "probe", number),
                proposer=self.proposer,
                limit=allocation["limit"],
            )
            files.write_lines(folder / files.DROPPED, batch.dropped)
            files.write_lines(folder / files.PROBES, batch.rows())
            files.write_json(report, batch.report(allocation["by_source"]))
        return files.read_json(report)

    def _training_data(self, arm: ExperimentArm, number: int) -> Dataset:
        """Probes ∪ replay: the replay is drawn from the sources' claims and the probes of earlier rounds."""
        path = self.folder(arm.name, number) / files.TRAIN
        if not path.exists():
            probes, *earlier = (
                [example_of(probe) for probe in read_probes(self.folder(arm.name, round_number) / files.PROBES)]
                for round_number in (number, *range(1, number))
            )
            size = round(self.settings.replay * len(probes))
            if arm.probes == "none":
                reference = self.folder(REFERENCE, number) / files.TRAIN
                planned = round((1 + self.settings.replay) * self.settings.budget(number))
                size = open_dataset(reference).lines if reference.exists() else planned
            elif not probes:
                raise ConfigError(
                    f"{arm.name}, round {number}: no probe was left to train on (see {path.parent}): "
                    "give a source with more attributable claims, or more of them (--source, --material)"
                )
            pool = [Example(claim) for name in arm.shares for claim in self.source_claims(name)]
            pool += [example for examples in earlier for example in examples]
            seed = derive(self.settings.seed, "replay", number)
            replay = draw_replay(probes, pool, size, seed, balance=self.settings.balance)
            write_dataset(path, [*probes, *replay], self._rules(arm.name, number), self.settings.prompt)
        return open_dataset(path)

    async def _train(self, model: Model, folder: Path, number: int) -> Model:
        dataset = open_dataset(folder / files.TRAIN)
        if not (folder / files.TRAINED).exists():
            self.callbacks.step(f"training on {dataset.lines} examples")
        return await train_once(self.trainer, model, dataset, folder, derive(self.settings.seed, "train", number))

    async def _verify(self, arm: str, number: int, verifier: Verifier, header: Mapping[str, Any]) -> None:
        """Collect an episode of every measured claim, and write the metrics of the round; `header` comes first."""
        folder = self.folder(arm, number)
        self.callbacks.step(f"{arm or 'seed'}, round {number}: verifying")
        agent = agent_with_rules(f"{arm or 'seed'}-{number}", verifier.model, self._rules(arm, number))
        await agent.prepare()
        for benchmark in self.benchmarks:
            await collect_rollouts(
                benchmark.name,
                benchmark.env,
                agent,
                sorted((*benchmark.indices["test"], *benchmark.indices["reflect"])),
                folder / files.VERIFY / benchmark.name,
                seed=self.settings.seed,
                extra={"parts": benchmark.fingerprint()},
                limits=self.limits,
                callbacks=self.callbacks,
            )
        measures = {
            benchmark.name: measure(list(episodes_of([benchmark], folder / files.VERIFY, "test")))
            for benchmark in self.benchmarks
        }
        files.write_json(folder / files.METRICS, {"arm": arm, "round": number, **header, "benchmarks": measures})


def _cached(path: Path, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The JSON data in a file, which is written first where it does not exist."""
    if not path.exists():
        files.write_json(path, compute())
    return files.read_json(path)


def episodes_of(benchmarks: Sequence[BenchmarkSplits], folder: Path, split: Split) -> Iterator[dict[str, Any]]:
    """The episodes of a split, by benchmark and task."""
    for benchmark in benchmarks:
        ids = {task.id for task in benchmark.tasks(split)}
        episodes = [episode for episode in read_run(folder / benchmark.name).episodes() if episode["task"] in ids]
        yield from sorted(episodes, key=lambda episode: int(episode["index"]))


def measure(episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means of reward and format_ok, and for each task its id, gold label and predicted label, None without one."""
    metrics = [episode["reward"]["metrics"] for episode in episodes]
    n = len(episodes)
    return {
        "n": n,
        "reward": round(sum(episode["reward"]["total"] for episode in episodes) / n, 6),
        "format_ok": round(sum(bool(values["format_ok"]) for values in metrics) / n, 6),
        "tasks": [episode["task"] for episode in episodes],
        "gold": [values["gold_verdict"] for values in metrics],
        "said": [values["verdict"] for values in metrics],
    }
