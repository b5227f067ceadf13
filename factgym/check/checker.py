"""Checking answers: an episode of ClaimCheck over the documents for each claim, and the quotes of its verdict verified.

The agent sees an ordinary task of ClaimCheck: the same prompts, tools and limits, with the documents as the library and a
claim as the answer to check. There is no gold, so an episode has no score. A verdict counts as far as its quotes are
word for word in passages that the agent opened: a claim that needs evidence and has none is reported as unsupported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from factgym.agents.agent import Agent, agent_from_script
from factgym.agents.resolve import FORMS, find_agent, is_model
from factgym.agents.rollout.engine import Limits, run_jobs
from factgym.agents.rollout.jobs import Job
from factgym.agents.rollout.record import Record
from factgym.check.agents import CANNOT_JUDGE, ENV, RULES, checking_scripts
from factgym.check.answers import MAX_CLAIM_CHARS, Answer, split_claims, split_text
from factgym.check.calibration import Calibration, claim_features, read_calibrations
from factgym.check.documents import CheckedDocuments, Location
from factgym.check.verifier import is_verifier, verifier_agent
from factgym.core.episode import RewardReport
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.registry import spec
from factgym.core.untrusted import neutralise
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import STATUSES, VERDICTS, ClaimExample, GoldClaim, Status, Verdict, final_verdict
from factgym.envs.claimcheck.env import ClaimCheckEnv
from factgym.envs.claimcheck.tasks import ClaimCheckConfig, ClaimTaskSet
from factgym.rewards.claimcheck.evidence import DEFAULT_RULES
from factgym.text.folding import find_quote, source_range, visible
from factgym.text.languages import quotable_length
from factgym.tools.evidence import PassageLibrary

DEFAULT_AGENT = RULES.name
DEFAULT_QUESTION = "Do the documents carry this statement?"

CheckedStatus = Literal["supported", "unsupported", "contradicted", "overclaim", "cannot_judge"]
CHECKED_STATUSES: tuple[CheckedStatus, ...] = (*STATUSES, "cannot_judge")
"""The statuses of a claim, and that of one on which there is no verdict."""

_NEEDS_QUOTE: frozenset[Status] = frozenset({"supported", "contradicted", "overclaim"})
_NO_QUOTE = "The verdict was {}, without a word-for-word quote from a passage that was opened."
_NO_VERDICT = "The agent gave no verdict."


@dataclass(frozen=True, slots=True)
class VerifiedQuote:
    """A quote that is word for word in a passage that the agent opened. start, end: characters of the passage."""

    text: str
    location: Location
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim with its verdict.

    start, end: characters of the answer. status: "supported", "unsupported", "contradicted", "overclaim" (the documents
    say it less generally, or with a condition) or "cannot_judge", with the reason. quotes: those that were verified. not_carried: the part of the claim that the
    quotes do not carry, empty where all of it is. agent_status: as the agent gave it, None without a verdict. confidence:
    calibrated probability that `status` is right; None where nothing was calibrated for the agent. error: of the
    infrastructure, with which the claim was not checked.
    """

    text: str
    start: int
    end: int
    status: CheckedStatus
    quotes: tuple[VerifiedQuote, ...] = ()
    not_carried: str = ""
    reason: str = ""
    agent_status: Status | None = None
    confidence: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """An answer with the verdict on each of its claims.

    not_judged: ranges of the sentences that are no claims, each with the reason: a heading, a question, code.
    """

    answer: Answer
    claims: tuple[CheckedClaim, ...]
    not_judged: tuple[tuple[int, int, str], ...] = ()

    @property
    def verdict(self) -> Verdict | Literal["cannot_judge"]:
        """The verdict on the whole: of the claims on which there is one."""
        statuses = [claim.status for claim in self.claims if claim.status != "cannot_judge"]
        return final_verdict(statuses) if statuses else "cannot_judge"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data."""
        counts = {status: sum(claim.status == status for claim in self.claims) for status in CHECKED_STATUSES}
        claims = [asdict(claim) for claim in self.claims]
        skipped = [{"start": start, "end": end, "reason": reason} for start, end, reason in self.not_judged]
        return {
            "id": self.answer.id,
            "verdict": self.verdict,
            "counts": counts,
            "claims": claims,
            "not_judged": skipped,
        }


class _Examples(tuple[ClaimExample, ...]):
    """Claims as examples without gold."""

    def fingerprint(self) -> str:
        return f"{len(self)} claims of a user"


class _UserTasks(ClaimTaskSet):
    """A task for each claim, all over the library of the user's documents."""

    def __init__(self, examples: _Examples, config: ClaimCheckConfig, documents: PassageLibrary) -> None:
        super().__init__(examples, config)
        self._documents = documents

    def _library(self, index: int | None, passages: Sequence[Passage]) -> PassageLibrary:
        return self._documents


