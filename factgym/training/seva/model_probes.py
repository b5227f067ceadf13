"""Probes with a model: a proposer writes them, by one fixed prompt for each strategy, and a judge filters them.

A proposal has to fit a schema and to pass the same checks as a probe of the rules. One that does not is requested
again with its faults; after the last retry the request is dropped with its cause. A probe stays only if a judge finds
it fluent, its label right and decidable, and its error the one aimed at; the paper drops some 15 % so. A fault of the
infrastructure (`PolicyError`) passes through.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from factgym.agents.agent import Model
from factgym.agents.judges import Judge, JudgeError, judge_note
from factgym.core.action import ParsedAction, parse_action
from factgym.core.caching import gather_bounded
from factgym.core.calls import CallError
from factgym.core.errors import ConfigError
from factgym.core.messages import Completion, Message, Usage
from factgym.core.policy import ContextOverflowError, Policy, add_usage, call_policy
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.seeds import derive
from factgym.core.strict_json import clean_text
from factgym.datasets.attribution import ATTRIBUTABLE, NOT_ATTRIBUTABLE, AttributionClaim, Label
from factgym.generators.perturbations.probes import MAX_CLAIM_CHARS, STRATEGIES, Probe, check_probe, check_strategy
from factgym.tools.toolbox import Tool
from factgym.tools.untrusted import neutralise

SUBMIT = "submit_probe"
MAX_SOURCE_CHARS = 24_000

Cause = Literal["not_attributable", "malformed", "unchecked", "context_limit"]
"""Why a model gave no probe.

not_attributable: no request was sent, for a false claim has its error already. malformed: no answer that fits the
schema. unchecked: the last answer failed the checks. context_limit: the claim does not fit the model's context.
"""

_PACKAGE = "factgym.training.seva"
_CONCURRENCY = 8
_PASSING_SCORE = 1.0
_MAX_QUOTE_CHARS = 400
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
_CLAIM_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MAX_CLAIM_CHARS, "description": "The changed claim."}
_CHANGE_SCHEMA = {"type": "string", "maxLength": 400, "description": "What was changed, in a few words."}
_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "type": "object",
        "properties": {"claim": _CLAIM_SCHEMA, "change": _CHANGE_SCHEMA},
        "required": ["claim"],
        "additionalProperties": False,
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """A probe to propose: a claim, the strategy, and the error to put in, None for a probe that keeps the label.

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
class Dropped:
    """A request without a probe, and why. answer: the last one, cut."""

    request: Request
    cause: Cause
    detail: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Proposals:
    """The probes that a model proposed, the requests that were dropped, and the tokens used."""

    probes: tuple[Probe, ...]
    dropped: tuple[Dropped, ...]
    usage: Usage = field(default_factory=Usage)

    @property
    def drop_rate(self) -> float:
        """The share of the requests without a probe; 0 without requests."""
        total = len(self.probes) + len(self.dropped)
        return len(self.dropped) / total if total else 0.0

    @property
    def reasons(self) -> dict[str, int]:
        """The number of requests that each cause dropped, sorted by name."""
        return dict(sorted(Counter(dropped.cause for dropped in self.dropped).items()))


