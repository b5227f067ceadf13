"""The ClaimCheck environment, and the published JSON Schema of its verdict, `verdict.schema.json`.

The schema is for those who validate or constrain a model's output elsewhere. After a change of `submit`, write it
again: `python -m factgym.envs.claimcheck.env`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from factgym.core.config import EnvConfig
from factgym.core.env import Env
from factgym.core.episode import RewardReport, SpanCredit
from factgym.core.messages import Message
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.untrusted import delimited, neutralise
from factgym.datasets.claims import STATUSES, VERDICTS, Status, Verdict
from factgym.envs.claimcheck.tasks import ClaimCheckConfig, ClaimTask, ClaimTaskSet
from factgym.rewards.claimcheck.scoring import NO_SUBMISSION, RUBRICS, score_submission, span_credits
from factgym.text.sentences import sentences
from factgym.tools.evidence import MAX_ID_CHARS, EvidenceState, list_passages, read, search
from factgym.tools.toolbox import Toolbox, tool

_PACKAGE = "factgym.envs.claimcheck"

SCHEMA_FILE = Path(__file__).with_name("verdict.schema.json")

Quote = Annotated[str, Field(max_length=4000)]
EvidenceId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]


class ClaimVerdict(TypedDict):
    """The verdict on one statement of the answer."""

    claim: Annotated[str, Field(min_length=1, max_length=4000, description="The sentence, in the answer's words.")]
    status: Annotated[Status, Field(description="Whether the cited evidence carries the statement.")]
    evidence_ids: Annotated[
        list[EvidenceId], Field(max_length=16, description="Ids of the passages that decide the statement.")
    ]
    quote: Annotated[
        Quote | Annotated[list[Quote], Field(max_length=8)],
        Field(description="The deciding sentence, verbatim from a cited passage; a list when several are needed."),
    ]
    unsupported_span: NotRequired[
        Annotated[
            str,
            Field(
                max_length=4000, description="Shortest part of the answer that the evidence does not carry; or empty."
            ),
        ]
    ]
    reason: NotRequired[
        Annotated[
            str,
            Field(
                max_length=4000,
                description="One sentence; its names, numbers and quotations are in the statement or in a cited passage.",
            ),
        ]
    ]


@dataclass(slots=True)
class ClaimCheckState(EvidenceState):
    """The state of an episode. submission: the verdict object, None before it is submitted."""

    submission: dict[str, Any] | None = None


@tool(render="Submitted: {}. The episode is over.".format, ends_episode=True)
def submit(
    state: ClaimCheckState,
    claims: Annotated[list[ClaimVerdict], Field(min_length=1, max_length=16)],
    final_verdict: Verdict,
    evidence_used: Annotated[list[EvidenceId], Field(max_length=32)] = [],  # noqa: B006 - a schema default, never mutated
) -> str:
    """Submit the verdict on the answer. This ends the episode.

    Args:
        claims: One entry for each sentence of the answer.
        final_verdict: supported if all statements are, partially_supported if only some are; if none is, contradicted
            if any is, else overclaim if any is, else unsupported.
        evidence_used: Ids of all passages relied on.
    """
    # Shown text is neutralised, so text copied from it is compared in the same form.
    entries: list[dict[str, Any]] = [dict(claim) for claim in claims]
    for entry in entries:
        for key, value in entry.items():
            if key not in ("evidence_ids", "status"):
                entry[key] = neutralise(value) if isinstance(value, str) else [neutralise(text) for text in value]
    state.submission = {"claims": entries, "final_verdict": final_verdict, "evidence_used": list(evidence_used)}
    return final_verdict


def verdict_schema() -> dict[str, Any]:
    """Return the JSON Schema of a verdict, from the signature of `submit`."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "ClaimCheck verdict"}
    return head | {"description": submit.description} | submit.parameters


def write_schema(file: Path = SCHEMA_FILE) -> None:
    """Write the schema as indented JSON."""
    file.write_text(json.dumps(verdict_schema(), indent=2, ensure_ascii=False) + "\n", "utf-8")


TOOLBOX = Toolbox((list_passages, search, read, submit))


