"""A recipe's GRPO stage for a framework on a cluster of its own: data, configuration, and the command that starts it.

    write_engine("verl", recipe, Path("runs/verl"))         # then: bash runs/verl/run.sh

Each framework has its own trainer, checkpoints and logs; the environment, its split, its rewards and the stage's settings
are those of the recipe.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from factgym.agents.runs.files import write_bytes
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.registry import make, spec
from factgym.integrations.frameworks import render_template
from factgym.integrations.session import episode_tokens
from factgym.training.recipes import scratch
from factgym.training.recipes.recipe import GrpoStage, Recipe, recipe_toml, toml_value
from factgym.training.recipes.task_sets import VALIDATION, TaskSets

SCRIPT = "run.sh"

_CHARS_PER_TOKEN = 3
_ORACLE_LENGTHS = 4


def write_engine(engine: str, recipe: Recipe, folder: Path) -> tuple[list[Path], str]:
    """Write the files of a run; return their paths and the command that starts it.

    Raises ConfigError for a recipe without exactly one GRPO stage, for settings that the framework does not have, and
    for a folder that holds something else, and the errors of `TaskSets`.
    """
    if engine not in _WRITERS:
        names = ["trl", "small", *_WRITERS]
        raise ConfigError(f"engine is one of {', '.join(names)}, not {engine!r:.40}.{did_you_mean(engine, names)}")
    tasks, stage = TaskSets(recipe), _grpo_stage(recipe, engine)
    if folder.exists() and any(folder.iterdir()) and not (folder / SCRIPT).is_file():
        raise ConfigError(f"{folder} holds other files: choose a new folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    command = _WRITERS[engine](recipe, stage, tasks, folder)
    write_bytes(folder / "recipe.toml", recipe_toml(recipe).encode())
    script = f'#!/usr/bin/env bash\nset -euo pipefail\ncd "$(dirname "$0")"\n{command}\n'
    write_bytes(folder / SCRIPT, script.encode())
    return sorted(path for path in folder.iterdir() if path.is_file()), f"bash {folder / SCRIPT}"


def skipped_stages(recipe: Recipe) -> str:
    """A sentence about the stages that an engine does not run; empty where there are none."""
    others = [stage.kind for stage in recipe.stages if not isinstance(stage, GrpoStage)]
    if not others:
        return ""
    return (
        f"stages {', '.join(others)} are not part of it: run them with `factgym train` first, and start from their model "
        "(--model FOLDER)"
    )


def _grpo_stage(recipe: Recipe, engine: str) -> GrpoStage:
    stages = [stage for stage in recipe.stages if isinstance(stage, GrpoStage)]
    if len(stages) != 1:
        raise ConfigError(f"--engine {engine} runs one grpo stage, and the recipe has {len(stages)}")
    stage = stages[0]
    if recipe.model.startswith(scratch.PREFIX):
        raise ConfigError(f"--engine {engine} needs weights: hf:NAME or a folder, not {recipe.model!r:.60}")
    if stage.filter != "none":
        raise ConfigError(
            f"--engine {engine} plays no episodes before its run: filter with `factgym filter`, and name its tasks.txt "
            "as tasks_file"
        )
    if stage.trl:
        raise ConfigError(f"--engine {engine} has no TRL arguments: leave the stage's `trl` out")
    if stage.keep == "best":
        raise ConfigError(f"--engine {engine} keeps the checkpoints that it writes: leave the stage's `keep` out")
    if stage.optimizer != "adamw":
        raise ConfigError(f"--engine {engine} trains with AdamW here: leave the stage's `optimizer` out")
    for name in ("chat_template", "dtype", "train_layers", "gradient_checkpointing", "device_tokens"):
        if getattr(recipe, name) != Recipe.model_fields[name].default:
            raise ConfigError(f"--engine {engine} takes no {name}: leave it out, or set the framework's own in run.sh")
    return stage


def _model(recipe: Recipe) -> str:
    return recipe.model.removeprefix("hf:")


def _lengths(recipe: Recipe, stage: GrpoStage, config: Mapping[str, Any]) -> tuple[int, int]:
    """Bounds of prompt and completion in tokens, at three characters a token."""
    tokens = episode_tokens(recipe.env, lambda text: len(text) // _CHARS_PER_TOKEN, config)
    prompt = -(-2 * tokens.prompt // 512) * 512
    completion = stage.max_completion or -(-_ORACLE_LENGTHS * max(tokens.completion, 128) // 512) * 512
    return prompt, completion


def _command(words: str, overrides: Mapping[str, Any]) -> str:
    values = (f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in overrides.items())
    return " \\\n  ".join([words, *map(shlex.quote, values)])


def _held_out(recipe: Recipe, tasks: TaskSets) -> dict[str, Any] | None:
    """Settings of the environment on the validation split; None without an evaluation on it."""
    if not recipe.evaluation.every or tasks.held_out(VALIDATION) is None:
        return None
    config = {name: value for name, value in recipe.env_config.items() if name != "size"}
    return {**config, "split": VALIDATION}


def _verl(recipe: Recipe, stage: GrpoStage, tasks: TaskSets, folder: Path) -> str:
    """Write rows, configuration and command of verl for a GRPO stage; what it cannot express is refused."""
    from factgym.integrations.verl.rows import config_text, write_rows

    if stage.schedule == "linear":
        raise ConfigError("verl has the schedules constant and cosine, not linear")
    env_id, config, evaluation = spec(recipe.env).id, tasks.env_config, recipe.evaluation
    credit = "none" if stage.credit == "scalar" else stage.credit
    columns = ("hops",) if credit == "hrpo" else ()
    write_rows(recipe.env, folder / f"{env_id}-train.parquet", indices=tasks.of_stage(stage), columns=columns, **config)
    held_out = _held_out(recipe, tasks)
    validation = (
        {"indices": tasks.trained(1), **config} if held_out is None else {**held_out, "limit": evaluation.tasks}
    )
    write_rows(recipe.env, folder / f"{env_id}-validation.parquet", columns=columns, **validation)
    write_bytes(folder / f"{env_id}.yaml", config_text(recipe.env, config, credit).encode())
    actor = "actor_rollout_ref.actor"
    overrides: dict[str, Any] = {
        "actor_rollout_ref.model.path": _model(recipe),
        "data.train_batch_size": stage.groups,
        "data.seed": recipe.seed,
        "data.factgym.dense_weight": stage.credit_weight,
        f"{actor}.ppo_mini_batch_size": stage.groups,
        f"{actor}.optim.lr": stage.learning_rate,
        f"{actor}.optim.lr_scheduler_type": stage.schedule,
        f"{actor}.optim.lr_warmup_steps": stage.warmup,
        "actor_rollout_ref.rollout.n": stage.samples,
        "actor_rollout_ref.rollout.temperature": stage.temperature,
        "actor_rollout_ref.rollout.val_kwargs.n": evaluation.samples,
        "actor_rollout_ref.rollout.val_kwargs.temperature": evaluation.temperature,
        "actor_rollout_ref.rollout.val_kwargs.do_sample": evaluation.temperature > 0,
        "trainer.total_training_steps": stage.steps,
        "trainer.total_epochs": -(-stage.steps * stage.groups // len(tasks.of_stage(stage))),
        "trainer.save_freq": stage.save_every,
        "trainer.test_freq": evaluation.every if held_out else -1,
        "trainer.val_before_train": held_out is not None,
        "trainer.default_local_dir": "checkpoints",
    }
    if stage.beta:
        overrides |= {f"{actor}.use_kl_loss": True, f"{actor}.kl_loss_coef": stage.beta}
    if stage.max_completion:
        prompt, completion = _lengths(recipe, stage, config)
        overrides |= {
            "data.max_prompt_length": prompt,
            "data.max_response_length": completion,
            "actor_rollout_ref.rollout.max_model_len": prompt + completion,
            f"{actor}.ppo_max_token_len_per_gpu": prompt + completion,
        }
    if recipe.lora is not None:
        modules = recipe.lora.modules
        overrides |= {
            "actor_rollout_ref.model.lora_rank": recipe.lora.rank,
            "actor_rollout_ref.model.lora_alpha": int(recipe.lora.alpha),
            "actor_rollout_ref.model.target_modules": modules if isinstance(modules, str) else f"[{','.join(modules)}]",
        }
    return _command(f'python -m verl.trainer.main_ppo --config-dir . --config-name {env_id} "$@"', overrides)


def _skyrl(recipe: Recipe, stage: GrpoStage, tasks: TaskSets, folder: Path) -> str:
    """Write rows, script and command of SkyRL for a GRPO stage; what it cannot express is refused."""
    from factgym.integrations.skyrl import write_rows

    if stage.credit not in ("scalar", "grpo"):
        raise ConfigError(f"SkyRL has the credit of turns alone: credit is scalar or grpo for it, not {stage.credit!r}")
    env_id, config, evaluation = spec(recipe.env).id, tasks.env_config, recipe.evaluation
    environments = {env_id: config}
    write_rows(folder / "train.jsonl", recipe.env, name=env_id, indices=tasks.of_stage(stage), **config)
    held_out = _held_out(recipe, tasks)
    if held_out is not None:
        name = f"{env_id}-{VALIDATION}"
        environments[name] = held_out
        write_rows(folder / "validation.jsonl", recipe.env, name=name, limit=evaluation.tasks, **held_out)
    env = make(recipe.env, **config)
    script = render_template(
        "skyrl-train.py.txt",
        versioned=env.env_spec.versioned,
        env=recipe.env,
        turn_weight=0.0 if stage.credit == "scalar" else stage.credit_weight,
        environments=repr(environments),
    )
    write_bytes(folder / "train.py", script.encode())
    prompt, completion = _lengths(recipe, stage, config)
    schedules = {"constant": "constant_with_warmup"}
    overrides: dict[str, Any] = {
        "data.train_data": "['train.jsonl']",
        "data.val_data": "['validation.jsonl']" if held_out else "[]",
        "environment.env_class": env_id,
        "trainer.policy.model.path": _model(recipe),
        "trainer.policy.optimizer_config.lr": stage.learning_rate,
        "trainer.policy.optimizer_config.num_warmup_steps": stage.warmup,
        "trainer.policy.optimizer_config.scheduler": schedules.get(stage.schedule, stage.schedule),
        "trainer.train_batch_size": stage.groups,
        "trainer.policy_mini_batch_size": stage.groups,
        "trainer.max_training_steps": stage.steps,
        "trainer.epochs": -(-stage.steps * stage.groups // len(tasks.of_stage(stage))),
        "trainer.ckpt_interval": stage.save_every,
        "trainer.eval_interval": evaluation.every if held_out else -1,
        "trainer.eval_before_train": held_out is not None,
        "trainer.ckpt_path": "checkpoints",
        "trainer.seed": recipe.seed,
        "trainer.logger": "console",
        "trainer.max_prompt_length": prompt,
        "trainer.algorithm.use_kl_loss": stage.beta > 0,
        "trainer.algorithm.kl_loss_coef": stage.beta,
        "generator.n_samples_per_prompt": stage.samples,
        "generator.max_turns": env.config.max_turns,
        "generator.max_input_length": prompt + completion,
        "generator.sampling_params.max_generate_length": min(completion, evaluation.max_tokens),
        "generator.sampling_params.temperature": stage.temperature,
    }
    if recipe.lora is not None:
        rank, alpha = recipe.lora.rank, int(recipe.lora.alpha)
        overrides |= {"trainer.policy.model.lora.rank": rank, "trainer.policy.model.lora.alpha": alpha}
    return _command('python train.py "$@"', overrides)


def _prime_rl(recipe: Recipe, stage: GrpoStage, tasks: TaskSets, folder: Path) -> str:
    """Write prime-rl's configuration and command for a GRPO stage; what it cannot express is refused."""
    unsupported = {
        "credit": stage.credit != "scalar",
        "beta": stage.beta > 0,
        "tasks": stage.tasks is not None or recipe.tasks_file is not None,
        "skip_tasks": stage.skip_tasks > 0,
        "lora": recipe.lora is not None,
    }
    named = [name for name, used in unsupported.items() if used]
    if named:
        raise ConfigError(
            f"prime-rl's configuration is written without {', '.join(named)}: leave the setting out, or take another engine "
            "(env_config.size bounds the tasks)"
        )
    config, evaluation = tasks.env_config, recipe.evaluation
    prompt, completion = _lengths(recipe, stage, config)
    env_id, held_out = spec(recipe.env).id, _held_out(recipe, tasks)
    tables: dict[str, dict[str, Any]] = {
        "model": {"name": _model(recipe)},
        "trainer.optim": {"lr": stage.learning_rate},
        "ckpt": {"interval": stage.save_every},
        "orchestrator": {"batch_size": stage.groups * stage.samples, "group_size": stage.samples},
        "orchestrator.train.sampling": {
            "max_completion_tokens": min(completion, evaluation.max_tokens),
            "temperature": stage.temperature,
        },
        "[orchestrator.train.source]": {"name": env_id},
        "orchestrator.train.source.env.taskset": {"id": env_id, **config},
    }
    if held_out is not None:
        tables |= {
            "orchestrator.eval": {"interval": evaluation.every},
            "[orchestrator.eval.source]": {"name": f"{env_id}-{VALIDATION}"},
            "orchestrator.eval.source.env.taskset": {"id": env_id, "size": evaluation.tasks, **held_out},
        }
    tables["inference.vllm"] = {"tool_call_parser": "hermes"}
    lines = [f"max_steps = {stage.steps}", f"seq_len = {prompt + completion}"]
    for name, values in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in values.items())]
    write_bytes(folder / "factgym-rl.toml", ("\n".join(lines) + "\n").encode())
    return f'prime env install {env_id}\nuv run rl @ factgym-rl.toml "$@"'


_WRITERS = {"verl": _verl, "skyrl": _skyrl, "prime-rl": _prime_rl}
