"""A recipe run in a folder: traces, stages, held-out evaluation and metrics; the same call continues what was stopped.

    RUN/recipe.toml            the recipe as resolved
    RUN/metrics.jsonl          a line for each step and each evaluation
    RUN/start/                 a model from nothing, or links to a model whose chat template the recipe replaces
    RUN/stages/0-sft/          data, checkpoints, and `model`, the stage's result
    RUN/evaluations/           runs of episodes, which `factgym view` opens
    RUN/result.json            scores before and after, written last

A part is finished when its last file is written; an unfinished part continues from its last checkpoint, and lines of the
metrics behind that checkpoint are dropped. On one machine the curve is that of an uninterrupted run, up to the order of
floating-point sums in the framework's kernels.
"""

from __future__ import annotations

import json
import math
import platform
import random
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import factgym
from factgym.agents.difficulty import find_rule
from factgym.agents.export.training import PreferenceOptions, SftOptions, export_preferences, export_sft
from factgym.agents.local.loading import Loaded
from factgym.agents.resolve import find_agent
from factgym.agents.rollout.jobs import Progress
from factgym.agents.runs.collect import collect
from factgym.agents.runs.files import (
    EPISODES,
    fresh_folder,
    json_line,
    locked_folder,
    read_json,
    read_lines,
    write_bytes,
    write_json,
    write_lines,
)
from factgym.agents.runs.read import read_run
from factgym.core.env import Env
from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.paths import create_file
from factgym.corpora.build import check_corpus, read_passages
from factgym.training.difficulty_filter import TASKS, failures, learning_zone, read_tasks, reason_counts, score_tasks
from factgym.training.recipes import scratch
from factgym.training.recipes.budget import duration
from factgym.training.recipes.evaluation import SCORES, evaluate, evaluate_references, paired_differences, playing_agent
from factgym.training.recipes.recipe import (
    DpoStage,
    GrpoStage,
    LmStage,
    Recipe,
    RwrStage,
    SftStage,
    Stage,
    read_recipe,
    recipe_of,
    recipe_toml,
)
from factgym.training.recipes.stages import (
    MODEL,
    Log,
    StageRun,
    StepEnd,
    device_faults,
    last_checkpoint,
    load_model,
    run_stage,
    save_model,
)
from factgym.training.recipes.task_sets import TEST, TRAIN, VALIDATION, TaskSets
from factgym.training.recipes.templates import starting_model

RECIPE, METRICS, RESULT, FINISHED = "recipe.toml", "metrics.jsonl", "result.json", "finished.json"
_BEST, _VALIDATED = "best", "validated.json"
EVALUATIONS = "evaluations"

_TOKENIZER_TASKS, _TOKENIZER_CHATS = 200, 1000


@dataclass(slots=True)
class TrainingProgress:
    """State of a training run for a display.

    total, done: steps of all stages. rows: the last metrics. episodes: counters of the evaluation that goes on, if any.
    """

    total: int
    done: int = 0
    label: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    episodes: Progress | None = None


@dataclass(frozen=True, slots=True)
class Observer:
    """Callbacks of a run: sentences, metric lines, and the progress at its beginning."""

    step: Callable[[str], None] = lambda text: None
    metrics: Callable[[dict[str, Any]], None] = lambda line: None
    start: Callable[[TrainingProgress], None] = lambda progress: None


def train(recipe: Recipe, folder: Path, observer: Observer | None = None) -> dict[str, Any]:
    """Run a recipe in a folder and return its result; continue where an earlier call was stopped.

    Raises ConfigError for a folder of another recipe, for a split that is made for evaluation, and the errors of the
    stages; whatever it raises, finished stages and complete checkpoints stay on disk.
    """
    if any(find_spec(library) is None for library in ("torch", "transformers", "trl", "peft", "datasets")):
        raise MissingExtraError("factgym train", "train")
    import torch

    tasks = TaskSets(recipe)
    with locked_folder(folder):
        _open_folder(folder, recipe)
        if (folder / RESULT).is_file():
            return read_json(folder / RESULT)
        torch.set_num_threads(recipe.threads)
        return _Training(recipe, folder, tasks, observer or Observer()).run()


