"""SkyRL's own generator, with what its loop leaves out: credit of turns, rollouts that were cut, faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

from factgym.integrations.skyrl.environment import SLOT, EpisodeFaultError, FactTextEnv


class FactGenerator(SkyRLGymGenerator):
    """In the place of SkyRLGymGenerator; episodes of other environments pass through it as they are.

    turn_weight: λ of what is paid at the last token of each message: λ times what the spans credit to it, beside the
    total at the last. retries: times that an episode is played again which the infrastructure broke. A rollout that
    `max_input_length` cut is scored as it stands; in SkyRL's own generator it earns nothing.
    """

    turn_weight = 0.0
    retries = 2

    def _setup_env_extras(self, env_class: str, env_extras: dict[str, Any], *rest: Any) -> dict[str, Any]:
        return {**super()._setup_env_extras(env_class, env_extras, *rest), SLOT: []}

    async def agent_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Play a trajectory. Raises EpisodeFaultError when its retries broke too."""
        for left in range(self.retries, -1, -1):
            try:
                return await super().agent_loop(*args, **kwargs)
            except EpisodeFaultError:
                if not left:
                    raise
        raise AssertionError("retries is at least 0")

    def _post_process_agent_loop_output(self, agent_loop_output: Any, env_extras: dict[str, Any], *rest: Any) -> Any:
        found = super()._post_process_agent_loop_output(agent_loop_output, env_extras, *rest)
        for env in env_extras.get(SLOT, ()):
            self._pay(getattr(found, "step_outputs", None) or [found], env)
        return found

    def _pay(self, outputs: Sequence[Any], env: FactTextEnv) -> None:
        unpaid = 0.0 if env.paid else env.total()
        earned = [self.turn_weight * one for one in env.session.turn_rewards()]
        if not isinstance(outputs[-1].reward, list):  # one number for the whole, under a chat template of SkyRL's own
            outputs[-1].reward += unpaid + sum(earned)
            return
        places = [(output, end) for output in outputs for end in _ends(output.loss_mask)]
        if not places:
            return
        places[-1][0].reward[places[-1][1]] += unpaid
        if len(places) != len(earned):  # a turn without a token has no place of its own
            earned = [0.0] * (len(places) - 1) + [sum(earned)]
        for (output, end), credit in zip(places, earned, strict=True):
            output.reward[end] += credit


def _ends(mask: Sequence[int]) -> list[int]:
    """The last token of each run of the policy's own tokens; what the environment says stands between."""
    return [place for place, one in enumerate(mask) if one and (place + 1 == len(mask) or not mask[place + 1])]
