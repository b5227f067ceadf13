"""The types on the wire (action, observation, state) and the typed client."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BeforeValidator, Field, model_validator
from websockets.exceptions import ConnectionClosed, InvalidStatus

from factgym.core.errors import FactgymError
from factgym.core.messages import Message
from factgym.core.strict_json import clean_text
from factgym.corpora.http_client import error_detail

Limit = Literal["turn_limit", "length_limit", "context_limit"]
# A policy may write half a character, which JSON cannot hold: no text of a policy is a protocol error.
PolicyText = Annotated[str, BeforeValidator(lambda value: clean_text(value) if isinstance(value, str) else value)]


class FactAction(Action):
    """An action: exactly one of the policy's `message`, `text` and `tool`, or the trainer's `stop`.

    No content of the first three is an error here: the environment answers a malformed action.
    """

    message: dict[str, Any] | None = Field(
        None, description="An assistant message as OpenAI-compatible servers send it, tool calls included."
    )
    text: PolicyText | None = Field(None, description="A completion; calls may be written in it as text.")
    tool: PolicyText | None = Field(None, description="The tool of a single call.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="The arguments of that call.")
    stop: Limit | None = Field(None, description="End the episode at a limit of the trainer's; it is scored as it is.")

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if sum(field is not None for field in (self.message, self.text, self.tool, self.stop)) != 1:
            raise ValueError("an action has exactly one of message, text, tool and stop")
        return self

    @classmethod
    def of(cls, action: FactAction | Message | dict[str, Any] | str) -> FactAction:
        """Return an action for a text, an assistant message, or `{"tool": …, "arguments": …}`."""
        if isinstance(action, FactAction):
            return action
        if isinstance(action, str):
            return cls(text=action)
        fields = {str(key): value for key, value in action.items()}
        if "tool" in fields and "role" not in fields:
            return cls(tool=fields["tool"], arguments=fields.get("arguments") or {})
        return cls(message=fields)

    def to_env_action(self) -> Any:
        """Return the policy's action as `Env.step` takes it."""
        if self.message is not None:
            return self.message
        return self.text if self.tool is None else {"tool": self.tool, "arguments": self.arguments}


class FactObservation(Observation):
    """The environment's answer to an action, and at the end the reward report.

    reward: 0 until the last step, then the report's total; None at reset, and where an infrastructure fault ended the
    episode, which is never a zero. After the end nothing is played, and the reward is 0.
    """

    messages: list[dict[str, Any]] = Field(
        default_factory=list, description="Chat messages to append after the policy's own; after reset the first ones."
    )
    prompt: list[dict[str, Any]] | None = Field(
        None, description="The policy's current prompt, where that is not every message so far."
    )
    tools: list[dict[str, Any]] = Field(default_factory=list, description="Schemas of the tools that are open now.")
    task: str = Field("", description="The task's id.")
    stage: str = Field("", description="The episode's stage in its turn protocol.")
    error: str | None = Field(None, description="Code of the action's error.")
    turns_left: int = Field(0, description="Actions before the episode is cut off.")
    stop: str | None = Field(None, description="Reason for the end of the episode.")
    report: dict[str, Any] | None = Field(
        None, description="At the end: total, status, components, weights, gates, spans, metrics and error."
    )
    metrics: dict[str, float] = Field(
        default_factory=dict, description="At the end: every component and numeric metric, flat."
    )
    turn_rewards: list[float] = Field(
        default_factory=list, description="At the end: the spans' credit for each of the policy's messages."
    )

    @property
    def text(self) -> str:
        """The messages' text."""
        return "\n\n".join(message["content"] or "" for message in self.messages)


class FactState(State):
    """State of the session's episode; without a task before the first reset."""

    task: str | None = Field(None, description="The task's id.")
    stage: str | None = Field(None, description="The episode's stage in its turn protocol.")
    stop: str | None = Field(None, description="Reason for the end of the episode.")
    turns_left: int = Field(0, description="Actions before the episode is cut off.")
    prompt: list[dict[str, Any]] = Field(default_factory=list, description="The policy's current prompt.")
    tools: list[dict[str, Any]] = Field(default_factory=list, description="Schemas of the tools that are open now.")


_MESSAGE_TOO_BIG = 1009
"""Close code of a WebSocket for a message above the limit."""


class ServerLostError(FactgymError, ConnectionError):
    """The server cannot be reached, is gone or did not answer; the episode is lost through no fault of the policy."""


class FactClient(EnvClient[FactAction, FactObservation, FactState]):
    """A session of a server of ours: `FactClient(base_url)` in async code, `FactClient(base_url).sync()` elsewhere.

    `step` takes a FactAction, or any argument of `FactAction.of`: a completion, an assistant message, a call. `reset`
    takes task (an id or an index), seed, split with index, episode_id. Raises ServerLostError for an unreachable server,
    and RuntimeError with the server's own message and code (CAPACITY_REACHED, EXECUTION_ERROR …) for a refusal.
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
            if isinstance(error.__cause__, InvalidStatus):
                response = error.__cause__.response
                reason = f"status {response.status_code}{error_detail(bytes(response.body or b''))}"
                raise ServerLostError(f"the server at {self._address} refuses the connection: {reason}") from None
            reason = type(error.__cause__ or error).__name__
            raise ServerLostError(
                f"no OpenEnv server answers at {self._address} ({reason}), and an episode that was running is lost: "
                "start one with `factgym serve openenv ENV`"
            ) from None

    async def _send_and_receive(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = await super()._send_and_receive(message)
        except ConnectionClosed as closed:
            if closed.rcvd is not None and closed.rcvd.code == _MESSAGE_TOO_BIG:
                raise ServerLostError(
                    f"the server at {self._address} takes no message as large as this one, and ended the session: "
                    "--max-message-mb raises its limit"
                ) from None
            raise ServerLostError(
                f"the server at {self._address} closed the connection, and the episode is lost: "
                "when it runs again, reset() starts another"
            ) from None
        except TimeoutError:
            raise ServerLostError(
                f"the server at {self._address} did not answer in {self._message_timeout:g} s, and the session was closed: "
                "reset() starts another episode; message_timeout_s= waits longer"
            ) from None
        return answer
