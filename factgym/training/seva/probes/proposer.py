"""A model writes the probes: one fixed prompt for each strategy, and the same checks as for those of the rules.

The answer is read by the one parser of actions and has to fit a schema. One that does not, or that fails the checks,
is asked for again with what is wrong; after that the claim gives no probe, and it is said why. A fault of the
infrastructure (`PolicyError`) passes through.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from factgym.agents.agent import Model
from factgym.core.action import ParsedAction, parse_action
from factgym.core.caching import gather_bounded
from factgym.core.calls import CallError
from factgym.core.errors import ConfigError
from factgym.core.messages import Completion, Message, Usage
from factgym.core.policy import ContextOverflowError, Policy, add_usage, call_policy
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.seeds import derive
from factgym.core.strict_json import clean_text
from factgym.datasets.attribution import ATTRIBUTABLE, NOT_ATTRIBUTABLE, Label
from factgym.generators.perturbations.names import ClaimLike
from factgym.generators.perturbations.probes import MAX_CLAIM_CHARS, STRATEGIES, Probe, check_probe, check_strategy
from factgym.tools.toolbox import Tool
from factgym.tools.untrusted import neutralise

SUBMIT = "submit_probe"
MAX_SOURCE_CHARS = 24_000

Cause = Literal["not_attributable", "malformed", "unchecked", "context_limit"]
"""Why a model gave no probe.

not_attributable: nobody was asked, for a false claim has its error already. malformed: no answer that fits the schema.
unchecked: the last answer failed the checks. context_limit: the claim does not fit the model's context.
"""

_PACKAGE = "factgym.training.seva.probes"
_CONCURRENCY = 8
_TAG = re.compile(r"<(?=\s*/?\s*(?:source|claim)\b)", re.IGNORECASE)
_OBJECT = re.compile(r"\{(?=\s*[\"'}])")
_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "numerical_exaggeration": "a number or an amount is made larger or smaller",
        "negation_flip": "a negation is added or taken away, or a word gives way to its opposite",
        "scope_inflation": "something that holds of some, or sometimes, is said of all, or always",
        "temporal_shift": "a date, a period or an order in time is changed",
        "entity_substitution": "a person, an organisation, a place or a thing gives way to another",
        "fabrication": "something is added that the source does not have",
    }
)
_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "object",
        "properties": {
            "claim": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_CLAIM_CHARS,
                "description": "The changed claim.",
            },
            "change": {"type": "string", "maxLength": 400, "description": "What was changed, in a few words."},
        },
        "required": ["claim"],
        "additionalProperties": False,
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """What to propose: a claim, the strategy, and the error to put in, None for a probe that keeps the label."""

    item: ClaimLike
    strategy: str
    error_type: str | None


@dataclass(frozen=True, slots=True)
class Dropped:
    """A request that gave no probe, and why. answer: the last one, cut."""

    request: Request
    cause: Cause
    detail: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a model proposed: the probes, what was dropped, and the tokens that it took."""

    probes: tuple[Probe, ...]
    dropped: tuple[Dropped, ...]
    usage: Usage = field(default_factory=Usage)

    @property
    def drop_rate(self) -> float:
        """The share of the requests that gave no probe; 0 without requests."""
        asked = len(self.probes) + len(self.dropped)
        return len(self.dropped) / asked if asked else 0.0

    @property
    def reasons(self) -> dict[str, int]:
        """How often each cause dropped a request, sorted by name."""
        causes = [one.cause for one in self.dropped]
        return {cause: causes.count(cause) for cause in sorted(set(causes))}


