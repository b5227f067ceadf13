"""`compute_score`: a reward function for loops of verl's own, which know a response's text and nothing of an episode."""

from __future__ import annotations

from typing import Any

from factgym.core.errors import FactgymError
from factgym.integrations.verl.slots import RowTask


class UnscoredError(FactgymError):
    """An answer could not be scored for a fault of the infrastructure; a zero would be a lie."""


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any = None, extra_info: Any = None, **_: Any
) -> dict[str, float]:
    """What a text earns as the only answer to the row's task: "score", the total, and every component and metric.

    For environments in which the answer is one message. An episode with tools needs the agent loop: its rows have
    their reward before verl asks for one. Raises ConfigError for rows that are not ours, what `make` raises, and
    UnscoredError for a fault of the infrastructure.
    """
    row = RowTask.of(extra_info)
    session = row.session()
    session.start(row.task)
    session.say(solution_str)
    report = session.close()
    if report.total is None:
        raise UnscoredError(f"{row.task} of {row.env} was not scored: {report.error}")
    return {**session.metrics(), "score": report.total}
