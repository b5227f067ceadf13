"""Stages of a recipe on TRL's trainers: their data, their settings, checkpoints and logged metrics.

A stage reads a model's folder and writes another. Its checkpoints hold weights, optimiser, schedule and random state; a
checkpoint counts once its marker is written, so that an interrupted checkpoint is not continued from.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.agents.local.loading import DType, Loaded, LocalSettings, load, pick_device
from factgym.agents.runs.files import read_json, read_lines, write_json
from factgym.core.env import Env
from factgym.core.errors import ConfigError, FactgymError, did_you_mean
from factgym.corpora.build import read_passages
from factgym.training.recipes.budget import MemoryShortageError, announce, device_rows, uses_bfloat16
from factgym.training.recipes.recipe import DpoStage, GrpoStage, LmStage, Recipe, RwrStage, SftStage, Stage
from factgym.training.recipes.templates import (
    CHATML,
    add_call_reader,
    template_in_place,
    template_text,
    training_template,
)
from factgym.training.rollouts import StepStore, trained_episode

CHECKPOINTS = "checkpoints"
EPISODES = "episodes"
COMPLETE = "complete.json"
MODEL = "model"

Log = Callable[[int, dict[str, Any]], None]
"""Takes the step and its metrics."""
StepEnd = Callable[[int, Loaded], str | None]
"""Called after each step with the model in training; returns why the stage ends here, None where it goes on."""


@dataclass(frozen=True, slots=True)
class StageRun:
    """Arguments of a stage.

    env_config: of the environment, with the training split. indices: of the tasks to train on, in their order. data:
    the chat lines of supervised tuning. folder: of the stage. model: folder or name of the initial model.
    """

    recipe: Recipe
    stage: Stage
    env: Env[Any]
    env_config: Mapping[str, Any]
    indices: Sequence[int]
    folder: Path
    model: str
    data: Path | None = None


@dataclass(slots=True)
class SilentSteps:
    """Ends a GRPO stage whose groups have no advantage. count: such steps in a row. stopped: the reason, once it ends."""

    stage: Stage
    count: int = 0
    stopped: str | None = None

    @classmethod
    def of(cls, stage: Stage, checkpoint: tuple[Path, int] | None) -> SilentSteps:
        """Go on with the count of a checkpoint."""
        return cls(stage, read_json(checkpoint[0] / COMPLETE)["silent_steps"] if checkpoint else 0)

    def add(self, step: int, share: float) -> None:
        """Count a step, of whose groups this share has equal rewards."""
        assert isinstance(self.stage, GrpoStage)
        self.count = self.count + 1 if share >= self.stage.stop_share else 0
        if self.count >= self.stage.stop_patience:
            self.stopped = (
                f"step {step}: for {self.count} steps at least {self.stage.stop_share:.0%} of the groups had equal "
                "rewards, and so no advantage"
            )


def load_model(name: str, dtype: DType = "float32") -> Loaded:
    """Load a model to train. Raises ConfigError where it has no weights or no chat template."""
    loaded = load(name, LocalSettings(device=pick_device(None), dtype=dtype))
    if not loaded.tokenizer.chat_template:
        raise ConfigError(f"the tokenizer of {name!r} has no chat template: take a model that was tuned for chat")
    special = {"<think>", "</think>"} & set(loaded.tokenizer.all_special_tokens)
    if special:
        warnings.warn(
            f"{', '.join(sorted(special))} are special tokens of {name!r}, which TRL strips from every reply: rewards "
            "for that format are lost. Make them ordinary tokens of the tokenizer.",
            stacklevel=2,
        )
    return loaded


def save_model(loaded: Loaded, model: Any, folder: Path) -> None:
    """Save a model whole, or not at all, with its tokenizer and chat template as they were loaded."""
    from transformers import GenerationConfig

    draft = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    ends = {"eos_token_id": sorted(loaded.eos), "pad_token_id": loaded.pad}
    model.generation_config = GenerationConfig(**{**loaded.defaults, **ends})
    model.save_pretrained(draft)
    loaded.tokenizer.save_pretrained(draft)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def last_checkpoint(folder: Path) -> tuple[Path, int] | None:
    """The last complete checkpoint of a stage and its step; incomplete checkpoints are removed."""
    complete = []
    for path in (folder / CHECKPOINTS).glob("checkpoint-*"):
        step = path.name.rpartition("-")[2]
        if (path / COMPLETE).is_file() and step.isdecimal():
            complete.append((int(step), path))
        else:
            shutil.rmtree(path)
    return (max(complete)[1], max(complete)[0]) if complete else None


def run_stage(
    run: StageRun, log: Log, on_step_end: StepEnd, note: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Train a stage with TRL from its last checkpoint, or from its beginning; save the model and return facts about the stage.

    note: takes a line on memory and time. Raises ConfigError for settings that TRL refuses and for a full disk,
    MemoryShortageError when memory is short.
    """
    checkpoint = last_checkpoint(run.folder)
    # Adapters are trained over 16-bit weights; full training keeps 32-bit weights and computes in 16 bits.
    half = run.recipe.dtype == "bfloat16" or (run.recipe.lora is not None and uses_bfloat16(run.recipe))
    loaded = load_model(run.model, "bfloat16" if half else "float32")
    more = "groups, samples and max_completion" if isinstance(run.stage, GrpoStage) else "max_length"
    advice = (
        f"lower device_batch of the stage (gradients are accumulated to the same step), {more}, or train an adapter "
        "with [lora]"
    )
    with device_faults(run.folder, advice):
        trainer, facts = _TRAINERS[run.stage.kind](run, loaded)
        if run.recipe.train_layers is not None:
            freeze_layers(trainer.model, run.recipe.train_layers)
        trainer.model.train()
        announce(trainer, run.recipe, run.stage, checkpoint[1] if checkpoint else 0, facts.get("tokens"), note)
        choose_optimizer(trainer, run.stage.optimizer, run.stage.learning_rate)
        silent = SilentSteps.of(run.stage, checkpoint)
        trainer.add_callback(_callback(trainer, run, loaded, log, on_step_end, silent))
        trainer.train(resume_from_checkpoint=str(checkpoint[0]) if checkpoint else None)
        model = trainer.accelerator.unwrap_model(trainer.model)
        if run.recipe.lora is not None:
            model = model.merge_and_unload()
        save_model(loaded, model, run.folder / MODEL)
    return {**facts, "steps": trainer.state.global_step, "stopped": silent.stopped}


