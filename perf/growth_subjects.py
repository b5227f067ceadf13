"""Subjects of `perf.growth` that need more than texts: files, messages, replies of servers, episodes and rows."""

from __future__ import annotations

import atexit
import json
import random
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import factgym
from perf.growth import Subject

_FAMILIES = ("claimcheck-mini", "corver-qa", "corver-qa-search", "eve-proposer", "eve-solver", "profact", "seva", "toy")
_KEYS = [
    "id",
    "title",
    "text",
    "contents",
    "question",
    "answer",
    "answers",
    "golden_answers",
    "claim",
    "label",
    "evidence",
    "context",
    "premise",
    "hypothesis",
    "source",
]


@cache
def _folder() -> Path:
    """Return a folder for the files of the subjects."""
    # In memory: some file systems flush a file that is written anew, and thousands are.
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="factgym-growth-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def adapted_subjects() -> Iterator[Subject]:
    """Yield all of them; those that need an extra only where it is installed."""
    yield from _model_subjects()
    yield from _document_subjects()
    yield from _file_subjects()
    yield from _text_subjects()
    for env_id in _FAMILIES:
        yield from _episode_subjects(env_id)


# Replies of models and servers


def _reply(message: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()


def _stream(text: str) -> bytes:
    deltas = [text[start : start + 16] for start in range(0, len(text), 16)]
    lines = [json.dumps({"choices": [{"index": 0, "delta": {"content": delta}}]}) for delta in deltas]
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def _call(name: str, arguments: str) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _model_subjects() -> Iterator[Subject]:
    from factgym.agents.endpoint import faults, reply
    from factgym.agents.endpoint.settings import Redactor
    from factgym.agents.judges.policy import submitted_arguments
    from factgym.agents.judges.prompt import EVIDENCE_SUPPORT, SUBMIT
    from factgym.benchmarks.viewer.transcript import steps_of
    from factgym.core.action import parse_action
    from factgym.core.calls import arguments_from_text
    from factgym.core.strict_json import DEFAULT_LIMITS

    actions = ("factgym.core.action", "factgym.core.calls", "factgym.core.strict_json")
    replies = ("factgym.agents.endpoint.reply", "factgym.agents.endpoint.faults")

    def judged(text: str) -> object:
        return submitted_arguments(parse_action(text, implicit={"label": SUBMIT}), EVIDENCE_SUPPORT.tool)

    def episode(text: str) -> list[Any]:
        messages = [{"role": role, "content": text} for role in ("user", "assistant", "tool")]
        turn = {"message": 1, "calls": [{"tool": text, "arguments": {"a": text}}]}
        return steps_of({"messages": messages, "turns": [turn], "reward": {"spans": [[1, 0, len(text), 1.0]]}})

    redactor = Redactor("sk-0123456789abcdef")
    yield Subject("action: a text", parse_action, actions)
    yield Subject("action: native arguments", lambda text: parse_action(_call("submit", text)), actions)
    yield Subject("action: name of a native call", lambda text: parse_action(_call(text, "{}")), actions)
    yield Subject("action: a call of tags", lambda text: parse_action(f"<tool_call>{text}</tool_call>"), actions)
    yield Subject("action: a tag in tags", lambda text: parse_action(text, implicit={"search": "search"}), actions)
    yield Subject("arguments", lambda text: arguments_from_text(text, "a", DEFAULT_LIMITS, 0), actions)
    yield Subject("judge: reply", judged, actions)
    yield Subject("reply: content", lambda text: reply.read_reply(_reply({"content": text})), replies)
    yield Subject("reply: reasoning", lambda text: reply.read_reply(_reply({"reasoning_content": text})), replies)
    yield Subject("reply: a call", lambda text: reply.read_reply(_reply(_call("a", text))), replies)
    yield Subject("reply: stream", lambda text: reply.completion_of_stream(_stream(text)), replies)
    yield Subject("reply: broken stream", lambda text: reply.completion_of_stream(b"data: " + text.encode()), replies)
    for status in (400, 500):
        yield Subject(
            f"fault {status}: message",
            lambda text, status=status: faults.fault_of_status(
                status, {}, json.dumps({"error": {"message": text}}).encode()
            ),
            replies,
        )
        yield Subject(
            f"fault {status}: body",
            lambda text, status=status: faults.fault_of_status(status, {}, text.encode()),
            replies,
        )
    yield Subject("redactor: error", redactor.error, ("factgym.agents.endpoint.settings",))
    yield Subject("redactor: reply", lambda text: redactor.reply(text.encode()), ("factgym.agents.endpoint.settings",))
    yield Subject("viewer: transcript", episode, ("factgym.benchmarks.viewer.transcript",))


# Documents


def _docx(text: str) -> Path:
    """A file of Word with a paragraph for each line."""
    from xml.sax.saxutils import escape

    office, head = "http://schemas.openxmlformats.org", '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    relations = f"{office}/package/2006/relationships"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    clean = "".join(char if char.isprintable() else "\n" for char in text)
    body = "".join(f"<w:p><w:r><w:t>{escape(line)}</w:t></w:r></w:p>" for line in clean.split("\n"))
    file = _folder() / "a.docx"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'{head}<Types xmlns="{office}/package/2006/content-types"><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" '
            f'ContentType="{main}"/></Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'{head}<Relationships xmlns="{relations}"><Relationship Id="rId1" Type='
            f'"{office}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
        )
        archive.writestr(
            "word/document.xml",
            f'{head}<w:document xmlns:w="{office}/wordprocessingml/2006/main"><w:body>{body}</w:body></w:document>',
        )
    return file


