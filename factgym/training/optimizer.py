"""Muon for the matrices of a model's layers, AdamW for its other weights, as one optimiser of PyTorch's.

Muon orthogonalises the momentum of each matrix by a Newton-Schulz iteration (Jordan et al. 2024, "Muon: An optimizer for
hidden layers"); scaled to the root mean square of AdamW's updates (Liu et al. 2025, "Muon is Scalable for LLM Training"),
it shares AdamW's learning rate. PyTorch's Muon takes matrices alone, and a trainer takes one optimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


class MuonAdamW(torch.optim.Optimizer):  # type: ignore[misc]
    """PyTorch's Muon where `is_layer_matrix`, its AdamW elsewhere, at one learning rate; both without weight decay."""

    def __init__(self, model: torch.nn.Module, lr: float) -> None:
        named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
        matrices = [weight for name, weight in named if is_layer_matrix(name, weight)]
        others = [weight for name, weight in named if not is_layer_matrix(name, weight)]
        muon = matrices and torch.optim.Muon(matrices, lr, 0.0, adjust_lr_fn="match_rms_adamw")
        adamw = others and torch.optim.AdamW(others, lr, (0.9, 0.95), weight_decay=0.0, fused=True)
        self._parts: list[Any] = [part for part in (muon, adamw) if part]
        super().__init__([group for part in self._parts for group in part.param_groups], {})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update all weights that have a gradient."""
        loss = closure() if closure is not None else None
        for part, group in zip(self._parts, self.param_groups, strict=True):
            part.state, part.param_groups = self.state, [group]
            part.step()
        return loss


def is_layer_matrix(name: str, weight: torch.Tensor) -> bool:
    """Whether a weight is a matrix of a layer: neither an embedding, nor the output layer, nor a vector."""
    return weight.ndim == 2 and not any(part in name for part in ("embed", "lm_head"))


def save_optimizer(optimizer: Any, path: Path) -> None:
    """Write the moments of every parameter as safetensors, which holds no code."""
    from safetensors.torch import save_file

    state = optimizer.state_dict()["state"]
    save_file({f"{index}.{name}": value.cpu() for index, row in state.items() for name, value in row.items()}, path)


def load_optimizer(optimizer: Any, path: Path) -> None:
    """Read the moments of the training before; a model without them begins anew."""
    if not path.is_file():
        return
    from safetensors.torch import load_file

    content = optimizer.state_dict()
    rows: dict[int, dict[str, Any]] = {}
    for key, value in load_file(path).items():
        index, _, name = key.partition(".")
        rows.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({**content, "state": rows})
