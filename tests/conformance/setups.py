"""What the conformance tests run over: every registered environment, and the arguments of those that need some."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import factgym
from factgym.benchmarks import conformance
from factgym.benchmarks.conformance import MALFORMED, by_policy, digest, exact, played, sampled_actions
from factgym.core.env import Env
from factgym.core.policy import ScriptedAgent
from factgym.core.registry import load_attribute, spec

DOCUMENTS = {
    "leave.md": """# Leave policy

## Annual leave
Full-time employees are entitled to 25 days of paid annual leave per calendar year. Unused leave may be carried over
until 31 March of the following year. Managers must approve a request within 5 working days.

## Sick leave
Employees must notify their manager before 10:00 on the first day of absence. A medical certificate is required after
3 consecutive days. Sick pay is 80 percent of base salary for up to 12 weeks.
""",
    "travel.md": """# Travel policy

All flights must be booked at least 14 days in advance. Business class is permitted only for flights longer than 8
hours, unless the finance director approves otherwise. Hotel costs are reimbursed up to 180 euros per night. Receipts
must be submitted within 30 days of return.
""",
    "security.txt": """Security policy

Passwords must contain at least 12 characters and be changed every 180 days. Laptops must be encrypted before they
leave the office. Visitors may enter the building only with an escort. Incidents must be reported to the security team
within 24 hours. Logs are kept for 90 days.
""",
}


__all__ = ["MALFORMED", "by_policy", "digest", "exact", "played", "sampled_actions"]


@dataclass(frozen=True)
class Setup:
    """An environment id and the arguments with which it is made."""

    id: str
    kwargs: dict[str, Any]

    def make(self, **more: Any) -> Env[Any]:
        return factgym.make(self.id, **self.kwargs, **more)

    @property
    def gymnasium_id(self) -> str:
        return spec(self.id).gymnasium_id


def own_folder(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    for name, text in DOCUMENTS.items():
        (tmp / name).write_text(text, "utf-8")
    return {"path": str(tmp)}


def real_policies(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    return {"path": str(data() / "policies_basecamp")}


def contract_nli(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    return {"path": str(data() / "contract_nli" / "dev.json")}


def nothing(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    return {}


OWN_CLAIMS = (
    '{"claim": "Logs are kept for 90 days.", "source": "Logs are kept for 90 days.", "label": "SUPPORTS"}',
    '{"claim": "Logs are kept for 60 days.", "source": "Logs are kept for 90 days.", "label": "REFUTES"}',
    '{"claim": "Visitors need an escort.", "source": "Visitors may enter only with an escort.", "label": "supported"}',
    '{"claim": "Visitors may enter alone.", "source": "Visitors may enter only with an escort.", "label": "neutral"}',
)


def own_claims(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    (tmp / "claims.jsonl").write_text("\n".join(OWN_CLAIMS), "utf-8")
    return {"path": str(tmp / "claims.jsonl")}


def public_claims(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    return {"path": str(data())}


OWN_QUESTIONS = (
    '{"question": "How long are logs kept?", "answer": ["90 days", "ninety days"]}',
    '{"question": "Who lets a visitor in?", "answer": "an escort;the escort"}',
    '{"question": "How many characters has a password?", "answer": 12}',
    '{"question": "What must be encrypted?", "answer": ["laptops"]}',
)


def own_questions(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    (tmp / "questions.jsonl").write_text("\n".join(OWN_QUESTIONS), "utf-8")
    return {"source": "file", "path": str(tmp / "questions.jsonl")}


def own_questions_and_documents(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    (tmp / "documents").mkdir()
    return own_questions(tmp, data) | {"corpus": own_folder(tmp / "documents", data)["path"]}


def public_questions(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    return {"source": "popqa", "path": str(data() / "popqa" / "popqa.json"), "prompt": "eval"}


def fact_checks(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    """AVeriTeC's own claims, but those of which no policy can earn everything: over five questions, several answers."""
    checks = json.loads((data() / "averitec" / "dev.json").read_text("utf-8"))
    selected = [
        check
        for check in checks
        if len(check["questions"]) <= 5 and all(len(q["answers"]) == 1 for q in check["questions"])
    ]
    (tmp / "dev.json").write_text(json.dumps(selected[:80]), "utf-8")
    return {"path": str(tmp / "dev.json")}


