"""Score `factgym check` on hand-written minimal pairs: `python tests/check/pairs/score.py FILE.jsonl [--list]`.

Prints, for each kind, the share of false claims that are called supported and the share of true claims that are, with
95 % intervals clustered by fact. `--list` adds the claims that are judged wrongly in one of these two ways.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from factgym.benchmarks.statistics.intervals import Estimate, ratio_interval
from factgym.check import check_text


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its kind of change, the label a person gave, and the verdict of `factgym check`."""

    fact: str
    kind: str
    label: str
    claim: str
    verdict: str

    @property
    def is_true(self) -> bool:
        return self.label == "supported"

    @property
    def is_green(self) -> bool:
        return self.verdict == "supported"


def verdict_of(claim: str, document: str) -> str:
    """Return the verdict on a text: supported if each of its sentences is, else the first other verdict.

    A text in which no sentence is judged has the verdict `not_judged`.
    """
    statuses = [judged.status for judged in check_text(claim, {"document.md": document}).claims]
    return next((status for status in statuses if status != "supported"), "supported") if statuses else "not_judged"


def judge_file(path: Path) -> Iterator[JudgedClaim]:
    for line in path.read_text("utf-8").splitlines():
        fact = json.loads(line)
        for kind, label, claim in fact["claims"]:
            yield JudgedClaim(fact["id"], kind, label, claim, verdict_of(claim, fact["document"]))


def green_share(claims: Sequence[JudgedClaim]) -> Estimate:
    """Return the share of claims called supported, with an interval clustered by fact."""
    total = Counter(claim.fact for claim in claims)
    green = Counter(claim.fact for claim in claims if claim.is_green)
    return ratio_interval([green[fact] for fact in total], list(total.values()))


def score_table(claims: Sequence[JudgedClaim]) -> str:
    lines = [f"{'kind':24s}{'claims':>7s}{'green':>7s}  share of claims called supported"]
    for name, is_true in (("false", False), ("true", True)):
        group = [claim for claim in claims if claim.is_true is is_true]
        kinds = {claim.kind: [other for other in group if other.kind == claim.kind] for claim in group}
        for kind, members in {**kinds, f"all {name} claims": group}.items():
            share = green_share(members)
            interval = f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}]" if share.low is not None else "-"
            lines.append(f"{kind:24s}{len(members):7d}{sum(claim.is_green for claim in members):7d}  {interval}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    for name in (argument for argument in arguments if argument != "--list"):
        claims = list(judge_file(Path(name)))
        sys.stdout.write(f"{name}\n{score_table(claims)}\n\n")
        if "--list" in arguments:
            wrong = [claim for claim in claims if claim.is_true is not claim.is_green]
            sys.stdout.writelines(f"{c.fact:16s} {c.kind:20s} {c.label} -> {c.verdict}: {c.claim}\n" for c in wrong)


if __name__ == "__main__":
    main(sys.argv[1:])
