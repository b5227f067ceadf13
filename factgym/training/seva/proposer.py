"""A model that writes probes, by one fixed prompt for each strategy.

A proposal has to fit a schema and to pass the same checks as a probe of the rules. One that does not is requested again
with its faults; after the last retry the request is dropped with its cause. A fault of the infrastructure
(`PolicyError`) passes through.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from factgym.agents.agent import Model
from factgym.agents.judges.policy import corrected, display_name, submitted_arguments
from factgym.core.action import ParsedAction, parse_action
from factgym.core.caching import gather_bounded
from factgym.core.errors import ConfigError
from factgym.core.messages import Message
from factgym.core.policy import Policy, PromptRefusedError, call_policy
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.seeds import derive
from factgym.core.strict_json import clean_text
from factgym.core.untrusted import delimited, nonce_of
from factgym.datasets.attribution import ATTRIBUTABLE, NOT_ATTRIBUTABLE, AttributionClaim, Label
from factgym.generators.perturbations.probes import MAX_CLAIM_CHARS, STRATEGIES, Probe, check_probe, check_strategy
from factgym.tools.toolbox import Tool

SUBMIT = "submit_probe"
MAX_SOURCE_CHARS = 24_000

Cause = Literal["not_attributable", "malformed", "unchecked", "context_limit", "content_filter"]
"""Why a request gave no probe.

not_attributable: no request was sent, for a false claim has its error already. malformed: no reply that fits the
schema. unchecked: the last reply failed the checks. context_limit: the claim does not fit the model's context.
content_filter: the filter of the model's provider blocked it.
"""

_CONCURRENCY = 8
_MAX_QUOTE_CHARS = MAX_DETAIL_CHARS = 400
_MEANINGS = {
    "numerical_exaggeration": "a number or an amount is made larger or smaller",
    "negation_flip": "a negation is added or taken away, or a word gives way to its opposite",
    "scope_inflation": "something that holds of some, or sometimes, is said of all, or always",
    "temporal_shift": "a date, a period or an order in time is changed",
    "entity_substitution": "a person, an organisation, a place or a thing gives way to another",
    "fabrication": "something is added that the source does not have",
}
_CLAIM_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MAX_CLAIM_CHARS, "description": "The changed claim."}
_CHANGE_SCHEMA = {"type": "string", "maxLength": 400, "description": "What was changed, in a few words."}
_SCHEMA = {
    "type": "object",
    "properties": {"claim": _CLAIM_SCHEMA, "change": _CHANGE_SCHEMA},
    "required": ["claim"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A claim to change, the strategy, and the error to put in, None for a probe that keeps the label.

    Raises ConfigError for an unknown strategy or an error that it does not aim at.
    """

    item: AttributionClaim
    strategy: str
    error_type: str | None

    def __post_init__(self) -> None:
        check_strategy(self.strategy)
        if self.error_type not in STRATEGIES[self.strategy]:
            check_strategy(self.strategy, self.error_type or "a kept label")


