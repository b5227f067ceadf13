"""`factgym check`: claims, verdicts with verified quotes, any policy of ClaimCheck, outputs and exit codes."""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from commands import run_factgym

from factgym.check.answers import Answer, read_answers, split_claims
from factgym.check.checker import Checker
from factgym.check.documents import CheckedDocuments
from factgym.check.report import highlight, report_page
from factgym.core.errors import ConfigError, DataError

REFUNDS = """# Refund policy

## Payment

Refunds are paid within 14 days of the request.
A refund above 500 euros needs the approval of the finance team.

## Exceptions

Annual plans can be refunded only in the first 30 days.
"""
ANSWER = """# Our answer

Refunds are paid within 30 days of the request. A refund above 500 euros needs the approval of the finance team.
All plans can be refunded. Customers get a free mug.
"""
STATUSES = ["contradicted", "supported", "overclaim", "unsupported"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "refunds.md").write_text(REFUNDS, "utf-8")
    (tmp_path / "answer.md").write_text(ANSWER, "utf-8")
    return tmp_path


class SubmitPolicy:
    """Opens the first passage that the list shows and submits one entry."""

    def __init__(self, **entry: Any) -> None:
        self.entry = {"claim": "it", "status": "supported", "evidence_ids": ["refund-policy#1"], "quote": "", **entry}

    def act(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        if len(messages) == 2:
            return {"tool": "read", "arguments": {"id": "refund-policy#1"}}
        return {"tool": "submit", "arguments": {"claims": [self.entry], "final_verdict": "supported"}}


def check_claim(folder: Path, policy: Any, text: str = "Refunds are paid within 14 days.") -> Any:
    from factgym.agents.resolve import object_agent

    checker = Checker(CheckedDocuments(folder / "handbook"), object_agent(policy))
    ((claim,),) = (answer.claims for answer in checker.check([Answer("a", text)]))
    return claim


def test_claims_are_the_sentences_that_state_something() -> None:
    text = "# Title line here\n\nOne rule holds. Is it so? See below.\n\n```\ncode is no claim.\n```\n\n- Item two holds now.\n"
    assert [text[start:end] for start, end in split_claims(text)] == ["One rule holds.", "Item two holds now."]


def test_a_text_of_too_many_sentences_is_refused() -> None:
    with pytest.raises(DataError, match=r"^a\.md: more than 5,000 sentences"):
        list(read_answers("One rule holds. " * 5_001, "a.md"))
    assert list(read_answers("One rule holds. " * 5_000, "a.md"))


def test_the_default_verifier_tells_the_four_cases_apart(folder: Path) -> None:
    checker = Checker(CheckedDocuments(folder / "handbook"))
    (answer,) = checker.check(read_answers(ANSWER, "answer.md"))
    assert [claim.status for claim in answer.claims] == STATUSES
    assert answer.verdict == "partially_supported"
    for claim in answer.claims:
        assert ANSWER[claim.start : claim.end] == claim.text
        for quote in claim.quotes:
            assert REFUNDS[quote.location.start : quote.location.end] == quote.text
        assert claim.not_carried in claim.text and bool(claim.not_carried) == (claim.status != "supported")
    assert [claim.not_carried for claim in answer.claims][:2] == ["30 days", ""]


@pytest.mark.parametrize(
    "entry",
    [
        {"quote": "Refunds are paid within 30 days of the request."},
        {"quote": "Annual plans can be refunded only in the first 30 days.", "evidence_ids": ["refund-policy#2"]},
        {"quote": "Refunds are"},
        {"quote": ""},
    ],
    ids=["invented", "unread", "too short", "none"],
)
def test_a_verdict_without_a_verified_quote_is_not_reported_as_carried(folder: Path, entry: dict[str, Any]) -> None:
    claim = check_claim(folder, SubmitPolicy(**entry))
    assert (claim.status, claim.agent_status, claim.quotes) == ("unsupported", "supported", ())
    assert "without a word-for-word quote" in claim.reason


def test_any_policy_of_claimcheck_can_check(folder: Path) -> None:
    claim = check_claim(folder, SubmitPolicy(quote="Refunds are paid within 14 days of the request."))
    assert (claim.status, [quote.text for quote in claim.quotes]) == ("supported", [REFUNDS.split("\n")[4]])


def test_a_policy_that_fails_leaves_its_claim_unchecked(folder: Path) -> None:
    class Broken:
        def act(self, messages: Any, tools: Any) -> Any:
            raise RuntimeError("no weights")

    claim = check_claim(folder, Broken())
    assert claim.error == "agent: RuntimeError: no weights"


def test_agents_that_need_a_gold_label_are_refused(folder: Path) -> None:
    documents = CheckedDocuments(folder / "handbook")
    for name in ("oracle", "teacher", "label-only", "random"):
        with pytest.raises(ConfigError, match="checks nothing: rules, nli"):
            Checker(documents, name)


def test_every_answer_of_json_lines_keeps_its_id() -> None:
    lines = '{"id": "a", "answer": "A rule holds here."}\n\n{"response": "Another rule holds.", "prompt": "Which?"}\n'
    assert list(read_answers(lines, "x.jsonl")) == [
        Answer("a", "A rule holds here."),
        Answer("line-3", "Another rule holds.", "Which?"),
    ]
    for bad, problem in (
        ("{}", "has none of answer"),
        ("nonsense", "not valid JSON"),
        ('{"text": 3}', "must be a text"),
    ):
        with pytest.raises(DataError, match=f"x.jsonl line 1: .*{problem}"):
            list(read_answers(bad, "x.jsonl"))


def test_highlighted_stretches_are_the_text() -> None:
    stretches = list(highlight("abcdefgh", [(1, 5, 1, "supported"), (3, 7, 2, "contradicted"), (3, 5, 3, "overclaim")]))
    assert [(part.text, part.claims) for part in stretches] == [
        ("a", ()),
        ("bc", (1,)),
        ("de", (1, 2, 3)),
        ("fg", (2,)),
        ("h", ()),
    ]


def test_the_page_escapes_what_it_shows(folder: Path) -> None:
    hostile = '<script>alert(1)</script><img src=x onerror="alert(2)">'
    (folder / "handbook" / "hostile.md").write_text(
        f"# Rule {hostile}\n\nEvery visitor signs the book {hostile} at once.\n", "utf-8"
    )
    checker = Checker(CheckedDocuments(folder / "handbook"))
    text = f"Every visitor signs the book {hostile} at once. \u202eRefunds are paid within 14 days of the request."
    page = report_page(checker.check([Answer(hostile, text)]), checker)
    assert "<script" not in page and "<img" not in page
    assert page.isascii() and "http" not in re.sub(r"&#\w+;", "", page).replace("http-equiv", "")
    selected = html.unescape(re.sub(r"<[^>]*>", "", page.partition("</style>")[2]))
    assert "[U+202E]Refunds are paid within 14 days of the request." in selected


def test_outputs_and_exit_codes(folder: Path) -> None:
    words = ["check", "answer.md", "--docs", "handbook"]
    done = run_factgym([*words, "--html", "out/page.html"], folder)
    assert done.returncode == 0, done.stderr
    assert [re.split(r" \(|:", line.partition(". ")[2])[0] for line in done.stdout.splitlines() if line[:1].isdigit()][
        :4
    ] == (STATUSES)
    assert "in refunds.md:5, Refund policy › Payment, characters 29 to 76" in done.stdout
    assert (folder / "out" / "page.html").read_text("ascii").startswith("<!doctype html>")
    assert run_factgym([*words, "--fail-on", "contradicted,unsupported"], folder).returncode == 1
    data = json.loads(run_factgym(["check", "--docs", "handbook", "--json"], folder, text=ANSWER).stdout)
    assert [claim["status"] for claim in data["answers"][0]["claims"]] == STATUSES
    assert data["answers"][0]["counts"] == {**dict.fromkeys(sorted(STATUSES), 1), "cannot_judge": 0}
    claim = ["check", "--claim", "Refunds are paid within 14 days of the request.", "--docs", "handbook"]
    assert run_factgym([*claim, "--fail-on", "contradicted,unsupported,overclaim"], folder).returncode == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["missing.md", "--docs", "handbook"], "missing.md cannot be read"),
        (["answer.md", "--docs", "missing"], "missing: no such folder"),
        (["answer.md", "--docs", "handbook", "--fail-on", "contradictd"], "Did you mean 'contradicted'?"),
        (["answer.md", "--docs", "handbook", "--claim", "It holds for all."], "not both"),
        (["answer.md", "--docs", "handbook", "--agent", "nlj"], "Did you mean 'nli'? There are: rules, nli"),
        (["answer.md", "--docs", "handbook", "--agent-set", "top_p=1"], "'rules' takes no settings (top_p)"),
        (["--docs", "handbook"], "no sentence in it states anything"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder: Path, words: list[str], problem: str) -> None:
    done = run_factgym(["check", *words], folder, text="Hello.")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and problem in done.stderr, done.stderr


