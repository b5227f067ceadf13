"""A solver's answers to a proposal: n searching rollouts, and the evidence verifier's 2m answers without search.

Source: EVE, equations 2 and 10 to 14. The searching rollouts are whole episodes of `eve-solver` over the proposer's
corpus; the verifier's are single turns, with the evidence by the solver, without it by the auxiliary scorer (the solver
itself unless another policy is given). All of them run at once and are cached, in memory and in a file where one is
named. A fault of the infrastructure in any of them is raised, never read as a wrong answer; a prompt that does not fit
the solver's context is a wrong answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

from factgym.core.caching import Flights, SqliteCache, gather_all
from factgym.core.errors import ConfigError
from factgym.core.messages import Message, ToolSchema
from factgym.core.policy import (
    AuxiliaryPolicy,
    Policy,
    PolicyError,
    PromptRefusedError,
    Scoring,
    as_message,
    as_policy_error,
    call_policy,
    policy_from,
)
from factgym.core.prompts import prompt, prompt_hash
from factgym.core.registry import make
from factgym.core.seeds import derive
from factgym.core.tasks import shared
from factgym.core.untrusted import nonce_of
from factgym.corpora.corpus import Corpus
from factgym.datasets.multihop import Triple
from factgym.envs.eve.config import EveProposerConfig
from factgym.envs.eve.nested_loop import Cancellation, close_at_exit, run_nested
from factgym.envs.eve.solver import PACKAGE, EveSolverEnv, single_turn_messages, single_turn_prompts
from factgym.envs.eve.tasks import open_library
from factgym.envs.eve.tools import message_solution
from factgym.envs.task_sets import setting_key
from factgym.rewards.answer_matching import exact_match
from factgym.rewards.eve.proposal import log_prob_value, removal_rollouts

Protocol = Literal["search", "with", "without", "logprob with", "logprob without"]
Entry = dict[str, Any]
"""A cached answer as plain JSON data."""

SOLVER_ENV = "eve-solver"
_ANSWER_START, _ANSWER_END = "<answer>", "</answer>"
"""A teacher-forced answer comes between these, and its end is scored with it: else "Paris" would hold "Paris Hilton"."""
_IMPOSSIBLE = -1e9
"""Log-probability of an answer that does not fit the context; its probability is 0."""
_TRANSIENT_DETAIL = "tools_found"
"""Detail of a policy's description that it finds out while it plays."""
_CACHED_IN_MEMORY = 100_000


@cache
def answer_prompts(style: str) -> dict[str, str]:
    """Return name -> SHA-256 of the prompts under which policies answer, in a style."""
    names = ("search", *single_turn_prompts(evidence=True, span=False))
    return {name: prompt_hash(prompt(PACKAGE, name, style)) for name in names}


@dataclass(frozen=True, slots=True)
class SolverAnswers:
    """Correctness of each answer to a proposal, and the two log-probabilities of the log-probability variant.

    solved: of the searching rollouts. plus, minus: with and without the evidence; empty where the verifier was not
    asked, or by log-probabilities. needed: documents without which no searching rollout was right; None where nothing was
    removed, or none was right with all of them.
    """

    solved: tuple[bool, ...] = ()
    plus: tuple[bool, ...] = ()
    minus: tuple[bool, ...] = ()
    log_plus: float | None = None
    log_minus: float | None = None
    needed: tuple[str, ...] | None = None

    @property
    def value(self) -> float | None:
        """V by log-probabilities, None by sampling."""
        if self.log_plus is None or self.log_minus is None:
            return None
        return log_prob_value(self.log_plus, self.log_minus)


@dataclass(frozen=True, slots=True)
class _Request:
    """Request for one answer. number: index among requests that are otherwise equal. removed: id of a document that the
    search does not return, "" for none.
    """

    protocol: Protocol
    policy: AuxiliaryPolicy
    question: str
    answer: str
    evidence: str | None
    number: int
    removed: str = ""

    def seed(self, seed: int) -> int:
        """Return the seed of the answer; it follows from the run's seed and the request, whoever asks first."""
        return derive(seed, "eve", self.protocol, self.question, self.evidence or "", self.number)