def _open_folder(folder: Path, recipe: Recipe) -> None:
    path, text = folder / RECIPE, recipe_toml(recipe)
    if not path.exists():
        write_bytes(path, text.encode())
        about = {"factgym": factgym.__version__, "python": platform.python_version(), "machine": platform.machine()}
        libraries = {name: version(name) for name in ("torch", "transformers", "trl", "peft")}
        write_json(folder / "machine.json", {**about, **libraries})
        return
    old = recipe_of(read_recipe(path)).model_dump()
    new = recipe.model_dump()
    changed = [name for name in new if new[name] != old[name]]
    if changed:
        raise ConfigError(
            f"{folder} holds a run of another recipe (they differ in {', '.join(changed)}): repeat that one to continue "
            "it, or choose another --out"
        )


class _Training:
    """One call of `train`."""

    def __init__(self, recipe: Recipe, folder: Path, tasks: TaskSets, observer: Observer) -> None:
        self.recipe, self.folder, self.tasks, self.observer = recipe, folder, tasks, observer
        self.progress = TrainingProgress(sum(stage.steps for stage in recipe.stages))
        self.offset = 0

    def run(self) -> dict[str, Any]:
        self._check_stages()
        self.observer.start(self.progress)
        self._drop_unfinished_lines()
        model = self._initial_model()
        self._evaluate_model(model, "start", 0, 0)
        facts: list[dict[str, Any]] = []
        models = [model]
        for number, stage in enumerate(self.recipe.stages):
            name = f"{number}-{stage.kind}"
            folder = self.folder / "stages" / name
            if not (folder / FINISHED).is_file():
                self.observer.step(f"stage {name}: {stage.steps} steps")
                seconds = None if stage.control_of is None else facts[stage.control_of]["cpu_time"]
                start = models[self.recipe.start_of(number)]
                write_json(folder / FINISHED, self._run_stage(number, folder, start, seconds))
            facts.append(read_json(folder / FINISHED))
            models.append(model := str(folder / MODEL))
            self.offset += facts[-1]["steps"]
            self.progress.done = self.offset
            self._evaluate_model(model, name, number, facts[-1]["steps"])
        result = self._result(facts)
        test, settings = self.tasks.held_out(TEST), self.recipe.evaluation
        if test is not None and TEST in result["splits"]:
            base, count = self.folder / EVALUATIONS / TEST, settings.test_tasks
            references = evaluate_references(self.recipe.env, test, base, count, settings, self.recipe.seed)
            result["splits"][TEST]["references"] = references
        write_json(self.folder / RESULT, result)
        return result

    def _check_stages(self) -> None:
        """Raise ConfigError or DataError for stages that could not be trained, before anything is played."""
        for number, stage in enumerate(self.recipe.stages):
            if isinstance(stage, LmStage):
                check_corpus(stage.data)
            if stage.keep == "best" and self.tasks.held_out(VALIDATION) is None:
                raise ConfigError(
                    f"stage {number}: keep='best' needs a {VALIDATION} split, and {self.recipe.env} has none: leave it out"
                )

    def _initial_model(self) -> str:
        name, folder = self.recipe.model, self.folder / "start" / MODEL
        if not name.startswith(scratch.PREFIX):
            small = self.recipe.engine == "small"
            kinds = [stage.kind for stage in self.recipe.stages if not (small and stage.kind == "grpo")]
            model = starting_model(name.removeprefix("hf:"), self.recipe.chat_template, self.tasks.env, kinds, folder)
            if small:
                from factgym.training.small_model import SmallModel

                SmallModel(load_model(model).model, name)  # refuses other models before the first evaluation
            return model
        if self.recipe.chat_template is not None:
            raise ConfigError(f"{name} is made for its own chat template: leave chat_template out")
        weights = scratch.parse_size(name.removeprefix(scratch.PREFIX))
        if not folder.is_dir():
            self.observer.step("a tokenizer and a model from nothing")
            _, vocabulary = scratch.shape_of(weights)
            tokenizer = scratch.make_tokenizer(self._texts(), vocabulary, self._plain_texts())
            made = scratch.make_model(tokenizer, weights, self.recipe.seed)
            ends = frozenset({tokenizer.eos_token_id})
            loaded = Loaded(
                made, tokenizer, {}, tokenizer.model_max_length, ends, tokenizer.pad_token_id, "cpu", "float32"
            )
            folder.parent.mkdir(parents=True, exist_ok=True)
            save_model(loaded, made, folder)
        return str(folder)

    def _plain_texts(self) -> Iterator[str]:
        """The passages of stages of language modelling."""
        for stage in self.recipe.stages:
            if isinstance(stage, LmStage):
                yield from (passage.text for passage in read_passages(stage.data))

    def _texts(self) -> Iterator[str]:
        """The chats of the first supervised stage's data, else of the teacher's episodes, as the template writes them."""
        stages = enumerate(self.recipe.stages)
        number = next((n for n, stage in stages if isinstance(stage, SftStage) and stage.filter == "none"), None)
        if number is not None:
            stage = self.recipe.stages[number]
            path = self._sft_data(number, self.folder / "stages" / f"{number}-sft", self.tasks.of_stage(stage))
        else:
            path = self._traces(SftStage(), self.folder / "start", self.tasks.trained(_TOKENIZER_TASKS))
        yield from scratch.render_chats(islice(read_lines(path), _TOKENIZER_CHATS))

    def _chosen_tasks(self, stage: Stage, folder: Path, model: str) -> list[int]:
        """Indices of the tasks of a stage, chosen by its filter once and stored beside its data."""
        if stage.filter == "none":
            return self.tasks.of_stage(stage)
        path = folder / TASKS
        if not path.is_file():
            write_bytes(path, "".join(f"{task}\n" for task in self._filtered(stage, folder, model)).encode())
        skipped = set(self.tasks.trained(stage.skip_tasks))
        chosen = [self.tasks.env.tasks.index_of(task) for task in read_tasks(path)]
        return [index for index in chosen if index not in skipped][: stage.tasks]

    def _filtered(self, stage: Stage, folder: Path, model: str) -> list[str]:
        """Return the tasks that a filter leaves: those in the learning zone, or those where the policy fails."""
        if stage.filter_data is not None:
            source = Path(stage.filter_data)
            self.tasks.check_trained((str(episode["task"]) for episode in read_run(source).episodes()), str(source))
        else:
            source, env = (
                folder / "filter",
                self.tasks.restricted(self.tasks.trained(stage.filter_tasks, stage.skip_tasks)),
            )
            self._play(env, source, model, stage.filter_samples, getattr(stage, "temperature", 1.0), None)
        scores = score_tasks(read_run(source).episodes(), find_rule(stage.filter_rule))
        if stage.filter == "failures":
            mined = failures(scores, stage.filter_share)
            write_lines(folder / "failures.jsonl", [asdict(failure) for failure in mined])
            reasons = ", ".join(f"{reason} {count}" for reason, count in reason_counts(mined).items())
            tasks, note = [failure.task for failure in mined], f" ({reasons})" if reasons else ""
        else:
            tasks, note = learning_zone(scores), ""
        self.observer.step(f"{stage.filter}: {len(tasks)} of {len(scores)} tasks{note}")
        if not tasks:
            raise ConfigError(
                f"filter={stage.filter!r} leaves none of {len(scores)} tasks: the policy's episodes do not differ there. "
                "Take more tasks (filter_tasks) or episodes (filter_samples), or leave the filter out"
            )
        return tasks

    def _play(
        self, env: Env[Any], folder: Path, model: str, samples: int, temperature: float, max_tokens: int | None
    ) -> None:
        """Play episodes with the current model into a run's folder, or the rest of them."""
        settings = self.recipe.evaluation
        options = {"temperature": temperature, "max_tokens": max_tokens or settings.max_tokens}
        self.observer.step(f"{samples} episodes of each of {len(env.tasks)} tasks by the current model")
        agent = find_agent(f"hf:{model}", self.recipe.env, {**options, "batch_size": settings.batch})
        collect(env, agent, folder, n=len(env.tasks), k=samples, seed=self.recipe.seed, resume=True)

    def _data(self, number: int, folder: Path, model: str, indices: Sequence[int]) -> Path | None:
        """The file of chats that a stage learns from; None where it plays, or reads plain text."""
        stage = self.recipe.stages[number]
        if isinstance(stage, GrpoStage | LmStage):
            return None
        if isinstance(stage, SftStage):
            return self._sft_data(number, folder, indices)
        return self._sampled_data(stage, folder, model, indices)

    def _sft_data(self, number: int, folder: Path, indices: Sequence[int]) -> Path:
        """The chat lines of a supervised stage: made, exported from a run, or a file as it is."""
        stage = self.recipe.stages[number]
        assert isinstance(stage, SftStage)
        if stage.data is None:
            return self._traces(stage, folder, indices)
        source = Path(stage.data)
        if source.is_dir() or source.name == EPISODES:
            run = read_run(source)
            self.tasks.check_trained((str(episode["task"]) for episode in run.episodes()), str(source))
            return self._restrict(stage, self._export(run.folder, stage, folder), folder, indices)
        self.tasks.check_trained((str(line["task"]) for line in read_lines(source) if "task" in line), str(source))
        return self._restrict(stage, source, folder, indices)

    def _restrict(self, stage: Stage, source: Path, folder: Path, indices: Sequence[int]) -> Path:
        """The lines of the tasks that the stage's filter chose; the file itself without a filter."""
        if stage.filter == "none":
            return source
        chosen = {str(self.tasks.env.tasks[index].id) for index in indices}
        lines = [line for line in read_lines(source) if line.get("task") in chosen]
        if not lines:
            raise ConfigError(f"{source} has no line of the {len(chosen)} tasks that filter={stage.filter!r} chose")
        path = folder / "filtered.jsonl"
        write_lines(path, lines)
        return path

    def _traces(self, stage: SftStage, folder: Path, indices: Sequence[int]) -> Path:
        path = folder / "data.jsonl"
        if path.is_file():
            return path
        self.observer.step(f"traces of {stage.teacher!r} on {len(indices)} tasks")
        agent = find_agent(stage.teacher, self.recipe.env)
        if agent.describe().get("role") == "oracle":
            raise ConfigError(
                f"teacher={stage.teacher!r} is an oracle, which acts on gold that it was never shown: to train on its "
                "traces teaches guessing. Take teacher='teacher', which justifies each action by its observations"
            )
        env, traces = self.tasks.restricted(indices), folder / "traces"
        collect(env, agent, traces, n=len(env.tasks), k=stage.samples, seed=self.recipe.seed, resume=True)
        return self._export(traces, stage, folder)

    def _export(self, run: Path, stage: SftStage, folder: Path) -> Path:
        path = folder / "data.jsonl"
        summary = export_sft(
            [run], path, SftOptions(min_reward=stage.min_reward, allow_evaluation_split=True), force=True
        )
        self.observer.step(summary.text())
        return path

    def _sampled_data(self, stage: DpoStage | RwrStage, folder: Path, model: str, indices: Sequence[int]) -> Path:
        """Preference pairs or drawn lines of stored episodes, or of episodes that the current model plays."""
        path = folder / "data.jsonl"
        if path.is_file():
            return self._restrict(stage, path, folder, indices) if isinstance(stage, DpoStage) else path
        if stage.data is not None:
            source = Path(stage.data)
            self.tasks.check_trained((str(episode["task"]) for episode in read_run(source).episodes()), stage.data)
        else:
            source, env = folder / "episodes", self.tasks.restricted(indices)
            self._play(env, source, model, stage.samples, stage.temperature, stage.max_tokens)
        if isinstance(stage, DpoStage):  # the tasks have been checked
            options = PreferenceOptions(margin=stage.margin, allow_evaluation_split=True)
            self.observer.step(export_preferences([source], path, options, force=True).text())
            return self._restrict(stage, path, folder, indices)
        every = SftOptions(only_submitted=False, allow_evaluation_split=True)
        export_sft([source], folder / "episodes.jsonl", every, force=True)
        lines = list(read_lines(self._restrict(stage, folder / "episodes.jsonl", folder, indices)))
        write_lines(path, reward_weighted(lines, stage.lines, stage.reward_scale, self.recipe.seed))
        return path

    def _run_stage(self, number: int, folder: Path, model: str, limit: float | None) -> dict[str, Any]:
        """Train a stage with held-out evaluations between its steps; return its facts and our warnings.

        limit: CPU seconds after which it ends; those of evaluations do not count.
        """
        stage = self.recipe.stages[number]
        indices = self._chosen_tasks(stage, folder, model)
        data = self._data(number, folder, model, indices)
        run = StageRun(self.recipe, stage, self.tasks.env, self.tasks.env_config, indices, folder, model, data)
        settings, held_out = self.recipe.evaluation, self.tasks.held_out(VALIDATION)
        every = settings.every if stage.evaluate_every is None else stage.evaluate_every
        if every and held_out is None:
            warnings.warn(f"{self.recipe.env} has no {VALIDATION} split to evaluate on", stacklevel=2)

        lines = [line for line in read_metrics(self.folder) if line["stage"] == number and "cpu_time" in line]
        clock = _StageClock(lines[-1]["cpu_time"] if lines else 0.0, limit)

        def log(step: int, metrics: dict[str, Any]) -> None:
            about = {"stage": number, "kind": stage.kind, "step": step, "total_step": self.offset + step}
            self._add({**about, **metrics, "cpu_time": clock.seconds})

        def on_note(text: str) -> None:
            self.observer.step(text)
            clock.noted = time.monotonic()

        def on_step_end(step: int, loaded: Loaded) -> str | None:
            self.progress.done = self.offset + step
            if text := clock.first_step(stage.steps - step):
                self.observer.step(text)
            if every and held_out is not None and (step % every == 0 or step == stage.steps):
                name = f"{number}-{stage.kind}-{step:06}"
                with clock.paused():
                    scores = self._evaluate(loaded, held_out, VALIDATION, settings.tasks, name, number, step)
                    if stage.keep == "best":
                        _keep_better(folder, loaded, step, scores["reward"])
            return f"step {step}: as many CPU seconds as stage {stage.control_of} took" if clock.is_over else None

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default", UserWarning)
            facts = _run_engine(run, log, on_step_end, on_note)
        package = str(Path(factgym.__file__).parent)
        # Warnings of TRL's own categories, raised with our files as their origin, are about its experimental parts.
        ours = [item for item in caught if item.category is UserWarning and item.filename.startswith(package)]
        notes = list(dict.fromkeys(str(item.message) for item in ours))
        for note in notes:
            self.observer.step(f"warning: {note}")
        facts |= _take_best(folder) if stage.keep == "best" else {}
        return {"kind": stage.kind, **facts, "cpu_time": clock.seconds, "warnings": notes}

    def _evaluate_model(self, model: str, name: str, number: int, step: int) -> None:
        """Evaluate a model on disk: on the test split, on the trained tasks, and at the start on the validation split."""
        settings, jobs = self.recipe.evaluation, []
        test = self.tasks.held_out(TEST) if settings.test_tasks else None
        if test is not None:
            jobs.append((TEST, test, settings.test_tasks))
        if settings.train_tasks:
            stages = self.recipe.stages
            count = min((stage.tasks or len(self.tasks.order) for stage in stages), default=settings.train_tasks)
            jobs.append((TRAIN, self.tasks.subset(min(count, settings.train_tasks)), settings.train_tasks))
        validation = self.tasks.held_out(VALIDATION)
        if name == "start" and settings.every and validation is not None:
            jobs.append((VALIDATION, validation, settings.tasks))
        if not jobs or all((self.folder / EVALUATIONS / split / name / SCORES).is_file() for split, _, _ in jobs):
            return
        with warnings.catch_warnings():  # a stage reports them
            warnings.simplefilter("ignore", UserWarning)
            loaded = load_model(model, "bfloat16" if self.recipe.dtype == "bfloat16" else "float32")
        for split, env, count in jobs:
            self._evaluate(loaded, env, split, count, name, number, step)

    def _evaluate(
        self, loaded: Loaded, env: Env[Any], split: str, tasks: int, name: str, number: int, step: int
    ) -> dict[str, Any]:
        self.progress.label = f"evaluation on {split}"
        folder = self.folder / EVALUATIONS / split / name
        finished = (folder / SCORES).is_file()
        settings, seed = self.recipe.evaluation, self.recipe.seed
        sampling = {"temperature": settings.temperature, "max_tokens": settings.max_tokens}
        try:
            with playing_agent(loaded, **sampling, batch_size=settings.batch) as agent:
                scores = evaluate(agent, env, folder, tasks, settings, seed, self._watch_episodes)
        finally:
            self.progress.episodes = None
        logged = {(line.get("evaluation"), line.get("name")) for line in read_metrics(self.folder)}
        if not finished or (split, name) not in logged:
            about = {"stage": number, "kind": self.recipe.stages[number].kind, "step": step, "name": name}
            total = self.offset if name in self.recipe.boundaries() else self.offset + step
            self._add({**about, "total_step": total, "evaluation": split, **scores})
        return scores

    def _watch_episodes(self, episodes: Progress) -> None:
        self.progress.episodes = episodes

    def _add(self, line: dict[str, Any]) -> None:
        with create_file(self.folder / METRICS, "ab") as file:
            file.write(json_line(line))
        self.progress.rows.append(line)
        self.progress.label = f"stage {line['stage']}-{line['kind']}"
        self.observer.metrics(line)

    def _drop_unfinished_lines(self) -> None:
        """Drop the metrics and evaluations behind the last checkpoint of the first unfinished stage."""
        for number, stage in enumerate(self.recipe.stages):
            folder = self.folder / "stages" / f"{number}-{stage.kind}"
            if (folder / FINISHED).is_file():
                continue
            checkpoint = last_checkpoint(folder)
            step = checkpoint[1] if checkpoint else 0
            lines = read_metrics(self.folder)
            write_lines(
                self.folder / METRICS, [line for line in lines if (line["stage"], line["step"]) <= (number, step)]
            )
            prefix = f"{number}-{stage.kind}-"
            for path in (self.folder / EVALUATIONS / VALIDATION).glob(f"{prefix}*"):
                if int(path.name.removeprefix(prefix)) > step:
                    fresh_folder(path).rmdir()
            return

    def _result(self, facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return scores at the stages' boundaries, paired differences between them, and the held-out curve."""
        splits: dict[str, Any] = {}
        names = self.recipe.boundaries()
        for split in (TEST, TRAIN):
            folders = [self.folder / EVALUATIONS / split / name for name in names]
            if not all((folder / SCORES).is_file() for folder in folders):
                continue
            scores = {name: read_json(folder / SCORES) for name, folder in zip(names, folders, strict=True)}
            pairs = [(names[self.recipe.start_of(n)], name) for n, name in enumerate(names[1:])]
            controls = enumerate(stage.control_of for stage in self.recipe.stages)
            pairs += [(names[number + 1], names[other + 1]) for number, other in controls if other is not None]
            if len(names) > 2:
                pairs.append((names[0], names[self.recipe.start_of(len(names) - 1)]))
            base = self.folder / EVALUATIONS / split
            differences = []
            for first, second in pairs:
                rows = paired_differences(base / first, base / second)
                plain = {name: [row.value, row.low, row.high] for name, row in rows.items()}
                differences.append({"before": first, "after": second, "scores": plain})
            splits[split] = {"scores": scores, "differences": differences}
        held_out = [
            {"step": line["total_step"], **{name: line[name] for name in ("reward", "low", "high")}}
            for line in read_metrics(self.folder)
            if line.get("evaluation") == VALIDATION
        ]
        return {"stages": list(facts), "splits": splits, "held_out": held_out}


class _StageClock:
    """CPU seconds of a stage without evaluations. before: of earlier attempts. limit: None for none. noted: when its first step began."""

    def __init__(self, before: float, limit: float | None) -> None:
        self._start, self._limit = time.process_time() - before, limit
        self.noted = 0.0

    @property
    def seconds(self) -> float:
        """CPU seconds so far."""
        return round(time.process_time() - self._start, 3)

    @property
    def is_over(self) -> bool:
        """Whether the limit is reached."""
        return self._limit is not None and self.seconds >= self._limit

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out what happens meanwhile."""
        start = time.process_time()
        yield
        self._start += time.process_time() - start

    def first_step(self, more: int) -> str:
        """What the first step, with its rollouts, took, and `more` of them; an empty text afterwards."""
        start, self.noted = self.noted, 0.0
        if not start or not more or self._limit is not None:
            return ""
        seconds = time.monotonic() - start
        return f"a step took {duration(seconds)}: {more} more in about {duration(seconds * more)}"


def reward_weighted(lines: Sequence[dict[str, Any]], count: int, scale: float, seed: int) -> list[dict[str, Any]]:
    """Draw lines with probability ∝ exp(reward / scale): the expected loss is that of reward-weighted regression."""
    highest = max(line["reward"] for line in lines)
    weights = [math.exp((line["reward"] - highest) / scale) for line in lines]
    return random.Random(f"reward-weighted {seed}").choices(lines, weights, k=count)


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a run's metrics; a last line that a kill cut off is left out."""
    path = folder / METRICS
    if not path.is_file():
        return
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _run_engine(run: StageRun, log: Log, on_step_end: StepEnd, note: Callable[[str], None]) -> dict[str, Any]:
    """Train a stage with the recipe's engine, and return facts about it."""
    if run.recipe.engine == "trl":
        return run_stage(run, log, on_step_end, note)
    from factgym.training.recipes.small import run_small_stage

    with device_faults(run.folder, "lower groups, samples, batch or max_completion"):
        return run_small_stage(run, log, on_step_end)


def _keep_better(folder: Path, loaded: Loaded, step: int, reward: float | None) -> None:
    """Save a stage's model as its best one if none that was saved so has as high a reward. reward: None counts for nothing."""
    about = folder / _BEST / _VALIDATED
    if reward is not None and (not about.is_file() or reward > read_json(about)["reward"]):
        save_model(loaded, loaded.model, folder / _BEST)
        write_json(about, {"step": step, "reward": reward})


def _take_best(folder: Path) -> dict[str, Any]:
    """Make the best model of a stage the one that it ends with; return its step and reward as "kept".

    A stage that ends before its first evaluation keeps its last model.
    """
    if not (folder / _BEST / _VALIDATED).is_file():
        return {}
    shutil.copytree(folder / _BEST, folder / MODEL, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_VALIDATED))
    return {"kept": read_json(folder / _BEST / _VALIDATED)}