def test_nothing_is_left_out_in_silence(folder: Path) -> None:
    """A sentence that is not judged, a file that is not read and a claim on which there is no verdict are all named."""
    (folder / "handbook" / "prices.csv").write_text("Plan;Fee\nBasic;10 euros\nPro;20 euros\n", "utf-8")
    (folder / "handbook" / "photo.png").write_bytes(b"\x89PNG\r\n")
    text = "# Fees\n\nThe fee of the Basic plan is 10 euros. The fee of the Basic plan is 20 euros. Why? Der Hund ist braun.\n"
    done = run_factgym(["check", "--docs", "handbook"], folder, text=text)
    assert "1. supported" in done.stdout and "3. cannot judge" in done.stdout
    assert "2. unsupported" in done.stdout or "2. contradicted" in done.stdout
    assert "No claims: 1 heading, 1 question." in done.stdout
    assert "Not read: photo.png: of a kind that is not read" in done.stdout
    assert run_factgym(["check", "--docs", "handbook", "--fail-on", "cannot_judge"], folder, text=text).returncode == 1
    answer = json.loads(run_factgym(["check", "--docs", "handbook", "--json"], folder, text=text).stdout)["answers"][0]
    assert answer["counts"]["cannot_judge"] == 1 and [entry["reason"] for entry in answer["not_judged"]] == [
        "heading",
        "question",
    ]


def test_python_gets_the_report_of_the_command(folder: Path) -> None:
    from factgym.check import acheck_text, check_text

    done = run_factgym(["check", "--docs", "handbook", "--json"], folder, text=ANSWER)
    report = check_text(ANSWER, folder / "handbook")
    assert json.loads(report.to_json())["answers"][0]["claims"] == json.loads(done.stdout)["answers"][0]["claims"]
    assert str(report) == run_factgym(["check", "--docs", "handbook"], folder, text=ANSWER).stdout.rstrip("\n")
    assert report.to_html().startswith("<!doctype html>")
    by_name = asyncio.run(acheck_text("The mill has four floors.", {"mill.txt": "The mill has four floors."}))
    assert [(claim.status, claim.quotes[0].location.title) for claim in by_name.claims] == [("supported", "Mill")]
    with pytest.raises(DataError, match="no sentence"):
        check_text("# Heading", {"a": "The mill has four floors."})
