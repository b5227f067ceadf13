"""From the text of `--agent` to an agent: a scripted player, a model behind a server, a local model, a user's file.

| text | who plays |
| --- | --- |
| `nli`, `oracle`, … | a scripted player of the environment |
| `openai:MODEL` | an OpenAI-compatible server (`base_url` or OPENAI_BASE_URL says where) |
| `http://HOST:PORT/v1` | the server there, with the one model that it serves |
| `hf:FOLDER-OR-ID` | a causal language model through transformers |
| `path/to/file.py:Name` | a class, object or function of yours |
| `majority:N:AGENT` | N samples of AGENT each turn; the action that most of them chose |
| `best:N:AGENT` | N samples of AGENT each turn; the one that the model itself finds likeliest |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from factgym.agents.agent import Agent, Model, agent_from_model, agent_from_script
from factgym.agents.scripted import find_scripted_agent
from factgym.agents.user_code import object_agent, user_agent
from factgym.core.errors import ConfigError
from factgym.core.policy import ScriptedAgent
from factgym.core.registry import spec

_Maker = Callable[[str, dict[str, Any], str], Model]

FORMS = "openai:MODEL, http://HOST:PORT/v1, hf:FOLDER, path/to/file.py:Name, majority:N:AGENT or best:N:AGENT"


def find_agent(text: str, env_id: str, settings: Mapping[str, Any] | None = None) -> Agent:
    """The agent that a text names. Raises ConfigError for one that cannot be, or for settings that it does not take.

    settings: of the model (see the classes Endpoint and LocalModel), or keyword arguments of a user's class.
    """
    values = dict(settings or {})
    if is_model(text):
        return agent_from_model(text, _model(text, values, env_id))
    if ".py:" in text:
        return user_agent(text, values)
    if values:
        raise ConfigError(f"the scripted agent {text!r} takes no settings ({', '.join(values)})")
    try:
        return agent_from_script(find_scripted_agent(env_id, text))
    except ConfigError as error:
        raise ConfigError(f"{error} Or a model: {FORMS}.") from None


def agent_from(value: Any, env_id: str, settings: Mapping[str, Any] | None = None) -> Agent:
    """The agent that a configuration holds: a text as `find_agent` takes it, an agent, a agent, or anything with `act`.

    Raises ConfigError for what is none of these, and for settings of anything that is not named by text.
    """
    if isinstance(value, str):
        return find_agent(value, env_id, settings)
    if settings:
        raise ConfigError(
            f"settings ({', '.join(settings)}) go with a policy that is named by text, not with {value!r:.80}"
        )
    if isinstance(value, Agent):
        return value
    return agent_from_script(value) if isinstance(value, ScriptedAgent) else object_agent(value)


def is_model(text: str) -> bool:
    """Whether the text names a model, not a scripted player or a user's file."""
    kind, colon, _ = text.partition(":")
    return bool(colon) and kind in _MAKERS


def _model(text: str, settings: dict[str, Any], env_id: str) -> Model:
    kind, _, rest = text.partition(":")
    if kind not in _MAKERS:
        raise ConfigError(f"an ensemble is made of models, and {text!r} is none: give {FORMS}")
    return _MAKERS[kind](rest, settings, env_id)


def _endpoint(name: str, settings: dict[str, Any], env_id: str) -> Model:
    from factgym.agents.endpoint import Endpoint

    return Endpoint(name or None, **settings)


def _server(scheme: str) -> _Maker:
    def make(rest: str, settings: dict[str, Any], env_id: str) -> Model:
        if "base_url" in settings:
            raise ConfigError("an agent that is a URL takes no base_url: use openai:MODEL with it")
        return _endpoint("", {**settings, "base_url": f"{scheme}:{rest}"}, env_id)

    return make


def _local(name: str, settings: dict[str, Any], env_id: str) -> Model:
    from factgym.agents.local import LocalModel

    if not name:
        raise ConfigError("hf: needs a model: hf:FOLDER or hf:OWNER/NAME")
    return cast(Model, LocalModel(name, **settings))


def _majority(rest: str, settings: dict[str, Any], env_id: str) -> Model:
    from factgym.agents.ensembles import ActionKey, MajorityVote

    count, member = _members(rest, "majority")
    env = spec(env_id).load()
    return MajorityVote(_model(member, settings, env_id), count, key=ActionKey(tags=env.tags, implicit=env.implicit))


def _best(rest: str, settings: dict[str, Any], env_id: str) -> Model:
    from factgym.agents.ensembles import BestOf

    count, member = _members(rest, "best")
    return BestOf(_model(member, {"logprobs": True, **settings}, env_id), count)


def _members(rest: str, kind: str) -> tuple[int, str]:
    count, _, member = rest.partition(":")
    if not count.isdecimal() or not 2 <= int(count) <= 1000 or not member:
        raise ConfigError(f"{kind}:{rest} is not {kind}:N:AGENT with N from 2 to 1000, such as {kind}:5:openai:MODEL")
    return int(count), member


_MAKERS: Mapping[str, _Maker] = {
    "openai": _endpoint,
    "http": _server("http"),
    "https": _server("https"),
    "hf": _local,
    "majority": _majority,
    "best": _best,
}
