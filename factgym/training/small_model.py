"""The forward pass of Llama and Qwen3 in plain torch: a cache of keys and values across turns, exact gradients.

The weights are the transformers model's own, so that it is saved and played as any other. The pass is written for small
matrices on a processor: what rows share at their beginning is computed once, the last layer and the logits only where a
token is predicted, and the loss is differentiated block by block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from factgym.core.errors import ConfigError

Attend = Callable[[int, Tensor, Tensor, Tensor, Tensor], Tensor]
"""Takes the layer, queries, keys and values (rows, heads, tokens, dimensions) of new tokens, and the positions of the
queries, (tokens,) or (rows, tokens); returns like queries."""

_BLOCK_TOKENS, _BLOCK_LOGITS = 2048, 128  # tokens of a pass, and rows of logits, that fit in a processor's cache


class Layer(NamedTuple):
    """Weights of a layer; norms before a product are part of its matrix. query_norm, key_norm: (dimensions,), Qwen3's."""

    query: Tensor
    keys_values: Tensor
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Tensor
    gate_up: Tensor
    down: Tensor


class Weights(NamedTuple):
    """Weights as the pass takes them, in its dtype but for the 32-bit embedding and head.

    head: (vocabulary, hidden), with the last norm in it.
    """

    embedding: Tensor
    layers: Sequence[Layer]
    head: Tensor


