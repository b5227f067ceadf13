"""From the text of `--agent` to an agent: a scripted agent, a model behind a server, a local model, a user's file.

| text | agent |
| --- | --- |
| `nli`, `oracle`, … | a scripted agent of the environment |
| `openai:MODEL` | an OpenAI-compatible server (at `base_url` or OPENAI_BASE_URL) |
| `http://HOST:PORT/v1` | the server there, with the one model that it serves |
| `hf:FOLDER-OR-ID` | a causal language model through transformers |
| `nli:FOLDER-OR-ID` | an entailment or grounding model through transformers, which plays ClaimCheck and SEVA |
| `path/to/file.py:Name` | a class, object or function of yours |
| `majority:N:AGENT` | N samples of AGENT each turn; the action that most of them chose |
| `best:N:AGENT` | N samples of AGENT each turn; the likeliest by the model itself |
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from factgym.agents.agent import Agent, AgentModel, Model, agent_from_model, agent_from_script, call_optional
from factgym.core.errors import ConfigError, FactgymError, did_you_mean
from factgym.core.paths import is_file, read_bytes, user_path
from factgym.core.policy import ScriptedAgent
from factgym.core.registry import load_attribute, spec
from factgym.core.secrets import secret_values

_Maker = Callable[[str, str, dict[str, Any], str], Model]

FORMS = (
    "openai:MODEL, http://HOST:PORT/v1, hf:FOLDER, nli:FOLDER, path/to/file.py:Name, majority:N:AGENT or best:N:AGENT"
)

_TRAINABLE_SCRIPTS = ("nli", "lexical", "random")


def find_agent(text: str, env_id: str, settings: Mapping[str, Any] | None = None) -> Agent:
    """The agent that a text names. Raises ConfigError for an impossible one, or for settings that it does not take.

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
    """The agent of a configuration: a text as `find_agent` takes it, an agent, or any object with `act`.

    Raises ConfigError for other values, and for settings of an agent that is not named by text.
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


def scripted_agents(env_id: str) -> Mapping[str, ScriptedAgent]:
    """The scripted agents that can play an environment, by name."""
    reference = spec(env_id).agents
    return load_attribute(reference) if reference else {}


def find_model(text: str, settings: Mapping[str, Any] | None = None) -> Model:
    """The verifier that a text names, to be trained: an `--agent`, `features` or `features:PATH`.

    Raises ConfigError for an impossible one, and for oracles and exploiters.
    """
    kind, colon, path = text.partition(":")
    if kind == "features":
        from factgym.agents.feature_verifier import FeatureVerifier

        if settings:
            raise ConfigError(f"the feature verifier takes no settings ({', '.join(settings)})")
        return FeatureVerifier.load(user_path(path, "features")) if colon else FeatureVerifier()
    agent = find_agent(text, "seva", settings)
    if dict(agent.describe()).get("kind") == "scripted" and text not in _TRAINABLE_SCRIPTS:
        raise ConfigError(f"{text!r} knows the answer or exploits the reward: nothing can be learned from it")
    return AgentModel(agent)


def honest_baseline(env_id: str) -> str:
    """The name of the environment's honest baseline. Raises ConfigError where it has none."""
    for name, agent in scripted_agents(env_id).items():
        if agent.role == "honest":
            return name
    raise ConfigError(f"{env_id!r} has no honest baseline: name an agent")


def find_scripted_agent(env_id: str, name: str) -> ScriptedAgent:
    """A scripted agent by name. Raises ConfigError for a name that the environment does not have."""
    agents = scripted_agents(env_id)
    if name not in agents:
        hint = did_you_mean(name, agents)
        raise ConfigError(f"{env_id!r} has no agent {name!r:.80}.{hint} It has: {', '.join(agents)}.")
    return agents[name]


def is_model(text: str) -> bool:
    """Whether the text names a model, not a scripted agent or a user's file."""
    kind, colon, _ = text.partition(":")
    return bool(colon) and kind in _MAKERS


def _model(text: str, settings: dict[str, Any], env_id: str) -> Model:
    kind, _, name = text.partition(":")
    if not is_model(text):
        raise ConfigError(f"an ensemble is made of models, and {text!r} is none: give {FORMS}")
    # Names of parameters that Python gives itself, or that the agent's name holds.
    for key in {"self"} | ({"model"} if kind in ("hf", "nli") else set()):
        if key in settings:
            raise ConfigError(f"{text} has no setting {key!r}")
    return _MAKERS[kind](kind, name, settings, env_id)


def _endpoint(kind: str, name: str, settings: dict[str, Any], env_id: str) -> Model:
    from factgym.agents.endpoint import Endpoint

    for key in ("model", "base_url"):
        if key in settings and not isinstance(settings[key], str):
            raise ConfigError(f"the setting {key} of {kind}:{name} must be a text, not {settings[key]!r:.80}")
    if kind == "openai":
        if name and "model" in settings:
            raise ConfigError(f"openai:{name} names its model: leave out the setting model")
        return Endpoint(**{**settings, "model": name or settings.get("model")})
    if "base_url" in settings:
        raise ConfigError("an agent that is a URL takes no base_url: use openai:MODEL with it")
    return Endpoint(base_url=f"{kind}:{name}", **settings)


def _local(kind: str, name: str, settings: dict[str, Any], env_id: str) -> Model:
    from factgym.agents.local import LocalModel
    from factgym.agents.local.loading import check_folder

    if not name:
        raise ConfigError("hf: needs a model: hf:FOLDER or hf:OWNER/NAME")
    check_folder(name)  # before a run begins; the model is loaded by its first episode
    return cast(Model, LocalModel(name, **settings))