class _UserEnv(ClaimCheckEnv):
    """ClaimCheck over claims without gold; the report holds the submission, and no score."""

    def __init__(self, tasks: _UserTasks) -> None:
        self._user_tasks = tasks
        super().__init__(spec(ENV), tasks.config)

    def load_tasks(self) -> ClaimTaskSet:
        return self._user_tasks

    def score(self) -> RewardReport:
        opened = [id_ for id_, turn in self.state.read.items() if turn < len(self.episode.turns) - 1]
        return RewardReport(0.0, metrics={"submission": self.state.submission, "read": opened})

    def view_task(self, task: Any) -> dict[str, Any]:
        return {"id": task.id}


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Outcome of an episode. entries: of its submission, empty without a submission. read: ids that were opened."""

    entries: Sequence[Mapping[str, Any]] = ()
    read: frozenset[str] = frozenset()
    error: str | None = None


@dataclass
class Checker:
    """Checks answers against documents.

    agent: as `--agent` names it, or an `Agent`; scripted ones that know a gold label are refused. settings: of a model
    that is named by text. calibrations: by agent, by default the package's own; an agent that has none gives no
    confidence. Raises ConfigError for an impossible agent.
    """

    documents: CheckedDocuments
    agent: str | Agent = DEFAULT_AGENT
    settings: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 8
    calibrations: Mapping[str, Calibration] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.agent, Agent):
            self._agent = self.agent
            return
        scripts = checking_scripts()
        usable = [name for name, script in scripts.items() if script.role in ("honest", "baseline")]
        if is_verifier(self.agent):
            self._agent = verifier_agent(self.agent, self.settings)
        elif is_model(self.agent) or ".py:" in self.agent:
            self._agent = find_agent(self.agent, ENV, self.settings)
        elif self.agent not in usable:
            reason = "needs a gold label or exploits the reward, and checks nothing"
            if self.agent not in scripts:
                reason = f"is no verifier.{did_you_mean(self.agent, usable)} There are"
            raise ConfigError(f"{self.agent!r} {reason}: {', '.join(usable)}. Or a model: verifier:FOLDER, {FORMS}.")
        elif self.settings:
            raise ConfigError(f"the scripted agent {self.agent!r} takes no settings ({', '.join(self.settings)})")
        else:
            self._agent = agent_from_script(scripts[self.agent])

    @property
    def agent_name(self) -> str:
        """The agent as it was named."""
        return self._agent.name

    @property
    def resolved_agent(self) -> Agent:
        """The agent itself, for further checkers that share it."""
        return self._agent

    def check(self, answers: Iterable[Answer]) -> list[CheckedAnswer]:
        """Check answers, in order. Raises RunAbortedError where the agent's infrastructure fails for good."""
        return asyncio.run(self.check_async(answers))

    async def check_async(self, answers: Iterable[Answer], *, close: bool = True) -> list[CheckedAnswer]:
        """`check` on an event loop. close: release the agent's connections and memory afterwards."""
        answers = tuple(answers)
        claims = [(answer, span) for answer in answers for span in split_claims(answer.text)]
        examples = _Examples(_example(number, answer, span) for number, (answer, span) in enumerate(claims))
        # The same claim under the same question is played once.
        jobs: dict[tuple[str, str], int] = {}
        for number, example in enumerate(examples):
            jobs.setdefault((example.question, example.answer), number)
        verdicts: dict[int, _Verdict] = {}

        def keep(record: Record) -> None:
            verdicts[record["index"]] = _verdict_of(record)

        env = _UserEnv(_UserTasks(examples, ClaimCheckConfig(source="docs"), self.documents.library))
        limits = Limits(concurrency=self.concurrency)
        try:
            await self._agent.prepare()
            await run_jobs(env, self._agent, [Job(number) for number in jobs.values()], keep, limits=limits)
        finally:
            if close:
                await self._agent.close()
        checked = {
            number: self._checked(verdicts[jobs[example.question, example.answer]], answer, span)
            for number, (example, (answer, span)) in enumerate(zip(examples, claims, strict=True))
        }
        return [
            CheckedAnswer(
                answer,
                tuple(checked[n] for n, (owner, _) in enumerate(claims) if owner is answer),
                tuple(entry for entry in split_text(answer.text) if entry[2]),
            )
            for answer in answers
        ]

    def _checked(self, verdict: _Verdict, answer: Answer, span: tuple[int, int]) -> CheckedClaim:
        """Return a claim with what holds of its verdict."""
        text = answer.text[slice(*span)]
        claim = CheckedClaim(text, *span, "unsupported", not_carried=text, error=verdict.error)
        if verdict.error is not None:
            return claim
        plain, offsets = visible(text)
        judgement = judge(plain, verdict.entries, verdict.read, self.documents.library)
        at = plain.find(judgement.not_carried)
        lacking = (
            text[slice(*source_range(offsets, at, at + len(judgement.not_carried)))] if judgement.not_carried else ""
        )
        claim = replace(
            claim,
            status=judgement.status,
            quotes=tuple(map(self._located, judgement.quotes)),
            not_carried=lacking,
            reason=judgement.reason,
            agent_status=judgement.agent_status,
        )
        is_proof = self.agent_name == RULES.name or is_verifier(self.agent_name)
        if is_proof and claim.reason.startswith(CANNOT_JUDGE):
            return replace(claim, status="cannot_judge", reason=claim.reason.removeprefix(CANNOT_JUDGE), not_carried="")
        calibration = self._calibrations.get(self.agent_name)
        if calibration is None or judgement.agent_status is None:
            return claim
        features = claim_features(text, [quote.text for quote in claim.quotes], claim.not_carried)
        return replace(claim, confidence=calibration.confidence(judgement.status, features))

    @cached_property
    def _calibrations(self) -> Mapping[str, Calibration]:
        return read_calibrations() if self.calibrations is None else self.calibrations

    def _located(self, quote: QuoteSpan) -> VerifiedQuote:
        id_, start, end = quote
        text = self.documents.library.corpus.get(id_).text[start:end]
        return VerifiedQuote(text, self.documents.locate(id_, start, end), start, end)


