"""All tables in the paper's order."""

from __future__ import annotations

from collections.abc import Sequence

from factgym.benchmarks.papers.table import PaperTable
from factgym.benchmarks.seva.paper import data, models, probes, reward, variance
from factgym.benchmarks.seva.suite import DataSet, Result


def paper_tables(data_sets: Sequence[DataSet] = (), results: Sequence[Result] = ()) -> tuple[PaperTable, ...]:
    """Every table; those about data and baselines from what is given.

    Left out, because nothing in them can be computed without training: Tables 8 to 11, and the rounds of Tables 2 and
    22 (`factgym.training` plays rounds). Raises DataError for an unusable data set.
    """
    claims = data.claims_of(data_sets)
    computed = [reward.landscape(), reward.examples()]
    theirs = [models.table_4(results, claims), models.table_5(results)]
    counted = [data.table_12(claims), *([data.shortcuts(claims)] if claims else [])]
    return (
        *computed,
        *theirs,
        *counted,
        reward.aliases(),
        reward.ranges(),
        models.table_16(results),
        models.table_17(results),
        variance.table_18(),
        variance.figure_6(),
        probes.table_19(claims),
        reward.taxonomy(),
        reward.splits(),
    )
