"""SkyRL's own generator, plus the parts that its loop lacks: credit of turns, truncated rollouts, faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

from factgym.integrations.skyrl import ENVS_KEY, EpisodeFaultError, FactTextEnv


class FactGenerator(SkyRLGymGenerator):
    """Replaces SkyRLGymGenerator; episodes of other environments pass through it unchanged.

    turn_weight: λ. The last token of each message gets λ times the spans' credit for it, the last one of all the total
    as well. retries: of an episode that the infrastructure broke. A rollout that `max_input_length` cut is scored; in
    SkyRL's own generator it earns nothing.
    """

    turn_weight = 0.0
    retries = 2

    def _setup_env_extras(self, env_class: str, env_extras: dict[str, Any], *args: Any) -> dict[str, Any]:
        return {**super()._setup_env_extras(env_class, env_extras, *args), ENVS_KEY: []}

    async def agent_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Play a trajectory. Raises EpisodeFaultError when its retries broke too."""
        for _ in range(self.retries):
            try:
                return await super().agent_loop(*args, **kwargs)
            except EpisodeFaultError:
                continue
        return await super().agent_loop(*args, **kwargs)

    def _post_process_agent_loop_output(self, agent_loop_output: Any, env_extras: dict[str, Any], *args: Any) -> Any:
        output = super()._post_process_agent_loop_output(agent_loop_output, env_extras, *args)
        for env in env_extras.get(ENVS_KEY, ()):
            self._add_rewards(getattr(output, "step_outputs", None) or [output], env)
        return output

    def _add_rewards(self, outputs: Sequence[Any], env: FactTextEnv) -> None:
        """Add the final reward and each turn's credit to the last token of its message."""
        unpaid = 0.0 if env.paid else env.total()
        turn_credit = [self.turn_weight * reward for reward in env.session.turn_rewards()]
        if not isinstance(outputs[-1].reward, list):  # one number for the whole, under a chat template of SkyRL's own
            outputs[-1].reward += unpaid + sum(turn_credit)
            return
        # The last token of each message: the environment's tokens, which the mask hides, are between two of them.
        ends = [
            (output, index)
            for output in outputs
            for index, own in enumerate(output.loss_mask)
            if own and not any(output.loss_mask[index + 1 : index + 2])
        ]
        if not ends:
            return
        ends[-1][0].reward[ends[-1][1]] += unpaid
        if len(ends) != len(turn_credit):  # a message without a token has no end
            turn_credit = [0.0] * (len(ends) - 1) + [sum(turn_credit)]
        for (output, index), credit in zip(ends, turn_credit, strict=True):
            output.reward[index] += credit
