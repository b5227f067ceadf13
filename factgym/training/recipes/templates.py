"""Chat templates of models to train: named ones, a form with tools for ChatML, the trained parts, the reader of calls.

TRL knows templates by their exact text. Of any other, the trained parts are found by rendering the conversation up to
each reply, and tool calls are read by the first of TRL's readers that returns a rendered call as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from factgym.agents.local.chat import PROBE, PROBE_TOOL, template_errors
from factgym.agents.local.loading import check_folder, loading_error
from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.paths import is_file, read_text, user_path

CHATML = "chatml"
_CHATML_FILE = "qwen3_instruct_2507"

_MARKED = """\
{% macro whole(messages, tools, add_generation_prompt) %}TEMPLATE{% endmacro %}
{%- set state = namespace(done='') -%}
{%- for message in messages -%}{%- if message.role == 'assistant' -%}
{%- set head = whole(messages[:loop.index0], tools, true) -%}
{%- set full = whole(messages[:loop.index], tools, false) -%}
{%- if not (head.startswith(state.done) and full.startswith(head)) -%}
{{- raise_exception('it writes a message otherwise when another follows') -}}
{%- endif -%}
{{- head[state.done | length:] -}}
{%- generation -%}{{- full[head | length:] -}}{%- endgeneration -%}
{%- set state.done = full -%}
{%- endif -%}{%- endfor -%}
{{- whole(messages, tools, add_generation_prompt)[state.done | length:] -}}"""
"""Writes what TEMPLATE does, each reply marked as trained: it is what the template adds to the head of a reply."""

_ADVICE = f'set chat_template="{CHATML}", or a file with a Jinja template'
_CHAT = ({"role": "user", "content": "A"}, {"role": "assistant", "content": "B"})
_PLAIN_CHATML = "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nB<|im_end|>"
_CALL: dict[str, Any] = {"name": PROBE, "arguments": {"text": 'a "probe"'}}


def template_text(name: str) -> str:
    """A chat template by name ("chatml", or one of TRL's, such as "llama3_1"), or of a file."""
    import trl

    named = {path.stem: path for path in (Path(trl.__file__).parent / "chat_templates").glob("*.jinja")}
    named[CHATML] = named[_CHATML_FILE]
    path = named.get(name) or user_path(name, "chat_template")
    if not is_file(path):
        hint = did_you_mean(name, named)
        raise ConfigError(f"chat_template={name!r:.80} is neither a file nor the name of a template.{hint}")
    return read_text(path, setting="chat_template")


def starting_model(name: str, template: str | None, env: Env[Any], kinds: Sequence[str], folder: Path) -> str:
    """The model to begin with: `name` itself, or `folder` with its weights and another chat template.

    template: as `template_text` takes it, None for the model's own, in place of which ChatML without tools gets a form
    that renders them. kinds: of the stages. Raises ConfigError for a model or template that these stages cannot train.
    """
    from transformers import AutoTokenizer
    from trl.chat_template_utils import supports_tool_calling

    if (folder / "config.json").exists():
        return str(folder)
    name = check_folder(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise loading_error(name, error) from error
    own = tokenizer.chat_template
    if template is not None:
        tokenizer.chat_template = template_text(template)
    if not tokenizer.chat_template:
        raise ConfigError(f"the tokenizer of {name!r} has no chat template: {_ADVICE}, or take a model tuned for chat")
    tools = list(env.all_tools())
    calls = bool(tools or env.checked_tools())
    if calls and not supports_tool_calling(tokenizer):
        if _PLAIN_CHATML not in tokenizer.apply_chat_template(_CHAT, tokenize=False):
            raise ConfigError(
                f"the chat template of {name!r} renders no tool calls, which the environment has: {_ADVICE}"
            )
        tokenizer.chat_template = template_text(CHATML)
    if {"sft", "rwr"} & set(kinds):
        env.reset(options={"task": 0})
        turns = [_calling(_CALL), {"role": "tool", "name": PROBE, "content": "C"}] if calls else [_CHAT[1], _CHAT[0]]
        training_template(tokenizer, [*map(dict, env.policy_prompt()), *turns, _CHAT[1]], tools)
    if calls and "grpo" in kinds:
        add_call_reader(tokenizer)
    if tokenizer.chat_template == own:
        return name
    tokenizer.eos_token = _end_token(tokenizer, name)
    _save(tokenizer, name, folder)
    return str(folder)


def _calling(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": dict(call)}]}


def _end_token(tokenizer: Any, name: str) -> str:
    """The token that ends a reply in the template. Raises ConfigError where there is none."""
    text = tokenizer.apply_chat_template(_CHAT, tokenize=False).rstrip()
    for token in tokenizer.added_tokens_decoder.values():
        if text.endswith(str(token)):
            return str(token)
    raise ConfigError(
        f"a reply in that chat template ends with {text[-12:]!r}, which is no token of {name!r}: take a template whose "
        f"replies end with {{{{ eos_token }}}}, here {tokenizer.eos_token!r}"
    )


def _save(tokenizer: Any, name: str, folder: Path) -> None:
    """Write a model's folder with that tokenizer; the weights are links."""
    source = Path(name)
    if not source.is_dir():
        from huggingface_hub import snapshot_download  # type: ignore[import-not-found]

        source = Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors"]))
    tokenizer.save_pretrained(folder)
    weights = source.glob("*.safetensors*")
    for path in (*weights, source / "generation_config.json", source / "config.json"):  # the last one completes it
        if path.exists() and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path.resolve())


def training_template(tokenizer: Any, messages: Sequence[Any], tools: Sequence[Any]) -> str:
    """The template with its replies marked for tuning: as it is, TRL's own form of it, or ours.

    messages: a conversation that it is tried on. Raises ConfigError for a template that cannot be marked.
    """
    from trl.chat_template_utils import get_training_chat_template, has_generation_markers

    template: str = tokenizer.chat_template
    if has_generation_markers(template):
        return template
    try:
        return get_training_chat_template(tokenizer) or template
    except template_errors():
        marked = _MARKED.replace("TEMPLATE", template.removesuffix("\n"))
    options: dict[str, Any] = {"tools": list(tools) or None, "tokenize": False}
    try:
        same = tokenizer.apply_chat_template(messages, **options) == tokenizer.apply_chat_template(
            messages, chat_template=marked, **options
        )
        reason = "" if same else "with marks it writes another text"
    except template_errors() as error:
        reason = str(error)
    if reason:
        raise ConfigError(f"the chat template of the model cannot be marked for tuning ({reason:.200}): {_ADVICE}")
    return marked


def _rendered(tokenizer: Any, messages: Sequence[Any], **options: Any) -> Any:
    """Messages after a user's as the template writes them, text by default."""
    return tokenizer.apply_chat_template([_CHAT[0], *messages], tools=[PROBE_TOOL], **{"tokenize": False, **options})


def add_call_reader(tokenizer: Any) -> None:
    """Let TRL read tool calls in replies under the tokenizer's template. Raises ConfigError where none of its readers can."""
    from trl import chat_template_utils as utils

    if getattr(tokenizer, "response_template", None) or getattr(tokenizer, "response_schema", None):
        return
    try:
        utils.add_response_schema(tokenizer)
        return
    except ValueError:
        pass
    options = {"tokenize": True, "return_dict": False}
    try:
        prompt = _rendered(tokenizer, [], add_generation_prompt=True, **options)
        reply = _rendered(tokenizer, [_calling(_CALL)], **options)[len(prompt) :]
    except template_errors():
        prompt = reply = []
    if tokenizer.eos_token_id in reply:
        reply = reply[: reply.index(tokenizer.eos_token_id) + 1]
    for name, reader in vars(utils).items():
        if name.endswith("_template") and isinstance(reader, dict):
            tokenizer.response_template = reader
            calls = utils.parse_response(tokenizer, reply, prefix=prompt).get("tool_calls") or [{}]
            if calls[0].get("function") == _CALL:
                return
    raise ConfigError(f"TRL reads no tool call from the chat template of the model: {_ADVICE}")


@contextmanager
def template_in_place(tokenizer: Any, template: str | None) -> Iterator[None]:
    """Give a tokenizer another template while a trainer is built, which takes its own from there."""
    own = tokenizer.chat_template
    tokenizer.chat_template = template or own
    try:
        yield
    finally:
        tokenizer.chat_template = own
