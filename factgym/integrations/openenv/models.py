"""What goes over the wire: an action of the policy, what the environment said to it, and where the episode stands."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BeforeValidator, Field, model_validator

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
