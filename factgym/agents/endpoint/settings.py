"""What an endpoint can be told, besides how replies are sampled."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from factgym.agents.sampling import Sampling
from factgym.core.errors import ConfigError

_OWN_KEYS = frozenset({"model", "messages", "tools", "stream", "n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings(Sampling):
    """Settings of an endpoint.

    api_key_env: the environment variable that holds the key. timeout: seconds of one request. max_retries: requests
    that are made again for one reply, at most. max_wait: the longest single wait before one, in seconds; a server that
    asks for more ends the episode. connections: requests in flight at once. send_seed: send each turn's seed.
    top_logprobs: alternatives for each token, where the server gives them, kept in the record's notes. extra_body: more
    keys of the request, such as `{"chat_template_kwargs": {…}}`.
    """

    api_key_env: str | None = None
    timeout: float = 120.0
    max_retries: int = 6
    max_wait: float = 60.0
    connections: int = 1024
    send_seed: bool = True
    top_logprobs: int = 0
    extra_body: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        Sampling.__post_init__(self)
        _check("timeout", self.timeout, 0 < self.timeout < math.inf, "seconds above 0")
        _check("max_retries", self.max_retries, 0 <= self.max_retries <= 100, "from 0 to 100")
        _check("max_wait", self.max_wait, 0 <= self.max_wait < math.inf, "seconds, at least 0")
        _check("connections", self.connections, self.connections >= 1, "at least 1")
        _check("top_logprobs", self.top_logprobs, 0 <= self.top_logprobs <= 20, "from 0 to 20")
        _check("extra_body", self.extra_body, _is_json(self.extra_body), "JSON data")
        taken = _OWN_KEYS & set(self.extra_body or ())
        if taken:
            raise ConfigError(f"extra_body must not hold {', '.join(sorted(taken))}: the endpoint writes these itself")


def _check(name: str, value: object, fits: bool, takes: str) -> None:
    if not fits:
        raise ConfigError(f"{name} must be {takes}, not {value!r:.80}")


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
