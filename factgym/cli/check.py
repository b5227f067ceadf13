"""`factgym check ANSWER.md --docs FOLDER`: the verdict on your own text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from factgym.cli.options import AgentSettings, BaseUrl, MaxTokens, Temperature, parse_settings
from factgym.core.errors import ConfigError, FactgymError
from factgym.core.paths import decode_text, read_text

if TYPE_CHECKING:
    from factgym.check.answers import Answer

Docs = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER",
        help="The documents: a folder of Markdown, text, JSON lines, HTML, CSV and XLSX, or one file; with the extra documents PDF and DOCX too.",
    ),
]
CheckAgent = Annotated[
    str,
    typer.Option(
        help="Who checks: a scripted verifier of claimcheck (rules needs no download), verifier:FOLDER (the rules and a small "
        "model, of factgym train verifier; --agent-set mode=balanced raises more), nli:FOLDER (an entailment model), "
        "openai:MODEL, http://HOST:PORT/v1, hf:FOLDER or path/to/file.py:Name."
    ),
]

ReadSeconds = Annotated[
    float, typer.Option(min=0, help="Deadline for reading and indexing the documents; the rest is left out and listed.")
]
ReadMemory = Annotated[
    int, typer.Option(min=1, help="Memory for hostile documents, and for passages and index; bounds their text.")
]

CalibrationFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Confidences of agents, from factgym benchmark grounding --set calibrate=FILE."),
]


def check(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[ANSWER]", help="A text, or .jsonl with an answer in each line; - or nothing: standard input."
        ),
    ] = None,
    docs: Docs = ...,  # type: ignore[assignment]  # required
    claim: Annotated[list[str] | None, typer.Option(help="A claim instead of a file; repeatable.")] = None,
    question: Annotated[str, typer.Option(help="The question that the text answers, if there is one.")] = "",
    agent: CheckAgent = "rules",
    base_url: BaseUrl = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    agent_set: AgentSettings = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page as well.")] = None,
    fail_on: Annotated[
        str | None, typer.Option(metavar="STATUS,…", help="Exit with 1 if a claim has one of these statuses.")
    ] = None,
    calibration: CalibrationFile = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Claims at a time.")] = 8,
    read_seconds: ReadSeconds = 600.0,
    read_memory_mb: ReadMemory = 4096,
) -> None:
    """Check the claims of a text against documents: verdict, exact quote and its place, and the part that is not carried."""
    from factgym.agents.rollout.engine import RunAbortedError
    from factgym.benchmarks.page import write_page
    from factgym.check.calibration import read_calibrations
    from factgym.check.checker import Checker
    from factgym.check.documents import CheckedDocuments
    from factgym.check.report import CheckReport
    from factgym.corpora.extraction import ReadingBudget

    statuses = _statuses(fail_on)
    answers = _answers(source, claim or [], question)
    settings = parse_settings(
        agent_set, "--agent-set", base_url=base_url, temperature=temperature, max_tokens=max_tokens
    )
    calibrations = None if calibration is None else read_calibrations(calibration)
    documents = CheckedDocuments(docs, ReadingBudget(read_seconds, read_memory_mb))
    checker = Checker(documents, agent, settings, concurrency, calibrations)
    try:
        report = CheckReport(tuple(checker.check(answers)), checker)
    except RunAbortedError as error:
        raise FactgymError(str(error)) from error
    if json_output:
        print(report.to_json())
    else:
        print(report)
    if html is not None:
        print(f"Page: {write_page(report.to_html(), html)}", file=sys.stderr)
    claims = report.claims
    if errors := [entry.error for entry in claims if entry.error is not None]:
        raise FactgymError(f"{len(errors)} of {len(claims)} claims could not be checked; the first: {errors[0]}")
    if any(entry.status in statuses for entry in claims):
        raise typer.Exit(1)


def _statuses(text: str | None) -> tuple[str, ...]:
    """The statuses of `--fail-on`."""
    from factgym.check.checker import CHECKED_STATUSES as STATUSES
    from factgym.core.errors import did_you_mean

    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    for name in names:
        if name not in STATUSES:
            raise ConfigError(
                f"--fail-on: no status {name!r:.80}.{did_you_mean(name, STATUSES)} There are: {', '.join(STATUSES)}."
            )
    return names


def _answers(source: Path | None, claims: list[str], question: str) -> list[Answer]:
    """The answers of a file, of claims, or of standard input."""
    from dataclasses import replace

    from factgym.check.answers import Answer, checked_answer, read_answers

    if claims:
        if source is not None:
            raise ConfigError("give a file or --claim, not both")
        return [checked_answer(Answer(f"claim {n}", text, question), "--claim") for n, text in enumerate(claims, 1)]
    name = "-" if source is None else str(source)
    if name == "-" and sys.stdin.isatty():
        raise ConfigError("nothing to check: name a file, give --claim, or pipe a text in")
    if name == "-":
        text = decode_text(sys.stdin.buffer.read(), "standard input", "utf-8-sig")
    else:
        text = read_text(name, "utf-8-sig")
    answers = list(read_answers(text, name))
    return [replace(answer, question=question) if question else answer for answer in answers]
