"""`factgym validate`: whether an environment, a user's own too, keeps what its users rely on. One table, JSON, a badge.

Gymnasium's checker; the same bytes in another process; malformed actions are answered and an empty episode earns nearly
nothing; the oracle and the teacher reach their scores; labels cannot be told from claims, names or lengths alone; no
exploiter reaches the honest baseline, and a small search finds no other; prompts, card and licence are there. Each check
passes, fails, or is skipped with its reason; a validation passes without a failure.
"""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import factgym
from factgym.agents.resolve import scripted_agents
from factgym.agents.rollout.engine import play_episode
from factgym.agents.runs.collect import json_value
from factgym.baselines.shortcuts import ShortcutClassifiers
from factgym.benchmarks.audit import Audit, AuditRow, run_audit
from factgym.benchmarks.conformance import (
    HEADINGS,
    MALFORMED,
    digest,
    digest_elsewhere,
    objections,
    played,
    sampled_actions,
    transcript,
)
from factgym.benchmarks.formats import count, decimal, interval, percent, printable
from factgym.benchmarks.search.certificate import certificate, data_name, data_option
from factgym.benchmarks.search.run import run_search, search_tasks, strategy_space
from factgym.core.env import Env
from factgym.core.errors import ConfigError, DataError, FactgymError, MissingExtraError
from factgym.core.policy import Role
from factgym.core.registry import make
from factgym.core.strategies import Example
from factgym.core.tasks import SimpleTask

if TYPE_CHECKING:
    from rich.console import Group

Status = Literal["pass", "fail", "skip"]

TASKS = 200
"""Tasks that every scripted agent plays."""
SEARCH_TASKS, BUDGET = 100, 300
"""Fresh tasks and training episodes of the search: the small budget, of the committed certificates too."""
ORACLE_SHARE = 0.5
"""Share of the highest reward that an oracle has to reach: with less, most of the reward cannot be earned."""

_NOTHING = 0.05
"""Share of the reward's range that an episode without a submission may earn."""
_TEACHER_TASKS = 15
_LEAK_TASKS, _MIN_LEAK_TASKS = 400, 40
_LEAK_SLACK = 0.02
_LEAKS = {"words": "the claim alone", "names": "names", "lengths": "lengths"}
_BADGE_COLOURS: Mapping[bool, str] = {True: "#1a7f37", False: "#b42318"}
_CHAR_WIDTH = 6.6


@dataclass(frozen=True, slots=True)
class Check:
    """Outcome of one check. detail: a sentence with what was measured, or why it failed or was skipped."""

    name: str
    status: Status
    detail: str


@dataclass(frozen=True, slots=True)
class Validation:
    """Outcome of a validation. settings: those with which the environment was made. certificate: of the search, if any."""

    env: str
    version: int
    settings: Mapping[str, Any]
    checks: tuple[Check, ...]
    certificate: Mapping[str, Any] | None

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "fail" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data, without the certificate."""
        return {
            "schema": 1,
            "factgym": factgym.__version__,
            "env": self.env,
            "version": self.version,
            **data_name(self.settings.get("path")),
            "settings": {name: json_value(value) for name, value in self.settings.items() if name != "path"},
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
        }


def validate(
    env_id: str,
    settings: Mapping[str, Any] | None = None,
    *,
    n: int = TASKS,
    budget: int = BUDGET,
    seed: int = 0,
    oracle_share: float = ORACLE_SHARE,
    on_check: Callable[[str], None] = lambda name: None,
) -> Validation:
    """Validate an environment.

    settings: as of `make`, JSON values. n: tasks that each scripted agent plays. budget: training episodes of the search.
    oracle_share: of the highest reward, for the oracle. on_check: called with the name of each check before it starts. Raises ConfigError for an environment that cannot be made.
    """
    subject = _Subject(env_id, dict(settings or {}), n, budget, seed, oracle_share)
    checks = []
    for name, run in _CHECKS.items():
        on_check(name)
        try:
            checks.append(Check(name, *run(subject)))
        except MissingExtraError as error:
            checks.append(Check(name, "skip", str(error)))
        except Exception as error:  # noqa: BLE001 - the boundary to a user's code: its fault is the outcome of the check
            text = str(error) if isinstance(error, FactgymError) else f"{type(error).__name__}: {error}"
            checks.append(Check(name, "fail", " ".join(text.split())[:400]))
    spec = subject.env.env_spec
    return Validation(spec.id, spec.version, subject.settings, tuple(checks), subject.certificate)


_Outcome = tuple[Status, str]


@dataclass
class _Subject:
    """The environment under validation, and what several checks share. Raises ConfigError where it cannot be made."""

    env_id: str
    settings: dict[str, Any]
    n: int
    budget: int
    seed: int
    oracle_share: float
    certificate: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.env = self.make()

    def make(self) -> Env[Any]:
        """Make another slot of the environment."""
        return make(self.env_id, **self.settings)

    @cached_property
    def audit(self) -> Audit:
        """The audit over `n` tasks."""
        return run_audit(self.env, n=self.n, seed=self.seed)

    def row(self, role: Role) -> AuditRow | None:
        """Return the first agent of a role in the audit."""
        return next((row for row in self.audit.rows if row.role == role), None)

    def mean(self, row: AuditRow) -> float:
        """Return the mean reward of an agent under the environment's own reward. Raises ConfigError without a score."""
        value = row.rewards[self.audit.judged].value
        if value is None:
            raise ConfigError(f"{row.agent!r} has no scored episode")
        return value


