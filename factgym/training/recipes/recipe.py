"""Recipes: a training run as one TOML file, checked key by key.

    model = "scratch:1m"
    env = "corver-qa"

    [[stages]]
    kind = "sft"
    steps = 300

A recipe is written back as resolved, with every default, so that a run's folder holds all that it was made with.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from factgym.core.config import AtLeastOne, FiniteFloat, Settings, UnitFloat
from factgym.core.errors import ConfigError, DataError, did_you_mean
from factgym.core.paths import read_text

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Group = Annotated[int, Field(ge=2)]


class StageSettings(Settings):
    """Settings of every stage.

    steps: of the optimiser. optimizer: "muon" takes it for the matrices of the layers and AdamW for the rest, which
    teaches small models to copy in a third of AdamW's steps. learning_rate: its highest value. schedule: of the learning rate after the warm-up.
    warmup_steps: over which it rises from 0; None for 10, or half of the steps where that is less. device_batch: rows
    that a device computes at once, None for as many as device_tokens allow; smaller ones need less memory, and gradients
    are accumulated to the same step. save_every: steps between checkpoints, from which an interrupted run continues.
    evaluate_every: steps between two evaluations on the validation split; None for those of
    [evaluation]. trl: further arguments of the stage's TRL configuration. control_of: number of an earlier stage that
    this one is compared with: it begins with the same model, and ends when it has trained for as many CPU seconds, if
    `steps` do not end it before. The stage after it goes on from the model before it. skip_tasks: first tasks that are
    left out, those of an earlier stage. keep: the model that the stage ends with, its last one or the "best" of those that
    were evaluated on the validation split.

    filter: which tasks to train on. "learning_zone" takes those that the current model gets right sometimes, since a
    group of equal rewards teaches nothing; "failures" those that it fails, in turn by label and by component of the
    reward. filter_data: a run's folder with episodes of a model on training tasks; None plays filter_samples episodes
    of each of filter_tasks (None: all) with the current model. filter_rule: of a correct episode, as for `factgym
    filter`. filter_share: a task fails when less than this share of its episodes is correct, or when a component is in
    this lower part of its range.
    """

    steps: AtLeastOne = 100
    optimizer: Literal["adamw", "muon"] = "adamw"
    learning_rate: Positive = 1e-5
    schedule: Literal["constant", "cosine", "linear"] = "cosine"
    warmup_steps: Count | None = None
    device_batch: AtLeastOne | None = None
    save_every: AtLeastOne = 50
    evaluate_every: Count | None = None
    trl: dict[str, Any] = Field(default_factory=dict)
    control_of: Count | None = None
    skip_tasks: Count = 0
    keep: Literal["last", "best"] = "last"
    filter: Literal["none", "learning_zone", "failures"] = "none"
    filter_data: str | None = None
    filter_tasks: AtLeastOne | None = 200
    filter_samples: Group = 4
    filter_rule: str = "auto"
    filter_share: UnitFloat = 0.5

    def model_post_init(self, context: Any, /) -> None:
        """Check the warm-up."""
        if self.warmup_steps is not None and self.warmup_steps > self.steps:
            raise ConfigError(
                f"warmup_steps={self.warmup_steps} is more than the {self.steps} steps of the stage, which would never "
                "reach its learning rate: lower it, or leave it out"
            )

    @property
    def warmup(self) -> int:
        """Steps of the warm-up."""
        return min(10, self.steps // 2) if self.warmup_steps is None else self.warmup_steps


class SftStage(StageSettings):
    """Supervised tuning on traces, with the loss on the policy's own messages.

    teacher: the agent that makes the traces. data: a run's folder or a file of chat lines, instead of traces. tasks:
    of the train split, None for all. samples: traces of each. min_reward: traces below it are left out. batch: traces
    a step. max_length: tokens of a trace, None for no limit.
    """

    kind: Literal["sft"] = "sft"
    teacher: str = "teacher"
    data: str | None = None
    tasks: AtLeastOne | None = 200
    samples: AtLeastOne = 1
    min_reward: FiniteFloat | None = None
    batch: AtLeastOne = 16
    max_length: AtLeastOne | None = None


class GrpoStage(StageSettings):
    """Reinforcement learning on groups of episodes.

    tasks: of the train split, None for all. groups: tasks a step. samples: episodes of each. credit: "scalar" (the
    trainer's own advantages), or token advantages of the form "grpo", "hrpo" or "stepwise". credit_weight: λ of the
    first two. beta: weight of the KL divergence from the initial policy. max_completion: tokens of an episode after its
    prompt, tool text included; None measures the oracle's and takes twice its length. stop_share, stop_patience: the
    stage ends when at least this share of groups has no advantage for this many steps in a row. keep_episodes: store
    the episodes of every step, with their advantages, as a run in the stage's folder `episodes`.
    """

    kind: Literal["grpo"] = "grpo"
    learning_rate: Positive = 1e-6
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    tasks: AtLeastOne | None = None
    groups: AtLeastOne = 8
    samples: Group = 8
    temperature: Positive = 1.0
    credit: Literal["scalar", "grpo", "hrpo", "stepwise"] = "scalar"
    credit_weight: NonNegative = 0.5
    beta: NonNegative = 0.0
    max_completion: AtLeastOne | None = None
    stop_share: UnitFloat = 1.0
    stop_patience: AtLeastOne = 10
    keep_episodes: bool = True


class SampledStage(StageSettings):
    """Settings of a stage that learns from stored episodes of groups.

    data: a run's folder; None plays episodes with the current model. tasks: of the train split, None for all. samples:
    episodes of each. temperature, max_tokens: of the played episodes and their replies. batch: rows a step.
    """

    data: str | None = None
    tasks: AtLeastOne | None = 200
    samples: Group = 8
    temperature: Positive = 1.0
    max_tokens: AtLeastOne = 512
    batch: AtLeastOne = 16


class DpoStage(SampledStage):
    """Preferences: of each group the best episode against the worst.

    margin: smallest difference of their rewards. beta: weight of the divergence from the initial policy.
    """

    kind: Literal["dpo"] = "dpo"
    learning_rate: Positive = 1e-6
    margin: NonNegative = 0.1
    beta: Positive = 0.1


class RwrStage(SampledStage):
    """Reward-weighted regression: supervised tuning on episodes drawn with probability ∝ exp(reward / reward_scale).

    reward_scale: in units of the reward; smaller values choose the best episodes alone. lines: drawn episodes.
    """

    kind: Literal["rwr"] = "rwr"
    reward_scale: Positive = 0.5
    lines: AtLeastOne = 1000


class LmStage(StageSettings):
    """Language modelling: the next token of plain text, before a model is tuned on chats.

    data: passages, a file or folder as `factgym corpus build` takes them; whether they hold what an evaluation asks is
    not checked. batch: rows a step. max_length: tokens of a row, for which passages are joined and cut.
    """

    kind: Literal["lm"] = "lm"
    data: str
    tasks: None = None
    batch: AtLeastOne = 16
    max_length: Annotated[int, Field(ge=8)] = 256


Stage = SftStage | GrpoStage | DpoStage | RwrStage | LmStage
STAGES: Mapping[str, type[Stage]] = {
    stage.model_fields["kind"].default: stage for stage in (SftStage, GrpoStage, DpoStage, RwrStage, LmStage)
}


class Lora(Settings):
    """A low-rank adapter instead of all weights; it is merged into the model at the end of its stage."""

    rank: AtLeastOne = 16
    alpha: Positive = 32.0
    dropout: UnitFloat = 0.0
    modules: str | list[str] = "all-linear"


class Evaluation(Settings):
    """Evaluation on tasks that are not trained on, without a gradient.

    every: steps between two evaluations on the validation split; 0 for none. tasks: of the validation split.
    test_tasks: of the test split, before the first stage and after each; 0 for none. train_tasks: of the trained tasks,
    at the same times. samples: episodes of each task. temperature: of the episodes. max_tokens: of a reply. batch:
    replies that are made at once. episodes: shown of each evaluation on the page.
    """

    every: Count = 50
    tasks: AtLeastOne = 32
    test_tasks: Count = 64
    train_tasks: Count = 0
    samples: AtLeastOne = 1
    temperature: NonNegative = 1.0
    max_tokens: AtLeastOne = 512
    batch: AtLeastOne = 64
    episodes: Count = 4


class Recipe(Settings):
    """A training run.

    model: scratch:SIZE, hf:NAME or a folder. env: an environment. env_config: its settings. tasks_file: ids of the
    tasks to train on, such as tasks.txt of `factgym filter`. engine: "trl", or "small" for Llama and Qwen3 on a CPU,
    several times as fast. seed: of every random choice. threads: of a CPU. stages: in their order. lora: None trains
    all weights. allow_evaluation_split: train on a split that is made for evaluation.

    chat_template: "chatml", another of TRL's templates by name, or a file; None for the model's own, but that ChatML
    without tools gets a form that renders them where the environment has some. dtype: "auto" computes in bfloat16 where
    the GPU, or for a pretrained model the processor, has it, and trains 32-bit weights (adapters over 16-bit ones);
    "bfloat16" holds all weights in 16 bits, in half the memory, and loses updates below a 500th of a weight.
    train_layers: layers to train, the last ones; all else is frozen. None trains everything. gradient_checkpointing: a
    third more time for less memory; None for on a GPU alone. device_tokens: tokens that a device computes at once, from
    which the device batch follows; None for 2,048 on a processor, 16,384 on a GPU, and a whole step of a model from
    nothing.
    """

    model: str
    env: str
    env_config: dict[str, Any] = Field(default_factory=dict)
    tasks_file: str | None = None
    engine: Literal["trl", "small"] = "trl"
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    threads: AtLeastOne = 1
    allow_evaluation_split: bool = False
    stages: Annotated[list[Stage], Field(min_length=1)]
    chat_template: str | None = None
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    train_layers: AtLeastOne | None = None
    gradient_checkpointing: bool | None = None
    device_tokens: AtLeastOne | None = None
    lora: Lora | None = None
    evaluation: Evaluation = Evaluation()

    def model_post_init(self, context: Any, /) -> None:
        """Check that controls are of earlier stages that train the run's model, and that a best model can be known."""
        for number, stage in enumerate(self.stages):
            every = self.evaluation.every if stage.evaluate_every is None else stage.evaluate_every
            if stage.keep == "best" and (not every or self.lora is not None):
                reason = "evaluates on no validation tasks: set evaluate_every" if not every else "trains an adapter"
                raise ConfigError(
                    f"stage {number}: keep='best' needs evaluations of whole models, and the stage {reason}"
                )
            other = stage.control_of
            if other is not None and (other >= number or self.stages[other].control_of is not None):
                raise ConfigError(f"stage {number}: control_of={other} is no earlier stage that is no control itself")

    def boundaries(self) -> list[str]:
        """Names of the models that are compared: "start", then "0-sft" and so on, one after each stage."""
        return ["start", *(f"{number}-{stage.kind}" for number, stage in enumerate(self.stages))]

    def start_of(self, number: int) -> int:
        """Place in `boundaries` of the model that a stage, or the number of stages, begins with."""
        if number < len(self.stages) and (other := self.stages[number].control_of) is not None:
            return self.start_of(other)
        return next((n for n in range(number, 0, -1) if self.stages[n - 1].control_of is None), 0)


def recipe_of(values: Mapping[str, Any]) -> Recipe:
    """Build a recipe of plain values. Raises ConfigError that names the table, the key and the accepted values."""
    values = dict(values)
    of_stages = {name for stage in STAGES.values() for name in stage.model_fields} - Recipe.model_fields.keys()
    if misplaced := next((name for name in values if name in of_stages), None):
        raise ConfigError(f"{misplaced} is a setting of a stage: write it below [[stages]], or as stages.0.{misplaced}")
    tables: tuple[tuple[str, type[Settings]], ...] = (("lora", Lora), ("evaluation", Evaluation))
    for name, table in tables:
        if values.get(name) is not None:
            values[name] = table.build(f"[{name}]", _table(values[name], f"[{name}]"))
    stages = values.get("stages", [])
    if not isinstance(stages, Sequence) or isinstance(stages, str):
        raise ConfigError("stages are tables: write [[stages]] before the settings of each")
    if "stages" in values:
        values["stages"] = [_stage(number, stage) for number, stage in enumerate(stages)]
    recipe = Recipe.build("the recipe", values)
    if recipe.engine == "small":
        _check_small(recipe)
    return recipe


_SMALL_TRL = ("bf16", "max_grad_norm", "adam_beta1", "adam_beta2", "adam_epsilon", "lr_scheduler_kwargs")
"""Arguments of TRL's that the engine "small" reads."""
_SMALL_CHOICES = {"loss_type": ("dapo", "bnpo", "grpo", "dr_grpo"), "scale_rewards": ("group", "none")}


def _check_small(recipe: Recipe) -> None:
    """Raise ConfigError for what the engine "small" does not have."""
    absent = {"[lora]": recipe.lora is not None, "dtype 'bfloat16'": recipe.dtype == "bfloat16"}
    absent["gradient_checkpointing"] = bool(recipe.gradient_checkpointing)
    for stage in recipe.stages:
        settings = {*_SMALL_TRL, *(_SMALL_CHOICES if isinstance(stage, GrpoStage) else ())}
        absent["stages of kind 'dpo'"] = isinstance(stage, DpoStage)
        absent["credit 'hrpo'"] = isinstance(stage, GrpoStage) and stage.credit == "hrpo"
        absent["beta above 0"] = isinstance(stage, GrpoStage) and stage.beta > 0
        absent |= {f"trl.{name}": name not in settings for name in sorted(stage.trl)}
        if named := [name for name, used in absent.items() if used]:
            raise ConfigError(f'engine = "small" has no {named[0]}: leave it out, or take engine = "trl"')
        for name, accepted in _SMALL_CHOICES.items():
            if (value := stage.trl.get(name, accepted[0])) not in accepted:
                raise ConfigError(f'engine = "small": trl.{name} is one of {", ".join(accepted)}, not {value!r:.40}')


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a table of settings, not {value!r:.80}")
    return value


def _stage(number: int, value: Any) -> Stage:
    settings = _table(value, f"stage {number}")
    kind = str(settings.get("kind"))
    if kind not in STAGES:
        hint = did_you_mean(kind, STAGES)
        raise ConfigError(f"stage {number}: kind is one of {', '.join(STAGES)}, not {kind!r:.80}.{hint}")
    return STAGES[kind].build(f"stage {number} ({kind})", settings)


_MAX_CHARS = 100_000


def read_recipe(path: Path) -> dict[str, Any]:
    """Read the plain values of a TOML file. Raises DataError for a file that cannot be read, or has over 100,000 characters."""
    text = read_text(path)
    if len(text) > _MAX_CHARS:
        raise DataError(f"{path} has {len(text):,} characters; a recipe has at most {_MAX_CHARS:,}.")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is no valid TOML: {error}") from None


def with_changes(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply changes by dotted key, such as "stages.0.learning_rate"; texts of TOML tables and lists are read as such.

    Raises ConfigError for a stage that is not there, and for a table or list that is not TOML's.
    """
    changed: dict[str, Any] = json.loads(json.dumps(values, default=str))
    for key, value in changes.items():
        if isinstance(value, str) and value.startswith(("{", "[")):
            try:
                value = tomllib.loads(f"value = {value}")["value"]
            except tomllib.TOMLDecodeError:
                raise ConfigError(
                    f"--set {key}: {value!r:.80} is neither JSON nor TOML: --set {key}.NAME=VALUE"
                ) from None
        *path, last = key.split(".")
        table: Any = changed
        for part in path:
            if isinstance(table, list):
                table = table[_index(table, part, key)]
            elif isinstance(table, dict):
                table = table.setdefault(part, {})
        if isinstance(table, list):
            table[_index(table, last, key)] = value
        elif isinstance(table, dict):
            table[last] = value
        else:
            raise ConfigError(f"--set {key}: {'.'.join(path)} is no table")
    return changed


def _index(items: Sequence[Any], text: str, key: str) -> int:
    if not text.isdecimal() or int(text) >= len(items):
        raise ConfigError(f"--set {key}: there is no {text!r}; the recipe's stages are 0 to {len(items) - 1}")
    return int(text)


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def recipe_toml(recipe: Recipe) -> str:
    """Write a recipe with every setting as TOML, which `read_recipe` reads back; settings that are None are left out."""
    values = recipe.model_dump(exclude_none=True)
    stages = values.pop("stages")
    tables = {name: values.pop(name) for name in ("env_config", "lora", "evaluation") if name in values}
    lines = [f"{name} = {toml_value(value)}" for name, value in values.items()]
    sections = [(f"[{name}]", table) for name, table in tables.items()]
    for stage in stages:
        sections.append(("[[stages]]", {"kind": stage.pop("kind"), **stage}))
    for heading, table in sections:
        lines += ["", heading, *(f"{_key(name)} = {toml_value(value)}" for name, value in table.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Write a plain value as TOML, on one line."""
    if isinstance(value, Mapping):
        pairs = (f"{_key(name)} = {toml_value(item)}" for name, item in value.items() if item is not None)
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    # JSON's strings are TOML's but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
