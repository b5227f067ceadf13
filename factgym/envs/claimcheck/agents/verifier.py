"""Static verifiers: the shared evidence front, a rule for each statement, and the verdict object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from factgym.baselines.reading import Seen, Statement, reading_of, statement_of
from factgym.baselines.rule import Finding, Rule, bare
from factgym.datasets.claims import final_verdict
from factgym.envs.claimcheck.agents.gather import Gathered, gather, statements
from factgym.envs.claimcheck.agents.script import Brief, Script, Steps, Verdict, claim, verdict


class Verifier(Script):
    """Gathers evidence, applies its rule to each statement, and submits what follows."""

    def __init__(self, turns: int, rule: Rule) -> None:
        super().__init__(turns)
        self.rule = rule

    def play(self, brief: Brief) -> Steps[Verdict]:
        """Gather, judge, submit."""
        found = yield from gather(brief)
        asked = [statement_of(one) for one in statements(brief.answer)]
        return self.conclude(asked, self.judge(asked, found, brief.silence), found.opened)

    def judge(self, asked: Sequence[Statement], found: Gathered, silence: int = 1) -> list[Finding]:
        """A finding for each statement; without evidence everything is unsupported."""
        reading = replace(reading_of(found.opened), silence=silence)
        if not reading.lines:
            return [Finding("unsupported", (), bare(one.text), "No evidence was found.") for one in asked]
        return [self.rule(one, replace(reading, hits=tuple(found.hits.get(one.text, ())))) for one in asked]

    def conclude(self, asked: Sequence[Statement], findings: Sequence[Finding], opened: Sequence[Seen]) -> Verdict:
        """What to submit; exploiters change this."""
        entries = [entry(one, finding) for one, finding in zip(asked, findings, strict=True)]
        return verdict(final_verdict(finding.status for finding in findings), entries)


def entry(asked: Statement, finding: Finding) -> dict[str, object]:
    """A statement's entry in the verdict, with its lines as quotes."""
    quotes = [line.text for line in finding.lines]
    ids = list(dict.fromkeys(line.passage for line in finding.lines))
    said: str | list[str] = quotes if len(quotes) > 1 else "".join(quotes)
    return claim(asked.text, finding.status, ids, said, finding.span, finding.reason)