class SmallModel:
    """The passes of a transformers model with 32-bit weights. Raises ConfigError for another shape than Llama's or Qwen3's.

    dtype: of products and of the cache; residuals, softmax and gradients of weights are float32.
    """

    def __init__(self, model: Any, name: str = "the model", dtype: torch.dtype = torch.float32) -> None:
        config = model.config
        biases = ("attention_bias", "mlp_bias", "use_sliding_window")
        plain = (
            config.model_type in ("llama", "qwen3")
            and not any(getattr(config, each, False) for each in biases)
            and config.hidden_act == "silu"
            and config.rope_parameters["rope_type"] in ("default", "linear", "llama3")
            and model.dtype == torch.float32
        )
        if not plain:
            raise ConfigError(f'engine = "small" trains plain models like Llama and Qwen3, not {name!r}: take "trl"')
        self.model, self.lm_head, self.dtype = model.model, model.lm_head, dtype
        self.layers, self.context = config.num_hidden_layers, config.max_position_embeddings
        self.heads, self.head_dim, self.epsilon = config.num_key_value_heads, config.head_dim, config.rms_norm_eps
        self._frequencies = model.model.rotary_emb.inv_freq

    def weights(self) -> Weights:
        """The weights, through which gradients reach the model's parameters."""
        layers = []
        for block in self.model.layers:
            attention, mlp, norm = block.self_attn, block.mlp, block.input_layernorm.weight
            keys_values = torch.cat([attention.k_proj.weight, attention.v_proj.weight]) * norm
            gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]) * block.post_attention_layernorm.weight
            norms = (getattr(attention, each, None) for each in ("q_norm", "k_norm"))
            parts = (
                *(attention.q_proj.weight * norm, keys_values),
                *(each and each.weight for each in norms),
                *(attention.o_proj.weight, gate_up, mlp.down_proj.weight),
            )
            layers.append(Layer(*(part if part is None else part.to(self.dtype) for part in parts)))
        return Weights(self.model.embed_tokens.weight, layers, self.lm_head.weight * self.model.norm.weight)

    def hidden(self, weights: Weights, ids: Tensor, positions: Tensor, attend: Attend, places: Tensor) -> Tensor:
        """Return (rows, n, hidden) before the head, of the tokens at `places` (rows, n); the last layer makes no others.

        ids: (rows, tokens). positions: (tokens,) or like ids.
        """
        x, rotation = functional.embedding(ids, weights.embedding), self._rotation(positions)
        for index, layer in enumerate(weights.layers):
            source, asking = self._norm(x), rotation
            pairs = functional.linear(source, layer.keys_values).unflatten(-1, (2, -1, self.head_dim))
            keys, values = pairs.unbind(-3)
            keys = self._rotated(keys, layer.key_norm, *rotation)
            if index == self.layers - 1:
                x, source = (tensor.take_along_dim(places.unsqueeze(-1), 1) for tensor in (x, source))
                positions = positions.expand(ids.shape).take_along_dim(places, 1)
                asking = self._rotation(positions)
            queries = functional.linear(source, layer.query).unflatten(-1, (-1, self.head_dim))
            queries = self._rotated(queries, layer.query_norm, *asking)
            mixed = attend(index, queries, keys, values.transpose(1, 2), positions).transpose(1, 2).flatten(-2)
            x = x + functional.linear(mixed, layer.output)
            gate, up = functional.linear(self._norm(x), layer.gate_up).chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, layer.down)
        return self._norm(x)

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of RoPE, (…, 1, dimensions)."""
        angles = positions.unsqueeze(-1) * self._frequencies
        angles = torch.cat([angles, angles], -1).unsqueeze(-2)
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def _rotated(self, x: Tensor, norm: Tensor | None, cos: Tensor, sin: Tensor) -> Tensor:
        """Heads (rows, tokens, heads, dimensions), after their norm if there is one, as (rows, heads, tokens, dimensions)."""
        x = x if norm is None else self._norm(x) * norm
        first, second = x.chunk(2, -1)
        return (x * cos + torch.cat([-second, first], -1) * sin).transpose(1, 2)

    def _norm(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), eps=self.epsilon).to(self.dtype)


def _mask(positions: Tensor, size: int) -> Tensor:
    """Minus infinity where a key of `size` comes after a query: (tokens, size), or (rows, 1, tokens, size)."""
    mask = torch.where(torch.arange(size) > positions.unsqueeze(-1), float("-inf"), 0.0)
    return mask.unsqueeze(1) if mask.ndim > 2 else mask


class Cache:
    """Keys and values of rows that grow. rows: their names, in their order. lengths: (rows,) tokens stored of each."""

    rows: list[int]
    lengths: Tensor

    def __init__(self, model: SmallModel) -> None:
        self._model, self.capacity, self._stored = model, -1, torch.zeros(0)

    def clear(self, rows: Sequence[int], capacity: int) -> None:
        """Begin anew with these rows, of at most so many tokens."""
        if capacity > self.capacity or len(rows) > self._stored.shape[2]:
            # One more column takes the padding. Zeros, since columns are read where a score is minus infinity.
            size = (2, self._model.layers, len(rows), self._model.heads, capacity + 1, self._model.head_dim)
            self.capacity, self._stored = capacity, torch.zeros(size, dtype=self._model.dtype)
        self.rows, self.lengths = list(rows), torch.zeros(len(rows), dtype=torch.long)

    def extend(self, weights: Weights, chunks: Sequence[Sequence[int]], repeats: int = 1) -> Tensor:
        """Append tokens to the first rows; return (rows, hidden) after the last token of each.

        chunks: tokens for each row, or for each `repeats` rows that get the same.
        """
        counts = torch.tensor([len(chunk) for chunk in chunks])
        ids = pad_sequence([torch.tensor(chunk) for chunk in chunks], batch_first=True)
        size, first, hidden = max(1, _BLOCK_TOKENS // ids.shape[1]), 0, []
        for block, lengths in zip(ids.split(size), counts.split(size), strict=True):
            hidden.append(self._extend(weights, block, lengths, first, repeats))
            first += len(block) * repeats
        return torch.cat(hidden)

    def _extend(self, weights: Weights, ids: Tensor, counts: Tensor, first: int, repeats: int) -> Tensor:
        rows = torch.arange(first, first + len(ids) * repeats)
        block, read = slice(first, first + len(rows)), slice(first, first + len(rows), repeats)
        positions = (self.lengths[read, None] + torch.arange(ids.shape[1])).clamp(max=self.capacity)
        longest, columns = int(positions.max()) + 1, positions.repeat_interleave(repeats, 0)

        def attend(index: int, queries: Tensor, keys: Tensor, values: Tensor, asking: Tensor) -> Tensor:
            for part, new in enumerate((keys, values)):
                self._stored[part, index, rows[:, None], :, columns] = new.transpose(1, 2).repeat_interleave(repeats, 0)
            keys, values = self._stored[:, index, read, :, :longest]
            grouped = queries.reshape(*keys.shape[:2], -1, keys.shape[-1])  # the queries of a group share keys
            # Keys first: in 16 bits the product is twice as fast this way.
            scores = (keys @ (grouped * keys.shape[-1] ** -0.5).transpose(-1, -2)).transpose(-1, -2)
            shares = (scores.reshape(*queries.shape[:3], -1) + _mask(asking, longest)).softmax(-1).to(keys.dtype)
            return (shares.view(*grouped.shape[:3], -1) @ values).view_as(queries)

        hidden = self._model.hidden(weights, ids, positions, attend, counts.unsqueeze(1) - 1)
        self.lengths[block] += counts.repeat_interleave(repeats)
        return hidden.squeeze(1).repeat_interleave(repeats, 0)

    def reorder(self, order: Sequence[int]) -> None:
        """Put the rows at these places first, in this order; rows that are not named are given up."""
        moved = torch.tensor([index for index, source in enumerate(order) if index != source], dtype=torch.long)
        sources, longest = torch.tensor(order, dtype=torch.long), int(self.lengths.max())
        self._stored[:, :, moved, :, :longest] = self._stored[:, :, sources[moved], :, :longest]
        self.rows, self.lengths = [self.rows[source] for source in order], self.lengths[sources]

    def sample(
        self, weights: Weights, hidden: Tensor, limits: dict[int, int], end: int, draw: Callable[[Tensor], Tensor]
    ) -> dict[int, list[int]]:
        """Sample a reply for each row, and store it but for its last token; return the replies by row.

        hidden: (rows, hidden) after each row. limits: of the replies in tokens, by row. end: the token that ends a
        reply. draw: returns tokens (rows,) of logits (rows, vocabulary). Rows whose reply has ended cost nothing more.
        """
        replies: dict[int, list[int]] = {row: [] for row in self.rows}
        live, head = len(self.rows), weights.head.to(hidden.dtype).T
        while True:
            for row, token in zip(self.rows, draw((hidden @ head).float()).tolist(), strict=False):
                replies[row].append(token)
            goes_on = [replies[row][-1] != end and len(replies[row]) < limits[row] for row in self.rows[:live]]
            if not any(goes_on):
                return replies
            if not all(goes_on):  # rows that have ended change places with the last ones that go on
                live, order = sum(goes_on), list(range(len(self.rows)))
                free = [index for index in range(live) if not goes_on[index]]
                late = [index for index in range(live, len(goes_on)) if goes_on[index]]
                for index, source in zip(free, late, strict=True):
                    order[index], order[source] = source, index
                self.reorder(order)
            hidden = self.extend(weights, [replies[row][-1:] for row in self.rows[:live]])


def sampler(temperature: float, seed: int) -> Callable[[Tensor], Tensor]:
    """Return a function that draws a token of each row of logits, by the inverse of the running sums of probabilities."""
    generator = torch.Generator().manual_seed(seed)

    def draw(logits: Tensor) -> Tensor:
        sums = (logits / temperature).softmax(-1).cumsum(-1)
        points = torch.rand(len(sums), 1, generator=generator) * sums[:, -1:]
        return torch.searchsorted(sums, points, right=True).squeeze(1).clamp_(max=sums.shape[-1] - 1)

    return draw


class TokenRow(NamedTuple):
    """A sequence to train on. trained: tokens that the policy wrote. weights: of their log-probabilities in the loss."""

    ids: Sequence[int]
    trained: Sequence[bool]
    weights: Sequence[float]


def backward(model: SmallModel, batches: Iterable[Sequence[TokenRow]], temperature: float = 1.0) -> dict[str, float]:
    """Add to a model's gradients those of −Σ weight · log p over all trained tokens; return sums over them.

    The sums: "loss", "entropy", "correct" (tokens that were the likeliest) and "tokens".

    batches: rows that are computed together; what they share before their first trained token is computed once. They
    begin with the same token, and the first two tokens of a row are not trained. temperature: divides the logits.
    """
    sums: dict[str, float] = defaultdict(float)
    for rows in batches:
        weights = model.weights()
        hidden, targets, factors = _trained_states(model, weights, rows)
        gradients = _head_gradients(weights.head.detach(), hidden.detach(), targets, factors, temperature, sums)
        if bool(factors.any()):
            parts = [pair for pair in zip((hidden, weights.head), gradients, strict=True) if pair[0].requires_grad]
            torch.autograd.backward(*map(list, zip(*parts, strict=True)))
    return sums


def _trained_states(model: SmallModel, weights: Weights, rows: Sequence[TokenRow]) -> tuple[Tensor, Tensor, Tensor]:
    """Return (n, hidden) that predict the trained tokens of rows, the tokens (n,), and their weights (n,)."""
    last = min(row.trained.index(True) for row in rows) - 1  # the token that predicts the first trained one
    starts = [list(row.ids[:last]) for row in rows]
    shared = next((index for index in range(1, last) if any(ids[index] != starts[0][index] for ids in starts)), last)
    size = max(len(row.ids) for row in rows) - shared
    prompt: list[tuple[Tensor, Tensor]] = []

    def attend(index: int, queries: Tensor, keys: Tensor, values: Tensor, positions: Tensor) -> Tensor:
        if index == len(prompt):  # the first pass
            prompt.append((keys, values))
        else:
            keys, values = (
                torch.cat([old.expand(len(rows), -1, -1, -1), new], 2)
                for old, new in zip(prompt[index], (keys, values), strict=True)
            )
        mask = _mask(positions, keys.shape[2]).to(queries.dtype)
        return functional.scaled_dot_product_attention(queries, keys, values, mask, enable_gqa=True)

    start, nothing = torch.tensor([starts[0][:shared]]), torch.zeros(1, 1, dtype=torch.long)
    model.hidden(weights, start, torch.arange(shared), attend, nothing)
    ids = pad_sequence([torch.tensor(row.ids[shared:]) for row in rows], batch_first=True)
    trained = pad_sequence([torch.tensor(row.trained[shared:]) for row in rows], batch_first=True)
    factors = pad_sequence([torch.tensor(row.weights[shared:]) for row in rows], batch_first=True)
    places = [mask.nonzero().squeeze(1) for mask in trained]
    real = pad_sequence([torch.ones_like(each) for each in places], batch_first=True).bool()
    places = pad_sequence([each - 1 for each in places], batch_first=True)
    states = model.hidden(weights, ids, torch.arange(shared, shared + size), attend, places)
    return states[real], ids[trained], factors[trained]


@torch.no_grad()  # type: ignore[untyped-decorator]
def _head_gradients(
    head: Tensor, hidden: Tensor, targets: Tensor, factors: Tensor, temperature: float, sums: dict[str, float]
) -> tuple[Tensor, Tensor]:
    """Return the loss's gradients of hidden (n, hidden) and of the head (vocabulary, hidden), and add to the sums."""
    gradient, head_gradient, low = torch.empty_like(hidden), torch.zeros_like(head), head.to(hidden.dtype)
    for start in range(0, len(hidden), _BLOCK_LOGITS):  # the logits of all tokens are never in memory
        block = slice(start, start + _BLOCK_LOGITS)
        state, target, factor = hidden[block], targets[block].unsqueeze(1), factors[block].unsqueeze(1)
        logprobs = (state @ low.T).float().div_(temperature).log_softmax(-1)
        chosen, probabilities = logprobs.gather(1, target), logprobs.exp()
        sums["loss"] -= float((chosen * factor).sum())
        sums["entropy"] -= float(torch.linalg.vecdot(probabilities, logprobs).sum())
        sums["correct"] += float((chosen >= logprobs.amax(-1, keepdim=True)).sum())
        sums["tokens"] += len(target)
        # Of −log softmax(logits)[target]: the probabilities less one at the target.
        probabilities.scatter_add_(1, target, torch.full_like(chosen, -1.0)).mul_(factor / temperature)
        part = probabilities.to(low.dtype)
        head_gradient += part.T @ state
        gradient[block] = part @ low
    return gradient, head_gradient