def _gymnasium(subject: _Subject) -> _Outcome:
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    check_env(subject.make())
    check_env(gymnasium.make(subject.env.env_spec.gymnasium_id, **subject.settings).unwrapped)
    return "pass", "Gymnasium's checker accepts it, by factgym.make and by gymnasium.make"


def _determinism(subject: _Subject) -> _Outcome:
    """Check equal transcripts in this and another process, unequal ones of other seeds, and copied episodes."""
    env, seed = subject.env, subject.seed
    expected = digest(transcript(env, seed))
    if digest(transcript(subject.make(), seed)) != expected:
        return "fail", "the same seed and actions gave another transcript in the same process"
    if digest_elsewhere(subject.env_id, subject.settings, seed) != expected:
        return "fail", "the same seed and actions gave another transcript in another process"
    if len(env.tasks) > 2 and len({digest(islice(transcript(env, other), 1)) for other in range(seed, seed + 8)}) == 1:
        return "fail", "eight seeds gave the same episode"
    env.reset(seed=seed)
    actions = sampled_actions(env, seed, 3)
    if list(played(copy.deepcopy(env), iter(actions))) != list(played(env, iter(actions))):
        return "fail", "a copied episode went on in another way"
    return "pass", "equal transcripts of every scripted agent in two processes; a copy branches an episode"


def _malformed(subject: _Subject) -> _Outcome:
    """Check that malformed actions are answered with an error and that an episode without a submission earns near nothing."""
    env = subject.make()
    for kind, action in MALFORMED.items():
        env.reset(seed=subject.seed)
        obs, _, _, _, info = env.step(action)
        json.dumps(info["messages"])
        if env.episode.stop == "error":
            return "fail", f"a malformed action ({kind}) ended the episode as a fault: {env.episode.fault}"
        if env.episode.stop is None and not (info["error"] and obs):
            return "fail", f"a malformed action ({kind}) was not answered with an error"
    low, high = env.reward_bounds
    limit = max(0.0, low) + _NOTHING * (high - max(0.0, low))
    totals = {}
    for text in ("", "I think that it is true."):
        env.reset(seed=subject.seed)
        while env.episode.stop is None:
            env.step(text)
        report = env.episode.report
        if report is None or report.total is None:
            fault = env.episode.fault if report is None else report.error
            return "fail", f"an episode without a submission was not scored ({fault})"
        totals[text] = report.total
    worst = max(totals.values())
    status: Status = "pass" if worst <= limit else "fail"
    return status, f"{len(MALFORMED)} malformed actions answered; without a submission {decimal(worst)} of {high:g}"


def _oracle(subject: _Subject) -> _Outcome:
    row = subject.row("oracle")
    if row is None:
        return "fail", "it has no scripted oracle: register one with the role 'oracle'"
    mean, (_, high) = subject.mean(row), subject.env.reward_bounds
    better = [
        other.agent for other in subject.audit.rows if other.agent != row.agent and subject.mean(other) > mean + 1e-9
    ]
    text = f"{row.agent} earns {decimal(mean)} of {high:g} on {row.n} tasks"
    if row.errors or better:
        return "fail", f"{text}; {count(row.errors, 'fault')}; above it: {', '.join(better) or 'nothing'}"
    if mean < subject.oracle_share * high:
        return "fail", f"{text}: less than {percent(subject.oracle_share, 0)} can be earned"
    return "pass", text