class PolicyProposer:
    """A policy, or a model, that writes probes.

    retries: number of further requests after an answer that does not fit or fails the checks. seed: of a model's
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
        details = self._policy_details()
        names = [details.get(name) for name in ("kind", "model")]
        return ":".join(name for name in names if isinstance(name, str) and name) or type(self.policy).__name__

    async def close(self) -> None:
        """Close the model."""
        if isinstance(self.policy, Model):
            await self.policy.close()

    async def propose_many(self, requests: Sequence[Request], concurrency: int = _CONCURRENCY) -> Proposals:
        """Propose for every request, `concurrency` at a time; probes and drops each in the order of the requests.

        Raises PolicyError for a fault of the infrastructure, after the requests under way have stopped.
        """
        usage = Usage()
        results = await gather_bounded(lambda request: self._propose(request, usage), requests, concurrency)
        probes = tuple(result for result in results if isinstance(result, Probe))
        return Proposals(probes, tuple(result for result in results if isinstance(result, Dropped)), usage)

    async def propose(self, item: AttributionClaim, strategy: str, error_type: str | None) -> Probe | Dropped:
        """Propose one probe; see `propose_many`."""
        return await self._propose(Request(item, strategy, error_type), Usage())

    async def _propose(self, request: Request, usage: Usage) -> Probe | Dropped:
        if request.error_type is not None and request.item.label != ATTRIBUTABLE:
            return Dropped(request, "not_attributable", "the claim is false already")
        key = derive(self.seed, "proposer", request.item.id, request.strategy, request.error_type or "")
        policy = self.policy.start(key) if isinstance(self.policy, Model) else self.policy
        messages = messages_for(request)
        result: Probe | Dropped
        for _ in range(self.retries + 1):
            try:
                reply = await call_policy(policy, messages, [_tool().schema], self.blocking)
            except ContextOverflowError as error:
                return Dropped(request, "context_limit", str(error))
            completion: Completion = reply.get("completion") or {}
            add_usage(usage, completion.get("usage"))
            parsed = parse_action(reply, implicit={"claim": SUBMIT})
            result = self._read(request, parsed)
            if isinstance(result, Probe):
                return result
            messages += _correction(parsed, result.detail)
        return result

    def _read(self, request: Request, parsed: ParsedAction) -> Probe | Dropped:
        """The checked probe of an answer, or why there is none."""
        arguments, error = _arguments(parsed)
        if arguments is None:
            return Dropped(request, "malformed", error, (parsed.message["content"] or "")[:_MAX_QUOTE_CHARS])
        claim, change = clean_text(arguments["claim"]).strip(), clean_text(arguments.get("change", ""))
        item, keeps = request.item, request.error_type is None
        label: Label = ATTRIBUTABLE if keeps and item.label == ATTRIBUTABLE else NOT_ATTRIBUTABLE
        digest = hashlib.sha256(claim.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        meta = {"variant": "proposed", "of": item.id, "keeps_label": keeps, "change": change[:_MAX_QUOTE_CHARS]}
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
            meta=meta,
        )
        faults = check_probe(probe)
        return Dropped(request, "unchecked", "; ".join(faults), claim[:_MAX_QUOTE_CHARS]) if faults else probe


def _prompt(name: str) -> str:
    return prompt(_PACKAGE, f"probe-{name}")


def messages_for(request: Request) -> list[Message]:
    """The messages that request a probe; the texts are between tags that they cannot close."""
    if request.error_type is None:
        aim = _prompt("keep")
    else:
        aim = fill(_prompt("aim"), error_type=request.error_type, meaning=_MEANINGS[request.error_type])
    content = fill(
        _prompt("case"),
        strategy=_prompt(request.strategy),
        aim=aim,
        source=_delimited(request.item.source, MAX_SOURCE_CHARS),
        claim=_delimited(request.item.claim, MAX_CLAIM_CHARS),
        how=_prompt("by-tool"),
    )
    return [{"role": "system", "content": _prompt("system")}, {"role": "user", "content": content}]


def _delimited(text: str, limit: int) -> str:
    """Untrusted text, cut, that can neither close its tags nor open a JSON object."""
    return _OBJECT.sub("｛", _TAG.sub("‹", neutralise(clean_text(text[:limit])))) or "(empty)"


@cache
def fingerprint() -> str:
    """SHA-256, in hex, of the proposer's prompts and schema, the claims apart."""
    names = ("system", "case", "aim", "keep", "by-tool", "again", *STRATEGIES)
    return prompt_hash(json.dumps([[_prompt(name) for name in names], dict(_MEANINGS), dict(_SCHEMA)]))


