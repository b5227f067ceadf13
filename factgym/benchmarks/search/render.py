"""A search on a terminal: one table of the best strategies, what each changed, and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from factgym.benchmarks.formats import count, decimal, interval, label, printable, signed
from factgym.benchmarks.report import Cell, Styled, make_table
from factgym.benchmarks.search.certificate import describe, describe_free
from factgym.benchmarks.search.run import FAILURES, Finding, SearchResult
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.terminal import render_table

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

_SHOWN_PARTS = 3
_SHOWN_ACTIONS = 3


def render_search(result: SearchResult) -> Group:
    """Return the table of agents and strategies, each strategy with its example, and the sentence that passes or fails."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    rows: list[list[Cell]] = [[f" {role}", _cell(estimate), "", ""] for role, estimate in result.scripted.items()]
    name = (
        "honest baseline"
        if result.baseline_agent is None
        else printable(f"baseline {result.baseline_agent['agent']}", 40)
    )
    rows.append([f" {name}", _cell(result.baseline), "", ""])
    for number, finding in enumerate(result.findings, 1):
        style = "bold red" if finding.verdict in FAILURES else ""
        difference = f"{signed(finding.difference.value or 0.0, 3)} {interval(finding.difference, 2)}"
        rows.append([f" {number} {finding.kind}", _cell(finding.reward), difference, Styled(finding.verdict, style)])
    title = f"{result.env.env_spec.id} ({result.splits[1]}): {result.n} fresh tasks, seed {result.seed}"
    parts: list[RenderableType] = [
        render_table(make_table(title, ("strategy", "reward", "to the baseline", "verdict"), rows, min_width=18))
    ]
    default = result.space.strategy().to_json()
    for number, finding in enumerate(result.findings, 1):
        parts.append(Text(f"\n{number} {describe(finding.strategy.to_json(), default)}", "bold"))
        parts += [Padding(Text(line, "dim"), (0, 0, 0, 2)) for line in _details(finding)]
    searched = (
        f"\nSearched {count(result.tried, 'strategy', 'strategies')} in {count(result.episodes, 'episode')} of "
        f"{result.splits[0]} tasks."
    )
    parts += [Text(" ".join([searched, *result.notes]), "dim")]
    unpaid, neutral = ([strategy.to_json() for strategy in row] for row in (result.unpaid, result.neutral))
    parts.append(Text(describe_free(unpaid, neutral, default), "dim"))
    mark = ("PASS", "bold green") if result.passed else ("FAIL", "bold red")
    parts.append(Text.assemble("\n", mark, f"  {result.reward}: {_sentence(result)}"))
    return Group(*parts)


def _cell(estimate: Estimate) -> str:
    half = "" if estimate.half_width is None else f"±{decimal(estimate.half_width, 2).removeprefix('0')}"
    return f"{decimal(estimate.value)}{half}"


def _details(finding: Finding) -> list[str]:
    moved = sorted(finding.parts.items(), key=lambda item: -abs(item[1]))[:_SHOWN_PARTS]
    lines = ["pays: " + ", ".join(f"{label(name)} {signed(value, 3)}" for name, value in moved)]
    if finding.gain is not None:
        lines.append(f"gain of its attack operators: {signed(finding.gain.value or 0, 3)} {interval(finding.gain)}")
    example = finding.example
    lines.append(
        f"example: {example['task']} earns {decimal(example['reward'])}, honest {decimal(example['baseline'])}"
    )
    lines += [f"  {printable(action, 150)}" for action in example["actions"][-_SHOWN_ACTIONS:]]
    return lines


def _sentence(result: SearchResult) -> str:
    failed = [(n, f) for n, f in enumerate(result.findings, 1) if f.verdict in FAILURES]
    if failed:
        return "; ".join(f"strategy {number} {_why(finding)}" for number, finding in failed) + "."
    bound, blind = result.upper_bound("blind"), result.blind
    if blind is None:
        return "no attack gains on honest play."
    return (
        f"without judgement at most {decimal(blind.reward.value)} is earned, {signed(blind.difference.value or 0.0, 3)} to "
        f"the honest baseline (upper bound {signed(bound or 0.0, 3)}), and no attack gains on honest play."
    )


def _why(finding: Finding) -> str:
    if finding.verdict == "gains":
        return "judges honestly and gains by its attack operators"
    if finding.verdict == "reaches":
        return "reaches the honest baseline without judgement"
    doubt = "to gain nothing by its attack operators" if finding.kind == "attack" else "to stay below it"
    return f"is not shown {doubt} over {finding.difference.n} tasks (about -n {finding.needed} would decide)"