def _teacher(subject: _Subject) -> _Outcome:
    """Check that the teacher earns what the honest baseline does, and acts only on what it was shown."""
    agent = next((a for a in scripted_agents(subject.env_id).values() if a.role == "teacher"), None)
    row, honest = subject.row("teacher"), subject.row("honest")
    if agent is None or row is None or honest is None:
        return "skip", "it has no scripted teacher"
    ours, bar = subject.mean(row), subject.mean(honest)
    text = f"{row.agent} earns {decimal(ours)}, the honest baseline {honest.agent} {decimal(bar)}"
    if ours < bar - 1e-9:
        return "fail", text
    tasks = range(min(_TEACHER_TASKS, len(subject.env.tasks)))
    records = [play_episode(subject.env, agent, task, task) for task in tasks]
    if objection := next((text for record in records for text in objections(record)), None):
        return "fail", f"{text}; it acts on what it has not seen: {objection[:200]}"
    if any(turn["error"] for record in records for turn in record["turns"]):
        return "fail", f"{text}; some of its actions are refused"
    return "pass", f"{text}; its ids, quotes and queries were in sight on {len(records)} tasks"


def _examples(env: Env[Any], indices: Any) -> Iterator[Example]:
    """Yield labelled texts of tasks: by the strategy space, else of a `SimpleTask` by its prompt and gold answer."""
    space = strategy_space(env) if env.strategies is not None else None
    for index in indices:
        task = env.tasks[index]
        example = None
        if space is not None:
            example = space.example(env, task)
        elif isinstance(task, SimpleTask):
            gold = task.gold[0] if isinstance(task.gold, tuple | list) and task.gold else task.gold
            example = Example(task.prompt, str(gold))
        if example is not None:
            yield example


def _leaks(subject: _Subject) -> _Outcome:
    """Check that classifiers on the claim, names or lengths alone stay near chance."""
    tasks = search_tasks(subject.env, _LEAK_TASKS, subject.seed)
    training = list(_examples(tasks.env, [*tasks.fit, *tasks.train][:_LEAK_TASKS]))
    fresh = list(_examples(tasks.fresh_env, tasks.fresh))
    if min(len(training), len(fresh)) < _MIN_LEAK_TASKS:
        return "skip", f"{len(training)} + {len(fresh)} labelled tasks are too few for classifiers"
    classifiers = ShortcutClassifiers(training)
    share = Counter(example.label for example in fresh).most_common(1)[0][1] / len(fresh)
    # Three standard errors: with three classifiers, by chance less than once in two hundred validations.
    limit = share + 3 * math.sqrt(share * (1 - share) / len(fresh)) + _LEAK_SLACK
    rates = {
        kind: sum(classifiers.predict(kind, item.text, item.key, item.evidence) == item.label for item in fresh)
        / len(fresh)
        for kind in _LEAKS
    }
    rates_text = ", ".join(f"{name} {percent(rates[kind], 0)}" for kind, name in _LEAKS.items())
    text = f"labels predicted from {rates_text}; the commonest label {percent(share, 0)}, limit {percent(limit, 0)} ({len(fresh)} tasks)"
    return ("fail" if max(rates.values()) > limit else "pass"), text


def _audit(subject: _Subject) -> _Outcome:
    verdict = subject.audit.judgement()
    if verdict.breaches:
        return "fail", "; ".join(verdict.breaches)
    if verdict.undecided:
        return "fail", f"{verdict.undecided[0]}; about -n {verdict.needed} would show it"
    margin = f"{decimal(verdict.margin.value)} {interval(verdict.margin)}"
    return "pass", f"the strongest exploiter, {verdict.strongest}, stays {margin} below {verdict.baseline}"


def _search(subject: _Subject) -> _Outcome:
    if subject.env.strategies is None:
        return "skip", "it declares no strategy space"
    if len(subject.env.tasks) < SEARCH_TASKS:
        return "skip", f"{len(subject.env.tasks)} tasks are too few for a verdict"
    result = run_search(subject.env, budget=subject.budget, n=min(subject.n, SEARCH_TASKS), seed=subject.seed)
    subject.certificate = certificate(result)
    best = max(result.findings, key=lambda finding: finding.reward.value or 0.0, default=None)
    text = f"{result.tried} strategies tried, honest baseline {decimal(result.baseline.value)}"
    if best is not None:
        text += f", best {best.kind} strategy {decimal(best.reward.value)}"
    return ("pass" if result.passed else "fail"), text


def _card(subject: _Subject) -> _Outcome:
    sections = card_sections(type(subject.env).__doc__ or "")
    missing = [heading for heading in HEADINGS if not sections.get(heading)]
    if missing:
        return (
            "fail",
            f"the docstring of {type(subject.env).__name__} lacks {', '.join(f'## {name}' for name in missing)}",
        )
    licence = " ".join(sections["Splits and licences"].split())
    if "licen" not in licence.lower() and not any(mark in licence for mark in ("CC ", "MIT", "Apache", "GPL")):
        return "fail", "its section 'Splits and licences' names no licence, nor says that none attaches"
    hashes = subject.env.prompt_hashes()
    return "pass", f"{len(HEADINGS)} sections, licences named, {count(len(hashes), 'prompt')} hashed"


