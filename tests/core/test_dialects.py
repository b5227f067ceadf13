"""Calls in the dialects of models, as they come when a server does not read them; and what never runs in any of them.

Each dialect is written as the reference parser of its model's server reads it: vLLM 0.32 `vllm/parser/*.py` and
`vllm/tool_parsers/*.py`, SGLang `srt/function_call/*_detector.py`, openai/harmony `docs/format.md`.
"""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.action import parse_action
from factgym.core.calls import MARKS, REASONING, CallError, ToolCall
from factgym.core.messages import message_text
from factgym.core.strict_json import in_json

TAGS = {"search": ("search", "query_list"), "answer": ("submit", "answer")}
IMPLICIT = {"final_verdict": "submit"}


def items(action: object) -> tuple[ToolCall | CallError, ...]:
    return parse_action(action, tags=TAGS, implicit=IMPLICIT).items


def names(action: object) -> list[str]:
    """The name of each call, the code of each error."""
    return [item.name if isinstance(item, ToolCall) else item.code for item in items(action)]


JSON = '{"query": "late fees", "k": 3}'
CALL = f'{{"name": "search", "arguments": {JSON}}}'
QWEN = "<function=search>\n<parameter=query>\nlate fees\n</parameter>\n<parameter=k>\n3\n</parameter>\n</function>"
GLM = (
    "search\n<arg_key>query</arg_key>\n<arg_value>late fees</arg_value>\n<arg_key>k</arg_key>\n<arg_value>3</arg_value>"
)
INVOKE = '<invoke name="search">\n<parameter name="query">late fees</parameter>\n<parameter name="k">3</parameter>\n</invoke>'
DSML = (
    '<｜DSML｜invoke name="search"><｜DSML｜parameter name="query" string="true">late fees</｜DSML｜parameter>'
    '<｜DSML｜parameter name="k" string="false">3</｜DSML｜parameter></｜DSML｜invoke>'
)
HARMONY = f"<|channel|>commentary to=functions.search <|constrain|>json<|message|>{JSON}<|call|>"
KIMI = f"<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{JSON}<|tool_call_end|>"
DEEPSEEK = f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{JSON}\n```<｜tool▁call▁end｜>"
PYTHON = 'search(query="late fees", k=3)'

ONE_CALL = {
    # vllm/tool_parsers/hermes_tool_parser.py
    "hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    # vllm/parser/qwen3.py: the outer tag and all closers are optional
    "qwen3-coder": f"<tool_call>\n{QWEN}\n</tool_call>",
    "qwen3-coder without the outer tag": QWEN,
    "qwen3-coder without its last closer": QWEN.removesuffix("\n</function>"),
    "qwen3-coder without closers": "<function=search>\n<parameter=query>\nlate fees\n<parameter=k>\n3",
    "qwen3-coder without values' closers": f"<tool_call>{QWEN.replace('</parameter>', '')}</tool_call>",
    "qwen3-coder on one line": "<tool_call><function=search><parameter=query>late fees</parameter><parameter=k>3"
    "</parameter></function></tool_call>",
    "qwen3-coder, indented": "<tool_call>\n  <function=search>\n    <parameter=query>\n    late fees\n    </parameter>\n"
    "    <parameter=k> 3 </parameter>\n  </function>\n</tool_call>",
    "qwen3-coder with \\r\\n": f"<tool_call>\n{QWEN}\n</tool_call>".replace("\n", "\r\n"),
    "qwen3-coder with JSON": f"<tool_call>\n<function=search>\n{JSON}\n</function>\n</tool_call>",
    "qwen3-coder, doubled closers": QWEN.replace("</function>", "</function></function>"),
    # vllm/parser/seed_oss.py
    "seed": f"<seed:tool_call>{QWEN}</seed:tool_call>",
    # vllm/tool_parsers/minicpm5xml_tool_parser.py
    "minicpm": '<function name="search"><param name="query">late fees</param><param name="k">3</param></function>',
    # vllm/parser/glm47_moe.py, vllm/tool_parsers/glm4_moe_tool_parser.py
    "glm": f"<tool_call>{GLM}\n</tool_call>",
    "glm without line breaks": f"<tool_call>{GLM}</tool_call>".replace("\n", ""),
    "glm without its closer": f"<tool_call>{GLM}",
    "glm without closers of values": f"<tool_call>{GLM.replace('</arg_value>', '')}</tool_call>",
    # openai/harmony docs/format.md
    "harmony": HARMONY,
    "harmony with its start": f"<|start|>assistant{HARMONY}",
    "harmony, recipient first": f"<|start|>assistant to=functions.search<|channel|>commentary json<|message|>{JSON}<|call|>",
    "harmony after analysis": f"<|channel|>analysis<|message|>Look it up.<|end|><|start|>assistant{HARMONY}",
    "harmony without its end": HARMONY.removesuffix("<|call|>"),
    "harmony on the channel of builtin tools": HARMONY.replace("commentary", "analysis"),
    "harmony without a message mark": f"<|channel|>commentary to=functions.search json{JSON}",
    "harmony without marks": f"commentary to=functions.search json{JSON}",
    "harmony without marks, after analysis": f"analysisLook it up.assistantcommentary to=functions.search json{JSON}",
    "harmony after a preamble": f"<|channel|>commentary<|message|>I search.<|end|><|start|>assistant{HARMONY}",
    # vllm/parser/kimi_k2.py
    "kimi": f"<|tool_calls_section_begin|>{KIMI}<|tool_calls_section_end|>",
    "kimi with line breaks": f"<|tool_calls_section_begin|>\n{KIMI}\n<|tool_calls_section_end|>".replace(">{", ">\n{"),
    "kimi without the section": KIMI,
    "kimi without closers": f"<|tool_calls_section_begin|>{KIMI.removesuffix('<|tool_call_end|>')}",
    # vllm/tool_parsers/deepseekv3_tool_parser.py, deepseekv31_tool_parser.py; vllm/parser/deepseek_v32.py, deepseek_v4.py
    "deepseek v3": f"<｜tool▁calls▁begin｜>{DEEPSEEK}<｜tool▁calls▁end｜>",
    "deepseek v3.1": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{JSON}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek v3.2": f"<｜DSML｜function_calls>\n{DSML}\n</｜DSML｜function_calls>",
    "deepseek v4": f"<｜DSML｜tool_calls>{DSML}</｜DSML｜tool_calls>",
    # vllm/parser/minimax_m2.py
    "minimax": f"<minimax:tool_call>\n{INVOKE}\n</minimax:tool_call>",
    "minimax, single quotes": f"<minimax:tool_call>{INVOKE}</minimax:tool_call>".replace('"', "'"),
    "minimax, bare names": f"<minimax:tool_call>{INVOKE}</minimax:tool_call>".replace('"', ""),
    "anthropic": f"<function_calls>\n{INVOKE}\n</function_calls>",
    "anthropic without the outer tag": INVOKE,
    # vllm/parser/mistral.py, sglang mistral_detector.py
    "mistral array": f"[TOOL_CALLS][{CALL}]",
    "mistral array with a space": f"[TOOL_CALLS] [{CALL}]</s>",
    "mistral object": f"[TOOL_CALLS] {CALL}",
    "mistral args": f"[TOOL_CALLS]search[ARGS]{JSON}",
    "mistral name and brace": f"[TOOL_CALLS]search{JSON}",
    "mistral id": f"[TOOL_CALLS]search[CALL_ID]a1B2c3D4e[ARGS]{JSON}",
    "mistral without its first mark": f"search[ARGS]{JSON}",
    "mistral in prose": f"I search. [TOOL_CALLS] search [ARGS] {JSON}",
    # vllm/tool_parsers/llama_tool_parser.py, pythonic_tool_parser.py, llama4_pythonic_tool_parser.py
    "llama": CALL.replace("arguments", "parameters"),
    "llama python tag": f"<|python_tag|>{CALL.replace('arguments', 'parameters')}<|eom_id|>",
    "llama function": f"<function=search>{JSON}</function>",
    "llama 4": f"[{PYTHON}]",
    "llama 4 with spaces": '[ search( query = "late fees" , k = 3 ) ]<|eot_id|>',
    "llama 4 single quotes": "[search(query='late fees', k=3,)]",
    "llama 4 python tag": f"<|python_tag|>[{PYTHON}]",
    # vllm/tool_parsers/lfm2_tool_parser.py, olmo3_tool_parser.py
    "lfm2": f"<|tool_call_start|>[{PYTHON}]<|tool_call_end|>",
    "olmo": f"<function_calls>{PYTHON}</function_calls>",
    # ai.google.dev/gemma/docs/capabilities/function-calling
    "gemma": f"```tool_code\n{PYTHON}\n```",
    "gemma, printed": f"I look it up.\n```tool_code\nprint(default_api.{PYTHON})\n```",
    # vllm/parser/granite.py, vllm/tool_parsers/phi4mini_tool_parser.py, hunyuan_a13b, internlm2, granite_20b_fc, longcat
    "granite 3.0": f"<|tool_call|>[{CALL}]",
    "granite 3.1": f"<tool_call> [{CALL}]",
    "phi-4-mini": f"<|tool_call|>[{CALL}]<|/tool_call|>",
    "phi-4-mini functools": f"functools[{CALL}]",
    "array in tags": f"<tool_call>[{CALL}]</tool_call>",
    "array": f"[{CALL}]",
    "fenced array": f"```json\n[{CALL}]\n```",
    "hunyuan": f"<tool_calls>[{CALL}]</tool_calls>",
    "internlm": f"<|action_start|><|plugin|>{CALL.replace('arguments', 'parameters')}<|action_end|>",
    "granite 20b": f"<function_call> {CALL}",
    "longcat": f"<longcat_tool_call>{CALL}</longcat_tool_call>",
    "nemotron": f"<TOOLCALL>[{CALL}]</TOOLCALL>",
    "command": f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "search", "parameters": {JSON}}}]<|END_ACTION|>',
    # name and JSON
    "name and JSON in tags": f"<tool_call>search\n{JSON}</tool_call>",
    "name and JSON": f"search{JSON}",
    "name and JSON on two lines": f"functions.search:0\n{JSON}",
    "name and JSON in parentheses": f"<tool_call>search({JSON})</tool_call>",
    # arguments that are a JSON text once more: livekit#5409, kimi-cli#2513
    "arguments as text": f'<tool_call>{{"name": "search", "arguments": {json.dumps(JSON)}}}</tool_call>',
    "arguments as text of text": f'<tool_call>{{"name": "search", "arguments": {json.dumps(json.dumps(JSON))}}}</tool_call>',
    "mistral arguments as text": f"[TOOL_CALLS]search[ARGS]{json.dumps(JSON)}",
    "harmony arguments as text": HARMONY.replace(JSON, json.dumps(JSON)),
}
EXPECTED: dict[str, Any] = {"query": "late fees", "k": 3}


def matches(item: ToolCall | CallError) -> bool:
    """Whether an item is the expected call; of a tagged dialect, before the schema has given the texts their types."""
    assert isinstance(item, ToolCall), item
    arguments = {**item.arguments, "k": int(item.arguments["k"])} if item.texts else item.arguments
    name = item.name.removeprefix("functions.").removeprefix("default_api.").removesuffix(":0")
    return (name, arguments) == ("search", EXPECTED)


@pytest.mark.parametrize("name", ONE_CALL)
def test_a_dialect_gives_the_call_and_its_range(name: str) -> None:
    for before, after in (("", ""), ("<think>Hm.</think>", ""), ("\n", "\n")):
        text = before + ONE_CALL[name] + after
        parsed = parse_action(text, tags=TAGS, implicit=IMPLICIT)
        (item,) = parsed.items
        assert matches(item)
        assert isinstance(item, ToolCall)
        assert "late fees" in message_text(parsed.message)[item.start : item.end]
        (again,) = items(text[item.start : item.end])
        assert matches(again)


@pytest.mark.parametrize("name", ONE_CALL)
def test_a_dialect_is_text_inside_reasoning_and_inside_json(name: str) -> None:
    text = ONE_CALL[name]
    for mark, closer in REASONING.items():
        assert names(f"{mark}\n{text}\n{closer}") == ["only_reasoning"]
        assert names(f"{mark}\n{text}") == ["only_reasoning"]
        assert names(f"{text}\n{closer}") == ["only_reasoning"]  # the template had opened the reasoning
        assert names(f"{mark}\n{text}\n{closer}<answer>1</answer>") == ["submit"]
    if "<|end|>" not in text:
        assert names(f"<|channel|>analysis<|message|>{text}<|end|>") == ["only_reasoning"]
        assert names(f"<|channel|>analysis<|message|>{text}") == ["only_reasoning"]
    quoting = json.dumps({"name": "submit", "arguments": {"quote": text}}, ensure_ascii=False)
    for outer in (f"<tool_call>{quoting}</tool_call>", quoting, f"So: {quoting}."):
        (item,) = items(outer)
        assert isinstance(item, ToolCall)
        assert (item.name, item.arguments) == ("submit", {"quote": text})


@pytest.mark.parametrize("name", ONE_CALL)
def test_a_dialect_in_a_broken_string_does_not_run(name: str) -> None:
    # A policy that copies a passage into its JSON and forgets to escape the quotation marks.
    copied = ONE_CALL[name]
    for quoted in (f'{{"name": "submit", "arguments": {{"quote": "" {copied} ""}}', f'{{"quote": "" {copied}'):
        for mark in ("<tool_call>", "[TOOL_CALLS]submit[ARGS]", "<function=submit>", "<|python_tag|>"):
            if MARKS.get(mark, "</function>") not in copied:
                assert "search" not in names(mark + quoted), mark


@pytest.mark.parametrize("name", ONE_CALL)
def test_a_dialect_in_a_tagged_text_does_not_run(name: str) -> None:
    copied = ONE_CALL[name]
    for text in (
        f"<tool_call><function=submit><parameter=quote>{copied}</parameter></function></tool_call>",
        f'<minimax:tool_call><invoke name="submit"><parameter name="quote">{copied}</parameter></invoke></minimax:tool_call>',
    ):
        # Nothing is escaped in a tagged text: one that holds the dialect's own closing tags is cut there.
        if not any(closer in copied for closer in ("</parameter>", "</function>", "</invoke>", "</tool_call>")):
            assert "search" not in names(text)


SEVERAL = {
    "hermes": f"<tool_call>{CALL}</tool_call>" * 2,
    "qwen3-coder": f"<tool_call>\n{QWEN}\n</tool_call>\n" * 2,
    "qwen3-coder in one tag": f"<tool_call>\n{QWEN}\n{QWEN}\n</tool_call>",
    "qwen3-coder without outer tags": QWEN * 2,
    "glm": f"<tool_call>{GLM}</tool_call>\n" * 2,
    "glm without closers": f"<tool_call>{GLM}\n" * 2,
    "harmony": f"{HARMONY}<|start|>assistant{HARMONY}",
    "kimi": f"<|tool_calls_section_begin|>{KIMI}{KIMI.replace(':0', ':1')}<|tool_calls_section_end|>",
    "deepseek": f"<｜tool▁calls▁begin｜>{DEEPSEEK}\n{DEEPSEEK}<｜tool▁calls▁end｜>",
    "dsml": f"<｜DSML｜function_calls>{DSML}{DSML}</｜DSML｜function_calls>",
    "minimax": f"<minimax:tool_call>{INVOKE}\n{INVOKE}</minimax:tool_call>",
    "mistral array": f"[TOOL_CALLS][{CALL}, {CALL}]",
    "mistral args": f"[TOOL_CALLS]search[ARGS]{JSON}[TOOL_CALLS]search[ARGS]{JSON}",
    "mistral args once": f"[TOOL_CALLS]search[ARGS]{JSON}search[ARGS]{JSON}",
    "llama": f"<|python_tag|>{CALL}; {CALL}",
    "llama 4": f"[{PYTHON}, {PYTHON}]",
    "olmo": f"<function_calls>{PYTHON}\n{PYTHON}</function_calls>",
    "phi": f"<|tool_call|>[{CALL},{CALL}]<|/tool_call|>",
    "array": f"[{CALL},\n {CALL}]",
    "array in a fence": f"```json\n[{CALL},{CALL}]\n```",
    "array in tags": f"<tool_call>\n[{CALL},{CALL}]\n</tool_call>",
    "array after reasoning": f"<think>Two.</think>\n[{CALL},{CALL}]",
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_calls_of_a_dialect_run_in_their_order(name: str) -> None:
    for text in (SEVERAL[name], SEVERAL[name].replace("late fees", "Gebühren für spätes Zahlen 滞纳金")):
        parsed = parse_action(text, tags=TAGS, implicit=IMPLICIT)
        first, second = parsed.items
        assert isinstance(first, ToolCall)
        assert isinstance(second, ToolCall)
        assert first.end <= second.start
        for item in (first, second):
            (again,) = items(text[item.start : item.end])
            assert isinstance(again, ToolCall)
            assert (again.name, again.arguments) == (item.name, item.arguments)


MARKED = [
    name
    for name, text in ONE_CALL.items()
    if "ARGS" in text or text.lstrip("`")[0] == "<" or text.split("[")[0] in MARKS
]