def freeze_layers(model: Any, count: int) -> None:
    """Freeze all weights but those of the last `count` layers. Raises ConfigError for more than there are."""
    from torch.nn import ModuleList

    layers = [list(part) for part in model.modules() if isinstance(part, ModuleList)]
    blocks = next((part for part in layers if len(part) == model.config.num_hidden_layers), [])
    if count > len(blocks):
        raise ConfigError(f"train_layers={count} is more than the {len(blocks)} layers of the model")
    trained = {id(weight) for block in blocks[-count:] for weight in block.parameters()}
    for weight in model.parameters():
        if id(weight) not in trained:
            weight.requires_grad_(False)


def choose_optimizer(trainer: Any, name: str, learning_rate: float) -> None:
    """Give a trainer Muon where it is named; AdamW is TRL's own."""
    if name == "muon":
        from factgym.training.optimizer import MuonAdamW

        trainer.optimizer = MuonAdamW(trainer.model, learning_rate)


_WRITE_FAULTS = ("inline_container", "PytorchStreamWriter", "No space left", "quota exceeded")
"""In the messages of PyTorch's and safetensors' own errors for a file that cannot be written."""


@contextmanager
def device_faults(folder: Path, advice: str) -> Iterator[None]:
    """Turn a full memory or disk into an error that says what to do; checkpoints that are complete stay.

    folder: that is written to. advice: the settings to lower when memory is short.
    """
    import torch
    from safetensors import SafetensorError

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise MemoryShortageError(f"the device is out of memory: {advice}; then run the same command again") from error
    except (OSError, RuntimeError, SafetensorError) as error:
        if not isinstance(error, OSError) and not any(text in str(error) for text in _WRITE_FAULTS):
            raise
        free = shutil.disk_usage(folder).free / 1e6
        reason = getattr(error, "strerror", None) or "the file is incomplete"
        raise ConfigError(
            f"cannot write to {folder} ({reason}; {free:,.0f} MB are free): complete checkpoints are intact. Make "
            "room, or raise save_every, and run the same command again"
        ) from error


