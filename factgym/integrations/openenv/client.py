"""The types on the wire (action, observation, state) and the typed client."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BeforeValidator, Field, model_validator
from websockets.exceptions import ConnectionClosed

from factgym.core.errors import FactgymError
from factgym.core.messages import Message
from factgym.core.strict_json import clean_text


def _cleaned(value: Any) -> Any:
    """A policy may write half a character; no text of its own is an error of the wire."""
    return clean_text(value) if isinstance(value, str) else value


Limit = Literal["turn_limit", "length_limit", "context_limit"]
PolicyText = Annotated[str, BeforeValidator(_cleaned)]


class FactAction(Action):
    """What the policy did: exactly one of `message`, `text` and `tool`; or `stop`, which is the trainer's.

    What the first three hold is never an error here: the environment answers what it cannot read.
    """

    message: dict[str, Any] | None = Field(
        None, description="An assistant message as OpenAI-compatible servers send it, tool calls included."
    )
    text: PolicyText | None = Field(None, description="A completion; calls may be written in it as text.")
    tool: PolicyText | None = Field(None, description="The tool of a single call.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="The arguments of that call.")
    stop: Limit | None = Field(None, description="End the episode at a limit of the trainer's; scored as it stands.")

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        if sum(one is not None for one in (self.message, self.text, self.tool, self.stop)) != 1:
            raise ValueError("an action has exactly one of message, text, tool and stop")
        return self

    @classmethod
    def of(cls, said: FactAction | Message | dict[str, Any] | str) -> FactAction:
        """An action from what a policy said: a text, an assistant message, or `{"tool": …, "arguments": …}`."""
        if isinstance(said, FactAction):
            return said
        if isinstance(said, str):
            return cls(text=said)
        given = {str(key): value for key, value in said.items()}
        if "tool" in given and "role" not in given:
            return cls(tool=given["tool"], arguments=given.get("arguments") or {})
        return cls(message=given)

    def said(self) -> Any:
        """The policy's action as an environment takes it."""
        if self.message is not None:
            return self.message
        return self.text if self.tool is None else {"tool": self.tool, "arguments": self.arguments}


class FactObservation(Observation):
    """What the environment said, and at the end what the episode earned.

    reward: 0 until the last step, then the report's total; None at reset, and where an infrastructure fault ended the
    episode, which is never a zero. After the end nothing is played, and the reward is 0.
    """

    messages: list[dict[str, Any]] = Field(
        default_factory=list, description="Chat messages to append after the policy's own; after reset the first ones."
    )
    prompt: list[dict[str, Any]] | None = Field(
        None, description="What the policy should see now, where that is not every message so far."
    )
    tools: list[dict[str, Any]] = Field(default_factory=list, description="Schemas of the tools that are open now.")
    task: str = Field("", description="The task's id.")
    stage: str = Field("", description="Where in its protocol the episode is.")
    error: str | None = Field(None, description="Code of what was wrong with the action.")
    turns_left: int = Field(0, description="Actions before the episode is cut off.")
    stop: str | None = Field(None, description="Why the episode ended.")
    report: dict[str, Any] | None = Field(
        None, description="At the end: total, status, components, weights, gates, spans, metrics and error."
    )
    metrics: dict[str, float] = Field(
        default_factory=dict, description="At the end: every component and numeric metric, flat."
    )
    turn_rewards: list[float] = Field(
        default_factory=list, description="At the end: what the spans credit to each message of the policy's."
    )

    @property
    def text(self) -> str:
        """The messages' text."""
        return "\n\n".join(message["content"] or "" for message in self.messages)


class FactState(State):
    """Where the session's episode stands; without a task before the first reset."""

    task: str | None = Field(None, description="The task's id.")
    stage: str | None = Field(None, description="Where in its protocol the episode is.")
    stop: str | None = Field(None, description="Why the episode ended.")
    turns_left: int = Field(0, description="Actions before the episode is cut off.")
    prompt: list[dict[str, Any]] = Field(default_factory=list, description="What the policy should see now.")
    tools: list[dict[str, Any]] = Field(default_factory=list, description="Schemas of the tools that are open now.")


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