@dataclass(frozen=True, slots=True)
class DroppedRequest:
    """A request without a probe. reply: the last one, cut."""

    request: ProbeRequest
    cause: Cause
    detail: str
    reply: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON data for `dropped.jsonl`."""
        return {
            "stage": "proposer",
            "reason": self.cause,
            "detail": self.detail[:MAX_DETAIL_CHARS],
            "of": self.request.item.id,
            "strategy": self.request.strategy,
            "error_type": self.request.error_type,
            "answer": self.reply,
        }


class PolicyProposer:
    """A policy, or a model, that writes probes.

    retries: further requests after a reply that does not fit the schema or fails the checks. seed: of a model's
    sampling, and of the probes. Raises ConfigError for negative retries.
    """

    def __init__(self, policy: Policy | Model, *, retries: int = 2, seed: int = 0) -> None:
        if retries < 0:
            raise ConfigError(f"retries must be at least 0, not {retries}")
        self.policy = policy
        self.retries = retries
        self.seed = seed

    def _policy_details(self) -> Mapping[str, Any]:
        describe = getattr(self.policy, "describe", None)
        return describe() if describe else {}

    def describe(self) -> dict[str, Any]:
        """The proposer and its prompts as JSON data for a manifest; never a secret."""
        settings = {"by": self.by, "prompt_sha256": fingerprint(), "retries": self.retries, "seed": self.seed}
        return {**settings, "policy": self._policy_details()}

    @property
    def by(self) -> str:
        """The author recorded in the probes: "kind:model", or the name of the policy's class."""
        return display_name(self._policy_details()) or type(self.policy).__name__

    async def close(self) -> None:
        """Close the model."""
        if isinstance(self.policy, Model):
            await self.policy.close()

    async def propose_many(
        self, requests: Sequence[ProbeRequest], concurrency: int = _CONCURRENCY
    ) -> list[Probe | DroppedRequest]:
        """Propose for every request, `concurrency` at a time, in the order of the requests.

        Raises PolicyError for a fault of the infrastructure, after the running requests have stopped.
        """
        return await gather_bounded(self._propose, requests, concurrency)

    async def _propose(self, request: ProbeRequest) -> Probe | DroppedRequest:
        """Return a probe, or why none came; a malformed reply is answered with its error up to `retries` times."""
        if request.error_type is not None and request.item.label != ATTRIBUTABLE:
            return DroppedRequest(request, "not_attributable", "the claim is false already")
        key = derive(self.seed, "proposer", request.item.id, request.strategy, request.error_type or "")
        policy = self.policy.start(key) if isinstance(self.policy, Model) else self.policy
        messages = messages_for(request)
        result: Probe | DroppedRequest
        for _ in range(self.retries + 1):
            try:
                reply = await call_policy(policy, messages, [_tool().schema])
            except PromptRefusedError as error:
                return DroppedRequest(request, error.stop, str(error))
            parsed = parse_action(reply, implicit={"claim": SUBMIT})
            result = self._read(request, parsed)
            if isinstance(result, Probe):
                return result
            messages += corrected(parsed, fill(_prompt("again"), error=result.detail, how=_prompt("by-tool")))
        return result

    def _read(self, request: ProbeRequest, parsed: ParsedAction) -> Probe | DroppedRequest:
        """The checked probe of a reply, or the reason that there is none."""
        arguments = submitted_arguments(parsed, _tool())
        if isinstance(arguments, str):
            return DroppedRequest(request, "malformed", arguments, (parsed.message["content"] or "")[:_MAX_QUOTE_CHARS])
        claim, change = clean_text(arguments["claim"]).strip(), clean_text(arguments.get("change", ""))
        item, keeps = request.item, request.error_type is None
        label: Label = ATTRIBUTABLE if keeps and item.label == ATTRIBUTABLE else NOT_ATTRIBUTABLE
        digest = hashlib.sha256(claim.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        probe = Probe(
            id=f"{item.id}/{request.strategy}/{digest}/{self.seed}",
            claim=claim,
            source=item.source,
            original_claim=item.claim,
            gold_label=label,
            error_type=item.error_type if keeps else request.error_type,
            strategy=request.strategy,
            seed=self.seed,
            by=self.by,
            meta={"variant": "proposed", "of": item.id, "keeps_label": keeps, "change": change[:_MAX_QUOTE_CHARS]},
        )
        faults = check_probe(probe)
        if faults:
            return DroppedRequest(request, "unchecked", "; ".join(faults), claim[:_MAX_QUOTE_CHARS])
        return probe


def _prompt(name: str) -> str:
    return prompt(__package__, f"probe-{name}")


def messages_for(request: ProbeRequest) -> list[Message]:
    """The messages that request a probe; the texts are between tags that they cannot close."""
    if request.error_type is None:
        aim = _prompt("keep")
    else:
        aim = fill(_prompt("aim"), error_type=request.error_type, meaning=_MEANINGS[request.error_type])
    texts = {"source": request.item.source[:MAX_SOURCE_CHARS], "claim": request.item.claim[:MAX_CLAIM_CHARS]}
    nonce = nonce_of(*texts.values())
    blocks = {name: delimited(name, clean_text(text) or "(empty)", nonce) for name, text in texts.items()}
    content = fill(
        _prompt("case"), strategy=_prompt(request.strategy), aim=aim, nonce=nonce, how=_prompt("by-tool"), **blocks
    )
    return [{"role": "system", "content": _prompt("system")}, {"role": "user", "content": content}]


@cache
def fingerprint() -> str:
    """SHA-256, in hex, of the proposer's prompts and schema, without the claims."""
    names = ("system", "case", "aim", "keep", "by-tool", "again", *STRATEGIES)
    return prompt_hash(json.dumps([[_prompt(name) for name in names], _MEANINGS, _SCHEMA]))


@cache
def _tool() -> Tool:
    return Tool(SUBMIT, "Submit the changed claim.", _SCHEMA, lambda state, **arguments: arguments, json.dumps)
