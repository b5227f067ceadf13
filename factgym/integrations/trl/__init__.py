"""Integration with TRL's GRPOTrainer (1.8 and later).

    class Trainer(StopWhenDone, GRPOTrainer): ...

    Trainer(model, train_dataset=dataset(ENV), environment_factory=environment_factory(ENV),
            reward_funcs=reward_columns(ENV), args=GRPOConfig(reward_weights=column_weights(ENV), ...))

`StopWhenDone` plays whole messages and ends a rollout when its episode ends, for which TRL has no signal.
`DenseCredit` does the same and turns span credits into advantages of tokens. TRL's rollouts only append: an
environment that shows its policy less than the whole transcript (ProFact's isolated contexts) shows all of it here.
"""

from __future__ import annotations

from factgym.integrations.frameworks import require_versions

require_versions("TRL", "trl", {"trl": ((1, 8), (2, 0)), "transformers": ((5, 2), (6, 0))})

from factgym.integrations.session import EpisodeTokens  # noqa: E402 - after the check of versions
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