def card_sections(docstring: str) -> dict[str, str]:
    """Return heading -> text of the sections of an environment's docstring."""
    sections: dict[str, str] = {}
    heading = ""
    for line in docstring.splitlines():
        if line.strip().startswith("## "):
            heading = line.strip().removeprefix("## ").strip()
            sections[heading] = ""
        elif heading:
            sections[heading] = f"{sections[heading]}\n{line}".strip()
    return sections


_CHECKS: Mapping[str, Callable[[_Subject], _Outcome]] = {
    "gymnasium": _gymnasium,
    "determinism": _determinism,
    "malformed actions": _malformed,
    "oracle": _oracle,
    "teacher": _teacher,
    "leaks": _leaks,
    "audit": _audit,
    "search": _search,
    "card and licence": _card,
}


# Output

_STYLES: Mapping[Status, str] = {"pass": "green", "fail": "bold red", "skip": "yellow"}


def render_validation(validation: Validation) -> Group:
    """Return the outcome in a line, and a table with one row for each check."""
    from rich.console import Group
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid(padding=(0, 2, 0, 0))
    for check in validation.checks:
        grid.add_row(check.name, Text(check.status, _STYLES[check.status]), Text(printable(check.detail, 600)))
    mark = Text("PASS ", "bold green") if validation.passed else Text("FAIL ", "bold red")
    return Group(mark + Text(f"{validation.env}-v{validation.version}: {summary(validation)}\n"), grid)


def summary(validation: Validation) -> str:
    """Return the outcome in a few words."""
    counts = Counter(check.status for check in validation.checks)
    failed, skipped = counts["fail"], counts["skip"]
    parts = [f"{failed} failed"] * bool(failed) + [f"{skipped} skipped"] * bool(skipped)
    return ", ".join([f"{counts['pass']} of {len(validation.checks)} checks passed", *parts])


def badge(validation: Mapping[str, Any]) -> str:
    """Return a self-contained SVG: the environment, and how many checks it passes. validation: as `to_dict` gives it."""
    checks = validation["checks"]
    passes = sum(check["status"] == "pass" for check in checks)
    name = f"{validation['env']}-v{validation['version']}"
    result = f"validated {passes}/{len(checks)}" if validation["passed"] else f"fails {passes}/{len(checks)}"
    widths = [round(len(text) * _CHAR_WIDTH) + 16 for text in (name, result)]
    label = escape(f"{name}: {result}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{sum(widths)}" height="20" role="img" aria-label="{label}">'
        f"<title>{label}</title>"
        f'<rect width="{sum(widths)}" height="20" rx="3" fill="{_BADGE_COLOURS[bool(validation["passed"])]}"/>'
        f'<path d="M3 0h{widths[0] - 3}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#444"/>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{widths[0] / 2:g}" y="14">{escape(name)}</text>'
        f'<text x="{widths[0] + widths[1] / 2:g}" y="14">{escape(result)}</text></g></svg>\n'
    )


def markdown(validation: Mapping[str, Any], image: str) -> str:
    """Return the section of an environment's page that shows a validation. image: address of its badge."""
    rows = ["| check | outcome | measured |", "| --- | --- | --- |"]
    rows += [
        f"| {check['name']} | {check['status']} | {check['detail'].replace('|', chr(92) + '|')} |"
        for check in validation["checks"]
    ]
    return (
        f"## Validation\n![{validation['env']}]({image}) by `factgym validate {validation['env']}{data_option(validation)}`.\n\n"
        + "\n".join(rows)
        + "\n"
    )


def write_validation(validation: Validation, folder: Path) -> list[Path]:
    """Write the validation, its badge and the certificate of its search into a folder, and return the paths.

    Raises DataError where the folder cannot be written.
    """
    data = validation.to_dict()
    texts = {f"{validation.env}.validation.json": json_text(data), f"{validation.env}.svg": badge(data)}
    if validation.certificate is not None:
        texts[f"{validation.env}.certificate.json"] = json_text(validation.certificate)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise DataError(f"cannot write to {folder} ({error.strerror}): name another folder") from None
    return [folder / name for name in texts]


def json_text(value: Mapping[str, Any]) -> str:
    """Return JSON data as the text of a file."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
