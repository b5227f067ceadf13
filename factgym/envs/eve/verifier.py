"""What a solver makes of a proposal: n searching rollouts, and the evidence verifier's 2m answers without search.

EVE, equations 2 and 10 to 14. The searching rollouts are whole episodes of `eve-solver` over the proposer's corpus; the
verifier's are single turns, with the evidence by the solver, without it by the auxiliary scorer (the solver itself
unless another policy is given). All of them run at once, each answer is kept, and a fault of the infrastructure in any
of them is raised, never read as a wrong answer. A prompt that no longer fits the solver's context is a wrong answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal
from weakref import WeakKeyDictionary

from factgym.core.caching import gather_all
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import (
    AuxiliaryPolicy,
    ContextOverflowError,
    Policy,
    PolicyError,
    Scoring,
    as_message,
    as_policy_error,
    call_policy,
)
from factgym.core.prompts import prompt, prompt_hash
from factgym.core.seeds import derive
from factgym.envs.eve.protocols import PACKAGE, SEARCH_PROMPTS, single_prompts, single_turn_messages
from factgym.envs.eve.rollouts import Underway, run_nested
from factgym.envs.eve.submission import solution_of
from factgym.envs.eve.verifier_cache import AnswerCache, Entry
from factgym.envs.eve.verifier_sessions import SolverRooms
from factgym.rewards.answer_matching import exact_match
from factgym.rewards.eve.proposal import log_prob_value

Protocol = Literal["search", "with", "without", "logprob with", "logprob without"]

_GIVEN, _END = "<answer>", "</answer>"
"""A teacher-forced answer stands between these, and its end is scored with it: else "Paris" would hold "Paris Hilton"."""


_SINGLE = single_prompts(evidence=True, span=False)
_FOUND = "tools_found"
_NEVER = -1e9
"""The log-probability of what cannot be said; its probability is 0."""


@cache
def answer_prompts() -> dict[str, str]:
    """Name -> SHA-256 of the prompts under which policies answer."""
    return {name: prompt_hash(prompt(PACKAGE, name)) for name in (*SEARCH_PROMPTS, *_SINGLE)}


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Whether each answer was the proposal's; of the log-probability variant the two numbers and their V.

    plus, minus: empty where the verifier was not asked, or by log-probabilities.
    """

    solved: tuple[bool, ...] = ()
    plus: tuple[bool, ...] = ()
    minus: tuple[bool, ...] = ()
    log_plus: float | None = None
    log_minus: float | None = None

    @property
    def value(self) -> float | None:
        """V by log-probabilities, None by sampling."""
        if self.log_plus is None or self.log_minus is None:
            return None
        return log_prob_value([self.log_plus], [self.log_minus])


@dataclass(frozen=True, slots=True)
class _Asked:
    """One answer that is wanted. number: which of several."""

    protocol: Protocol
    guest: AuxiliaryPolicy
    question: str
    answer: str
    evidence: str | None
    number: int

    def seed(self, seed: int) -> int:
        """Of the answer's random choices: it follows from the run's seed and from what is asked, whoever asks first."""
        return derive(seed, "eve", self.protocol, self.question, self.evidence or "", self.number)


class _Lanes:
    """What bounds the calls on one event loop: rollouts in all, each policy's threads, and who has been prepared."""

    def __init__(self, auxiliary_policies: Sequence[AuxiliaryPolicy], most: int) -> None:
        self.rollouts = asyncio.Semaphore(most)
        self.threads = {id(one): asyncio.Semaphore(max(1, one.threads)) for one in auxiliary_policies}
        self.prepared: set[int] = set()
        self.preparing = asyncio.Lock()