class ClaimCheckEnv(Env[ClaimTask]):
    """Check an answer against documents, and prove it.

    ## Description
    The agent judges an answer to a question about policies, contracts or regulations by documents that it has to search
    and read. A correct verdict is not enough: it counts as far as its evidence was read, cited and quoted word for
    word. After "A Correct Verdict Is Not Enough: RL for Evidence-Grounded Claim Verification".

    ## Task
    A question and an answer of one or more statements. Each statement is supported, contradicted, unsupported or an
    overclaim; the answer as a whole may also be partially supported. Synthetic answers were corrupted on purpose
    (number, date, entity, party, cause, scope, condition, exception, version, irrelevant citation, addition), so the
    gold evidence and the unsupported part are known.

    ## Tools
    `list`, `search`, `read`, `submit`. Offline there is `submit` only, and a bare JSON object is a submission too.

    ## Turn protocol
    At most `max_turns` actions; `submit` ends the episode. An invalid action costs a turn and is answered with an error.
    Without a submission the reward is 0.

    ## Rewards
    `reward="judged"` (default) scores statement by statement. A statement's share is E · Q · C of its own entry: F1 of
    cited against gold passages, share of the quotes that are verbatim in a cited passage, share of the gold facts that
    are quoted. .05 for the form, .15 for the mean share, .35 for the statuses (a share for a right one, minus a third
    of it for a wrong one), .30 for the final verdict (the mean share if it is right and follows from the statuses,
    else minus a quarter of it), .10 for the characters marked as unsupported (F1, times the mean share), .05 for reasons
    of right statuses. So a guess earns nothing, and an entry that belongs to no sentence of the answer costs. If no
    statement is supported, the most severe status is the verdict: contradicted, overclaim, unsupported.

    The paper's rewards see the answer as a whole: json, verdict, evidence, quote, coverage, span, guard (no false
    "supported"). "v2" multiplies the verdict by evidence, quote and coverage; "gated" by the mean of the evidence
    checks; "r0" has no gate and shows why one is needed.

    A quote has at least 12 characters and at most two sentences, counts once however often it is given, and quoting far
    more than the gold facts hold shrinks coverage. Under "judged" straight quotation marks, apostrophes and hyphens match
    curly ones and dashes, in quotes and in marked parts; the paper's rewards compare characters (after Unicode NFKC).
    Silence on a statement is shown by any sentence that comes close to it; over ContractNLI, whose labels of silence
    carry no evidence, by three of the nearest passages and a sentence that comes closest. Such evidence is at hand for
    every statement, so its share counts a third there (the oracle earns .40 on such a task). A reason earns nothing if it
    quotes words, or gives a name or a number, that are neither in the statement nor in a cited passage; numbers and dates
    are compared as values, names without regard to case, plural and possessive.

    ## Splits and licences
    Generated: train 5,000, validation 1,000, ood 1,000, hard 500, multihop 500; no licence attaches. `claimcheck-docs`
    reads a folder of yours: the claims of test (default) and train are made of different halves of its sentences,
    near-duplicates together, those of all of every sentence. `claimcheck-contracts` reads ContractNLI (CC BY 4.0), which
    is not part of the package; each hypothesis occurs as often under its most frequent label as under the second (563
    of 1,037 tasks of the development set; all with `balance=False`), as its text alone tells the label of .70 otherwise.

    ## Determinism
    Example *i* depends on (seed, split, i) alone. The same actions give the same bytes and the same reward.

    ## Known exploits
    `factgym audit` runs them: a label without evidence, guessed ids, invented quotes, copied passages, constant
    verdicts, generic reasons, silence over any passages. Under "judged" none reaches the honest baseline: a constant or
    random judgement over honest evidence earns half of its reward over generated tasks, three quarters over contracts.
    Under "v2" such a judgement keeps .87 of it and wrong statuses cost nothing; under "r0" a right label over any
    passage earns about as much as honest work. A reason's truth is not judged, and repetition costs nothing.

    ## Versions
    v2: untrusted text between tags that end in a code of the task; the same rewards. v1: first version; its default reward was "v2".
    """

    Config: ClassVar[type[EnvConfig]] = ClaimCheckConfig
    tags: ClassVar[Mapping[str, tuple[str, str]]] = {"search": ("search", "query"), "read": ("read", "id")}
    implicit: ClassVar[Mapping[str, str]] = {"final_verdict": "submit"}
    presets: ClassVar[Mapping[str, Any]] = RUBRICS
    toolbox: ClassVar[Toolbox] = TOOLBOX
    strategies: ClassVar[str | None] = "factgym.envs.claimcheck.strategies:STRATEGIES"
    config: ClaimCheckConfig
    state: ClaimCheckState
    tasks: ClaimTaskSet

    def load_tasks(self) -> ClaimTaskSet:
        return ClaimTaskSet.of(self.config)

    def initial_messages(self, task: ClaimTask) -> list[Message]:
        self.state = ClaimCheckState(task.library)
        example = task.example
        texts = {"question": example.question, "answer": example.answer}
        blocks = {name: delimited(name, text, self.nonce, inline=True) for name, text in texts.items()}
        user = fill(self._prompt("task"), **blocks)
        if self.config.offline:
            self.state.read = dict.fromkeys((passage.id for passage in example.passages), 0)
            evidence = "\n".join(read.render(passage, self.nonce) for passage in example.passages)
            user = f"{evidence}\n\n{user}"
        return [{"role": "system", "content": self._system_text}, {"role": "user", "content": user}]

    @cached_property
    def _system_text(self) -> str:
        rules = self.config.scoring_rules
        text = "\n\n".join(map(self._prompt, self._system_prompts))
        return text.replace("{count}", str(rules.silence_passages)).replace("{share}", f"{rules.silence_share:.0%}")

    def _prompt(self, name: str) -> str:
        return prompt(_PACKAGE, name, self.config.prompt)

    @property
    def _system_prompts(self) -> tuple[str, ...]:
        instructions = "offline" if self.config.offline else "system"
        rules, is_judged = self.config.scoring_rules, "statements" in self.config.rubric.weights
        named = {
            "silence": rules.silence_passages > 1,
            "judged": is_judged,
            "silence_share": is_judged and rules.silence_share != 1,
        }
        return (instructions, *(name for name, applies in named.items() if applies))

    def prompt_hashes(self) -> dict[str, str]:
        return {name: prompt_hash(self._prompt(name)) for name in (*self._system_prompts, "task")}

    @property
    def slow_steps(self) -> bool:
        """Any index but the in-memory BM25 may take long."""
        return bool(self.config.index != "bm25")

    @property
    def open_tools(self) -> Sequence[str] | None:
        """`submit` alone when the evidence is in the prompt."""
        return ("submit",) if self.config.offline else None

    def score(self) -> RewardReport:
        """Return the report: the submission scored against gold, with credit for the spans that earned each share."""
        episode, submission, rubric = self.episode, self.state.submission, self.config.rubric
        task, turns, offline = episode.task, episode.turns, self.config.offline
        # Passages that the policy had seen when it submitted: not those opened in the same message.
        read_ids = [id_ for id_, turn in self.state.read.items() if turn < len(turns) - 1 or offline]
        score = NO_SUBMISSION
        spans: tuple[SpanCredit, ...] = ()
        if submission is not None:
            score = score_submission(submission, task.gold, task.text_of, read_ids, self.tasks.rules, self.tasks.stakes)
            opened = {} if offline else {id_: turns[turn].message for id_, turn in self.state.read.items()}
            shares = rubric.shares(score.components, score.gates)
            spans = span_credits(shares, score, task.gold, opened, episode.messages, turns[-1].message)
        metrics = {
            "gold_verdict": task.example.verdict,
            "verdict": (submission or {}).get("final_verdict"),
            "read": read_ids,
            "cited": list(score.cited),
            "gold_evidence": list(task.gold_evidence),
            "gates": dict(score.gates),
            "domain": task.example.domain,
            "corruption": task.corruption,
        }
        return rubric.report(score.components, score.gates, spans=spans, metrics=metrics)

    def prompt_human(self, ask: Callable[[str, Sequence[str]], str]) -> dict[str, Any]:
        answer = self.task.example.answer
        claims = []
        for start, end in sentences(answer):
            status = ask(f"status of “{answer[start:end]}”", STATUSES)
            claim = {
                "claim": answer[start:end],
                "status": status,
                "evidence_ids": ask("evidence ids, separated by spaces", ()).split(),
                "quote": ask("quote, word for word", ()),
                "unsupported_span": "" if status == "supported" else ask("part that is not carried", ()),
                "reason": ask("reason, one sentence", ()),
            }
            claims.append(claim)
        return {"tool": "submit", "arguments": {"claims": claims, "final_verdict": ask("final verdict", VERDICTS)}}

    def gold_lines(self) -> list[str]:
        example = self.task.example
        lines = [f"  {claim.status}: {claim.text}\n    {claim.reason}" for claim in example.claims]
        return [f"Gold verdict: {example.verdict}", *lines]

    def view_task(self, task: ClaimTask) -> dict[str, Any]:
        """Return the example with its gold; of a haystack only its own passages."""
        example = task.example
        claims = [
            {
                "text": claim.text,
                "status": claim.status,
                "facts": [[fact.passage, fact.start, fact.end] for fact in claim.facts],
                "unsupported_span": claim.unsupported_span,
                "reason": claim.reason,
            }
            for claim in example.claims
        ]
        return {
            "question": example.question,
            "answer": example.answer,
            "passages": [
                {"id": passage.id, "title": passage.title, "text": passage.text} for passage in example.passages
            ],
            "gold": {"verdict": example.verdict, "claims": claims, "nearest": list(example.nearest)},
        }


if __name__ == "__main__":
    write_schema()
