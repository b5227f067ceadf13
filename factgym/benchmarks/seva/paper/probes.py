"""Table 19: the paper's own originals through our operators, and how many of ours pass their checks.

The paper prints fragments ("studied at Oxford"). Our operators change statements, so a fragment is asked for as it
stands and, where it asserts nothing that a rule can change, inside a plain sentence of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from factgym.benchmarks.formats import percent
from factgym.benchmarks.papers.table import PaperRow, PaperTable
from factgym.benchmarks.seva.facts import facts
from factgym.datasets.attribution import ATTRIBUTABLE, AttributionClaim, BenchmarkClaims
from factgym.generators.perturbations.names import Pool
from factgym.generators.perturbations.probes import Probe, make_probe, survey_strategies

_SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "entity_confusion": "Apple Inc. released the iPhone in 2007.",
        "multi_hop_graft": "John Miller studied at Oxford in 1934.",
        "presupposition": "The temperature has risen by 2°C.",
        "unanswerable_wrap": "The trial had positive results.",
    }
)
"""Where the printed original is a fragment: the same statement as a whole sentence."""
_DONORS = ("Samsung Inc. opened a plant in 1999.", "The treaty was signed in Geneva on 4 May 1961.")
_SEEDS = range(20)


def table_19(claims: Mapping[str, BenchmarkClaims]) -> PaperTable:
    """Originals, their perturbations and ours."""
    found = facts("table19")
    rows = []
    for one in found["rows"]:
        name, original = one["strategy"], one["original"]
        made = _made(name, original)
        if made is None and name in _SENTENCES:
            original = _SENTENCES[name]
            made = _made(name, original)
        ours = made.claim if made else "no probe"
        rows.append(PaperRow((name, one["perturbed"], ours if original == one["original"] else f"{ours} *")))
    notes = [
        "* Made from the same statement as a whole sentence: the printed original is a fragment, or a name in it is of no"
        " kind that rules can tell.",
        f"Theirs discard about {found['dropped']} % in filtering. {_passing(claims)}",
    ]
    return PaperTable(
        "Table 19", "Perturbation strategies", "computed", ("strategy", "theirs", "ours"), tuple(rows), tuple(notes)
    )


def _made(strategy: str, original: str) -> Probe | None:
    """The first probe that a seed gives; a probe that keeps the label is none here."""
    donors = [AttributionClaim(f"donor-{i}", text, text, ATTRIBUTABLE) for i, text in enumerate(_DONORS)]
    item = AttributionClaim("original", original, original, ATTRIBUTABLE)
    for seed in _SEEDS:
        probe = make_probe(item, strategy, seed=seed, pool=Pool([item, *donors]))
        if isinstance(probe, Probe):
            return probe
    return None


def _passing(claims: Mapping[str, BenchmarkClaims]) -> str:
    """What share of the probes that our rules make on real claims pass the checks."""
    for name in ("fever", "anli"):
        if name in claims:
            reports = survey_strategies(claims[name])
            generated, passed = sum(report.generated for report in reports), sum(report.passed for report in reports)
            return f"Ours on {name}: {generated - passed} of {generated} ({percent((generated - passed) / generated if generated else None)}) fail the rules’ checks."
    return "Ours were not counted: no data at hand."