OWN_TRIPLES = (
    '{"id": "logs", "question": "How long are logs kept?", "answer": "90 days", '
    '"evidence": [{"text": "Logs are kept for 90 days."}]}',
    '{"id": "visitors", "question": "Who is with a visitor in the building?", "answer": "an escort"}',
    '{"id": "passwords", "question": "How many characters have passwords?", "answer": "12", "hops": 1, "V": 0.8, '
    '"evidence": [{"text": "Passwords must contain at least 12 characters and be changed every 180 days."}]}',
)


def own_triples(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    """A data set of one's own over a folder of one's own; one question has no gold evidence."""
    (tmp / "documents").mkdir()
    (tmp / "triples.jsonl").write_text("\n".join(OWN_TRIPLES), "utf-8")
    return {
        "source": "triples",
        "path": str(tmp / "triples.jsonl"),
        "corpus": own_folder(tmp / "documents", data)["path"],
    }


def supporting_facts(tmp: Path, data: Callable[[], Path]) -> dict[str, Any]:
    """HotpotQA's own questions with their paragraphs, but those whose annotated sentences do not say the answer."""
    lines = (data() / "hotpotqa" / "hotpot_distractor_sample_migres.json").read_text("utf-8").splitlines()
    selected = []
    for line in lines:
        row = json.loads(line)
        paragraphs = dict(row["context"])
        facts = [paragraphs[title][index] for title, index in row["supporting_facts"]]
        if any(f" {row['answer']} " in fact and row["answer"] != fact.strip() for fact in facts):
            selected.append(line)
    (tmp / "hotpot.json").write_text("\n".join(selected[:40]), "utf-8")
    return {"source": "hotpotqa", "path": str(tmp / "hotpot.json")}


NEEDS = {
    "eve-solver": (nothing, own_triples, supporting_facts),
    "profact": (nothing, fact_checks),
    "corver-qa": (nothing, own_questions, public_questions),
    "corver-qa-search": (nothing, own_questions_and_documents),
    "claimcheck-docs": (own_folder, real_policies),
    "claimcheck-contracts": (contract_nli,),
    "claimcheck-wice": (public_claims,),
    "claimcheck-fm2": (public_claims,),
    "claimcheck-scifact": (public_claims,),
    "seva-fever": (own_claims, public_claims),
    "seva-truthfulqa": (public_claims,),
    "seva-halueval": (public_claims,),
    "seva-clearfacts": (public_claims,),
    "seva-anli": (public_claims,),
}
"""Environments that cannot be made without arguments -> ways to get some."""

NOTHING = {"corver-qa": -2.0, "corver-qa-search": -2.0}
"""What an episode without a submission earns, where that is not 0."""

SHORTFALL = {
    "claimcheck-contracts": 0.61,
    "claimcheck-wice": 0.61,
    "claimcheck-scifact": 0.61,
    "corver-qa": 0.4,
    "corver-qa-search": 0.4,
    "eve-proposer": 1.2,
    "profact": 0.005,
}
"""What an oracle may stay below the bound: its sentences are as well supported as the corpus makes the facts, its
questions are as difficult as the solver finds them, evidence of people's label of silence counts a third, and METEOR gives
even a text beside itself a little less than 1."""

SETUPS = [(id_, needs) for id_ in factgym.list_envs() for needs in NEEDS.get(id_, (nothing,))]


def agents(id_: str) -> dict[str, ScriptedAgent]:
    reference = spec(id_).agents
    return dict(load_attribute(reference)) if reference else {}


def transcript(setup: Setup, seed: int) -> Iterator[str]:
    """A long exact transcript of a setup."""
    return conformance.transcript(setup.make(), seed)
