"""The combined optimiser against PyTorch's own Muon and AdamW."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from factgym.training.optimizer import MuonAdamW, is_layer_matrix  # noqa: E402


class Model(torch.nn.Module):
    """An embedding, a layer with wide, high and square matrices, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(7, 6)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(6, 10), torch.nn.Linear(10, 6), torch.nn.Linear(6, 6)])
        self.norm = torch.nn.LayerNorm(6)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embed_tokens(ids)
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return self.norm(hidden)


def train(model: Model, optimizers: list[torch.optim.Optimizer], steps: int, first: int = 0) -> None:
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(step)
        ids = torch.randint(0, 7, (5,), generator=generator)
        target = torch.randn(5, 6, generator=generator)
        ((model(ids) - target) ** 2).mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def new_model() -> Model:
    torch.manual_seed(0)
    return Model()


def test_steps_are_those_of_pytorchs_optimisers() -> None:
    ours, theirs = new_model(), new_model()
    train(ours, [MuonAdamW(ours, 0.01)], 20)
    named = list(theirs.named_parameters())
    matrices = [weight for name, weight in named if is_layer_matrix(name, weight)]
    others = [weight for name, weight in named if not is_layer_matrix(name, weight)]
    assert len(matrices) == 3
    muon = torch.optim.Muon(matrices, lr=0.01, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(others, lr=0.01, betas=(0.9, 0.95), weight_decay=0.0)
    train(theirs, [muon, adamw], 20)
    for (name, weight), expected in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=0, atol=1e-5, msg=name)


def test_a_loaded_state_continues_the_same_steps() -> None:
    whole, part = new_model(), new_model()
    train(whole, [MuonAdamW(whole, 0.01)], 10)
    first = MuonAdamW(part, 0.01)
    train(part, [first], 6)
    second = MuonAdamW(part, 0.5)
    second.load_state_dict(first.state_dict())
    train(part, [second], 4, first=6)
    for weight, expected in zip(part.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=0, atol=0)
