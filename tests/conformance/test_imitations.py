"""No text imitates what delimits it: the attack set in every text of every environment, and in the policy's own words.

Attacks are planted where the environment reads its texts (passages with titles and ids, claims, questions, answers,
metadata), and in arguments that come back in errors and reviews. What a policy then sees is judged by the view of
`imitations`, which shares nothing with the code under test.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import pytest
from imitations import DATA, MARKER, imitations, survivors, view, without_own
from setups import Setup

from factgym.agents.judges.prompt import PROMPTS
from factgym.core.action import parse_action
from factgym.core.calls import ToolCall
from factgym.core.env import Env
from factgym.core.messages import message_text
from factgym.core.untrusted import attribute, delimited, neutralise, nonce_of, read_blocks
from factgym.datasets.attribution import AttributionClaim
from factgym.envs.eve.tasks import ProposerTaskSet
from factgym.envs.profact.tasks import ProFactTask
from factgym.tools.evidence import PassageLibrary
from factgym.training.seva.proposer import ProbeRequest, messages_for

BATCH = 12
_POISONED = ("claim", "question", "answer", "source", "text", "title", "speaker", "location", "reporting_source", "url")


def test_the_attack_set_is_large_and_each_attack_is_one() -> None:
    attacks = imitations("qzkv")
    assert len(DATA["evasions"]) >= 71 and len(DATA["tokens"]) >= 60 and len(attacks) == len(set(attacks)) > 140
    assert [attack for attack in attacks if not survivors(attack, "qzkv")] == []


def test_nothing_of_the_attack_set_survives() -> None:
    for attack in imitations("qzkv", all_tags=True):
        harmless = neutralise(attack)
        assert not survivors(harmless, "qzkv"), (attack, harmless)
        assert len(harmless) == len(attack) and neutralise(harmless) == harmless
        assert '"' not in view(attribute(attack)) and not survivors(attribute(attack), "qzkv")
        around = delimited("evidence", f"before {attack} after", "qzkv", id=attack, title=attack)
        (block,) = read_blocks(around)
        assert block.closed and len(block.text) == len(f"before {attack} after")
        assert block.attributes == {"id": attribute(attack), "title": attribute(attack)}


class Planted:
    """A source of items, with the attacks in the texts of the item that is read."""

    def __init__(self, items: Any, texts: Texts) -> None:
        self._items, self._texts = items, texts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Any:
        return self._texts.plant(self._items[index])


class Texts:
    """The attacks of the moment."""

    def __init__(self) -> None:
        self.batch: list[str] = []

    @property
    def text(self) -> str:
        return f" {MARKER} " + "\n".join(self.batch)

    def plant(self, item: Any) -> Any:
        """The item with the attacks at the end of its texts, so that offsets into them stay true."""
        if not dataclasses.is_dataclass(item) or isinstance(item, type):
            return item
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(item):
            value = getattr(item, field.name)
            if field.name in _POISONED and isinstance(value, str) and value:
                changes[field.name] = value + self.text
            elif field.name == "passages":
                changes[field.name] = tuple(map(self.plant, value))
        return dataclasses.replace(item, **changes)

    def plant_passage(self, passage: Any) -> Any:
        planted = self.plant(passage)
        return planted and dataclasses.replace(planted, id=planted.id + self.text)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Texts:
    """Attacks that `plant` puts in tasks, and that every passage of a library or a search has."""
    planted = Texts()
    search, page, make = ProFactTask.search, PassageLibrary.page, ProposerTaskSet.make

    def planted_task(tasks: Any, index: int) -> Any:
        task = make(tasks, index)
        return dataclasses.replace(task, document=planted.plant(task.document))

    monkeypatch.setattr(
        ProFactTask,
        "search",
        lambda task, query: [hit._replace(evidence=planted.plant(hit.evidence)) for hit in search(task, query)],
    )
    monkeypatch.setattr(
        PassageLibrary,
        "page",
        lambda library, start, stop: list(map(planted.plant_passage, page(library, start, stop))),
    )
    monkeypatch.setattr(ProposerTaskSet, "make", planted_task)
    return planted


def plant_library(env: Env[Any], texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library of the episode find passages with the attacks in them."""
    holders = (getattr(env, "state", None), getattr(getattr(env, "state", None), "tasks", None), env.tasks)
    for holder in holders:
        library = getattr(holder, "library", None) if getattr(env.config, "search", True) else None
        if library is not None and not hasattr(library.find, "original"):
            find = library.find
            replacement = lambda id_, find=find: find(id_) and texts.plant_passage(find(id_))  # noqa: E731
            replacement.original = find  # type: ignore[attr-defined]
            monkeypatch.setattr(library, "find", replacement)


def untrusted_texts(env: Env[Any]) -> Iterator[str]:
    """What a policy sees without the instructions, its own messages and the environment's own delimiters and example."""
    for message in env.policy_prompt():
        if message["role"] not in ("system", "assistant"):
            yield without_own((message["content"] or "").replace(env.example_call(), ""), env.nonce)