@pytest.mark.parametrize("name", MARKED)
def test_prose_around_a_marked_call_is_the_free_text(name: str) -> None:
    text = ONE_CALL[name]
    parsed = parse_action(f"I look it up. {text}", tags=TAGS, implicit=IMPLICIT)
    assert matches(parsed.items[0])
    assert parsed.text.startswith("I look it up.")
    assert "late" not in parsed.text


def test_texts_keep_their_lines_and_lose_those_at_the_tags() -> None:
    quote = 'First line.\n\n  Second: a < b </p> &amp; {"x": 1}\n</think'
    (item,) = items(f"<function=submit>\n<parameter=quote>\n{quote}\n</parameter>\n</function>")
    assert isinstance(item, ToolCall)
    assert item.arguments == {"quote": quote}
    assert item.texts


@pytest.mark.parametrize(
    "text",
    [
        f"The guide says [{PYTHON}].",
        f"The guide says search{JSON}, I think.",
        f"It says: commentary to=functions.search json{JSON} (page 3)",
        f"Both are objects: [{JSON}]",
        "I would call [search] or <function=> or <invoke name=>.",
        "[1, 2]",
        "[search(x)]",
        "[search(query=open('x'))]",
        "[search(query=late)]",
    ],
)
def test_a_call_without_a_mark_inside_prose_is_prose(text: str) -> None:
    assert names(text) in (["no_tool_call"], ["bad_shape"])


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("invalid_json", '[TOOL_CALLS]search[ARGS]{"query": "late'),
        ("invalid_json", '<|tool_call_begin|>search<|tool_call_argument_begin|>{"query": late}<|tool_call_end|>'),
        ("invalid_json", f"{HARMONY.removesuffix('}<|call|>')}<|call|>"),
        ("invalid_json", "<|python_tag|>search(late fees)"),
        ("invalid_json", "[TOOL_CALLS] I do not know"),
        ("bad_shape", "<function=search>late fees</function>"),
        ("invalid_json", f"[TOOL_CALLS]search[ARGS]{json.dumps('late fees')}"),
        ("duplicate_key", "<function=search><parameter=query>a</parameter><parameter=query>b</parameter></function>"),
    ],
)
def test_a_mistake_in_a_dialect_is_named(code: str, text: str) -> None:
    assert names(text) == [code]


