"""Memory and time of a stage, measured on one batch before it; the rows of a batch within a budget of tokens."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.core.errors import FactgymError
from factgym.training.recipes.recipe import GrpoStage, Recipe, Stage
from factgym.training.recipes.scratch import PREFIX

_CPU_TOKENS, _GPU_TOKENS = 2048, 16_384
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 1 << 30
_MOMENTS = {"adamw": 2, "muon": 1}
"""Numbers that an optimiser holds for each weight."""


class MemoryShortageError(FactgymError):
    """A device's memory is too small for a stage."""


def keep_memory() -> None:
    """Let glibc keep large buffers instead of giving each back: page faults took 46 % of a step on a processor.

    Nothing happens under another C library.
    """
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            library.mallopt(parameter, _KEPT_BYTES)


def uses_bfloat16(recipe: Recipe) -> bool:
    """Whether a recipe's stages compute in bfloat16."""
    import torch

    if recipe.dtype != "auto":
        return recipe.dtype == "bfloat16"
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    return not recipe.model.startswith(PREFIX) and "bf16" in _text("/proc/cpuinfo")


def device_rows(recipe: Recipe, stage: Stage, rows: int, tokens: int) -> int:
    """Rows that a device computes at once: the stage's device_batch, else the most that divide the rows of a step and
    have no more than device_tokens at up to `tokens` each; at least one.
    """
    import torch

    if stage.device_batch is not None:
        return min(stage.device_batch, rows)
    budget = recipe.device_tokens
    if budget is None:
        if recipe.model.startswith(PREFIX):
            return rows
        budget = _GPU_TOKENS if torch.cuda.is_available() else _CPU_TOKENS
    return _largest_divisor(rows, budget // tokens)


def _largest_divisor(rows: int, limit: int) -> int:
    return next((count for count in range(min(rows, limit), 1, -1) if rows % count == 0), 1)


@dataclass(slots=True)
class _Probe:
    """Batches of a stage as its trainer gets them. longest: tokens of the longest row. mean: of a row."""

    trainer: Any
    batch: Callable[[int], Mapping[str, Any]]
    longest: int
    mean: float

    def cost(self, rows: int) -> tuple[float, int]:
        """Seconds, and the bytes at the peak, of one batch forward and backward; leaves no trace in the trainer."""
        import torch

        trainer, before = self.trainer, getattr(self.trainer, "_total_train_tokens", 0)
        inputs = {name: tensor.to(trainer.accelerator.device) for name, tensor in self.batch(rows).items()}
        trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
        with torch.random.fork_rng(), _Peak() as peak:
            start = time.monotonic()
            with trainer.accelerator.autocast():
                loss = trainer.compute_loss(trainer.model, inputs)
            loss.backward()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds = time.monotonic() - start
        trainer.model.zero_grad()
        trainer._metrics["train"].clear()
        trainer._total_train_tokens = before
        return seconds, peak.bytes


def _probe(trainer: Any, tokens: Mapping[str, int] | None) -> _Probe:
    import torch

    from factgym.training.replies import TokenSequence, padded

    if tokens is None:
        lengths = [_length(row) for row in trainer.train_dataset]
        row = trainer.train_dataset[lengths.index(max(lengths))]
        return _Probe(
            trainer, lambda count: trainer.data_collator([row] * count), max(lengths), sum(lengths) / len(lengths)
        )
    prompt, limit = tokens["prompt"], tokens["max_completion"]

    def batch(count: int) -> Mapping[str, Any]:
        inputs = padded([TokenSequence([1] * prompt, [1] * limit, 1.0)] * count, 0, count * limit)
        return {**inputs, "ref_per_token_logps": torch.zeros(count, limit)}

    return _Probe(trainer, batch, prompt + limit, prompt + tokens["completion"])


def _length(row: Mapping[str, Any]) -> int:
    """Tokens of a row of a trainer's data; a pair has its prompt twice."""
    if "input_ids" in row:
        return len(row["input_ids"])
    return 2 * len(row["prompt_ids"]) + len(row["chosen_ids"]) + len(row["rejected_ids"])


def announce(
    trainer: Any,
    recipe: Recipe,
    stage: Stage,
    steps: int,
    tokens: Mapping[str, int] | None,
    note: Callable[[str], None],
) -> None:
    """Measure a batch and note what a stage takes. tokens: of an episode's prompt and completion, for GRPO.

    Raises MemoryShortageError, with numbers, where the stage does not fit into memory.
    """
    probe = _probe(trainer, tokens)
    rows, batches = trainer.args.per_device_train_batch_size, trainer.args.gradient_accumulation_steps
    trained = sum(
        weight.numel() * weight.element_size() for weight in trainer.model.parameters() if weight.requires_grad
    )
    moments, limit, base = _MOMENTS[stage.optimizer] * trained, memory_limit(), _used()
    rollouts = 0
    if isinstance(stage, GrpoStage):
        rollouts = base + moments + stage.groups * stage.samples * _cache_bytes(trainer.model) * probe.longest
        _refuse(rollouts, limit, "the rollouts of a step", "lower groups, samples or max_completion")
    if trainer.args.gradient_checkpointing:
        trainer.model.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs)
    fewer = "train fewer weights with [lora] or train_layers=N, or set gradient_checkpointing=true"
    _refuse(base + moments + trained, limit, "weights, gradients and the optimiser", fewer)
    _, peak = probe.cost(1)
    activations = max(peak - base - trained, 0)
    needed = base + moments + trained
    fitting = _largest_divisor(rows, int((limit - needed) // max(activations, 1)))
    _refuse(needed + activations, limit, f"a row of {probe.longest:,} tokens", fewer)
    _refuse(
        needed + rows * activations, limit, f"{rows} rows of {probe.longest:,} tokens", f"set device_batch={fitting}"
    )
    seconds, peak = probe.cost(rows)
    total = probe.mean * rows * batches
    time_left = seconds * steps * total / (rows * probe.longest)
    needed = max(peak + moments, rollouts)
    note(
        f"{total:,.0f} tokens a step in {batches} {'batch' if batches == 1 else 'batches'} of up to "
        f"{rows * probe.longest:,}; about {needed / 1e9:.1f} GB of {limit / 1e9:.0f}; "
        f"about {duration(time_left)}{' and the rollouts' if tokens else ''}"
    )


def _refuse(needed: float, limit: float, what: str, fix: str) -> None:
    if needed > limit:
        raise MemoryShortageError(
            f"{what} would take about {needed / 1e9:.1f} GB of memory, and there are {limit / 1e9:.1f}: {fix}, and run "
            "the same command again"
        )


def _cache_bytes(model: Any) -> float:
    """Bytes of keys and values that a token leaves in the cache of a model that generates."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2.0 * config.num_hidden_layers * heads * width * model.dtype.itemsize


def duration(seconds: float) -> str:
    """A time in words, such as "43 minutes"."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 2 else f"{seconds:.1f} seconds"


def memory_limit() -> int:
    """Bytes that this process may use on its device, those that it uses already included."""
    import torch

    if torch.cuda.is_available():
        free, _ = torch.cuda.mem_get_info()
        return int(free + torch.cuda.memory_reserved())
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    if match := re.search(r"MemAvailable:\s+(\d+)", _text("/proc/meminfo")):
        limits.append(int(match[1]) * 1024 + _used())
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if (text := _text(path).strip()).isdecimal():
            limits.append(int(text))
    return min(limits)


def _used(field: str = "VmRSS") -> int:
    """Bytes of this process on its device: now, or with "VmHWM" at its peak."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.memory_reserved() if field == "VmRSS" else torch.cuda.max_memory_reserved())
    match = re.search(rf"{field}:\s+(\d+)", _text("/proc/self/status"))
    return int(match[1]) * 1024 if match else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class _Peak:
    """Measures the highest use of memory while it is open; elsewhere than on Linux and CUDA, since the process began."""

    bytes = 0

    def __enter__(self) -> _Peak:
        import torch

        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        else:
            with suppress(OSError):
                Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = _used("VmHWM")


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