class AnswerFile(SqliteCache):
    """Answers in a SQLite file, shared by processes."""

    content: ClassVar[str] = "answer cache"
    table: ClassVar[str] = "answers"
    application: ClassVar[int] = 0x46474A32


class _LoopLimits:
    """Limits on one event loop: rollouts in all, and threads of each policy; and the policies that are prepared."""

    def __init__(self, policies: Sequence[AuxiliaryPolicy], max_rollouts: int) -> None:
        self.rollouts = asyncio.Semaphore(max_rollouts)
        self.threads = {id(policy): asyncio.Semaphore(max(1, policy.threads)) for policy in policies}
        self.prepared: set[int] = set()
        self.preparing = asyncio.Lock()


class SolverRollouts:
    """Asks the solver and the auxiliary scorer. Shared by all episodes of a configuration.

    Answers that are cached for other processes need policies that describe themselves. Raises ConfigError for policies
    that do not exist or cannot do what is needed, and DataError for an unusable cache.
    """

    def __init__(self, config: EveProposerConfig, corpus: Corpus) -> None:
        solver = _open_policy(config.solver, config.solver_settings)
        auxiliary = solver if config.auxiliary is None else _open_policy(config.auxiliary, config.auxiliary_settings)
        self.solver, self.auxiliary = solver, auxiliary
        self._corpus, self._search = corpus, _search_settings(config)
        rules = config.scoring_rules
        self._n, self._m, self._chance, self._seed = rules.n, rules.m, rules.removal_chance, config.seed
        self._by_logprob, self._max_rollouts = config.value == "logprob", config.max_rollouts
        self._file = None if config.cache is None else AnswerFile(Path(config.cache))
        self._entries: OrderedDict[str, Entry] = OrderedDict()  # answers by key, the least recently used first
        self._flights: Flights[Entry] = Flights()
        self._limits: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopLimits] = WeakKeyDictionary()
        for policy in (solver, auxiliary):
            if config.cache is not None and not policy.describe():
                raise ConfigError(
                    f"{policy.name} does not say who it is, so its answers cannot be told from another's: give it a "
                    "describe(), or leave cache out"
                )
            if self._by_logprob and not isinstance(policy.policy, Scoring):
                raise ConfigError(
                    f"{policy.name} gives no log-probabilities of given answers (it has no `score`): use "
                    "value='sampling'"
                )

    def ask(
        self,
        question: str,
        answer: str,
        evidence: str | None,
        cancellation: Cancellation,
        removable: Sequence[str] = (),
    ) -> SolverAnswers:
        """Make all requests for a valid proposal, and wait. evidence: None where the span is not verbatim.

        removable: documents that are removed in turn where an answer was right. Raises PolicyError for a fault of the infrastructure, with no request left running.
        """
        # The index is built in the caller's thread, not on the loop.
        open_library(self._corpus, self._search["index"], self._search["index_options"])
        return run_nested(lambda: self._ask(question, answer, evidence, removable), cancellation)

    async def _ask(self, question: str, answer: str, evidence: str | None, removable: Sequence[str]) -> SolverAnswers:
        """Return the rollouts: n that search, m with the evidence, m without; and which documents are needed.

        A document is needed when, with it removed, no rollout answers any more; only rollouts that were right are
        evidence of what was used.
        """
        await self._prepare_policies()
        plan: list[tuple[Protocol, AuxiliaryPolicy, str | None, int]] = [("search", self.solver, None, self._n)]
        if evidence is not None and self._by_logprob:
            plan += [("logprob with", self.solver, evidence, 1), ("logprob without", self.auxiliary, None, 1)]
        elif evidence is not None:
            plan += [("with", self.solver, evidence, self._m), ("without", self.auxiliary, None, self._m)]
        requests = [
            _Request(protocol, policy, question, answer, span, number)
            for protocol, policy, span, count in plan
            for number in range(count)
        ]
        entries = await gather_all(self._cached_answer(request) for request in requests)
        correct: dict[str, list[bool]] = {}
        views: list[set[str]] = []
        logs: dict[str, float] = {}
        for request, entry in zip(requests, entries, strict=True):
            if "logprob" in entry:
                logs[request.protocol] = entry["logprob"]
            else:
                is_correct = exact_match(entry["answer"], [answer])
                correct.setdefault(request.protocol, []).append(is_correct)
                if is_correct and request.protocol == "search":
                    views.append(set(entry["documents"]))
        solved, plus, minus = (tuple(correct.get(protocol, ())) for protocol in ("search", "with", "without"))
        needed = None
        if removable and views:
            # Needed is at most what every right rollout was shown.
            documents = [document for document in removable if all(document in ids for ids in views)]
            count = removal_rollouts(sum(solved), self._n, self._chance)
            needs = await gather_all(self._is_needed(question, answer, document, count) for document in documents)
            needed = tuple(document for document, is_needed in zip(documents, needs, strict=True) if is_needed)
        return SolverAnswers(solved, plus, minus, logs.get("logprob with"), logs.get("logprob without"), needed)

    async def _is_needed(self, question: str, answer: str, document: str, count: int) -> bool:
        """Return whether none of `count` rollouts without a document gives the answer. One is asked before the others."""

        async def is_correct(number: int) -> bool:
            request = _Request("search", self.solver, question, answer, None, number, document)
            return exact_match((await self._cached_answer(request))["answer"], [answer])

        return not await is_correct(0) and not any(await gather_all(map(is_correct, range(1, count))))

    def _loop_limits(self) -> _LoopLimits:
        loop = asyncio.get_running_loop()
        if loop not in self._limits:
            self._limits[loop] = _LoopLimits((self.solver, self.auxiliary), self._max_rollouts)
        return self._limits[loop]

    async def _prepare_policies(self) -> None:
        """Prepare each policy once; an exception is raised for every waiting episode, and the next one tries again."""
        limits = self._loop_limits()
        if {id(self.solver), id(self.auxiliary)} <= limits.prepared:
            return
        async with limits.preparing:
            for policy in (self.solver, self.auxiliary):
                if id(policy) not in limits.prepared:
                    try:
                        await policy.prepare()
                    except Exception as fault:
                        raise _name_fault(policy, fault) from fault
                    limits.prepared.add(id(policy))

    async def _cached_answer(self, request: _Request) -> Entry:
        """Return the answer to a request, from memory, from the file, or from the policy; each is computed once."""
        # The key holds all that an answer depends on. The gold is part of it only where the policy sees it: a script may
        # look at its environment, and a log-probability is of the answer itself.
        policy = request.policy
        identity = {key: value for key, value in policy.describe().items() if key != _TRANSIENT_DETAIL}
        gold_matters = policy.policy is None or request.protocol.startswith("logprob")
        parts = [
            *(request.protocol, request.question, request.evidence, request.seed(self._seed), policy.name, identity),
            request.answer if gold_matters else None,
            [self._corpus.fingerprint(), self._search, request.removed] if request.protocol == "search" else None,
            *(answer_prompts(self._search["prompt"]), "auxiliary" if policy is not self.solver else "solver"),
        ]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
        # Two levels, memory (least recently used goes first) and file, behind a single flight: concurrent requests of one
        # key are one. All of it runs on one event loop, so that no lock is needed.
        if key in self._entries:
            self._entries.move_to_end(key)
            return self._entries[key]

        async def read_or_ask() -> Entry:
            entry = await asyncio.to_thread(self._file.get, key) if self._file is not None else None
            if entry is None:
                entry = await self._answer(request)
                if self._file is not None:
                    await asyncio.to_thread(self._file.put, key, entry)
            # Stored before the flight ends, so that no request falls between the two.
            self._entries[key] = entry
            while len(self._entries) > _CACHED_IN_MEMORY:
                self._entries.popitem(last=False)
            return entry

        return (await self._flights.share(key, read_or_ask))[0]

    async def _answer(self, request: _Request) -> Entry:
        play = self._play_episode if request.protocol == "search" else self._answer_single_turn
        async with self._loop_limits().rollouts:
            try:
                return await play(request)
            except Exception as fault:
                raise _name_fault(request.policy, fault) from fault

    def _solver_env(self, request: _Request) -> EveSolverEnv:
        """Return an environment at the beginning of the episode about the proposal's question."""
        triple = Triple(f"proposal {nonce_of(request.question, request.answer)}", request.question, (request.answer,))
        env = make(SOLVER_ENV, triples=(triple,), corpus=self._corpus, removed=request.removed, **self._search)
        assert isinstance(env, EveSolverEnv)
        env.reset(options={"task": 0})
        return env

    async def _play_episode(self, request: _Request) -> Entry:
        """Return the answer of a searching rollout and the documents that it was given."""
        env = self._solver_env(request)
        policy = request.policy.start(env, request.seed(self._seed))
        try:
            while env.episode.stop is None:
                action = await self._act(request.policy, policy, env.policy_prompt(), env.available_tools())
                await asyncio.to_thread(env.step, action) if env.slow_steps else env.step(action)
        except PromptRefusedError as refused:
            env.truncate(refused.stop)
        report = env.episode.report
        if report is None or report.status != "scored":
            raise PolicyError("environment", f"its episode failed: {report.error if report else env.episode.fault}")
        return {"answer": report.metrics["answer"], "documents": env.state.documents}

    async def _answer_single_turn(self, request: _Request) -> Entry:
        """Answer without search, or return the log-probability of the proposal's answer."""
        messages = single_turn_messages(request.question, request.evidence, style=self._search["prompt"])
        try:
            if request.protocol.startswith("logprob"):
                scorer: Scoring = request.policy.policy
                completion = request.answer + _ANSWER_END
                async with self._thread_limit(request.policy):
                    score = await asyncio.to_thread(scorer.score, messages, completion, given=_ANSWER_START)
                return {"logprob": float(score if isinstance(score, (int, float)) else await score)}
            # Only a scripted agent looks at its environment, so others need none.
            env = self._solver_env(request) if request.policy.policy is None else None
            policy = request.policy.start(env, request.seed(self._seed))
            action = await self._act(request.policy, policy, messages, ())
            return {"answer": message_solution(as_message(action)).answer}
        except PromptRefusedError:
            return {"logprob": _IMPOSSIBLE} if request.protocol.startswith("logprob") else {"answer": ""}

    async def _act(
        self, owner: AuxiliaryPolicy, policy: Policy, messages: Sequence[Message], tools: Sequence[ToolSchema]
    ) -> Message:
        async with self._thread_limit(owner):
            return await call_policy(policy, messages, tools, blocking=owner.threads > 0)

    def _thread_limit(self, policy: AuxiliaryPolicy) -> Any:
        return self._loop_limits().threads[id(policy)] if policy.threads else nullcontext()