def config_of(run: StageRun, rows: int, tokens: int, config: type[Any], **values: Any) -> Any:
    """The configuration of a TRL trainer. rows: of one step. tokens: of the longest. Raises ConfigError for unknown or refused settings."""
    stage = run.stage
    device_batch = device_rows(run.recipe, stage, rows, tokens)
    if rows % device_batch:
        raise ConfigError(f"device_batch={device_batch} must divide the {rows} rows of a step")
    unknown = next((name for name in stage.trl if name not in {f.name for f in dataclasses.fields(config)}), None)
    if unknown is not None:
        names = [field.name for field in dataclasses.fields(config)]
        raise ConfigError(f"trl: {config.__name__} has no argument {unknown!r:.80}.{did_you_mean(unknown, names)}")
    if run.recipe.gradient_checkpointing is not None:
        values["gradient_checkpointing"] = run.recipe.gradient_checkpointing
    settings = {
        **trainer_arguments(run.folder / CHECKPOINTS, device_batch, stage.learning_rate, run.recipe.seed),
        "max_steps": stage.steps,
        "gradient_accumulation_steps": rows // device_batch,
        "lr_scheduler_type": "constant_with_warmup" if stage.schedule == "constant" else stage.schedule,
        "warmup_steps": stage.warmup,
        "bf16": uses_bfloat16(run.recipe),
        "save_steps": stage.save_every,
        "save_total_limit": 2,
        **values,
        **stage.trl,
    }
    try:
        return config(**settings)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"TRL refuses the settings of a stage: {error}") from None


def trainer_arguments(folder: Path, device_batch: int, learning_rate: float, seed: int) -> dict[str, Any]:
    """The arguments that all configurations of TRL's trainers share here; on a GPU in 16 bits where it has them."""
    import torch

    gpu = torch.cuda.is_available()
    return {
        "output_dir": str(folder),
        "per_device_train_batch_size": device_batch,
        "learning_rate": learning_rate,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "seed": seed,
        "use_cpu": not gpu,
        "bf16": gpu and torch.cuda.is_bf16_supported(),
        "gradient_checkpointing": gpu,
    }


def chat_lines(run: StageRun) -> list[dict[str, Any]]:
    """The lines of supervised tuning. Raises ConfigError for a file of other lines."""
    assert run.data is not None
    lines = list(read_lines(run.data))
    if any("messages" not in line for line in lines):
        raise ConfigError(f"{run.data} holds lines without messages: `factgym export RUN --to sft` writes such a file")
    return lines


def _sft(run: StageRun, loaded: Loaded) -> tuple[Any, dict[str, Any]]:
    """Return TRL's trainer of a supervised stage, with warnings where traces are cut or too long for the model."""
    from trl import SFTConfig, SFTTrainer

    stage, lines = run.stage, chat_lines(run)
    assert isinstance(stage, SftStage | RwrStage)
    max_length = stage.max_length if isinstance(stage, SftStage) else None
    marked = training_template(loaded.tokenizer, lines[0]["messages"], lines[0].get("tools") or ())
    tokens = min(_most_tokens(loaded, lines, "messages"), max_length or loaded.context)
    arguments = config_of(
        run, stage.batch, tokens, SFTConfig, max_length=max_length, assistant_only_loss=True, shuffle_dataset=False
    )
    trainer = _build(SFTTrainer, run, loaded, arguments, table_of(lines, ("messages", "tools")), marked)
    longest = max(len(row["input_ids"]) for row in trainer.train_dataset)
    if longest > loaded.context:
        warnings.warn(
            f"the longest trace has {longest} tokens, more than the {loaded.context} of the model: set max_length to "
            'leave its end out, or take env_config.prompt = "brief"',
            stacklevel=2,
        )
    if max_length is not None and longest >= max_length:
        cut = sum(len(row["input_ids"]) >= max_length for row in trainer.train_dataset)
        warnings.warn(
            f"{cut} of {len(lines)} traces are cut at max_length={max_length}, and with them the policy's last messages",
            stacklevel=2,
        )
    return trainer, {"traces": len(lines), "longest_trace": longest}


