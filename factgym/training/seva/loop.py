"""SEVA's loop: Verify → Reflect → Probe → Refine, round by round (section 2.5 and Algorithm 2).

```
OUT/manifest.json                what, seeds, fingerprints
OUT/round-0/                     the seed verifier: train.jsonl and model/ after a warm-up, verify/, metrics.json
OUT/ARM/round-K/manifest.json    what, seeds, fingerprints of this round
               /profile.json     Reflect: what the verifier before it got wrong
               /allocation.json  weights and ⌈w·B⌉
               /probes.jsonl     Probe, after the cross-check; dropped.jsonl says what was dropped, and why, and
                                 probes.json how many were asked for, made and kept
               /rules.md         Refine of round 1: rules in the instructions
               /train.jsonl      Refine of later rounds: probes ∪ replay; model/ is what training made of it
               /verify/NAME/     the verifier of this round on each benchmark, a run as `factgym eval` writes it
               /metrics.json     written last: the round is finished
```

Every file is whole or not there, so that an evolution that was killed at any point goes on where it was. A stage whose
file is there is not done again; of Verify, no finished episode is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.agent import Model
from factgym.agents.judges import Judge, judge_from
from factgym.agents.models import agent_with_rules
from factgym.agents.rollout.engine import Limits
from factgym.agents.runs import files
from factgym.core.errors import ConfigError
from factgym.core.seeds import derive
from factgym.training.rollouts import Callbacks
from factgym.training.seva.allocation import ceiling_allocation, random_allocation, weakness_weights
from factgym.training.seva.examples import (
    Example,
    example_of,
    read_probes,
    replayed,
    seeds,
    write_dataset,
)
from factgym.training.seva.model_probes import PolicyProposer
from factgym.training.seva.probing import find_probes, quotas_of
from factgym.training.seva.profile import Profile, profile_from, profile_of
from factgym.training.seva.rules import failures_of, write_rules
from factgym.training.seva.settings import Arm, EvolveSettings
from factgym.training.seva.splits import World, open_world
from factgym.training.seva.verify import episodes_of, measure, verify
from factgym.training.trainer import Dataset, Trainer, call_trainer, describe_trainer, open_dataset, train_once

VERSION = 1
REFERENCE = "weakness"
"""The arm whose budget the controls are given."""

FIRST_TRAINED = 2
"""The round with which training begins; the one before changes the prompt alone."""


@dataclass(slots=True)
class Verifier:
    """The model of a round and the rules in its instructions."""

    model: Model
    rules: str = ""


@dataclass(frozen=True)
class Evolution:
    """An evolution on disk.

    start: opens the verifier that it begins with; called again once that was closed. trainer: trains it. judge: of the cross-check; the rules' stand-in by
    default. proposer: writes probes in place of the rules.
    """

    out: Path
    settings: EvolveSettings
    start: Callable[[], Model]
    trainer: Trainer
    judge: Judge = field(default_factory=lambda: judge_from(None, "probe-check"))
    proposer: PolicyProposer | None = None
    limits: Limits | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)

    def run(self, arms: Sequence[str] = (REFERENCE,), rounds: int = 3, *, resume: bool = False) -> None:
        """`run_async`, from a thread without a running event loop."""
        asyncio.run(self.run_async(arms, rounds, resume=resume))

    async def run_async(self, arms: Sequence[str] = (REFERENCE,), rounds: int = 3, *, resume: bool = False) -> None:
        """Measure the seed, then play the rounds of each arm; what is finished is not done again.

        rounds: of each arm; more on a later call continue. resume: go on in the folder, where something is there.
        Raises ConfigError, DataError, RolloutError, PolicyError and what the trainer raises; what was finished is kept.
        """
        if rounds < 1:
            raise ConfigError(f"an evolution has at least one round, not {rounds}")
        chosen = [self.settings.arm(name) for name in sorted(set(arms), key=lambda one: (one != REFERENCE, one))]
        if not chosen:
            raise ConfigError("an evolution needs an arm: weakness, random or mix")
        with files.locked_folder(self.out):
            files.open_folder(self.out, await self._manifest(), resume=resume)
            try:
                await self._round_0()
                for arm in chosen:
                    await self._arm(arm, rounds)
            finally:
                await self.judge.close()
                if self.proposer is not None:
                    await self.proposer.close()

    @cached_property
    def worlds(self) -> tuple[World, ...]:
        """The measured benchmarks."""
        return tuple(self._open(name) for name in self.settings.benchmarks)

    def _open(self, name: str, *, measured: bool = True) -> World:
        own = self.settings
        size = own.size if measured else own.material
        return open_world(name, path=own.path, size=size, seed=own.seed, measured=measured)

    def source(self, name: str) -> World:
        """The world that probes and replay are made from: the material of a benchmark, all of another set."""
        return self._sources.setdefault(name, self._open(name, measured=name in self.settings.benchmarks))

    @cached_property
    def _sources(self) -> dict[str, World]:
        return {world.name: world for world in self.worlds}

    def _material(self, name: str) -> list[Any]:
        return self.source(name).claims("material")[: self.settings.material]

    async def _manifest(self) -> dict[str, Any]:
        start = self.start()
        about = start.describe()
        await start.close()
        return {
            "what": "factgym evolve seva",
            "version": VERSION,
            "factgym": factgym.__version__,
            "settings": self.settings.describe(),
            "agent": about,
            "trainer": describe_trainer(self.trainer),
            "judge": self.judge.describe(),
            "proposer": None if self.proposer is None else self.proposer.describe(),
            "fingerprints": {world.name: world.fingerprint() for world in self.worlds},
        }

    def folder(self, arm: str, number: int) -> Path:
        """Where a round is."""
        return self.out / "round-0" if number == 0 else self.out / arm / f"round-{number}"

    async def _round_0(self) -> None:
        folder = self.folder("", 0)
        about = {"what": "seed", "round": 0, "seed": self.settings.seed, "warm_up": self.settings.warm_up}
        files.open_folder(folder, about, resume=True)
        if (folder / files.METRICS).exists():
            return
        verifier = Verifier(self.start())
        try:
            if self.settings.warm_up:
                verifier.model = await self._warmed_up(verifier.model, folder)
            await self._measured("", 0, verifier, {"what": "seed"})
        finally:
            await verifier.model.close()

    async def _warmed_up(self, start: Model, folder: Path) -> Model:
        self.callbacks.step("round 0: training the seed verifier")
        if not (folder / files.TRAIN).exists():
            names = self.settings.warm_sources or (self.settings.source,)
            pool = [one for name in names for one in seeds(self._material(name))]
            chosen = replayed([], pool, self.settings.warm_up, derive(self.settings.seed, "warm-up"))
            write_dataset(folder / files.TRAIN, [Example(one.item, "seed") for one in chosen])
        return await self._trained(start, folder, derive(self.settings.seed, "train", 0))

    async def _seed(self) -> Model:
        if not self.settings.warm_up:
            return self.start()
        return await call_trainer(self.trainer.load, self.folder("", 0) / files.MODEL)

    async def _arm(self, arm: Arm, rounds: int) -> None:
        done = [number for number in range(1, rounds + 1) if (self.folder(arm.name, number) / files.METRICS).exists()]
        if len(done) == rounds:
            return
        first = len(done) + 1
        verifier = await self._verifier(arm, first - 1)
        try:
            for number in range(first, rounds + 1):
                await self._round(arm, number, verifier)
        finally:
            await verifier.model.close()

    async def _verifier(self, arm: Arm, number: int) -> Verifier:
        """The verifier that a finished round ended with."""
        if number < FIRST_TRAINED:
            model = await self._seed()
        else:
            model = await call_trainer(self.trainer.load, self.folder(arm.name, number) / files.MODEL)
        return Verifier(model, self._rules(arm, number))

    def _rules(self, arm: Arm, number: int) -> str:
        if number < 1 or (number > 1 and not self.settings.keep_rules):
            return ""
        return (self.folder(arm.name, 1) / files.RULES).read_text("utf-8").rstrip("\n")

    async def _round(self, arm: Arm, number: int, verifier: Verifier) -> None:
        """Play a round and leave its verifier in `verifier`."""
        folder = self.folder(arm.name, number)
        before = self.folder(arm.name, number - 1) / files.VERIFY
        files.open_folder(folder, self._round_manifest(arm, number), resume=True)
        profile = self._reflected(folder, before)
        weights = weakness_weights(profile.accuracy)
        allocation = self._allocated(arm, number, weights)
        self.callbacks.step(f"{arm.name}, round {number}: {sum(allocation['counts'].values())} probes")
        report = await self._probed(arm, number, allocation)
        about: dict[str, Any] = {"what": "rules" if number == 1 else "trained", "probes": report}
        if number == 1:
            verifier.rules = self._ruled(folder, before, profile, weights)
        else:
            await verifier.model.close()
            dataset = self._dataset(arm, number)
            seed = derive(self.settings.seed, "train", number)
            verifier.model = await self._trained(verifier.model, folder, seed, dataset)
            verifier.rules = self._rules(arm, number)
            about["train"] = {"lines": dataset.lines, **_taught(dataset)}
        await self._measured(arm.name, number, verifier, about)

    def _round_manifest(self, arm: Arm, number: int) -> dict[str, Any]:
        own = self.settings
        trained = self.folder(arm.name, number - 1 if number > FIRST_TRAINED else 0) / files.TRAINED
        return {
            "what": "rules" if number == 1 else "training",
            "arm": arm.describe(),
            "round": number,
            "budget": own.budget(number),
            "seeds": {name: derive(own.seed, name, number) for name in ("probe", "replay", "train")},
            "verify_seed": own.seed,
            "verifier": files.read_json(trained)["model"] if trained.exists() else "as it was given",
            "sources": {name: self.source(name).fingerprint() for name in arm.shares},
        }

    def _reflected(self, folder: Path, before: Path) -> Profile:
        path = folder / files.PROFILE
        if not path.exists():
            found = profile_of(episodes_of(self.worlds, before, "reflect"), prior=self.settings.prior)
            files.write_json(path, found.to_dict())
        return profile_from(files.read_json(path))

    def _allocated(self, arm: Arm, number: int, weights: Mapping[str, Fraction]) -> dict[str, Any]:
        path = self.folder(arm.name, number) / files.ALLOCATION
        if not path.exists():
            budget = self.settings.budget(number)
            by_weakness = ceiling_allocation(weights, budget)
            compared = self._compared(arm, number)
            total = compared["asked"] if compared else sum(by_weakness.values())
            seed = derive(self.settings.seed, "allocation", number)
            counts = random_allocation(total, seed) if arm.probes == "random" else by_weakness
            found = {
                "probes": arm.probes,
                "budget": budget,
                "weights": {name: str(value) for name, value in weights.items()},
                "shares_of_budget": {name: round(float(value), 6) for name, value in weights.items()},
                "counts": counts,
                "total": sum(counts.values()),
                "limit": compared["kept"] if compared else None,
                "by_source": quotas_of(counts, arm.shares),
            }
            files.write_json(path, found)
        return files.read_json(path)

    def _compared(self, arm: Arm, number: int) -> dict[str, int] | None:
        """What the compared arm asked for and kept in the same round; None without one."""
        path = self.folder(REFERENCE, number) / files.METRICS
        if arm.name == REFERENCE or not path.exists():
            return None
        found: dict[str, int] = files.read_json(path)["probes"]
        return found

    async def _probed(self, arm: Arm, number: int, allocation: Mapping[str, Any]) -> dict[str, Any]:
        folder = self.folder(arm.name, number)
        report = folder / files.REPORT
        if not report.exists():
            found = await find_probes(
                allocation["by_source"],
                {name: self._material(name) for name in arm.shares},
                self.judge,
                derive(self.settings.seed, "probe", number),
                proposer=self.proposer,
                limit=allocation["limit"],
            )
            files.write_lines(folder / files.DROPPED, found.dropped)
            files.write_lines(folder / files.PROBES, found.rows())
            files.write_json(report, found.report(allocation["by_source"]))
        return files.read_json(report)

    def _ruled(self, folder: Path, before: Path, profile: Profile, weights: Mapping[str, Fraction]) -> str:
        path = folder / files.RULES
        if not path.exists():
            failures = failures_of(episodes_of(self.worlds, before, "reflect"))
            files.write_bytes(path, (write_rules(profile, weights, failures) + "\n").encode("utf-8", "replace"))
        return path.read_text("utf-8").rstrip("\n")

    def _dataset(self, arm: Arm, number: int) -> Dataset:
        """Probes ∪ replay: the replay is drawn from the sources' claims and the probes of earlier rounds."""
        path = self.folder(arm.name, number) / files.TRAIN
        if not path.exists():
            probes = self._examples(arm, number)
            pool = [one for name in arm.shares for one in seeds(self._material(name))]
            for earlier in range(1, number):
                pool += self._examples(arm, earlier)
            seed = derive(self.settings.seed, "replay", number)
            count = round(self.settings.replay * len(probes))
            again = replayed(probes, pool, count, seed, balance=self.settings.balance)
            if not probes:
                raise ConfigError(
                    f"{arm.name}, round {number}: no probe was left to train on (see {self.folder(arm.name, number)}): "
                    "give a source with more attributable claims, or more of them (--source, --material)"
                )
            write_dataset(path, [*probes, *again], self._rules(arm, number))
        return open_dataset(path)

    def _examples(self, arm: Arm, number: int) -> list[Example]:
        return [example_of(one) for one in read_probes(self.folder(arm.name, number) / files.PROBES)]

    async def _trained(self, model: Model, folder: Path, seed: int, dataset: Dataset | None = None) -> Model:
        dataset = dataset or open_dataset(folder / files.TRAIN)
        if not (folder / files.TRAINED).exists():
            self.callbacks.step(f"training on {dataset.lines} examples")
        return await train_once(self.trainer, model, dataset, folder, seed)

    async def _measured(self, arm: str, number: int, verifier: Verifier, about: Mapping[str, Any]) -> None:
        folder = self.folder(arm, number)
        self.callbacks.step(f"{arm or 'seed'}, round {number}: verifying")
        agent = agent_with_rules(f"{arm or 'seed'}-{number}", verifier.model, verifier.rules)
        await verify(
            self.worlds,
            agent,
            folder / files.VERIFY,
            seed=self.settings.seed,
            limits=self.limits,
            callbacks=self.callbacks,
        )
        found = {"arm": arm, "round": number, **about, "benchmarks": measure(self.worlds, folder / files.VERIFY)}
        files.write_json(folder / files.METRICS, found)


def _taught(dataset: Dataset) -> dict[str, dict[str, int]]:
    rows = list(dataset.rows())
    return {name: dict(sorted(Counter(str(row[name]) for row in rows).items())) for name in ("origin", "label")}
