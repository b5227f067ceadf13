"""The operators by name, in a fixed order."""

from __future__ import annotations

from factgym.datasets.claims import Status
from factgym.generators.corruption.additions import ADDITION, CAUSE, IRRELEVANT
from factgym.generators.corruption.base import Operator
from factgym.generators.corruption.conditions import CONDITION, EXCEPTION
from factgym.generators.corruption.dates import DATE, FREQUENCY, VERSION
from factgym.generators.corruption.numbers import AMOUNT, NUMBER
from factgym.generators.corruption.parties import PARTY
from factgym.generators.corruption.polarity import POLARITY
from factgym.generators.corruption.scope import MODALITY, SCOPE

OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        NUMBER,
        AMOUNT,
        DATE,
        FREQUENCY,
        VERSION,
        PARTY,
        POLARITY,
        SCOPE,
        MODALITY,
        CONDITION,
        EXCEPTION,
        CAUSE,
        ADDITION,
        IRRELEVANT,
    )
}


def operators_for(status: Status) -> list[Operator]:
    """The operators whose claims have this status."""
    return [operator for operator in OPERATORS.values() if operator.status == status]
