"""How likely a given reply is to a served model, where its server can tell.

vLLM continues an assistant message that is already begun and gives the log-probabilities of the whole prompt
(`prompt_logprobs`), of which the last tokens are the given reply. OpenAI's API and most others have nothing like it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from factgym.agents.endpoint.faults import Fault
from factgym.agents.endpoint.wire import Transcript, encoded
from factgym.core.errors import ConfigError
from factgym.core.messages import Message
from factgym.core.policy import PolicyError

if TYPE_CHECKING:
    from factgym.agents.endpoint.policy import Endpoint

_EXTRA = {"prompt_logprobs": 1, "add_generation_prompt": False, "continue_final_message": True, "logprobs": False}
_BROKEN = "\ufffd"
"""In the text of a token that holds part of a character."""


async def given_logprob(endpoint: Endpoint, messages: Sequence[Message], completion: str, given: str) -> float:
    """See `Scoring.score`. Raises ConfigError for a server that does not give log-probabilities of prompts."""
    if not completion.strip():
        raise ConfigError("a completion to score must have a text")
    if endpoint.address.is_openai:
        raise _cannot(endpoint, "OpenAI's API does not")
    template = await endpoint.template()
    said: Message = {"role": "assistant", "content": given + completion}
    request = json.loads(template.body(Transcript().messages([*messages, said]), limit=1))
    body = encoded({key: value for key, value in {**request, **_EXTRA}.items() if key != "top_logprobs"})
    answer = await endpoint.exchange().ask(partial(endpoint.client().chat, body))
    if isinstance(answer, Fault):
        if answer.cause == "bad_request":
            raise _cannot(endpoint, f"it says {endpoint.redactor.error(answer.message, 300)}")
        await endpoint.give_up(answer)
    return _sum_of_tail(endpoint, answer, completion.rstrip())


def _sum_of_tail(endpoint: Endpoint, answer: bytes, completion: str) -> float:
    """The sum over the last tokens of the prompt, as many as hold the completion."""
    total, text = 0.0, ""
    for token in reversed(_prompt_tokens(endpoint, answer)):
        if len(text) >= len(completion):
            break
        text = str(token.get("decoded_token") or "") + text
        total += float(token["logprob"])
    if completion not in text and _BROKEN not in text:
        raise PolicyError(
            "bad_reply", f"the prompt of {endpoint.address.url} ends in {text!r:.80}, not as it was given"
        )
    if not math.isfinite(total):
        raise PolicyError("bad_reply", f"{endpoint.address.url} gave a log-probability that is no number")
    return min(total, 0.0)


def _prompt_tokens(endpoint: Endpoint, answer: bytes) -> list[dict[str, Any]]:
    """The prompt's own tokens but the first, which has no probability; the one that was there is named first."""
    try:
        found = json.loads(answer)["prompt_logprobs"]
        return [next(iter(one.values())) for one in found[1:]]
    except (KeyError, TypeError):
        raise _cannot(endpoint, "its reply holds no prompt_logprobs") from None
    except (ValueError, AttributeError, StopIteration, RecursionError):
        raise PolicyError("bad_reply", f"{endpoint.address.url}: prompt_logprobs cannot be read") from None


def _cannot(endpoint: Endpoint, why: str) -> ConfigError:
    return ConfigError(
        f"{endpoint.address.url} gives no log-probabilities of given replies ({why}): serve the model with vLLM, whose "
        "chat API has prompt_logprobs, or run it here (hf:…), or sample instead"
    )