class Verifier:
    """Asks the solver and the auxiliary scorer. Shared by all episodes of a configuration.

    rooms: makes the searching solver's episodes. n, m: rollouts, see `EveRules`. seed: all seeds follow from it.
    by_logprob: V from teacher-forced log-probabilities. most: rollouts at a time. must_name: answers are kept for other
    processes. Raises ConfigError where the policies cannot do what is asked of them.
    """

    def __init__(
        self,
        solver: AuxiliaryPolicy,
        auxiliary: AuxiliaryPolicy,
        rooms: SolverRooms,
        cache: AnswerCache,
        *,
        n: int,
        m: int,
        seed: int,
        by_logprob: bool = False,
        most: int = 256,
        must_name: bool = False,
    ) -> None:
        self.solver, self.auxiliary = solver, auxiliary
        self._rooms, self._cache = rooms, cache
        self._n, self._m, self._seed, self._by_logprob = n, m, seed, by_logprob
        self._most = most
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lanes] = WeakKeyDictionary()
        for one in (solver, auxiliary):
            if must_name and not one.describe():
                raise ConfigError(
                    f"{one.name} does not say who it is, so its answers cannot be told from another's: give it a "
                    "describe(), or leave cache out"
                )
            if by_logprob and not isinstance(one.policy, Scoring):
                raise ConfigError(
                    f"{one.name} gives no log-probabilities of given answers (it has no `score`): use value='sampling'"
                )

    def judge(self, question: str, answer: str, evidence: str | None, underway: Underway) -> Verdicts:
        """Ask for everything that a valid proposal needs, and wait. evidence: None where the span is not verbatim.

        Raises PolicyError when a policy cannot answer for a reason of the infrastructure's, and then nothing of what was
        asked is left running.
        """
        self._rooms.open()
        return run_nested(lambda: self._judge(question, answer, evidence), underway)

    async def _judge(self, question: str, answer: str, evidence: str | None) -> Verdicts:
        await self._prepare()
        wanted = self._wanted(question, answer, evidence)
        entries = await gather_all(self._entry(one) for one in wanted)
        pairs = list(zip(wanted, entries, strict=True))

        def right(protocol: Protocol) -> tuple[bool, ...]:
            return tuple(exact_match(found["answer"], [answer]) for one, found in pairs if one.protocol == protocol)

        logs = {one.protocol: found["logprob"] for one, found in pairs if "logprob" in found}
        return Verdicts(
            right("search"), right("with"), right("without"), logs.get("logprob with"), logs.get("logprob without")
        )

    def _wanted(self, question: str, answer: str, evidence: str | None) -> list[_Asked]:
        plan: list[tuple[Protocol, AuxiliaryPolicy, str | None, int]] = [("search", self.solver, None, self._n)]
        if evidence is not None and self._by_logprob:
            plan += [("logprob with", self.solver, evidence, 1), ("logprob without", self.auxiliary, None, 1)]
        elif evidence is not None:
            plan += [("with", self.solver, evidence, self._m), ("without", self.auxiliary, None, self._m)]
        return [
            _Asked(protocol, guest, question, answer, shown, number)
            for protocol, guest, shown, count in plan
            for number in range(count)
        ]

    async def _prepare(self) -> None:
        """Once for each policy; what it raises is raised for every episode that waits, and tried again by the next."""
        lanes = self._here()
        waiting = [one for one in (self.solver, self.auxiliary) if id(one) not in lanes.prepared]
        if not waiting:
            return
        async with lanes.preparing:
            for guest in waiting:
                if id(guest) not in lanes.prepared:
                    try:
                        await guest.prepare()
                    except Exception as fault:
                        raise _said_by(guest, fault) from fault
                    lanes.prepared.add(id(guest))

    def _here(self) -> _Lanes:
        loop = asyncio.get_running_loop()
        if loop not in self._lanes:
            self._lanes[loop] = _Lanes((self.solver, self.auxiliary), self._most)
        return self._lanes[loop]

    async def _entry(self, one: _Asked) -> Entry:
        return await self._cache.get(self._key(one), lambda: self._bounded(one))

    def _key(self, one: _Asked) -> str:
        guest = one.guest
        told = one.answer if guest.policy is None or one.protocol.startswith("logprob") else None
        parts = [
            *(one.protocol, one.question, one.evidence, one.seed(self._seed), guest.name, _identity(guest)),
            *(told, self._rooms.setting if one.protocol == "search" else None),
            *(answer_prompts(), "auxiliary" if guest is not self.solver else "solver"),
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    async def _bounded(self, one: _Asked) -> Entry:
        async with self._here().rollouts:
            try:
                return await self._answered(one)
            except Exception as fault:
                raise _said_by(one.guest, fault) from fault

    def _answered(self, one: _Asked) -> Coroutine[Any, Any, Entry]:
        if one.protocol == "search":
            return self._searched(one)
        return self._scored(one) if one.protocol.startswith("logprob") else self._told(one)

    async def _searched(self, one: _Asked) -> Entry:
        """An episode of the solver's environment, played to its end."""
        env = self._rooms.enter(one.question, one.answer)
        policy = one.guest.start(env, one.seed(self._seed))
        try:
            while env.episode.stop is None:
                said = await self._act(one.guest, policy, env.policy_prompt(), env.available_tools())
                await asyncio.to_thread(env.step, said) if env.slow_steps else env.step(said)
        except ContextOverflowError:
            env.truncate("context_limit")
        report = env.episode.report
        if report is None or report.status != "scored":
            raise PolicyError("environment", f"its episode failed: {report.error if report else env.episode.fault}")
        return {"answer": report.metrics["answer"]}

    async def _told(self, one: _Asked) -> Entry:
        """One message, without anything to search with."""
        room = self._rooms.enter(one.question, one.answer) if one.guest.policy is None else None
        policy = one.guest.start(room, one.seed(self._seed))  # only a scripted player looks at its environment
        try:
            said = await self._act(one.guest, policy, single_turn_messages(one.question, one.evidence), ())
        except ContextOverflowError:
            return {"answer": ""}
        return {"answer": solution_of(as_message(said)).answer}

    async def _scored(self, one: _Asked) -> Entry:
        """The log-probability of the proposal's answer."""
        messages = single_turn_messages(one.question, one.evidence)
        scorer: Scoring = one.guest.policy
        try:
            async with self._here().threads[id(one.guest)] if one.guest.threads else nullcontext():
                found = await asyncio.to_thread(scorer.score, messages, one.answer + _END, given=_GIVEN)
            return {"logprob": float(found if isinstance(found, (int, float)) else await found)}
        except ContextOverflowError:
            return {"logprob": _NEVER}

    async def _act(
        self, guest: AuxiliaryPolicy, policy: Policy, messages: Sequence[Message], tools: Sequence[ToolSchema]
    ) -> Message:
        if not guest.threads:
            return await call_policy(policy, messages, tools)
        async with self._here().threads[id(guest)]:
            return await call_policy(policy, messages, tools, blocking=True)


def _identity(guest: AuxiliaryPolicy) -> dict[str, Any]:
    """What a policy says of itself, without what it finds out while it plays."""
    return {key: value for key, value in guest.describe().items() if key != _FOUND}


def _said_by(guest: AuxiliaryPolicy, fault: Exception) -> PolicyError:
    """What a policy raised, as a fault with its name in it."""
    known = as_policy_error(fault)
    cause, fatal = (known.cause, known.fatal) if isinstance(known, PolicyError) else ("agent", False)
    return PolicyError(cause, f"the policy {guest.name}: {cause}: {known}", fatal=fatal)