class PolicyProposer:
    """A policy, or a model, that writes probes.

    retries: how often it is asked again after an answer that does not fit or fails the checks. seed: of a model's
    sampling, and of the probes. blocking: a plain `act` takes long and is called in a thread. Raises ConfigError for
    negative retries.
    """

    def __init__(self, policy: Policy | Model, *, retries: int = 2, seed: int = 0, blocking: bool = False) -> None:
        if retries < 0:
            raise ConfigError(f"retries must be at least 0, not {retries}")
        self.policy = policy
        self.retries = retries
        self.seed = seed
        self.blocking = blocking

    def describe(self) -> dict[str, Any]:
        """Who proposes and with which prompts, as JSON data for a manifest; never a secret."""
        describe = getattr(self.policy, "describe", None)
        details = describe() if describe else {}
        return {
            "by": self.by,
            "prompt_sha256": fingerprint(),
            "retries": self.retries,
            "seed": self.seed,
            "policy": details,
        }

    @property
    def by(self) -> str:
        """Who proposes, as the probes say it: "kind:model", or the name of the policy's class."""
        describe = getattr(self.policy, "describe", None)
        details = describe() if describe else {}
        said = [details.get(name) for name in ("kind", "model")]
        return ":".join(one for one in said if isinstance(one, str) and one) or type(self.policy).__name__

    async def close(self) -> None:
        """Close the model."""
        if isinstance(self.policy, Model):
            await self.policy.close()

    async def propose_many(self, requests: Sequence[Request], concurrency: int = _CONCURRENCY) -> Proposals:
        """Ask for every request, `concurrency` at a time; probes and drops each in the order of the requests.

        Raises ConfigError for an unknown strategy or an error that it does not aim at, and PolicyError for a fault of
        the infrastructure, after what was under way has stopped.
        """
        for one in requests:
            _check(one)
        usage = Usage()
        found = await gather_bounded(lambda one: self._propose(one, usage), requests, concurrency)
        probes = tuple(one for one in found if isinstance(one, Probe))
        return Proposals(probes, tuple(one for one in found if isinstance(one, Dropped)), usage)

    async def propose(self, item: ClaimLike, strategy: str, error_type: str | None) -> Probe | Dropped:
        """One probe; see `propose_many`."""
        request = Request(item, strategy, error_type)
        _check(request)
        return await self._propose(request, Usage())

    async def _propose(self, request: Request, usage: Usage) -> Probe | Dropped:
        if request.error_type is not None and request.item.label != ATTRIBUTABLE:
            return Dropped(request, "not_attributable", "the claim is false already")
        key = derive(self.seed, "proposer", request.item.id, request.strategy, request.error_type or "")
        policy = self.policy.start(key) if isinstance(self.policy, Model) else self.policy
        messages = messages_for(request)
        dropped = Dropped(request, "malformed", "nobody was asked")
        for _ in range(self.retries + 1):
            try:
                reply = await call_policy(policy, messages, [_tool().schema], self.blocking)
            except ContextOverflowError as error:
                return Dropped(request, "context_limit", str(error))
            completion: Completion = reply.get("completion") or {}
            add_usage(usage, completion.get("usage"))
            parsed = parse_action(reply, implicit={"claim": SUBMIT})
            made = self._read(request, parsed)
            if isinstance(made, Probe):
                return made
            dropped = made
            messages += _corrected(parsed, dropped.detail)
        return dropped

    def _read(self, request: Request, parsed: ParsedAction) -> Probe | Dropped:
        arguments, error = _arguments(parsed)
        if arguments is None:
            return Dropped(request, "malformed", error, (parsed.message["content"] or "")[:400])
        probe = self._probe(request, clean_text(arguments["claim"]).strip(), arguments.get("change", ""))
        faults = check_probe(probe)
        return Dropped(request, "unchecked", "; ".join(faults), probe.claim[:400]) if faults else probe

    def _probe(self, request: Request, claim: str, change: str) -> Probe:
        item, keeps = request.item, request.error_type is None
        label: Label = ATTRIBUTABLE if keeps and item.label == ATTRIBUTABLE else NOT_ATTRIBUTABLE
        text = hashlib.sha256(claim.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return Probe(
            id=f"{item.id}/{request.strategy}/{text}/{self.seed}",
            claim=claim,
            source=item.source,
            original_claim=item.claim,
            gold_label=label,
            error_type=item.error_type if keeps else request.error_type,
            strategy=request.strategy,
            seed=self.seed,
            by=self.by,
            meta={"variant": "proposed", "of": item.id, "keeps_label": keeps, "change": clean_text(change)[:400]},
        )


def messages_for(request: Request) -> list[Message]:
    """The messages that ask for a probe; the texts stand between tags that they cannot close."""
    if request.error_type is None:
        aim = prompt(_PACKAGE, "keep")
    else:
        aim = fill(prompt(_PACKAGE, "aim"), error_type=request.error_type, meaning=_MEANINGS[request.error_type])
    asked = fill(
        prompt(_PACKAGE, "case"),
        strategy=prompt(_PACKAGE, request.strategy),
        aim=aim,
        source=_material(request.item.source, MAX_SOURCE_CHARS),
        claim=_material(request.item.claim, MAX_CLAIM_CHARS),
        how=prompt(_PACKAGE, "by-tool"),
    )
    return [{"role": "system", "content": prompt(_PACKAGE, "system")}, {"role": "user", "content": asked}]


@cache
def fingerprint() -> str:
    """SHA-256, in hex, of all that a proposer is asked and may answer, the claims apart."""
    names = ("system", "case", "aim", "keep", "by-tool", "again", *STRATEGIES)
    return prompt_hash(json.dumps([[prompt(_PACKAGE, name) for name in names], dict(_MEANINGS), dict(_SCHEMA)]))


@cache
def _tool() -> Tool:
    return Tool(SUBMIT, "Submit the changed claim.", dict(_SCHEMA), lambda desk, **said: said, json.dumps)


def _check(request: Request) -> None:
    check_strategy(request.strategy)
    if request.error_type not in STRATEGIES[request.strategy]:
        check_strategy(request.strategy, request.error_type or "a kept label")


def _material(text: str, most: int) -> str:
    cut = clean_text(text[:most])
    return _OBJECT.sub("｛", _TAG.sub("‹", neutralise(cut))) or "(empty)"


def _arguments(parsed: ParsedAction) -> tuple[dict[str, Any] | None, str]:
    """The arguments of the one proposal in an answer, or None and what is wrong."""
    item = parsed.items[0]
    if len(parsed.items) != 1:
        return None, f"the message holds {len(parsed.items)} calls; one is wanted"
    if isinstance(item, CallError):
        return None, item.message
    if item.name != SUBMIT:
        return None, f"there is no tool {item.name!r}"
    wrong = _tool().check(item.arguments)
    return (dict(item.arguments), "") if wrong is None else (None, wrong.message)


def _corrected(parsed: ParsedAction, error: str) -> list[Message]:
    """The answer that does not do, and why; every native call gets its reply."""
    said = fill(prompt(_PACKAGE, "again"), error=error, how=prompt(_PACKAGE, "by-tool"))
    calls = parsed.message.get("tool_calls")
    if calls:
        message: Message = {"role": "assistant", "content": parsed.message["content"], "tool_calls": calls}
        replies: list[Message] = [{"role": "tool", "tool_call_id": one["id"], "content": said} for one in calls]
        return [message, *replies]
    content = parsed.message["content"] or "(no answer)"
    return [{"role": "assistant", "content": content}, {"role": "user", "content": said}]
