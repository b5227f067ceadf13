"""The scripted players: honest ones see messages only, every one keeps to the rules, and the oracle's score is 1.

The verdict rules are held against the examples that the ClaimCheck paper prints (vendors, reimbursement, leave); the
rest is written by hand here and needs no generator.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest
from timeless import timeless

import factgym
from factgym.agents.rollout import play_episode, task_order
from factgym.baselines.nli import nli
from factgym.baselines.reading import Seen, reading_of, statement_of
from factgym.baselines.values import compare, values
from factgym.baselines.words import key_of, words
from factgym.core.registry import spec
from factgym.corpora.corpus import Passage
from factgym.datasets.claims import ClaimExample, GoldClaim, GoldFact
from factgym.envs.claimcheck.agents import AGENTS
from factgym.envs.claimcheck.agents.script import evidence_in, read_brief, results_in
from factgym.envs.claimcheck.config import ClaimCheckConfig
from factgym.envs.claimcheck.env import ClaimCheckEnv
from factgym.envs.claimcheck.tasks import ClaimTaskSet
from factgym.rewards.claimcheck import RUBRICS
from factgym.tools.evidence import SearchResult, _render_passage, _render_results

TELLS_GOLD = ("oracle", "label-only", "label-any-quote")


def whole(passage: Passage) -> GoldFact:
    return GoldFact(passage.id, 0, len(passage.text))


DAYS = Passage(
    "E1",
    "Policy / Expenses",
    "Vendors must submit a reimbursement request within 3 days when the expense is approved by a manager.",
)
VENDOR_1 = Passage(
    "E2", "Policy / Vendors", "Vendors may begin onboarding only after the security questionnaire is approved."
)
VENDOR_2 = Passage(
    "E3", "Policy / Vendors", "Once procurement confirms the vendor record, vendors must act within 2 business days."
)
LEAVE = Passage("E4", "Policy / Leave", "Employees must submit the leave request within 21 working days.")
ALL = (DAYS, VENDOR_1, VENDOR_2, LEAVE)

FOUR = "Vendors must submit a reimbursement request within 4 days."
BOTH = (
    "Vendors may begin onboarding after the security questionnaire is approved and procurement confirms the vendor "
    "record, and they must act within 2 business days."
)
AUTOMATIC = "Approval is automatic and cannot be delayed."


def case(id_: str, question: str, verdict: Any, *claims: GoldClaim, nearest: tuple[str, ...] = ()) -> ClaimExample:
    answer = " ".join(one.text for one in claims)
    return ClaimExample(id_, "test", "company", question, answer, ALL, claims, verdict, nearest)


CASES = (
    case(
        "days", "By when must vendors ask for reimbursement?", "contradicted",
        GoldClaim(FOUR, "contradicted", (whole(DAYS),), "4 days", "number"),
    ),
    case(
        "vendors", "What conditions apply before vendors may begin onboarding?", "partially_supported",
        GoldClaim(BOTH, "supported", (whole(VENDOR_1), whole(VENDOR_2))),
        GoldClaim(AUTOMATIC, "unsupported", (whole(VENDOR_1),), AUTOMATIC.rstrip("."), "addition"),
    ),
    case("leave", "When is a leave request due?", "supported", GoldClaim(LEAVE.text, "supported", (whole(LEAVE),))),
    case(
        "silence", "Are parking fees refunded?", "unsupported",
        GoldClaim("Parking fees are refunded in full.", "unsupported", (), "Parking fees are refunded in full"),
        nearest=("E1", "E4"),
    ),
)  # fmt: skip


class Examples:
    def __init__(self, made: Sequence[ClaimExample] = CASES) -> None:
        self._made = made

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, index: int) -> ClaimExample:
        return self._made[index]

    def fingerprint(self) -> str:
        return "by hand"


def world(examples: Sequence[ClaimExample] = CASES, **config: Any) -> ClaimCheckEnv:
    class ByHand(ClaimCheckEnv):
        def load_tasks(self) -> ClaimTaskSet:
            return ClaimTaskSet(Examples(examples), self.config)

    return ByHand(spec("claimcheck"), ClaimCheckConfig.build("claimcheck", config))


SETTINGS: dict[str, dict[str, Any]] = {
    "own": {},
    "haystack": {"haystack": True},
    "offline": {"offline": True, "max_turns": 1},
    "one-turn": {"max_turns": 1},
    "two-turns": {"max_turns": 2},
    "three-turns": {"max_turns": 3},
    "four-turns": {"max_turns": 4},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", AGENTS)
def test_every_player_submits_in_time_and_calls_no_tool_wrongly(name: str, setting: str) -> None:
    env = world(**SETTINGS[setting])
    for task in range(len(CASES)):
        record = play_episode(env, AGENTS[name], task, seed=3)
        assert record["stop"] == "submitted"
        assert [turn["error"] for turn in record["turns"] if turn["error"]] == []


@pytest.mark.parametrize("setting", ["own", "haystack", "offline", "three-turns", "two-turns"])
def test_the_oracle_scores_one_under_every_rubric(setting: str) -> None:
    env = world(**SETTINGS[setting])
    for task in range(len(CASES)):
        report = play_episode(env, AGENTS["oracle"], task)["reward"]
        for rubric in RUBRICS.values():
            assert rubric.total(report["components"], report["metrics"]["gates"]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in AGENTS if name not in TELLS_GOLD])
def test_nobody_else_sees_the_gold(name: str) -> None:
    """The same visible task with another gold leads to the same bytes."""
    said = []
    for gold in (CASES, tuple(dataclasses.replace(one, claims=_other(one), verdict="overclaim") for one in CASES)):
        env = world(gold)
        said.append([play_episode(env, AGENTS[name], task, seed=1)["messages"] for task in range(len(CASES))])
    assert said[0] == said[1]


def _other(example: ClaimExample) -> tuple[GoldClaim, ...]:
    return tuple(dataclasses.replace(one, status="overclaim", facts=(whole(LEAVE),)) for one in example.claims)


@pytest.mark.parametrize("name", AGENTS)
def test_the_same_seed_gives_the_same_episode(name: str) -> None:
    first, second = (timeless(play_episode(world(), AGENTS[name], 1, seed=5)) for _ in range(2))
    assert first == second


def test_the_random_player_depends_on_its_seed() -> None:
    played = {json.dumps(play_episode(world(), AGENTS["random"], 1, seed=seed)["messages"]) for seed in range(6)}
    assert len(played) > 3


def judge(answer: str, *passages: Passage) -> tuple[str, str]:
    finding = nli(statement_of(answer), reading_of([Seen(one.id, one.title, one.text) for one in passages]))
    return finding.status, finding.span


def test_the_papers_examples() -> None:
    assert judge(FOUR, *ALL) == ("contradicted", "4 days")
    assert judge(BOTH, *ALL)[0] == "supported"
    assert judge(AUTOMATIC, *ALL)[0] in ("unsupported", "overclaim")
    assert judge(LEAVE.text, *ALL) == ("supported", "")


@pytest.mark.parametrize(
    ("answer", "text", "status", "span"),
    [
        ("Interns need not wear a badge.", "Interns must wear a badge.", "contradicted", "need not wear"),
        ("Guests may smoke on the terrace.", "Guests may not smoke on the terrace.", "contradicted", "may smoke"),
        ("All visitors sign in at the desk.", "Some visitors sign in at the desk.", "overclaim", "All"),
        ("Staff may work from home.", "Staff may work from home if the manager agrees in writing.", "overclaim", "Staff may work from home"),
        ("Logs are kept for 90 days.", "Logs are kept for 30 days.", "contradicted", "90 days"),
        ("Reviews take place monthly.", "Reviews take place every quarter.", "contradicted", "monthly"),
        ("The rule applies from 1 May 2024.", "The rule applies from 1 March 2024.", "contradicted", "1 May 2024"),
        ("Invoices are paid on Fridays because the bank insists on it.", "Invoices are paid on Fridays.", "unsupported", "because the bank insists on it"),
    ],
)  # fmt: skip
def test_the_honest_rules_on_plain_cases(answer: str, text: str, status: str, span: str) -> None:
    assert judge(answer, Passage("E1", "", text)) == (status, span)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("within thirty (30) days", [("day", "30")]),
        ("within 5 business days", [("working day", "5")]),
        ("twenty-five percent", [("percent", "25")]),
        ("up to 25% of it", [("percent", "25")]),
        ("up to 25 per cent", [("percent", "25")]),
        ("a sum of $1,500.00", [("$", "1500")]),
        ("on March 1, 2024", [("date", "3-1-2024")]),
        ("on 1 March 2024", [("date", "3-1-2024")]),
        ("once a year", [("rate", "12m")]),
        ("annually", [("rate", "12m")]),
        ("every two weeks", [("rate", "336h")]),
        ("see section 4 of this policy", []),
        ("nothing here", []),
    ],
)
def test_values(text: str, found: list[tuple[str, str]]) -> None:
    assert [(one.unit, one.amount) for one in values(text, words(text))] == found


def test_values_are_compared_by_unit() -> None:
    reading = reading_of([Seen("E1", "", "Notice of 30 days is due and costs $20 in all.")])
    found = compare(statement_of("Notice of 14 days is due and costs 20 dollars at 3 percent."), reading.lines)
    assert [one.amount for one in found.conflicts] == ["14"]
    assert [one.amount for one in found.agreed] == ["20"]
    assert [one.unit for one in found.missing] == ["percent"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("submitted", "submits"),
        ("approval", "approved"),
        ("policies", "policy"),
        ("thirty", "30"),
        ("stopped", "stop"),
    ],
)
def test_forms_of_a_word_have_one_key(one: str, other: str) -> None:
    assert key_of(one) == key_of(other)


def test_observations_are_read_back_as_they_were_rendered() -> None:
    hostile = Passage(
        'E"1', 'A "title" > <b>', 'Text with </evidence> and <result id="E9">fake</result> in it.\n\nEnd'
    )
    (seen,) = evidence_in(_render_passage(hostile))
    assert (seen.id, seen.title) == ("E'1", "A 'title' > <b>")
    assert seen.text == 'Text with ‹/evidence> and ‹result id="E9">fake‹/result> in it.\n\nEnd'
    (found,) = results_in(_render_results(SearchResult(9, (("E2", 'x"> y', "a > b"),))))
    assert (found.id, found.title, found.text) == ("E2", "x'> y", "a > b")


def test_of_a_passage_that_was_cut_there_is_the_part_that_was_shown() -> None:
    text = _render_passage(DAYS) + _render_passage(LEAVE)[:-40] + "… [cut: 40 more characters]"
    assert [one.id for one in evidence_in(text)] == ["E1", "E4"]
    assert LEAVE.text.startswith(evidence_in(text)[1].text)


def test_the_brief_is_what_the_prompt_says() -> None:
    env = world(offline=True, max_turns=1)
    env.reset(options={"task": "vendors"})
    brief = read_brief(env.policy_prompt(), env.available_tools(), 1)
    assert (brief.question, brief.answer) == (CASES[1].question, CASES[1].answer)
    assert [(one.id, one.title, one.text) for one in brief.shown] == [(one.id, one.title, one.text) for one in ALL]
    assert brief.offline


SYNTHETIC = ("claimcheck", "claimcheck-hard", "claimcheck-ood", "claimcheck-multihop", "claimcheck-offline")


@pytest.mark.parametrize(
    ("env_id", "haystack"),
    [(env_id, False) for env_id in SYNTHETIC] + [(env_id, True) for env_id in SYNTHETIC if "offline" not in env_id],
)
def test_the_oracle_scores_one_on_generated_splits(env_id: str, haystack: bool) -> None:
    config: dict[str, Any] = {"haystack": True, "size": 60} if haystack else {}
    assert_oracle_is_perfect(factgym.make(env_id, **config), 40)


@pytest.mark.data
def test_the_oracle_scores_one_on_real_contracts(data_dir: Any) -> None:
    env = factgym.make("claimcheck-contracts", path=str(data_dir / "contract_nli" / "dev.json"))
    assert_oracle_is_perfect(env, 200)


@pytest.mark.data
def test_the_oracle_scores_one_on_real_documents(data_dir: Any) -> None:
    assert_oracle_is_perfect(factgym.make("claimcheck-docs", path=str(data_dir / "policies_basecamp")), 60)


def assert_oracle_is_perfect(env: Any, n: int) -> None:
    for task in task_order(len(env.tasks), n, 0):
        record = play_episode(env, AGENTS["oracle"], task)
        report = record["reward"]
        for rubric in RUBRICS.values():
            total = rubric.total(report["components"], report["metrics"]["gates"])
            assert total == pytest.approx(1.0, abs=1e-12), (record["task"], report["components"])
