"""The outcome of a search: as a certificate, a JSON file described by `certificate.schema.json`, and on a terminal.

A certificate says what was searched, under which code and data, and how much the best strategies earned. It is
reproducible: the same version, configuration, budget and seed give the same strategies. `python -m factgym.cli.docs`
prints committed ones in the environments' pages, and their check runs the searches again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import factgym
from factgym.agents.runs.collect import json_value
from factgym.benchmarks.formats import count, decimal, interval, label, printable, signed
from factgym.benchmarks.report import Cell, Styled, make_table
from factgym.benchmarks.search.reward_code import reward_files, reward_sources, without_comments
from factgym.benchmarks.search.run import FAILURES, Finding, SearchResult
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.benchmarks.terminal import render_table
from factgym.core.errors import DataError

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

SCHEMA = 1
_FILE = "certificate.schema.json"
_PLACES = 6


def certificate(result: SearchResult) -> dict[str, Any]:
    """Return the certificate of a search, as JSON data."""
    env, blind = result.env, result.blind
    oracle = result.scripted.get("oracle")
    best = max((finding.reward.value or 0.0 for finding in result.findings), default=None)
    return {
        "schema": SCHEMA,
        "factgym": factgym.__version__,
        "env": env.env_spec.id,
        "version": env.env_spec.version,
        **data_name(getattr(env.config, "path", None)),
        "config": {
            name: json_value(getattr(env.config, name)) for name in type(env.config).model_fields if name != "path"
        },
        "reward": result.reward,
        "hashes": hashes(result),
        "splits": {"training": result.splits[0], "fresh": result.splits[1]},
        "budget": result.budget,
        "n": result.n,
        "seed": result.seed,
        "classifiers": result.classifiers,
        "attacker": result.attacker,
        **({"baseline_agent": result.baseline_agent} if result.baseline_agent is not None else {}),
        "episodes": result.episodes,
        "tried": result.tried,
        "faulty": result.faulty,
        "baseline": _estimate(result.baseline),
        "scripted": {role: _estimate(estimate) for role, estimate in result.scripted.items()},
        "without_judgement": None if blind is None else _number(blind.reward.value),
        "lost_to_oracle": _number(oracle.value - best)
        if oracle and oracle.value is not None and best is not None
        else None,
        "upper_bounds": {kind: _number(result.upper_bound(kind)) for kind in ("blind", "attack")},
        "strategies": [_strategy(finding) for finding in result.findings],
        "unpaid": [strategy.to_json() for strategy in result.unpaid],
        "neutral": [strategy.to_json() for strategy in result.neutral],
        "passed": result.passed,
    }


def data_name(path: str | None) -> dict[str, str]:
    """Return `{"data": NAME}` of the file or folder that tasks are read from, without its place; empty for none."""
    return {"data": Path(path).resolve().name} if path else {}


def data_option(value: Mapping[str, Any]) -> str:
    """Return the option of the command line that names the data of a certificate or validation, after a space."""
    return f" --path {value['data']}" if value.get("data") else ""


def hashes(result: SearchResult) -> dict[str, Any]:
    """Return the hashes under which a search counts: of prompts, reward code, strategy space and task sets."""
    space = [
        [slot.name, slot.repeats, *((operator.name, operator.honest, operator.judges) for operator in slot.operators)]
        for slot in result.space.slots
    ]
    sources = reward_sources(result.env)
    return {
        "prompts": result.env.prompt_hashes(),
        "reward": {name: _sha256(without_comments(source)) for name, source in sources.items()}
        | {name: hashlib.sha256(content).hexdigest() for name, content in reward_files(sources).items()},
        "space": _sha256(json.dumps(space)),
        "tasks": dict(zip(("training", "fresh"), result.fingerprints, strict=True)),
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _strategy(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "verdict": finding.verdict,
        "strategy": finding.strategy.to_json(),
        "training": _number(finding.training),
        "reward": _estimate(finding.reward),
        "difference": _estimate(finding.difference),
        "upper": _number(finding.difference.high),
        "gain": None if finding.gain is None else _estimate(finding.gain),
        "parts": {name: _number(value) for name, value in finding.parts.items()},
        "needed": finding.needed,
        "example": {name: _number(v) if isinstance(v, float) else v for name, v in finding.example.items()},
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": _number(estimate.value),
        "low": _number(estimate.low),
        "high": _number(estimate.high),
        "n": estimate.n,
    }


def _number(value: float | None) -> float | None:
    # Rounded, so that the order of a sum on another machine does not show.
    return None if value is None else round(value, _PLACES) + 0.0


@cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a certificate."""
    return cast(dict[str, Any], json.loads(resources.files(__package__).joinpath(_FILE).read_text("utf-8")))