def actions(env: Env[Any], texts: Texts) -> Iterator[Any]:
    """Calls that show passages, refused calls, and arguments that are visible again."""
    names = [tool["function"]["name"] for tool in env.all_tools()]
    words = " ".join(re.findall(r"[a-z]{4,}", str(env.view_task(env.task)))[:40]) or "opens"
    call = {"search": {"query": words}, "list": {}, "ask": {"questions": [words, texts.text[:400]]}}
    if env.env_spec.id.startswith("eve"):
        call["search"] = {"query_list": [words, texts.text[:1000]]}
    for name in ("ask", "search", "list"):
        if name in names:
            yield {"tool": name, "arguments": call[name]}
            yield f"<tool_call>{{}}</tool_call> {texts.text}"
    if "read" in names:
        library = env.state.library
        yield {"tool": "read", "arguments": {"id": library.corpus.passages[0].id}}
        yield {"tool": "read", "arguments": {"id": texts.text[:80]}}
    yield {"tool": "search", "arguments": {texts.text[:100]: texts.text[:100]}}
    if "answer" in names:
        yield {"tool": "answer", "arguments": {"answer": texts.text}}
    if env.env_spec.id == "seva-repair":
        entry = {"claim_span": texts.text, "source_span": texts.text, "status": "mismatch", texts.text: 1}
        yield {"tool": "submit", "arguments": {"evidence_alignment": [entry], "label": texts.text}}


def check_shown(env: Env[Any]) -> None:
    for text in untrusted_texts(env):
        remaining = survivors(text, env.nonce)
        assert not remaining, (remaining, text[:2000])
        calls = [item for item in env.parser.parse(text).items if isinstance(item, ToolCall)]
        assert not calls, (calls, text[:2000])


def test_no_environment_shows_an_imitation(setup: Setup, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    env = setup.make() if setup.id in ("seva-repair", "eve-solver") else setup.make(max_turns=12)
    name = env.tasks.id_at(0)
    attacks = imitations(nonce_of(env.env_spec.id, name))
    if hasattr(env.tasks, "items") and setup.id != "eve-proposer":
        monkeypatch.setattr(env.tasks, "items", Planted(env.tasks.items, texts))
    planted = visible = 0
    try:
        for start in range(0, len(attacks), BATCH):
            texts.batch = attacks[start : start + BATCH]
            env.tasks._made.clear()
            env.reset(options={"task": 0})
            plant_library(env, texts, monkeypatch)
            check_shown(env)
            for action in actions(env, texts):
                if env.episode.stop is None:
                    env.step(action)
                    check_shown(env)
            contents = [message_text(message) for message in env.policy_prompt()]
            planted += sum(content.count(MARKER) for content in contents)
            visible += sum(MARKER in block.text for content in contents for block in read_blocks(content))
    finally:
        env.tasks._made.clear()
    assert planted and (visible or setup.id == "corver-qa"), (planted, visible)


@pytest.mark.parametrize("rubric", PROMPTS)
def test_no_judge_is_shown_an_imitation(rubric: str) -> None:
    prompt = PROMPTS[rubric]
    for start in range(0, 140, BATCH):
        case = dict.fromkeys((field.name for field in prompt.fields), " \n".join(imitations("qzkv")[start:][:BATCH]))
        case = {field.name: case[field.name][: field.max_chars] for field in prompt.fields}
        nonce = nonce_of(prompt.name, *case.values())
        for form in ("tool", "json"):
            content = prompt.messages(case, form)[1]["content"] or ""
            blocks = list(read_blocks(content))
            assert [block.tag for block in blocks] == list(case) and all(block.closed for block in blocks)
            for block in blocks:
                assert not survivors(block.text, nonce)
                assert not [item for item in parse_action(block.text).items if isinstance(item, ToolCall)]


def test_the_proposer_is_shown_no_imitation() -> None:
    for start in range(0, 140, BATCH):
        text = " \n".join(imitations("qzkv")[start:][:BATCH])
        item = AttributionClaim("x", text, text, "Attributable")
        content = messages_for(ProbeRequest(item, "paraphrase", None))[1]["content"] or ""
        blocks = list(read_blocks(content))
        assert [block.tag for block in blocks] == ["source", "claim"]
        assert not any(survivors(block.text, nonce_of(text, text)) for block in blocks)


def test_a_cut_observation_closes_what_it_cuts() -> None:
    import factgym

    env = factgym.make("claimcheck", max_observation_chars=200)
    env.reset(seed=0)
    obs, *_ = env.step({"tool": "read", "arguments": {"id": "E1"}})
    (block,) = read_blocks(obs)
    assert block.closed and block.text.endswith("more characters]") and obs.count(env.nonce) == 2