@cache
def _tool() -> Tool:
    return Tool(SUBMIT, "Submit the changed claim.", dict(_SCHEMA), lambda state, **arguments: arguments, json.dumps)


def _arguments(parsed: ParsedAction) -> tuple[dict[str, Any] | None, str]:
    """The arguments of the only call in an answer, or None and its fault."""
    item = parsed.items[0]
    if len(parsed.items) != 1:
        return None, f"the message holds {len(parsed.items)} calls; one is wanted"
    if isinstance(item, CallError):
        return None, item.message
    if item.name != SUBMIT:
        return None, f"there is no tool {item.name!r}"
    error = _tool().check(item.arguments)
    return (dict(item.arguments), "") if error is None else (None, error.message)


def _correction(parsed: ParsedAction, error: str) -> list[Message]:
    """The rejected answer and its fault as messages; every native call gets its reply."""
    text = fill(_prompt("again"), error=error, how=_prompt("by-tool"))
    calls = parsed.message.get("tool_calls")
    if calls:
        message: Message = {"role": "assistant", "content": parsed.message["content"], "tool_calls": calls}
        replies: list[Message] = [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]
        return [message, *replies]
    content = parsed.message["content"] or "(no answer)"
    return [{"role": "assistant", "content": content}, {"role": "user", "content": text}]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A probe that was dropped: the judge's label ("wrong-label", "malformed", …) and reason."""

    probe: Probe
    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """The result of a cross-check.

    judge: the judge's description. note: the sentence that a report prints beside the numbers; it says when no model
    judged. usage: the tokens used.
    """

    passed: tuple[Probe, ...]
    rejected: tuple[Rejected, ...]
    judge: dict[str, Any]
    note: str
    usage: Usage = field(default_factory=Usage)

    @property
    def drop_rate(self) -> float:
        """The share of the probes that were dropped; 0 without probes."""
        judged = len(self.passed) + len(self.rejected)
        return len(self.rejected) / judged if judged else 0.0

    @property
    def reasons(self) -> dict[str, int]:
        """The number of probes that each label dropped, sorted by name."""
        return dict(sorted(Counter(rejected.label for rejected in self.rejected).items()))

    @property
    def by_strategy(self) -> dict[str, float]:
        """The drop rate of each strategy that had probes, sorted by name."""
        dropped = Counter(rejected.probe.strategy for rejected in self.rejected)
        judged = dropped + Counter(probe.strategy for probe in self.passed)
        return {name: dropped[name] / judged[name] for name in sorted(judged)}

    def to_dict(self) -> dict[str, Any]:
        """The counts, without the probes, as JSON data for a report."""
        return {
            "judged": len(self.passed) + len(self.rejected),
            "kept": len(self.passed),
            "drop_rate": self.drop_rate,
            "reasons": self.reasons,
            "by_strategy": self.by_strategy,
            "judge": self.judge,
            "note": self.note,
            "usage": dict(self.usage),
        }


async def cross_check(probes: Sequence[Probe], judge: Judge, concurrency: int = _CONCURRENCY) -> CrossCheck:
    """Judge every probe by the rubric "probe-check" and split them, in their order, by whether they pass.

    A probe without a judgement is rejected under the error's cause. Raises ConfigError for a judge with other fields,
    and PolicyError for a fault of the infrastructure.
    """
    judgements = await judge.judge_many([probe.as_case() for probe in probes], concurrency)
    passed, rejected, usage = [], [], Usage()
    for probe, judgement in zip(probes, judgements, strict=True):
        if isinstance(judgement, JudgeError):
            rejected.append(Rejected(probe, judgement.cause, str(judgement)))
            continue
        add_usage(usage, judgement.usage)
        if judgement.score >= _PASSING_SCORE:
            passed.append(probe)
        else:
            rejected.append(Rejected(probe, judgement.label, judgement.reason or ""))
    return CrossCheck(tuple(passed), tuple(rejected), judge.describe(), judge_note(judge), usage)
