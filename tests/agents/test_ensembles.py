"""Ensembles: the vote against a brute-force count, members that fail, the record, and that voting helps."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import math
import pickle
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import factgym
from factgym.agents.agent import Model, agent_from_model
from factgym.agents.ensembles import MALFORMED, ActionKey, BestOf, MajorityVote, MeanLogprob, count
from factgym.agents.resolve import find_scripted_agent
from factgym.core.errors import ConfigError
from factgym.core.policy import ContextOverflowError, PolicyError
from factgym.core.seeds import derive

ASK = [{"role": "user", "content": "Go on."}]


def run(awaitable):
    return asyncio.run(awaitable)


def call(name, /, **arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def native(name, id="c", content=None, /, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


class Says:
    """A model that answers every turn with what `reply(seed)` gives; an exception is raised."""

    def __init__(self, reply, name="says"):
        self.reply = reply if callable(reply) else lambda seed: reply
        self.name = name
        self.seeds = []
        self.closed = 0
        self.bad_close = None

    def start(self, seed):
        self.seeds.append(seed)
        model = self

        class Episode:
            def act(self, messages, tools):
                reply = model.reply(seed)
                if isinstance(reply, Exception):
                    raise reply
                return reply

        return Episode()

    def act(self, messages, tools):
        return self.start(0).act(messages, tools)

    def describe(self):
        return {"kind": "test", "name": self.name}

    async def close(self):
        self.closed += 1
        if self.bad_close:
            raise self.bad_close


def play(ensemble, seed=0):
    return run(ensemble.start(seed).act(ASK, []))


def models(*replies):
    return [Says(reply, f"m{i}") for i, reply in enumerate(replies)]


@given(st.lists(st.sampled_from(["a", "b", "c", MALFORMED]), min_size=1, max_size=9))
def test_the_vote_equals_a_count_of_every_pair(keys):
    """Brute force: an index wins when no other is better by (votes, well-formed, earlier)."""

    def beats(i, j):
        votes_i, votes_j = (sum(key == keys[k] for key in keys) for k in (i, j))
        if votes_i != votes_j:
            return votes_i > votes_j
        if (keys[i] == MALFORMED) != (keys[j] == MALFORMED):
            return keys[j] == MALFORMED
        return i < j

    [winner] = [i for i in range(len(keys)) if all(i == j or beats(i, j) for j in range(len(keys)))]
    assert count(keys) == (winner, keys.count(keys[winner]))


def test_every_small_vote_is_right_end_to_end():
    forms = {"a": call("read", id="x"), "b": native("read", id="y"), "m": "I am not sure."}
    for ballot in itertools.product("abm", repeat=3):
        reply = play(MajorityVote(models(*(forms[item] for item in ballot))))
        votes = Counter(ballot)
        best = max(votes.values())
        ahead = [item for item in ballot if votes[item] == best]
        expected = next((item for item in ahead if item != "m"), "m")
        notes = reply["completion"]["notes"]
        assert (ballot[notes["chosen"]], notes["votes"], notes["members"]) == (expected, best, 3)
        assert notes["chosen"] == ballot.index(expected)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (call("read", id="a"), native("read", "id-1", id="a"), True),
        (native("read", "id-1", "I think so.", id="a"), native("read", "id-2", None, id="a"), True),
        ("First. " + call("search", query="x", k=3), '{"tool": "search", "arguments": {"k": 3, "query": "x"}}', True),
        (call("search", query="x", k=3), call("search", query="x", k=4), False),
        (call("read", id="a"), call("open", id="a"), False),
        (call("read", id="a") + call("read", id="b"), call("read", id="b") + call("read", id="a"), False),
        (
            call("submit", final_verdict="supported", claims=[1]),
            call("submit", final_verdict="supported", claims=[]),
            True,
        ),
        (call("submit", final_verdict="supported"), call("submit", final_verdict="overclaim"), False),
        (call("submit", final_verdict="supported"), '{"final_verdict": "Supported ", "claims": []}', True),
        (call("submit", label="Refuted", why="x"), call("submit", label="Refuted", why="y"), True),
        (call("submit", label=["a"]), call("submit", label=["b"]), False),
        ("nothing", "<tool_call>{broken</tool_call>", True),
        ("nothing", call("read", id="a"), False),
    ],
)
def test_actions_with_the_same_effect_have_the_same_key(first, second, same):
    def as_message(reply):
        return {"role": "assistant", "content": reply} if isinstance(reply, str) else reply

    key = ActionKey()
    assert (key(as_message(first)) == key(as_message(second))) is same
    assert (key(as_message(first)) == MALFORMED) is (first == "nothing")


def test_the_key_can_be_another():
    exact = ActionKey(verdicts=())
    replies = [call("submit", label="a", why=str(i)) for i in range(3)]
    keys = [exact({"role": "assistant", "content": text}) for text in replies]
    assert len(set(keys)) == 3
    tagged = ActionKey(tags={"search": ("search", "query")})
    assert tagged({"role": "assistant", "content": "<search>x</search>"}) == tagged(native("search", query="x"))
    vote = MajorityVote(models("yes, a", "no, b", "no, c"), key=lambda message: message["content"][:2])
    reply = play(vote)
    assert (reply["content"], reply["completion"]["notes"]["votes"]) == ("no, b", 2)
    assert "lambda" in vote.describe()["key"]["name"]
    assert pickle.loads(pickle.dumps(tagged)) == tagged
    assert copy.deepcopy(ActionKey()) == ActionKey()


def test_members_start_with_seeds_of_their_own_and_an_episode_repeats():
    model = Says(lambda seed: call("read", id=str(random.Random(seed).randrange(2))))
    vote = MajorityVote(model, 5)
    first, again = play(vote, 11), play(vote, 11)
    assert first == again
    assert model.seeds == [derive(11, "member", i) for i in range(5)] * 2
    assert len(set(model.seeds)) == 5
    chosen = {json.dumps(play(vote, seed)["content"]) for seed in range(12)}
    assert len(chosen) == 2


def test_members_answer_at_the_same_time():
    class Meeting:
        """Answers only when all four members are there."""

        def __init__(self):
            self.here = 0
            self.all = asyncio.Event()

        def start(self, seed):
            return self

        async def act(self, messages, tools):
            self.here += 1
            if self.here == 4:
                self.all.set()
            await self.all.wait()
            return call("read", id="a")

        def describe(self):
            return {}

        async def close(self):
            pass

    async def meet():
        return await asyncio.wait_for(MajorityVote(Meeting(), 4).start(0).act(ASK, []), 30)

    assert run(meet())["completion"]["notes"]["votes"] == 4


def test_blocking_members_are_called_in_threads():
    import threading

    barrier = threading.Barrier(3, timeout=30)

    def reply(seed):
        barrier.wait()
        return call("read", id="a")

    assert play(MajorityVote(Says(reply), 3, blocking=True))["completion"]["notes"]["votes"] == 3


def with_completion(text, **completion):
    return {"role": "assistant", "content": text, "completion": completion}


def test_the_completion_sums_all_usage_and_is_else_the_winners():
    a = with_completion(
        call("read", id="a"),
        raw="raw a",
        model="tiny",
        finish_reason="stop",
        usage={"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 8},
        requests=2,
        retries=[{"cause": "timeout", "waited": 0.5}],
        notes={"tools": "text", "members": "overwritten"},
    )
    b = with_completion(
        call("read", id="b"), raw="raw b", usage={"prompt_tokens": 20, "completion_tokens": 3}, requests=1
    )
    reply = play(MajorityVote(models(b, a, a)))
    assert reply["content"] == call("read", id="a")
    assert reply["completion"] == {
        "raw": "raw a",
        "model": "tiny",
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 40, "completion_tokens": 7, "cached_tokens": 16},
        "requests": 5,
        "retries": [{"cause": "timeout", "waited": 0.5}] * 2,
        "notes": {"tools": "text", "members": 3, "chosen": 1, "votes": 2},
    }
    assert a["completion"]["notes"] == {"tools": "text", "members": "overwritten"}  # the member's own is not touched
    plain = play(MajorityVote(models("x", "x")))
    assert plain["completion"] == {"notes": {"members": 2, "chosen": 0, "votes": 2}}


RATE = PolicyError("rate_limit", "429")
DOWN = PolicyError("connection", "refused")
LONG = ContextOverflowError("too long")
READ = call("read", id="a")


@pytest.mark.parametrize(
    ("replies", "quorum", "outcome"),
    [
        ([READ, READ, RATE], None, {"answered": 2, "failed": {"rate_limit": 1}}),
        ([READ, RATE, DOWN], None, "quorum"),
        ([READ, RATE, DOWN], 1, {"answered": 1, "failed": {"connection": 1, "rate_limit": 1}}),
        ([READ, READ, RATE], 3, "quorum"),
        ([RATE, RATE, RATE], 1, "quorum"),
        ([LONG, READ, LONG], None, {"answered": 1}),
        ([LONG, LONG, LONG], None, "overflow"),
        ([LONG, LONG, RATE], None, "overflow"),
        ([LONG, RATE, RATE], None, "quorum"),
        ([LONG, RATE, READ], None, {"answered": 1, "failed": {"rate_limit": 1}}),
    ],
)
def test_members_that_cannot_answer(replies, quorum, outcome):
    vote = MajorityVote(models(*replies), quorum=quorum)
    if outcome == "overflow":
        with pytest.raises(ContextOverflowError):
            play(vote)
    elif outcome == "quorum":
        with pytest.raises(PolicyError) as caught:
            play(vote)
        assert caught.value.cause == "quorum"
        assert not caught.value.fatal
        for reply in replies:
            if isinstance(reply, PolicyError):
                assert f"{reply.cause} ({reply})" in str(caught.value)
    else:
        notes = play(vote)["completion"]["notes"]
        assert {key: notes[key] for key in ("answered", "failed") if key in notes} == outcome
        assert replies[notes["chosen"]] == READ


def test_a_fatal_fault_and_a_bug_stop_the_others_and_come_out_as_they_are():
    class Waits(Says):
        stopped = 0

        def start(self, seed):
            outer = self

            class Episode:
                async def act(self, messages, tools):
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        outer.stopped += 1
                        raise

            return Episode()

    for error in (PolicyError("auth", "wrong key", fatal=True), ZeroDivisionError("a bug")):
        waits = Waits(READ)
        vote = MajorityVote([waits, Says(error), waits])

        async def stopped(vote=vote, error=error, waits=waits):
            with pytest.raises(type(error)) as caught:
                async with asyncio.timeout(30):
                    await vote.start(0).act(ASK, [])
            assert caught.value is error
            assert waits.stopped == 2  # at once, not when the loop ends

        run(stopped())


def test_members_are_prepared_before_a_run():
    item, two = models(READ, READ)
    prepared = []

    async def prepare():
        prepared.append("one")

    item.prepare = prepare
    run(agent_from_model("both", BestOf([MajorityVote(item, 3), two, item], 3, score=lambda *_: 1.0)).prepare())
    assert prepared == ["one", "one"]


def test_an_ensemble_is_a_model_that_describes_and_closes_its_own():
    item, two = models(READ, READ)
    inner = MajorityVote(item, 3)
    outer = BestOf([inner, two, inner], 4, score=lambda messages, tools, message: 1.0)
    assert isinstance(outer, Model)
    about = outer.describe()
    assert json.loads(json.dumps(about)) == about
    assert (about["kind"], about["n"], about["quorum"]) == ("best-of", 4, 3)
    assert about["models"][0]["models"] == [{"kind": "test", "name": "m0"}]
    agent = agent_from_model("both", outer)
    assert agent.describe() == about
    two.bad_close = OSError("stuck")
    with pytest.raises(OSError, match="stuck"):
        run(outer.close())
    assert (item.closed, two.closed) == (1, 1)
    assert run(outer.act(ASK, []))["completion"]["notes"]["chosen"] == 0


def test_settings_that_make_no_ensemble_are_refused():
    model = Says(READ)
    for arguments, text in (
        (([],), "at least one model"),
        ((model,), "needs n"),
        (([model, model, model], 2), "at least the number of models, 3"),
        ((model, 0), "at least"),
    ):
        with pytest.raises(ConfigError, match=text):
            MajorityVote(*arguments)
    with pytest.raises(ConfigError, match="quorum must be from 1 to 3"):
        MajorityVote(model, 3, quorum=4)
    assert [member.name for member in MajorityVote(models(READ, READ), 5).members] == ["m0", "m1", "m0", "m1", "m0"]


def tokens(text, *logprobs):
    return with_completion(text, logprobs=[{"token": "t", "logprob": logprob} for logprob in logprobs])


@given(st.lists(st.lists(st.floats(min_value=-20, max_value=0), min_size=1, max_size=6), min_size=1, max_size=5))
def test_the_likeliest_reply_per_token_is_played(rows):
    reply = play(BestOf([Says(tokens(str(i), *row)) for i, row in enumerate(rows)], len(rows)))
    means = [math.fsum(row) / len(row) for row in rows]
    notes = reply["completion"]["notes"]
    assert notes["chosen"] == means.index(max(means)) == int(reply["content"])
    assert notes["scores"] == pytest.approx(means)


def test_best_of_without_log_probabilities_names_the_setting():
    with pytest.raises(ConfigError, match="logprobs=true"):
        play(BestOf(Says(READ), 2))
    with pytest.raises(ConfigError, match="logprobs=true"):
        play(BestOf(Says(with_completion(READ, logprobs=None)), 2))
    reply = play(BestOf(models(tokens("empty"), tokens("said", -9.0))))
    assert (reply["content"], reply["completion"]["notes"]["scores"]) == ("said", [None, -9.0])
    assert MeanLogprob()(ASK, [], tokens("x", -1.0, -3.0)) == -2.0


def test_a_users_score_plain_or_async_sees_messages_tools_and_reply():
    seen = []

    def plain(messages, tools, message):
        seen.append((messages, tools, message["content"]))
        return len(message["content"])

    async def waiting(messages, tools, message):
        await asyncio.sleep(0)
        return plain(messages, tools, message)

    for score in (plain, waiting):
        reply = play(BestOf(models("a", "ccc", "bb", "ddd"), score=score))
        assert (reply["content"], reply["completion"]["notes"]["scores"]) == ("ccc", [1, 3, 2, 3])
    assert seen[0] == (ASK, [], "a")
    infinite = BestOf(models("a", "b"), score=lambda m, t, message: {"a": -math.inf, "b": -5}[message["content"]])
    reply = play(infinite)
    assert (reply["content"], reply["completion"]["notes"]["scores"]) == ("b", [None, -5])
    json.dumps(reply, allow_nan=False)
    for wrong in (math.nan, "good"):
        with pytest.raises(ConfigError, match="must be a number"):
            play(BestOf(models("a", "b"), score=lambda m, t, message, wrong=wrong: wrong))
    with pytest.raises(PolicyError, match="could be scored") as caught:
        play(BestOf(models("a", "b"), score=lambda m, t, message: None))
    assert caught.value.cause == "unscored"


VERDICTS = ["supported", "partially_supported", "unsupported", "contradicted", "overclaim"]


class Noisy:
    """The oracle of the episode in `env`, that gives another verdict now and then, as its seed says."""

    def __init__(self, env, wrong):
        self.env = env
        self.wrong = wrong

    def start(self, seed):
        inner = find_scripted_agent("claimcheck-multihop", "oracle").start(self.env, 0)
        rng = random.Random(seed)
        wrong = self.wrong

        class Episode:
            def act(self, messages, tools):
                text = inner.act(messages, tools)
                if '"final_verdict"' in text and rng.random() < wrong:
                    body = json.loads(text.removeprefix("<tool_call>").removesuffix("</tool_call>"))
                    given = body["arguments"]["final_verdict"]
                    body["arguments"]["final_verdict"] = rng.choice(
                        [verdict for verdict in VERDICTS if verdict != given]
                    )
                    text = f"<tool_call>{json.dumps(body)}</tool_call>"
                return text

        return Episode()

    def describe(self):
        return {"kind": "noisy", "wrong": self.wrong}

    async def close(self):
        pass


async def episode(env, policy, task):
    env.reset(seed=0, options={"task": task})
    policy = policy()
    while env.episode.stop is None:
        reply = policy.act(env.policy_prompt(), env.available_tools())
        env.step(await reply if asyncio.iscoroutine(reply) else reply)
    return env.episode.report.total


def rewards(build, tasks=60):
    env = factgym.make("claimcheck-multihop")

    async def all_of():
        return [await episode(env, lambda task=task: build(env).start(1000 + task), task) for task in range(tasks)]

    return asyncio.run(all_of())


def test_five_votes_are_better_than_one_in_a_real_environment():
    alone = rewards(lambda env: Noisy(env, 0.4))
    together = rewards(lambda env: MajorityVote(Noisy(env, 0.4), 5))
    assert together == rewards(lambda env: MajorityVote(Noisy(env, 0.4), 5))
    right = [sum(item > 0.9 for item in some) / len(some) for some in (alone, together)]
    # One is right with probability 0.6; of five, the plurality is right with probability above 0.85.
    assert 0.4 < right[0] < 0.8
    assert right[1] > right[0] + 0.15
    assert sum(together) > sum(alone)
    perfect = rewards(lambda env: MajorityVote(Noisy(env, 0.0), 3), 5)
    assert perfect == pytest.approx([1.0] * 5)