QuoteSpan = tuple[str, int, int]
"""A passage and characters of it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A submission on one claim, as far as its quotes hold; fields as in `CheckedClaim`."""

    status: Status
    quotes: tuple[QuoteSpan, ...]
    not_carried: str
    reason: str
    agent_status: Status | None


def judge(text: str, entries: Sequence[Mapping[str, Any]], read: Collection[str], library: PassageLibrary) -> Judgement:
    """Return what holds of the entries of a submission on a claim. read: ids of the passages that were opened."""
    if not entries:
        return Judgement("unsupported", (), text, _NO_VERDICT, None)
    statuses = [entry["status"] for entry in entries]
    # Several entries on one claim: it is supported if all of its parts are, and else has the most severe status.
    failed = [status for status in statuses if status != "supported"]
    agent_status: Status = final_verdict(failed) if failed else "supported"  # type: ignore[assignment]
    quotes = _verified(entries, read, library)
    if agent_status in _NEEDS_QUOTE and not quotes:
        return Judgement("unsupported", (), text, _NO_QUOTE.format(agent_status), agent_status)
    reason = next((entry.get("reason", "") for entry in entries if entry["status"] == agent_status), "")
    not_carried = "" if agent_status == "supported" else _not_carried(entries, text)
    return Judgement(agent_status, quotes, not_carried, reason, agent_status)


def _verified(
    entries: Sequence[Mapping[str, Any]], read: Collection[str], library: PassageLibrary
) -> tuple[QuoteSpan, ...]:
    """Return the quotes that are in a passage that is cited for them and was opened; each once."""
    verified: dict[QuoteSpan, None] = {}
    for entry in entries:
        quotes = entry.get("quote", "")
        for quote in [quotes] if isinstance(quotes, str) else quotes:
            if quotable_length(quote.strip()) < DEFAULT_RULES.min_quote_chars:
                continue
            for id_ in entry["evidence_ids"]:
                passage = library.find(id_) if id_ in read else None
                span = find_quote(quote, passage.text) if passage else None
                if span is not None:
                    verified[id_, *span] = None
                    break
    return tuple(verified)


def _example(number: int, answer: Answer, span: tuple[int, int]) -> ClaimExample:
    # As a person reads it. Neutralised here: the task set looks for the claim in the neutralised answer.
    text = visible(neutralise(answer.text)[slice(*span)])[0][:MAX_CLAIM_CHARS]
    claim = GoldClaim(text, "unsupported", ())
    question = " ".join(answer.question.split()) or DEFAULT_QUESTION
    return ClaimExample(str(number), "test", "user", question, text, (), (claim,), VERDICTS[0])


def _verdict_of(record: Record) -> _Verdict:
    if record["error"] is not None:
        return _Verdict(error=f"{record['error']['cause']}: {record['error']['message']}")
    metrics = record["reward"]["metrics"]
    return _Verdict((metrics["submission"] or {}).get("claims", ()), frozenset(metrics["read"]))


def _not_carried(entries: Sequence[Mapping[str, Any]], text: str) -> str:
    """Return the first part of the claim that an entry marks, as the claim has it; the whole claim where none does."""
    for entry in entries:
        marked = entry.get("unsupported_span", "").strip()
        span = find_quote(marked, neutralise(text)) if entry["status"] != "supported" and marked else None
        if span is not None:
            return text[slice(*span)]
    return text
