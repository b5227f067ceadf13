"""The typed client. It loses its episode with its connection, and says so."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from websockets.exceptions import ConnectionClosed

from factgym.core.errors import FactgymError
from factgym.integrations.openenv.models import FactAction, FactObservation, FactState

_TOO_BIG = 1009
"""The close code of a socket for a message above its limit."""


class ServerLostError(FactgymError, ConnectionError):
    """The server cannot be reached, has gone or did not answer; the episode is lost, and none of its fault."""


class FactClient(EnvClient[FactAction, FactObservation, FactState]):
    """A session of a server of ours: `FactClient(base_url)` in async code, `FactClient(base_url).sync()` elsewhere.

    `step` takes a FactAction, or what it is made of: a completion, an assistant message, a call. `reset` takes task
    (an id or an index), seed, split with index, episode_id. Raises ServerLostError for a server that is not there, and
    RuntimeError with the server's own words and code (CAPACITY_REACHED, EXECUTION_ERROR …) for what it refuses.
    """

    def _step_payload(self, action: Any) -> dict[str, Any]:
        payload: dict[str, Any] = FactAction.of(action).model_dump(exclude_unset=True)
        return payload

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[FactObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = FactObservation(**payload.get("observation", {}), done=done, reward=reward)
        return StepResult(observation=observation, reward=reward, done=done, metadata=payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> FactState:
        return FactState(**payload)

    @property
    def _address(self) -> str:
        """Host and port: a URL may hold a password."""
        parts = urlsplit(self.base_url or "")
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)

    async def _connect_async(self) -> EnvClient[FactAction, FactObservation, FactState]:
        try:
            return await super()._connect_async()
        except ConnectionError as error:
            reason = type(error.__cause__ or error).__name__
            raise ServerLostError(
                f"no OpenEnv server answers at {self._address} ({reason}), and an episode that was under way is lost: "
                "start one with `factgym serve openenv ENV`"
            ) from None

    async def _send_and_receive(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = await super()._send_and_receive(message)
        except ConnectionClosed as closed:
            raise ServerLostError(self._why_closed(closed)) from None
        except TimeoutError:
            raise ServerLostError(
                f"the server at {self._address} did not answer in {self._message_timeout:g} s, and the session was left: "
                "reset() begins another episode; message_timeout_s= waits longer"
            ) from None
        return answer

    def _why_closed(self, closed: ConnectionClosed) -> str:
        if closed.rcvd is not None and closed.rcvd.code == _TOO_BIG:
            return (
                f"the server at {self._address} takes no message as large as this one, and ended the session: "
                "--max-message-mb raises its limit"
            )
        return (
            f"the server at {self._address} closed the connection, and the episode is lost: "
            "when it runs again, reset() begins another"
        )
