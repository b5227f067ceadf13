"""Memory and time of a stage, measured on one batch before it; the rows of a batch within a budget of tokens."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
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


def announce(
    trainer: Any,
    recipe: Recipe,
    stage: Stage,
    done: int,
    episode: Mapping[str, int] | None,
    note: Callable[[str], None],
) -> None:
    """Measure a batch, forward and backward, and note what a stage takes.

    done: steps before this call. episode: tokens of its parts and their limit, for GRPO. Raises
    MemoryShortageError, with numbers, where the stage does not fit into memory.
    """
    batch, longest, mean = _batches(trainer, episode)
    rows, batches = trainer.args.per_device_train_batch_size, trainer.args.gradient_accumulation_steps
    if trainer.args.gradient_checkpointing:
        trainer.model.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs)
    sizes = [weight.nbytes for weight in trainer.model.parameters() if weight.requires_grad]
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)  # what earlier stages no longer use
    limit, start = memory_limit(), _memory()
    held = start + _MOMENTS[stage.optimizer] * sum(sizes)
    rollouts = 0.0
    if isinstance(stage, GrpoStage):
        rollouts = held + stage.groups * stage.samples * longest * _cache_bytes(trainer.model)
        _refuse(rollouts, limit, "the rollouts of a step", "lower groups, samples or max_completion")
    held += sum(sizes)  # gradients
    fewer = "train fewer weights with [lora] or train_layers=N, or set gradient_checkpointing=true"
    _refuse(held, limit, "weights, gradients and optimiser", fewer)
    try:
        _, peak = _cost(trainer, batch(1))
    except KeyError as missing:  # a loss of the stage's `trl`, such as vLLM's correction
        note(f"memory and time are not measured: the loss takes {missing} from rollouts")
        return
    row = max(peak - start - sum(sizes), 1)
    _refuse(held + row, limit, f"a row of {longest:,} tokens", fewer)
    fitting = _largest_divisor(rows, int((limit - held) // row))
    _refuse(held + rows * row, limit, f"{rows} rows of {longest:,} tokens at once", f"set device_batch={fitting}")
    seconds, peak = _cost(trainer, batch(rows))
    needed = max(peak + held - start - sum(sizes), rollouts)
    seconds *= batches * (stage.steps - done) * mean / longest
    note(
        f"{mean * rows * batches:,.0f} tokens a step in {batches} {'batch' if batches == 1 else 'batches'} of up to "
        f"{rows * longest:,}; about {needed / 1e9:.1f} GB of {limit / 1e9:.0f}; "
        f"about {duration(seconds)}{' and the rollouts' if episode else ''}"
    )


def _batches(trainer: Any, episode: Mapping[str, int] | None) -> tuple[Callable[[int], Mapping[str, Any]], int, float]:
    """What makes a batch of some rows, as long as the longest; tokens of that row, and their mean."""
    import torch

    from factgym.training.replies import TokenSequence, padded

    if episode is None:
        parts = ("input_ids", "prompt_ids", "prompt_ids", "chosen_ids", "rejected_ids")  # a pair has its prompt twice
        lengths = [sum(len(row.get(part, ())) for part in parts) for row in trainer.train_dataset]
        row = trainer.train_dataset[lengths.index(max(lengths))]
        return lambda count: trainer.data_collator([row] * count), max(lengths), sum(lengths) / len(lengths)
    prompt, limit = episode["prompt"], episode.get("max_completion") or episode["reply"]

    def batch(count: int) -> Mapping[str, Any]:
        inputs = padded([TokenSequence([1] * prompt, [1] * limit, 1.0)] * count, 0, count * limit)
        return {**inputs, "ref_per_token_logps": torch.zeros(count, limit)}

    return batch, prompt + limit, prompt + min(episode.get("completion", limit), limit)


def _cost(trainer: Any, batch: Mapping[str, Any]) -> tuple[float, int]:
    """Seconds, and bytes in use at the peak, of a batch forward and backward; leaves no trace in the trainer."""
    import torch

    counted = getattr(trainer, "_total_train_tokens", 0)
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    inputs = {name: tensor.to(trainer.accelerator.device) for name, tensor in batch.items()}
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak of the process begins anew
    start = time.monotonic()
    with torch.random.fork_rng():
        with trainer.accelerator.autocast():
            loss = trainer.compute_loss(trainer.model, inputs)
        loss.backward()
    if gpu:
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() if gpu else _memory("VmHWM")
    seconds = time.monotonic() - start
    trainer.model.zero_grad()
    trainer._metrics["train"].clear()
    trainer._total_train_tokens = counted
    return seconds, peak


def _refuse(needed: float, limit: float, subject: str, fix: str) -> None:
    if needed > limit:
        raise MemoryShortageError(
            f"{subject}: about {needed / 1e9:.2f} GB of memory, and there are {limit / 1e9:.2f}: {fix}, and run the same "
            "command again"
        )


def _cache_bytes(model: Any) -> float:
    """Bytes of keys and values that a token leaves in the cache of a model that generates."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return float(2 * config.num_hidden_layers * heads * width * model.dtype.itemsize)


def duration(seconds: float) -> str:
    """A time in words, such as "43 minutes"."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.2g} seconds"


def memory_limit() -> int:
    """Bytes that this process may use on its device, with those that it uses already."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved())
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    if match := re.search(r"MemAvailable:\s+(\d+)", _text("/proc/meminfo")):
        limits.append(int(match[1]) * 1024 + _memory())
    if (text := _text("/sys/fs/cgroup/memory.max").strip()).isdecimal():
        limits.append(int(text))
    return min(limits)


def _memory(field: str = "VmRSS") -> int:
    """Bytes of this process on its device; with "VmHWM" the most on the processor."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.memory_allocated())
    match = re.search(rf"{field}:\s+(\d+)", _text("/proc/self/status"))
    return int(match[1]) * 1024 if match else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