def text_rows(run: StageRun, loaded: Loaded) -> list[list[int]]:
    """Token ids of rows of plain text: passages one after the other, each with an end token; one begins every row."""
    stage, tokenizer = run.stage, loaded.tokenizer
    assert isinstance(stage, LmStage)
    end, size = tokenizer.eos_token_id, stage.max_length - 1
    ids = [token for passage in read_passages(stage.data) for token in (*tokenizer(passage.text)["input_ids"], end)]
    return [[end, *ids[start : start + size]] for start in range(0, len(ids), size)]


def _lm(run: StageRun, loaded: Loaded) -> tuple[Any, dict[str, Any]]:
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    stage, rows = run.stage, text_rows(run, loaded)
    assert isinstance(stage, LmStage)
    arguments = config_of(run, stage.batch, stage.max_length, SFTConfig, max_length=stage.max_length)
    table = Dataset.from_list([{"input_ids": ids} for ids in rows])
    return _build(SFTTrainer, run, loaded, arguments, table), {"traces": len(rows)}


def table_of(lines: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Any:
    """The data set of chat lines, with the columns that any line has.

    Schemas are JSON text: a table would give every schema the fields of all as nulls, and the model would be tuned on
    prompts that no episode has.
    """
    from datasets import Dataset

    names = [name for name in names if any(line.get(name) for line in lines)]
    return Dataset.from_list(
        [{name: json.dumps(line.get(name)) if name == "tools" else line.get(name) for name in names} for line in lines]
    )


def _most_tokens(loaded: Loaded, lines: Sequence[Mapping[str, Any]], *names: str) -> int:
    """Tokens of the longest line, counted in its JSON, which has somewhat more than a template writes."""
    longest = max((json.dumps([line.get(name) for name in (*names, "tools")]) for line in lines), key=len)
    return len(loaded.tokenizer(longest)["input_ids"])


def _dpo(run: StageRun, loaded: Loaded) -> tuple[Any, dict[str, Any]]:
    from trl import DPOConfig, DPOTrainer

    stage = run.stage
    assert isinstance(stage, DpoStage)
    assert run.data is not None
    lines = list(read_lines(run.data))
    tokens = _most_tokens(loaded, lines, "prompt", "prompt", "chosen", "rejected")
    arguments = config_of(run, stage.batch, tokens, DPOConfig, beta=stage.beta, max_length=None)
    rows = table_of(lines, ("prompt", "chosen", "rejected", "tools"))
    return _build(DPOTrainer, run, loaded, arguments, rows), {"pairs": len(lines)}


def completion_limit(run: StageRun, loaded: Loaded) -> dict[str, int]:
    """Return the oracle's tokens and the limit of a GRPO stage, with a warning where the model's context is too short."""
    from factgym.integrations.trl import episode_tokens

    stage = run.stage
    assert isinstance(stage, GrpoStage)
    length = episode_tokens(run.recipe.env, loaded.tokenizer, **dict(run.env_config))
    limit = stage.max_completion or max(2 * length.completion, 64)
    if length.prompt + limit > loaded.context:
        warnings.warn(
            f"prompts of {run.recipe.env} have up to {length.prompt} tokens with their tool schemas, and max_completion "
            f"is {limit}: together more than the {loaded.context} of the model. Episodes that do not fit are cut off.",
            stacklevel=2,
        )
    return {"prompt": length.prompt, "completion": length.completion, "max_completion": limit}


def hides_messages(run: StageRun) -> bool:
    """Whether the environment takes messages out of its policy's sight. Raises ConfigError for a credit of tokens there."""
    hides = type(run.env).policy_prompt is not Env.policy_prompt
    if hides and isinstance(run.stage, GrpoStage) and run.stage.credit != "scalar":
        raise ConfigError(f"{run.recipe.env} takes messages out of its policy's sight: its credit is 'scalar'")
    return hides


def _grpo(run: StageRun, loaded: Loaded) -> tuple[Any, dict[str, Any]]:
    from trl import GRPOConfig, GRPOTrainer

    from factgym.integrations import trl as integration

    stage = run.stage
    assert isinstance(stage, GrpoStage)
    env_id, config = run.recipe.env, dict(run.env_config)
    tokens = completion_limit(run, loaded)
    limit = tokens["max_completion"]
    if hides_messages(run):
        return _grpo_on_replies(run, stage, loaded, limit, tokens["prompt"])
    rows, tools = stage.groups * stage.samples, bool(run.env.checked_tools())
    if tools:
        add_call_reader(loaded.tokenizer)
    arguments = config_of(
        run,
        rows,
        tokens["prompt"] + limit,
        GRPOConfig,
        generation_batch_size=rows,
        num_generations=stage.samples,
        temperature=stage.temperature,
        beta=stage.beta,
        max_completion_length=limit,
        reward_weights=integration.column_weights(env_id, **config),
    )
    base: Any = integration.StopWhenDone if stage.credit == "scalar" else integration.DenseCredit
    form: dict[str, Any] = {"limit_name": "max_completion"}
    if store := step_store(run):
        form["on_episodes"] = staticmethod(_stored(store))
    form |= {} if stage.credit == "scalar" else {"credit": stage.credit, "dense_weight": stage.credit_weight}
    trainer = _build(
        type("Trainer", (base, GRPOTrainer), form),
        run,
        loaded,
        arguments,
        integration.dataset(env_id, indices=run.indices, **config),
        None if tools else template_text(CHATML),  # TRL asks for one with tools, which a closed book does not use
        environment_factory=integration.environment_factory(env_id, **config),
        reward_funcs=integration.reward_columns(env_id, **config),
    )
    return trainer, {"tasks": len(run.indices), "tokens": tokens}


def step_store(run: StageRun) -> StepStore | None:
    """Where a GRPO stage stores its episodes; None where it keeps none."""
    stage = run.stage
    if not (isinstance(stage, GrpoStage) and stage.keep_episodes):
        return None
    described = {"kind": "training", "model": run.model, "stage": stage.kind}
    return StepStore(run.folder / EPISODES, run.env, described, run.recipe.seed)


def trained_episodes(environments: Sequence[Any], advantages: Sequence[float]) -> list[tuple[Any, float]]:
    """The records of the episodes that the environments of TRL's integration have just finished, with their advantages."""
    return [
        (trained_episode(env.session.env, [len(turn.ids) for turn in env.turns]), float(advantage))
        for env, advantage in zip(environments, advantages, strict=True)
    ]


def _stored(store: StepStore) -> Callable[[int, Sequence[Any], Sequence[float]], None]:
    """Return a function that stores the episodes that TRL's environments have just finished, of all processes."""
    from accelerate.utils import gather_object

    def add(step: int, environments: Sequence[Any], advantages: Sequence[float]) -> None:
        episodes = gather_object(trained_episodes(environments, advantages))
        if int(os.environ.get("RANK", 0)) == 0:
            store.add(step + 1, episodes)

    return add


def _grpo_on_replies(
    run: StageRun, stage: GrpoStage, loaded: Loaded, limit: int, prompt: int
) -> tuple[Any, dict[str, Any]]:
    """GRPO where the policy does not see the whole transcript, which TRL's rollouts can only append to."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from factgym.training.replies import GroupRollouts, ReplyTrainer

    rows = stage.groups * stage.samples
    # So many batches that none has more than device_batch replies, however many turns the episodes take.
    turns = run.env.config.max_turns or 1
    device_batch = device_rows(run.recipe, stage, rows, prompt + limit)
    arguments = config_of(
        run,
        rows,
        prompt + limit,
        GRPOConfig,
        num_generations=stage.samples,
        temperature=stage.temperature,
        beta=stage.beta,
        ignore_data_skip=True,
        gradient_accumulation_steps=min(rows, -(-rows * turns // device_batch)),
    )
    rollouts = GroupRollouts(
        run.env, run.indices, stage.groups, stage.samples, run.recipe.seed, stage.temperature, limit
    )
    form = {"rollouts": rollouts, "loaded": loaded, "store": step_store(run)}
    trainer = _build(
        type("Trainer", (ReplyTrainer, GRPOTrainer), form),
        run,
        loaded,
        arguments,
        Dataset.from_list([{"prompt": ""}] * rows),
        reward_funcs=lambda completions, **columns: [0.0] * len(completions),
    )
    return trainer, {"tasks": len(run.indices), "tokens": {"prompt": prompt, "reply": limit}}


_TRAINERS = {"lm": _lm, "sft": _sft, "rwr": _sft, "dpo": _dpo, "grpo": _grpo}


def _build(
    trainer: Any, run: StageRun, loaded: Loaded, arguments: Any, rows: Any, template: str | None = None, **more: Any
) -> Any:
    """A trainer of a configuration and rows that prints nothing itself. template: that TRL is shown, if not the model's.

    Raises ConfigError with TRL's own reason for what it refuses.
    """
    from jinja2 import TemplateError
    from transformers import PrinterCallback

    lora, adapter = run.recipe.lora, None
    if lora is not None:
        from peft import LoraConfig

        adapter = LoraConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules=lora.modules,
            task_type="CAUSAL_LM",
        )
    more |= {"model": loaded.model, "processing_class": loaded.tokenizer, "peft_config": adapter}
    try:
        with template_in_place(loaded.tokenizer, template):
            made = trainer(args=arguments, train_dataset=rows, **more)
    except FactgymError:
        raise
    except (ValueError, TypeError, TemplateError) as error:
        raise ConfigError(f"TRL cannot train this model on this environment: {error}") from error
    made.remove_callback(PrinterCallback)
    return made


_NAMES = {
    "frac_reward_zero_std": "zero_signal",
    "completions/mean_length": "length",
    "completions/max_length": "length_max",
    "completions/clipped_ratio": "clipped",
    "num_tokens": "tokens",
    "mean_token_accuracy": "token_accuracy",
    "rewards/accuracies": "preference_accuracy",
    "rewards/margins": "preference_margin",
}
_SUMMARY_KEYS = {"train_runtime", "total_flos", "train_loss"}


def metrics_of(logs: Mapping[str, Any], total: str = "") -> dict[str, Any]:
    """TRL's logs by names of ours. total: TRL's name of the column that holds the environment's own reward."""
    metrics: dict[str, Any] = {}
    components: dict[str, float] = {}
    for name, value in logs.items():
        if not isinstance(value, (int, float)) or value != value:
            continue
        if name.startswith("rewards/") and name not in _NAMES:
            column, _, kind = name.removeprefix("rewards/").rpartition("/")
            if kind == "mean" and column != total:
                components[column] = float(value)
        elif "/" not in name or name in _NAMES:
            metrics[_NAMES.get(name, name)] = value
        elif name.startswith("factgym/"):
            metrics[name.removeprefix("factgym/")] = value
    return {**metrics, **({"components": components} if components else {})}


def _callback(trainer: Any, run: StageRun, loaded: Loaded, log: Log, on_step_end: StepEnd, silent: SilentSteps) -> Any:
    """Return the callback of a stage."""
    from transformers import TrainerCallback

    from factgym.integrations.frameworks import class_name

    stage = run.stage

    class Callback(TrainerCallback):  # type: ignore[misc]
        """Passes metrics on, ends a stage without signal, and marks complete checkpoints."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **rest: Any) -> None:
            if not logs or _SUMMARY_KEYS & set(logs):
                return
            log(state.global_step, metrics_of(logs, class_name(run.recipe.env)))
            if isinstance(stage, GrpoStage) and "frac_reward_zero_std" in logs:
                silent.add(state.global_step, logs["frac_reward_zero_std"])
                control.should_training_stop |= silent.stopped is not None

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            model = trainer.accelerator.unwrap_model(trainer.model)
            if reason := on_step_end(state.global_step, dataclasses.replace(loaded, model=model)):
                silent.stopped, control.should_training_stop = reason, True

        def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_json(folder / COMPLETE, {"step": state.global_step, "silent_steps": silent.count})

    return Callback()
