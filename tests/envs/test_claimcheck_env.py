"""The ClaimCheck environment: what counts as read, every form of submission, the published schema, span credits, and
evidence of silence."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from claim_examples import Examples, example
from jsonschema import Draft202012Validator

import factgym
from factgym.agents.resolve import find_scripted_agent, scripted_agents
from factgym.agents.rollout.engine import play_episode, play_many
from factgym.core.calls import ToolCall
from factgym.core.messages import message_text
from factgym.core.prompts import prompt
from factgym.core.tasks import clear_shared
from factgym.datasets.claims import STATUSES, VERDICTS, final_verdict
from factgym.envs.claimcheck import tasks as module
from factgym.envs.claimcheck.env import (
    SCHEMA_FILE,
    ClaimCheckEnv,
    ClaimCheckState,
    submit,
    verdict_schema,
    write_schema,
)
from factgym.rewards.claimcheck.evidence import QuoteRules
from factgym.tools.evidence import PassageLibrary
from factgym.tools.toolbox import Toolbox

GOLD = {
    "claims": [
        {
            "claim": "Staff get 20 days of leave.",
            "status": "supported",
            "evidence_ids": ["E1"],
            "quote": "Staff get 20 days of leave.",
            "reason": "The handbook says so.",
        },
        {
            "claim": "Probation lasts 15 days.",
            "status": "contradicted",
            "evidence_ids": ["E2"],
            "quote": ["Probation lasts 10 days."],
            "unsupported_span": "15 days",
            "reason": "It says “probation lasts 10 days”, not 15.",
        },
    ],
    "final_verdict": "partially_supported",
    "evidence_used": ["E1", "E2"],
}


class StartEnv(Protocol):
    def __call__(self, env_id: str = "claimcheck-multihop", **config: Any) -> ClaimCheckEnv: ...


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartEnv]:
    """Start an episode over one example by hand."""
    monkeypatch.setattr(module, "load_examples", lambda config: Examples([example(0)]))
    clear_shared()

    def start(env_id: str = "claimcheck-multihop", **config: Any) -> ClaimCheckEnv:
        env = cast(ClaimCheckEnv, factgym.make(env_id, **config))
        env.reset(seed=0)
        return env

    yield start
    clear_shared()


def act(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


def native(*calls: dict[str, Any]) -> dict[str, Any]:
    tool_calls = [
        {
            "id": f"c{i}",
            "type": "function",
            "function": {"name": call["tool"], "arguments": json.dumps(call["arguments"])},
        }
        for i, call in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": tool_calls}


def tagged(call: dict[str, Any]) -> str:
    return f"<tool_call>{json.dumps({'name': call['tool'], 'arguments': call['arguments']})}</tool_call>"


SUBMISSIONS = {
    "tool dict": act("submit", **GOLD),
    "native call": native(act("submit", **GOLD)),
    "tagged JSON": "I am done. " + tagged(act("submit", **GOLD)),
    "bare verdict": json.dumps(GOLD),
    "fenced verdict": f"Here it is:\n```json\n{json.dumps(GOLD, indent=1)}\n```",
    "message": {"role": "assistant", "content": json.dumps(GOLD)},
}


@pytest.mark.parametrize("way", SUBMISSIONS)
def test_gold_after_reading_scores_one_in_every_form(started: StartEnv, way: str) -> None:
    env = started()
    env.step(act("read", id="E1"))
    env.step("<read>E2</read>")
    _, reward, terminated, _, info = env.step(SUBMISSIONS[way])
    assert terminated
    report = info["reward"]
    assert reward == report.total == pytest.approx(1.0)
    assert set(report.components.values()) == {1.0}
    assert report.metrics["read"] == report.metrics["cited"] == report.metrics["gold_evidence"] == ["E1", "E2"]
    assert sum(span.value for span in report.spans) == pytest.approx(1.0)


@pytest.mark.parametrize("way", SUBMISSIONS)
def test_offline_the_evidence_is_in_the_prompt_and_counts_as_read(started: StartEnv, way: str) -> None:
    env = started("claimcheck-offline")
    assert [tool["function"]["name"] for tool in env.available_tools()] == ["submit"]
    assert (env.policy_prompt()[1]["content"] or "").count("<evidence ") == 2
    _, reward, terminated, _, _ = env.step(SUBMISSIONS[way])
    assert terminated
    assert reward == pytest.approx(1.0)


def test_offline_there_is_nothing_to_search(started: StartEnv) -> None:
    env = started("claimcheck-offline", max_turns=2)
    assert env.step(act("read", id="E1"))[4]["error"] == "unknown_tool"


def test_evidence_that_was_not_read_counts_as_not_cited(started: StartEnv) -> None:
    env = started(reward="v2")
    env.step(act("read", id="E1"))
    report = env.step(act("submit", **GOLD))[4]["reward"]
    assert report.metrics["read"] == ["E1"]
    assert report.metrics["cited"] == ["E1", "E2"]
    assert report.components["verdict"] == 1.0
    assert report.components["evidence"] == pytest.approx(2 / 3)
    assert report.components["quote"] == 0.5
    assert report.components["coverage"] == 0.5
    assert report.gates == {"verdict": pytest.approx(2 / 3 * 0.5 * 0.5)}


@pytest.mark.parametrize("form", ["native", "text"])
def test_passages_opened_in_the_submitting_message_count_as_unread(started: StartEnv, form: str) -> None:
    env = started(reward="v2")
    calls = [act("read", id="E1"), act("read", id="E2"), act("submit", **GOLD)]
    action = native(*calls) if form == "native" else "\n".join(map(tagged, calls))
    report = env.step(action)[4]["reward"]
    assert report.metrics["read"] == []
    assert report.components["evidence"] == report.components["quote"] == report.components["coverage"] == 0.0
    assert report.gates == {"verdict": 0.0}


def test_an_invalid_verdict_costs_a_turn_and_can_be_corrected(started: StartEnv) -> None:
    env = started()
    env.step(act("read", id="E1"))
    env.step(act("read", id="E2"))
    wrong = json.loads(json.dumps(GOLD))
    wrong["claims"][1]["status"] = "false"
    obs, reward, terminated, _, info = env.step(act("submit", **wrong))
    assert (reward, terminated, info["error"]) == (0.0, False, "invalid_arguments")
    assert "at $.claims[1].status: 'false' is not one of" in obs
    assert env.step(act("submit", **GOLD))[1] == pytest.approx(1.0)


def test_only_the_first_submission_counts(started: StartEnv) -> None:
    env = started()
    env.step(act("read", id="E1"))
    env.step(act("read", id="E2"))
    wrong = {**GOLD, "final_verdict": "supported"}
    _, reward, _, _, info = env.step(native(act("submit", **wrong), act("submit", **GOLD)))
    assert reward < 0.7
    assert info["reward"].metrics["verdict"] == "supported"
    assert info["messages"][1]["content"] == "The episode is over; this call was not done."


def test_without_a_submission_the_reward_is_zero_and_scored(started: StartEnv) -> None:
    env = started(max_turns=1)
    _, reward, _, truncated, info = env.step(act("read", id="E1"))
    report = info["reward"]
    assert (reward, truncated, report.status, report.total) == (0.0, True, "scored", 0.0)
    assert report.spans == ()
    assert report.metrics["verdict"] is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"split": "tset"}, "'multihop' has no split 'tset'. Did you mean 'test'?"),
        ({"reward": "v3"}, "there is no reward 'v3': use r0, gated, v2, judged or a Rubric"),
        ({"size": 0}, "size should be at least 1, not 0"),
        ({"offline": True, "haystack": True}, "cannot be combined with haystack=True"),
    ],
)
def test_invalid_settings_are_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        factgym.make("claimcheck-multihop", **config)
    assert message in str(caught.value)


# The published schema and the `submit` tool, with jsonschema as the judge of both

PUBLISHED: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))

CLAIM = {"claim": "A day has 24 hours.", "status": "supported", "evidence_ids": ["E1"], "quote": "24 hours"}
VERDICT: dict[str, Any] = {"claims": [CLAIM], "final_verdict": "supported"}


def verdict(**changes: Any) -> dict[str, Any]:
    return {**VERDICT, "claims": [{**CLAIM, **changes}]}


def test_the_published_file_is_the_tools_schema(tmp_path: Path) -> None:
    assert verdict_schema() == PUBLISHED
    assert {key: value for key, value in PUBLISHED.items() if key in submit.parameters} == submit.parameters
    write_schema(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text("utf-8") == SCHEMA_FILE.read_text("utf-8")


def test_the_schema_is_valid_and_names_the_labels_in_order() -> None:
    Draft202012Validator.check_schema(PUBLISHED)
    properties = PUBLISHED["properties"]
    assert properties["final_verdict"]["enum"] == list(VERDICTS)
    assert properties["claims"]["items"]["properties"]["status"]["enum"] == list(STATUSES)


VALID_VERDICTS = [
    VERDICT,
    {**VERDICT, "evidence_used": ["E1", "E2"]},
    verdict(quote=["one", "two"], unsupported_span="", reason="So it says."),
    verdict(evidence_ids=[], quote=""),
]
INVALID_VERDICTS = [
    {},
    {"claims": [CLAIM]},
    {"final_verdict": "supported"},
    {"claims": [], "final_verdict": "supported"},
    {"claims": [CLAIM] * 17, "final_verdict": "supported"},
    {**VERDICT, "final_verdict": "true"},
    {**VERDICT, "final_verdict": None},
    {**VERDICT, "confidence": 1.0},
    {**VERDICT, "claims": CLAIM},
    {**VERDICT, "evidence_used": "E1"},
    verdict(status="partially_supported"),
    verdict(evidence_ids="E1"),
    verdict(evidence_ids=[""]),
    verdict(evidence_ids=["E" * 81]),
    verdict(quote=None),
    verdict(quote=["q"] * 9),
    verdict(quote="q" * 4001),
    verdict(claim=""),
    verdict(note="x"),
]


@pytest.mark.parametrize("value", VALID_VERDICTS, ids=range(len(VALID_VERDICTS)))
def test_a_valid_verdict_is_submitted(value: dict[str, Any]) -> None:
    assert Draft202012Validator(PUBLISHED).is_valid(value)
    state = ClaimCheckState(PassageLibrary([]))
    assert Toolbox((submit,)).call(state, ToolCall("submit", value)).error is None
    assert state.submission is not None
    assert Draft202012Validator(PUBLISHED).is_valid(state.submission)


@pytest.mark.parametrize("value", INVALID_VERDICTS, ids=range(len(INVALID_VERDICTS)))
def test_an_invalid_verdict_is_refused_by_schema_and_tool(value: dict[str, Any]) -> None:
    assert not Draft202012Validator(PUBLISHED).is_valid(value)
    state = ClaimCheckState(PassageLibrary([]))
    error = Toolbox((submit,)).call(state, ToolCall("submit", value)).error
    assert error is not None and error.code == "invalid_arguments" and error.path is not None
    assert state.submission is None


def test_the_arguments_are_not_changed() -> None:
    value = verdict(quote="<think>24 hours", reason="x")
    before = json.dumps(value)
    state = ClaimCheckState(PassageLibrary([]))
    Toolbox((submit,)).call(state, ToolCall("submit", value))
    assert json.dumps(value) == before
    assert state.submission is not None
    assert state.submission["claims"][0]["quote"] == "‹think>24 hours"


# The verdict that follows from the statuses

STATED = {
    "prompt": lambda: prompt("factgym.envs.claimcheck", "system"),
    "offline prompt": lambda: prompt("factgym.envs.claimcheck", "offline"),
    "schema": lambda: verdict_schema()["properties"]["final_verdict"]["description"],
    "card": lambda: ClaimCheckEnv.__doc__ or "",
}


@pytest.mark.parametrize("text_name", STATED)
def test_the_stated_precedence_is_the_gold_one(text_name: str) -> None:
    """The first status of the stated order that occurs is the verdict of every set of statuses without support."""
    text = " ".join(STATED[text_name]().split()).replace("`", "")
    stated = re.search(
        r"contradicted(?: if any[a-z ]*, else |, )overclaim(?: if any[a-z ]*, else |, )unsupported", text
    )
    assert stated is not None
    order = re.findall("contradicted|overclaim|unsupported", stated[0])
    for count in range(1, 4):
        for statuses in itertools.combinations(("contradicted", "overclaim", "unsupported"), count):
            assert final_verdict(statuses) == next(status for status in order if status in statuses)
            assert final_verdict(("supported", *statuses)) == "partially_supported"


# Span credits

CREDIT_ENVS = ("claimcheck-multihop", "claimcheck-offline", "claimcheck-hard")


@pytest.mark.parametrize("reward", ["r0", "gated", "v2", "judged"])
@pytest.mark.parametrize("env_id", CREDIT_ENVS)
def test_credits_sum_to_the_total_and_lie_in_assistant_messages(env_id: str, reward: str) -> None:
    env = factgym.make(env_id, reward=reward)
    for agent in scripted_agents(env_id).values():
        for task in (0, 7, 11):
            record = play_episode(env, agent, task)
            total, spans = record["reward"]["total"], record["reward"]["spans"]
            assert sum(value for *_, value in spans) == pytest.approx(total, abs=1e-9), agent.name
            for message, start, end, _ in spans:
                credited = record["messages"][message]
                assert credited["role"] == "assistant"
                assert 0 <= start <= end <= len(message_text(credited))


def test_evidence_is_credited_to_reading_and_quotes_to_their_text() -> None:
    env = factgym.make("claimcheck-multihop")
    record = play_episode(env, scripted_agents("claimcheck-multihop")["oracle"], 5)
    gold = set(record["reward"]["metrics"]["gold_evidence"])
    readers = {
        turn["message"]
        for turn in record["turns"]
        if any(call["tool"] == "read" and call["arguments"]["id"] in gold for call in turn["calls"])
    }
    credited = {span[0] for span in record["reward"]["spans"]}
    assert readers <= credited
    last = max(credited)
    text = message_text(record["messages"][last])
    quotes = [text[start:end] for message, start, end, _ in record["reward"]["spans"] if message == last]
    passages = {passage["id"]: passage["text"] for passage in record["task_view"]["passages"]}
    assert any(any(quote in passage for passage in passages.values()) for quote in quotes)


# Evidence of silence: three passages over ContractNLI, one elsewhere


@pytest.mark.parametrize("count", [1, 2, 3])
def test_contracts_ask_for_as_many_passages_as_they_score(data_dir: Path, count: int) -> None:
    rules = QuoteRules(silence_passages=count, silence_share=1.0)
    env = factgym.make("claimcheck-contracts", path=str(data_dir / "contract_nli" / "dev.json"), rules=rules)
    obs, _ = env.reset(seed=0)
    assert (f"cite the {count} passages that come nearest" in obs) == (count > 1)
    assert ("silence" in env.prompt_hashes()) == (count > 1)
    records = list(play_many(env, find_scripted_agent("claimcheck-contracts", "oracle"), range(20)))
    assert [record["reward"]["total"] for record in records] == pytest.approx([1.0] * 20)
    silent = [record for record in records if record["reward"]["metrics"]["gold_verdict"] == "unsupported"]
    assert silent
    for metrics in (record["reward"]["metrics"] for record in silent):
        assert len(metrics["cited"]) == min(count, len(metrics["gold_evidence"]))  # a short contract may have fewer


def test_other_sources_need_one_passage(data_dir: Path) -> None:
    env = factgym.make("claimcheck-docs", path=str(data_dir / "policies_basecamp"))
    obs, _ = env.reset(seed=0)
    assert "that come nearest" not in obs
    assert env.config.scoring_rules.silence_passages == 1
    silent = [index for index in range(len(env.tasks)) if env.tasks[index].gold.nearest][:10]
    assert silent
    records = list(play_many(env, find_scripted_agent("claimcheck-docs", "oracle"), silent))
    assert [record["reward"]["total"] for record in records] == pytest.approx([1.0] * len(silent))