def _document_subjects() -> Iterator[Subject]:
    from factgym.check.documents import CheckedDocuments, FileText
    from factgym.corpora.build import Split
    from factgym.corpora.condense import best_facts, condense, query_weights
    from factgym.corpora.corpus import Passage
    from factgym.corpora.documents import UniqueNames, cut, pack
    from factgym.corpora.extraction import read_file
    from factgym.corpora.tables import text_lines
    from factgym.corpora.wikitext import read_wikitext
    from factgym.tools.evidence import PassageLibrary

    markdown = ("factgym.corpora.markdown", "factgym.corpora.extraction")

    def file_of(suffix: str, text: str) -> Path:
        file = _folder() / f"a{suffix}"
        file.write_text(text, "utf-8", "replace")
        return file

    def names(text: str) -> None:
        taken = UniqueNames()
        for word in text.split():
            taken.take(word)

    def located(text: str) -> object:
        file = FileText(text)
        return file.find(text[:4000]) or file.find("no such text") or file.nearest_line(text[:4000])

    def checked(suffix: str) -> Callable[[str], object]:
        return lambda text: CheckedDocuments(file_of(suffix, text))

    pages = ("factgym.corpora.html", "factgym.corpora.tables")
    for name, head in (("HTML", ""), ("table of HTML", "<table><tr>"), ("cell of HTML", "<table><tr><td>")):
        yield Subject(f"document: {name}", lambda text, head=head: read_file(file_of(".html", head + text)), pages)
    yield Subject("document: CSV", lambda text: text_lines(text, "a.csv"), pages)
    if find_spec("mammoth"):
        yield Subject("document: DOCX", lambda text: read_file(_docx(text)), pages)
    if find_spec("mwparserfromhell"):
        yield Subject("document: wikitext", read_wikitext, ("factgym.corpora.wikitext",))
    yield Subject("document: checked Markdown", checked(".md"), markdown)
    yield Subject("document: checked text", checked(".txt"), ("factgym.corpora.plain_text",))
    yield Subject("document: place of a quote", located, ("factgym.check.documents",))
    yield Subject("document: cut", lambda text: cut(text, 900), ("factgym.text.sentences",))
    yield Subject("document: pack", lambda text: pack(text.split("\n"), 900), ("factgym.text.sentences",))
    yield Subject("document: unique names", names)
    for unit in ("words", "sentences"):
        yield Subject(f"split: {unit}", lambda text, unit=unit: Split(unit, 10, 2).ranges(text))
    yield Subject("condense", lambda text: condense(Passage("a", "b", text), query_weights("b text")))
    yield Subject("condense: query", lambda text: condense(Passage("a", "b", "A text."), query_weights(text)))
    yield Subject("best facts", lambda text: best_facts([Passage("a", text, text)], query_weights("b text"), 2))
    yield Subject("library: index", lambda text: PassageLibrary([Passage("a", "b", text), Passage("c", "d", "e")]))
    library = PassageLibrary([Passage("a", "b", "A text."), Passage("c", "d", "e")])
    yield Subject("library: search", lambda text: library.search(text, 3))


def _file_subjects() -> Iterator[Subject]:
    """Readers of rows: their files as a whole are hostile, and the texts of a valid row."""
    from factgym.corpora.passage_files import iter_passages
    from factgym.datasets.attribution import read_benchmark
    from factgym.datasets.base import load_data_sets
    from factgym.datasets.grounding import read_claims
    from factgym.datasets.multihop import read_triples
    from factgym.datasets.questions import read_questions
    from factgym.training.difficulty_filter import read_tasks
    from factgym.training.recipes.recipe import read_recipe

    rows = ("factgym.corpora.rows", "factgym.corpora.passage_files")

    def written(name: str, text: str) -> Path:
        file = _folder() / name
        file.write_text(text, "utf-8", "replace")
        return file

    for suffix in ("jsonl", "json", "csv", "tsv", "xml"):
        yield Subject(
            f"rows: a file .{suffix}",
            lambda text, suffix=suffix: iter_passages(written(f"a.{suffix}", text), on_bad=lambda _: None),
            rows,
        )
    yield Subject(
        "rows: texts of a row",
        lambda text: iter_passages(written("b.jsonl", json.dumps({"id": "a", "title": text, "text": text}))),
        rows,
    )
    readers = {
        "attribution": read_benchmark,
        "questions": read_questions,
        "multihop": read_triples,
        "claims": read_claims,
    }
    for family, read in readers.items():
        name = next(iter(load_data_sets(family)))
        for shape, value in {"texts": lambda text: text, "lists": lambda text: [text, text]}.items():
            yield Subject(
                f"data set: {family}, {shape}",
                lambda text, read=read, name=name, value=value: len(
                    read(name, written("c.jsonl", json.dumps(dict.fromkeys(_KEYS, value(text)))))
                ),
                rows,
            )
    yield Subject("recipe", lambda text: read_recipe(written("a.toml", text)), ())
    yield Subject("list of tasks", lambda text: read_tasks(written("tasks.json", text)), rows)