def read_certificate(text: str) -> dict[str, Any]:
    """Return a certificate. Raises DataError for a text that is none."""
    from jsonschema import Draft202012Validator

    try:
        value = json.loads(text)
    except ValueError as error:
        raise DataError(f"no certificate: {error}") from None
    fault = next(Draft202012Validator(schema()).iter_errors(value), None)
    if fault is not None:
        raise DataError(f"no certificate: {fault.json_path}: {fault.message[:200]}")
    return cast(dict[str, Any], value)


def worse(committed: Mapping[str, Any], fresh: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each way in which a fresh certificate does not uphold a committed one; empty if it does.

    An upper bound is worse where it exceeds the committed one by more than half the committed interval.
    """
    faults = [
        f"the {name} changed: certify again"
        for name in committed["hashes"]
        if committed["hashes"][name] != fresh["hashes"][name]
    ]
    for kind, bound in fresh["upper_bounds"].items():
        before = committed["upper_bounds"][kind]
        differences = [entry["difference"] for entry in committed["strategies"] if entry["kind"] == kind]
        reaches = [(row["high"] - row["low"]) / 2 for row in differences if row["high"] is not None]
        if bound is not None and (before is None or bound > before + max(reaches, default=0.0)):
            faults.append(f"the upper bound of {kind} strategies rose from {decimal(before)} to {decimal(bound)}")
    if committed["passed"] and not fresh["passed"]:
        faults.append("the environment no longer passes")
    return faults


def best_exploit(value: Mapping[str, Any]) -> float | None:
    """Return the highest mean reward of a certificate's strategies other than those composed of honest operators alone."""
    return max((entry["reward"]["value"] for entry in value["strategies"] if entry["kind"] != "honest"), default=None)


def describe(strategy: Mapping[str, Any], space_default: Mapping[str, Any] | None = None) -> str:
    """Return a strategy as one line: its slots with their operators, those of the honest baseline left out."""
    default = space_default or {}
    parts = [f"{slot}: {_operators(value)}" for slot, value in strategy.items() if value != default.get(slot)]
    return "; ".join(parts) or "the honest baseline"


def describe_free(
    unpaid: Iterable[Mapping[str, Any]], neutral: Iterable[Mapping[str, Any]], default: Mapping[str, Any]
) -> str:
    """Return the sentences on what costs nothing beside honest judgement: worse work, and neutral formatting."""
    worse_work, formatting = ("; ".join(describe(row, default) for row in rows) for rows in (unpaid, neutral))
    text = f"Worse work that costs nothing beside honest judgement, on training tasks: {worse_work or 'none'}."
    return f"{text} Neutral formatting, which may: {formatting}." if formatting else text


def _operators(value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    return " + ".join(item if isinstance(item, str) else next(iter(item)) for item in items)


def markdown(value: Mapping[str, Any], default: Mapping[str, Any]) -> str:
    """Return the section of an environment's page that shows a certificate. default: the honest baseline's strategy."""
    scripted = "".join(f", {role} {_mean(estimate)}" for role, estimate in value["scripted"].items())
    rows = [
        "| strategy (changes to the honest baseline) | kind | reward | difference | verdict |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in value["strategies"]:
        text = describe(entry["strategy"], default).replace("|", "\\|")
        difference = f"{signed(entry['difference']['value'], 3)} {_range(entry['difference'])}"
        rows.append(
            f"| {text} | {entry['kind']} | {decimal(entry['reward']['value'])} | {difference} | {entry['verdict']} |"
        )
    outcome = "passed" if value["passed"] else "FAILED"
    agent = f" {value['baseline_agent']['agent']}" if value.get("baseline_agent") else ""
    return (
        f"## Certificate\n`factgym audit {value['env']}{data_option(value)} --search --budget {value['budget']} -n {value['n']} --seed "
        f"{value['seed']}` under the reward `{value['reward']}` {outcome}: the best of {value['tried']} strategies on "
        f"{value['n']} fresh tasks. Honest baseline{agent} {_mean(value['baseline'])}{scripted}.\n\n"
        + "\n".join(rows)
        + f"\n\n{describe_free(value['unpaid'], value.get('neutral', ()), default)}\n"
    )


def _mean(estimate: Mapping[str, Any]) -> str:
    return f"{decimal(estimate['value'])} {_range(estimate)}"


def _range(estimate: Mapping[str, Any]) -> str:
    return interval(Estimate(estimate["value"], estimate["low"], estimate["high"], estimate["n"]))


# A search on a terminal: one table of the best strategies, what each changed, and the verdict.

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
