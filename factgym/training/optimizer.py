"""Muon for the matrices of a model's layers, AdamW for its other weights, as one optimiser of PyTorch's.

Muon orthogonalises the momentum of each matrix by a Newton-Schulz iteration (Jordan et al. 2024, "Muon: An optimizer for
hidden layers"); scaled to the root mean square of AdamW's updates (Liu et al. 2025, "Muon is Scalable for LLM Training"),
it shares AdamW's learning rate. PyTorch has it for matrices alone, and a trainer takes one optimiser.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_MATCHED_RMS = 0.2


class MuonAdamW(torch.optim.Optimizer):  # type: ignore[misc]
    """Muon with Nesterov momentum where `is_layer_matrix`, AdamW elsewhere; both without weight decay.

    lr: of both. momentum: of Muon. betas, eps: of AdamW.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        lr: float,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
    ) -> None:
        named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
        matrices = [weight for name, weight in named if is_layer_matrix(name, weight)]
        others = [weight for name, weight in named if not is_layer_matrix(name, weight)]
        groups = [{"params": matrices, "muon": True}, {"params": others, "muon": False}]
        defaults = {"lr": lr, "momentum": momentum, "betas": betas, "eps": eps}
        super().__init__([group for group in groups if group["params"]], defaults)

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update all weights that have a gradient."""
        loss = closure() if closure is not None else None
        with torch.no_grad():
            for group in self.param_groups:
                update = self._muon if group["muon"] else self._adamw
                for weight in group["params"]:
                    if weight.grad is not None:
                        update(weight, weight.grad, group)
        return loss

    def _muon(self, weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        momentum = state["momentum"].lerp_(gradient, 1 - group["momentum"])
        direction = orthogonalised(gradient.lerp(momentum, group["momentum"]))
        scale = _MATCHED_RMS * math.sqrt(max(weight.shape))
        weight.add_(direction, alpha=-group["lr"] * scale)

    def _adamw(self, weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state |= {"step": torch.zeros(()), "mean": torch.zeros_like(weight), "square": torch.zeros_like(weight)}
        first, second = group["betas"]
        state["step"] += 1
        step = state["step"].item()
        mean, square = state["mean"].lerp_(gradient, 1 - first), state["square"]
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        divisor = (square / (1 - second**step)).sqrt_().add_(group["eps"])
        weight.addcdiv_(mean, divisor, value=-group["lr"] / (1 - first**step))


def is_layer_matrix(name: str, weight: torch.Tensor) -> bool:
    """Whether a weight is a matrix of a layer: neither an embedding, nor the output layer, nor a vector."""
    return weight.ndim == 2 and not any(part in name for part in ("embed", "lm_head"))


def orthogonalised(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix with its singular values between about .7 and 1.2, by Newton-Schulz iterations in bfloat16."""
    wide = matrix.bfloat16() if matrix.shape[0] <= matrix.shape[1] else matrix.bfloat16().T
    wide = wide / wide.norm().clamp(min=1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return (wide if matrix.shape[0] <= matrix.shape[1] else wide.T).to(matrix.dtype)


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