def _name_fault(policy: AuxiliaryPolicy, fault: Exception) -> PolicyError:
    error = as_policy_error(fault)
    cause, fatal = (error.cause, error.fatal) if isinstance(error, PolicyError) else ("agent", False)
    return PolicyError(cause, f"the policy {policy.name}: {cause}: {error}", fatal=fatal)


def open_rollouts(config: EveProposerConfig, corpus: Corpus) -> SolverRollouts:
    """Return the shared rollouts of a configuration, with policies opened once a process."""
    rules = config.scoring_rules
    settings = (
        *(rules.n, rules.m, rules.removal_chance, config.seed, config.value, config.max_rollouts),
        *(config.cache and str(Path(config.cache).resolve()), _search_settings(config)),
        *(config.solver, config.solver_settings, config.auxiliary, config.auxiliary_settings),
    )
    key = ("eve rollouts", corpus.fingerprint(), *map(setting_key, settings))
    return shared(key, lambda: SolverRollouts(config, corpus))


def _search_settings(config: EveProposerConfig) -> dict[str, Any]:
    names = ("index", "index_options", "top_k", "max_passage_tokens", "prompt")
    return {name: getattr(config, name) for name in names} | {"max_turns": config.solver_turns}


def _open_policy(value: Any, settings: dict[str, Any] | None) -> AuxiliaryPolicy:
    """Return a policy; one that was made here, from text, is closed when the process ends."""
    policy = policy_from(value, SOLVER_ENV, settings)
    if isinstance(value, str) and policy.policy is not None:
        close_at_exit(policy.close)
    return policy
