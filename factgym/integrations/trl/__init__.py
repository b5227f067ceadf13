"""Integration with TRL's GRPOTrainer (1.8 and later).

    class Trainer(StopWhenDone, GRPOTrainer): ...

    Trainer(model, train_dataset=dataset(ENV), environment_factory=environment_factory(ENV),
            reward_funcs=reward_columns(ENV), args=GRPOConfig(reward_weights=column_weights(ENV), ...))

`StopWhenDone` plays whole messages and ends a rollout when its episode ends, for which TRL has no signal.
`DenseCredit` does the same and turns span credits into advantages of tokens. TRL's rollouts only append: an
environment that shows its policy less than the whole transcript (ProFact's isolated contexts) shows all of it here.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from factgym.core.errors import ConfigError, MissingExtraError

_NEEDS = {"trl": ((1, 8), (2, 0)), "transformers": ((5, 2), (6, 0))}


def _check_versions() -> None:
    for name, (low, high) in _NEEDS.items():
        try:
            found = version(name)
        except PackageNotFoundError as missing:
            raise MissingExtraError("The TRL integration", "trl") from missing
        numbers = tuple(int(part) for part in found.split(".")[:2])
        if not low <= numbers < high:
            least, below = (".".join(map(str, one)) for one in (low, high))
            raise ConfigError(
                f"{name} {found} does not fit the TRL integration, which needs {name}>={least},<{below}: "
                "pip install -U 'factgym[trl]'"
            )


_check_versions()

from factgym.integrations.session import EpisodeTokens  # noqa: E402 - the versions come first
from factgym.integrations.trl.environment import (  # noqa: E402
    FactEnvironment,
    column_weights,
    dataset,
    environment_factory,
    episode_tokens,
    reward_columns,
)
from factgym.integrations.trl.trainer import DenseCredit, StopWhenDone  # noqa: E402

__all__ = [
    "DenseCredit",
    "EpisodeTokens",
    "FactEnvironment",
    "StopWhenDone",
    "column_weights",
    "dataset",
    "environment_factory",
    "episode_tokens",
    "reward_columns",
]