@pytest.mark.parametrize(
    "name",
    [
        "search<|channel|>commentary",
        "search<|channel|>json",
        "search<|constrain|>json",
        "search <|message|>",
        "<|channel|>commentary to=search",
        "search[ARGS]",
        "search<｜tool▁sep｜>",
    ],
)
def test_marks_that_leak_into_a_native_name_are_cut(name: str) -> None:
    """movieclaw#224, llama.cpp#15181: the server leaves Harmony's header in the name."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(JSON)}}
    parsed = parse_action({"role": "assistant", "content": None, "tool_calls": [call]})
    (item,) = parsed.items
    assert isinstance(item, ToolCall)
    assert (item.name, item.arguments) == ("search", EXPECTED)
    assert [call["function"]["name"] for call in parsed.message.get("tool_calls", [])] == ["search"]


PIECES = st.sampled_from(
    [
        *MARKS,
        *MARKS.values(),
        *REASONING,
        *REASONING.values(),
        *ONE_CALL.values(),
        "[ARGS]",
        "\n",
        " ",
        '"',
        "{",
        "}",
        "[",
        "]",
        "<parameter=a>",
        "</parameter>",
        "<|channel|>",
        "<|message|>",
        "x",
        "'",
        "(",
    ]
)


@given(st.lists(PIECES, max_size=25).map("".join))
def test_any_mixture_is_answered_and_ranges_give_their_calls_again(text: str) -> None:
    parsed = parse_action(text, tags=TAGS, implicit=IMPLICIT)
    assert parsed.items
    for item in parsed.items:
        if isinstance(item, ToolCall):
            assert 0 <= item.start < item.end <= len(text)
            again = items(text[item.start : item.end])
            assert (item.name, item.arguments) in [(i.name, i.arguments) for i in again if isinstance(i, ToolCall)]


UNITS = [
    *MARKS,
    *REASONING,
    *ONE_CALL.values(),
    *(call[: len(call) // 2] for call in ONE_CALL.values()),
    *(call[:-1] for call in ONE_CALL.values()),
    "<function=a>",
    "<function=a>{",
    "<function=a><parameter=b>",
    "<parameter=a>",
    "<tool_call>a<arg_key>",
    "<tool_call>a<arg_key>b</arg_key>",
    "<tool_call>a(",
    "<tool_call>a('",
    "<|channel|>a ",
    "<|start|>",
    "a[ARGS]",
    "[ARGS]",
    "[a(",
    "<a:",
    "<function=a x",
    "<｜DSML｜",
    "a(b='",
    "functools[",
]


@pytest.mark.parametrize("unit", UNITS)
def test_a_repeated_piece_is_read_in_linear_time(unit: str) -> None:
    """Growth of the processor time with the length: four times the text costs less than ten times as much, not 16."""

    def seconds(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        runs = []
        for _ in range(3):
            start = process_time()
            items(text)
            runs.append(process_time() - start)
        return min(runs)

    assert seconds(160_000) <= 10 * max(seconds(40_000), 0.002)


def test_a_text_is_located_in_arguments_that_are_encoded_twice() -> None:
    quote = 'He said "é".'
    inner = json.dumps({"quote": quote})
    for text in (
        json.dumps({"arguments": inner}),
        json.dumps({"arguments": json.dumps({"quote": quote}, ensure_ascii=False)}, ensure_ascii=False),
    ):
        start, end = in_json(quote, text) or (0, 0)
        assert json.loads(f'"{json.loads(chr(34) + text[start:end] + chr(34))}"') == quote