# Texts with a random generator or a state


def _text_subjects() -> Iterator[Subject]:
    from factgym.baselines.evidence import parse_statement
    from factgym.generators.perturbations import adjuncts, modals, rewording
    from factgym.rewards.answer_matching import exact_match, token_f1
    from factgym.rewards.corver.extraction import RuleExtractor
    from factgym.rewards.profact.meteor import meteor_matrix
    from factgym.rewards.profact.stages import match_gains

    def drawn(edit: Callable[..., object]) -> Callable[[str], object]:
        return lambda text: edit(text, random.Random(0))

    for edit in (
        adjuncts.drop_item,
        adjuncts.drop_limit,
        adjuncts.drop_purpose,
        adjuncts.reword_relation,
        modals.rephrase_modal,
    ):
        yield Subject(f"perturbation: {edit.__name__}", drawn(edit), (edit.__module__,))
    yield Subject(
        "perturbation: reword", lambda text: rewording.reword(text, "a", random.Random(0)), (rewording.__name__,)
    )
    yield Subject("reward: exact match", lambda text: exact_match(text, [text, "a"]))
    yield Subject("reward: F1", lambda text: token_f1(text, [text, "a b"]))
    yield Subject("reward: METEOR", lambda text: meteor_matrix([text], [text, "a b"]))
    yield Subject("reward: stages", lambda text: match_gains([text], [text, "a b"], text))
    yield Subject(
        "reward: triplets", lambda text: RuleExtractor().extract([text]), ("factgym.rewards.corver.extraction",)
    )
    yield Subject("verifier: statement", parse_statement, ("factgym.baselines.evidence", "factgym.baselines.semantics"))


# Episodes


def _played(env_id: str) -> tuple[Any, Any]:
    """Return an environment before the last action of its honest baseline, and that action."""
    from factgym.agents.resolve import honest_baseline, scripted_agents

    env = factgym.make(env_id)
    env.reset(seed=3)
    agent = scripted_agents(env_id)[honest_baseline(env_id)]
    policy = agent.start(env, 3)
    while True:
        before = deepcopy(env)
        action = policy.act(env.policy_prompt(), env.available_tools())
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            return before, action


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of the texts in JSON data; of a list, those of its first entry."""
    if isinstance(value, str):
        yield path
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value[:1] if isinstance(value, list) else ())
    ):
        yield from _leaves(inner, (*path, key))


def _replaced(value: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return text
    changed = value.copy()
    changed[path[0]] = _replaced(value[path[0]], path[1:], text)
    return changed


def _episode_subjects(env_id: str) -> Iterator[Subject]:
    """Yield the last step of an episode, with each text of the submission replaced, and the message as a whole."""
    from factgym.core.action import parse_action

    @cache
    def before() -> tuple[Any, Any]:
        return _played(env_id)

    def step(action: Any) -> object:
        return deepcopy(before()[0]).step(action)

    env, action = before()
    modules = tuple(
        sorted(
            {cls.__module__ for cls in type(env).__mro__ if cls.__module__.startswith("factgym.")}
            | {"factgym.core.calls"}
        )
    )
    yield Subject(f"step of {env_id}: a text", step, modules)
    content = action if isinstance(action, str) else action.get("content") or ""
    if content:
        middle = len(content) // 2
        yield Subject(
            f"step of {env_id}: inside the submission",
            lambda text: step(content[:middle] + text + content[middle:]),
            modules,
        )
    calls = [item for item in parse_action(action).items if hasattr(item, "arguments")]
    for call in calls[:1]:
        name, arguments = call.name, dict(call.arguments)
        for path in _leaves(arguments):
            yield Subject(
                f"step of {env_id}: {name} {'.'.join(map(str, path))}",
                lambda text, path=path, name=name, arguments=arguments: step(
                    _call(name, json.dumps(_replaced(arguments, path, text)))
                ),
                modules,
            )