def _nli(kind: str, name: str, settings: dict[str, Any], env_id: str) -> Model:
    from factgym.agents.local.loading import check_folder
    from factgym.agents.nli import NliModel, SevaNliModel
    from factgym.envs.claimcheck.env import ClaimCheckEnv
    from factgym.envs.seva.env import SevaEnv

    if not name:
        raise ConfigError("nli: needs a model: nli:FOLDER or nli:OWNER/NAME")
    check_folder(name)
    env = spec(env_id).load()
    if not issubclass(env, (ClaimCheckEnv, SevaEnv)):
        raise ConfigError(f"nli:{name} plays the environments of claimcheck and seva, and {env_id!r} is none of them")
    return (SevaNliModel if issubclass(env, SevaEnv) else NliModel)(name, **settings)


def _ensemble(kind: str, text: str, settings: dict[str, Any], env_id: str) -> Model:
    from factgym.agents.ensembles import ActionKey, BestOf, MajorityVote

    count, _, member = text.partition(":")
    if not count.isdecimal() or not 2 <= int(count) <= 1000 or not member:
        raise ConfigError(f"{kind}:{text} is not {kind}:N:AGENT with N from 2 to 1000, such as {kind}:5:openai:MODEL")
    if kind == "best":
        return BestOf(_model(member, {"logprobs": True, **settings}, env_id), int(count))
    env = spec(env_id).load()
    key = ActionKey(tags=env.tags, implicit=env.implicit)
    return MajorityVote(_model(member, settings, env_id), int(count), key=key)


_MAKERS: Mapping[str, _Maker] = {
    "openai": _endpoint,
    "http": _endpoint,
    "https": _endpoint,
    "hf": _local,
    "nli": _nli,
    "majority": _ensemble,
    "best": _ensemble,
}


def user_agent(reference: str, settings: Mapping[str, Any]) -> Agent:
    """The agent of a user's own policy, `FILE.py:NAME`. Raises ConfigError that names the fault of file or name.

    The name may be a class (made once a run, with the settings as keyword arguments), an object with `act`, or a plain
    function `(messages, tools) -> assistant message`. Where the object has `start(seed)`, each episode plays with the
    policy that it returns; else all episodes share the object. `prepare()`, `close()` (plain or async) and `describe()`
    are called where they exist: before a run, after it, and for its manifest. A plain (not async) `act` is called in
    one thread, never twice at a time; an attribute `threads` of the object allows more.
    """
    file, _, name = reference.rpartition(":")
    path = user_path(file, "agent")
    policy = user_object(reference, settings)
    label = f"{path.name}:{name}"
    details = {"kind": "user", "name": label, "sha256": hashlib.sha256(read_bytes(path)).hexdigest()}
    agent = _policy_agent(label, policy, reference, {**details, **({"settings": dict(settings)} if settings else {})})
    return replace(agent, secrets=tuple(secret_values(settings)))


def object_agent(policy: Any) -> Agent:
    """The agent of an object with `act` or `start`, or of a plain function. Raises ConfigError for other objects.

    Methods and threads as in `user_agent`. Its description is empty where the object has no `describe`.
    """
    return _policy_agent(getattr(policy, "__name__", type(policy).__name__), policy, repr(policy)[:80], {})


def _policy_agent(name: str, policy: Any, reference: str, details: Mapping[str, Any]) -> Agent:
    if inspect.isroutine(policy):
        policy = SimpleNamespace(act=policy)
    act, start = getattr(policy, "act", None), getattr(policy, "start", None)
    if not callable(act) and not callable(start):
        raise ConfigError(f"{reference} has no act(messages, tools): a policy is one method of that name")

    def describe() -> dict[str, Any]:
        described = getattr(policy, "describe", None)
        if not callable(described):
            return dict(details)
        return {**details, "describe": described()} if details else dict(described())

    threads = 0 if inspect.iscoroutinefunction(act) else int(getattr(policy, "threads", 1))
    return Agent(
        name,
        (lambda env, seed: start(seed)) if callable(start) else (lambda env, seed: policy),
        describe,
        partial(call_optional, policy, "prepare"),
        partial(call_optional, policy, "close"),
        threads,
        policy,
    )


def user_object(reference: str, settings: Mapping[str, Any]) -> Any:
    """The object of `FILE.py:NAME`, made with the settings where it is a class.

    Raises ConfigError that names the fault of the file, the name or the settings.
    """
    file, _, name = reference.rpartition(":")
    path = user_path(file, "agent")
    if not is_file(path):
        raise ConfigError(f"there is no file {str(path)!r} (give path/to/file.py:Name)")
    module = _load_module(path)
    if not hasattr(module, name):
        names = [attribute for attribute in vars(module) if not attribute.startswith("_")]
        raise ConfigError(f"{path} has no {name!r}.{did_you_mean(name, names)} It has: {', '.join(names)[:500]}.")
    value = getattr(module, name)
    if not inspect.isclass(value):
        if settings:
            raise ConfigError(f"{reference} is no class, so it takes no settings ({', '.join(settings)})")
        return value
    try:
        return value(**settings)
    except FactgymError:
        raise
    except Exception as error:
        raise ConfigError(f"{reference} could not be made: {type(error).__name__}: {error}") from error


def _load_module(path: Path) -> ModuleType:
    """The file as a module under a name of its own; it can import modules of its folder."""
    name = f"factgym_user_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise ConfigError(f"{path} is no Python file (its name should end in .py)")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{path} could not be imported: {type(error).__name__}: {error}") from error
    return module
