"""The stage of an evolution in which a trainer makes one model of another, once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from factgym.agents.agent import Model
from factgym.agents.runs import artifacts as files
from factgym.training.trainer import Dataset, Trainer


async def train_once(trainer: Trainer, model: Model, dataset: Dataset, folder: Path, seed: int) -> Model:
    """The model after training, which `folder/model` holds; a training that is over is loaded and not repeated.

    What the trainer raises passes through; the folder is emptied before it begins anew.
    """
    place, over = folder / files.MODEL, folder / files.TRAINED
    if over.exists():
        return await call_trainer(trainer.load, place)
    found = await call_trainer(trainer.train, model, dataset, files.fresh_folder(place), seed)
    about = {
        "model": found.describe(),
        "dataset_sha256": dataset.fingerprint,
        "lines": dataset.lines,
        "seed": seed,
        "learned": found is not model,
    }
    files.write_json(over, about)
    return found


async def call_trainer(method: Callable[..., Model | Awaitable[Model]], *args: Any) -> Model:
    """What a trainer's method gives, plain (in a thread, for training takes long) or async."""
    in_loop = inspect.iscoroutinefunction(method)
    found = method(*args) if in_loop else await asyncio.to_thread(method, *args)
    return await found if inspect.isawaitable(found) else found
