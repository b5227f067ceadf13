"""Triplets from a language model in a folder: the published QuCo-extractor-0.5B, through `transformers` (extra "local").

The model (ZhishanQ/QuCo-extractor-0.5B, a Qwen2.5-0.5B-Instruct) was tuned on one prompt, which its authors publish as
`prompt_templates.json` in the QuCo-RAG repository. It is used if the model's folder has that file; otherwise a prompt
of ours with the same requirements and layout. Outputs are generated greedily, so that a sentence always has the same
triplets. (The published code samples with the model's generation settings.)

Weights are read from safetensors only, and code in the model's folder is not run.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.core.paths import is_file, read_text, user_path
from factgym.core.prompts import prompt, prompt_hash
from factgym.rewards.corver.triplets import Triplet

TEMPLATES = "prompt_templates.json"
_TEMPLATE_KEY = "entity_extraction_prompt"
_MAX_SENTENCE_CHARS = 2_000


class ModelExtractor:
    """Prompts a model for the triplets of each sentence. Safe in threads (one batch at a time); a copy loads anew.

    path: a folder as `save_pretrained` makes it. batch: sentences at a time. max_new_tokens: of each output. device:
    "auto" (a GPU if available), or a torch device. dtype: "auto" is bfloat16 on a GPU and float32 elsewhere. The model
    is loaded at the first sentence; until then only the folder is inspected.

    Raises ConfigError for a folder without a model, DataError for a broken template file.
    """

    def __init__(
        self, path: str, *, batch: int = 32, max_new_tokens: int = 256, device: str = "auto", dtype: str = "auto"
    ) -> None:
        if batch < 1 or max_new_tokens < 1:
            raise ConfigError("ModelExtractor: batch and max_new_tokens must be at least 1")
        self.path = user_path(path, "extractor")
        self.batch, self.max_new_tokens, self.device, self.dtype = batch, max_new_tokens, device, dtype
        if not is_file(self.path / "config.json"):
            raise ConfigError(
                f"{self.path} is no folder with a model (it has no config.json). Download the extractor first, for "
                f"example with: hf download ZhishanQ/QuCo-extractor-0.5B --local-dir {self.path}"
            )
        if not any(self.path.glob("*.safetensors")):
            raise ConfigError(f"{self.path} has no .safetensors weights; other formats are pickles and are not read")
        self.template = _read_template(self.path)
        self._pipeline: Any = None
        self._lock = threading.Lock()

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """Return the triplets of each sentence, of which the model sees the first 2,000 characters."""
        return [read_triplets(output) for output in self.generate(sentences)]

    def generate(self, sentences: Sequence[str]) -> list[str]:
        """Return the model's greedy output for each sentence."""
        # Sentences of similar length share a batch, which saves padding.
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        prompts = (self.template.replace("{sentence}", sentences[i][:_MAX_SENTENCE_CHARS]) for i in order)
        chats = [[{"role": "user", "content": text}] for text in prompts]
        if not chats:
            return []
        with self._lock:
            if self._pipeline is None:
                self._pipeline = _load_pipeline(self.path, self.device, self.dtype)
            options = {"batch_size": self.batch, "max_new_tokens": self.max_new_tokens, "return_full_text": False}
            generated = self._pipeline(chats, do_sample=False, **options)
        outputs = {i: replies[0]["generated_text"] for i, replies in zip(order, generated, strict=True)}
        return [outputs[i] for i in range(len(sentences))]

    def describe(self) -> dict[str, Any]:
        """Return the model's name, a hash of its configuration and of its weights' sizes, and that of the prompt."""
        files = sorted((file.name, file.stat().st_size) for file in self.path.glob("*.safetensors"))
        config = (self.path / "config.json").read_bytes()
        return {
            "extractor": "quco",
            "model": self.path.name,
            "files": hashlib.sha256(config + repr(files).encode()).hexdigest(),
            "prompt": prompt_hash(self.template),
            "max_new_tokens": self.max_new_tokens,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        options = {name: getattr(self, name) for name in ("batch", "max_new_tokens", "device", "dtype")}
        return partial(ModelExtractor, **options), (str(self.path),)


def _read_template(path: Path) -> str:
    """Return the published template if the folder has it, else ours; `{sentence}` is replaced by the sentence."""
    file = path / TEMPLATES
    if not file.is_file():
        return prompt(__package__ or "", "extract")
    try:
        template = json.loads(read_text(file))[_TEMPLATE_KEY]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file} holds no text under {_TEMPLATE_KEY!r}: {error}") from error
    if not isinstance(template, str) or template.count("{}") != 1:
        raise DataError(f"{file}: {_TEMPLATE_KEY!r} must be a text with one {{}} for the sentence")
    return template.replace("{}", "{sentence}")


def _load_pipeline(path: Path, device: str, dtype: str) -> Any:
    """Load a pipeline, which applies the chat template and pads each batch on the left."""
    try:
        import jinja2  # noqa: F401 - chat templates need it
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, TextGenerationPipeline
    except ImportError as error:
        raise MissingExtraError("the model extractor", "local") from error
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True, **options)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{path} cannot be loaded as a language model: {error}") from error
    if not tokenizer.chat_template:
        raise ConfigError(f"the tokenizer in {path} has no chat template, so it is no instruction-tuned extractor")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token_id = tokenizer.eos_token_id
    return TextGenerationPipeline(model=model, tokenizer=tokenizer, device=device)


_MAX_OUTPUT_CHARS = 16_384
_MAX_DEPTH = 16


def _quoted(opening: str, closing: str) -> str:
    # A backslash escapes a character. A quote closes only before a comma, a bracket, the end, or eight spaces: few
    # characters are read ahead, so the time is linear.
    return rf"{opening}((?:\\.|(?!{closing}\s{{0,7}}+(?:[\s,\]]|\Z)).)*+){closing}"


_TOKEN = re.compile(
    rf"""[\s,]++|[\[\]]|{_quoted('"', '"')}|{_quoted("'", "'")}|{_quoted("[“”„]", "”")}|{_quoted("‘", "’")}"""
    r"""|([^\s,\[\]"'“”„‘][^,\[\]]*+)(?=[,\[\]])""",
    re.DOTALL,
)
"""A separator, a bracket, or a part: in quotes (groups 1 to 4), or without up to a comma or bracket (group 5)."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def read_triplets(text: str) -> list[Triplet]:
    """Parse the triplets in a model's output, in order, tolerating the errors of small models. Never raises.

        entities: [["Rajiv Rai", "place of birth", "Mumbai, Maharashtra, India"], [“O'Brien”, wrote, 'The "Big" Book']

    Lists may be nested to any depth and need not be closed. Parts may be in straight or curly, double or single quotes,
    or unquoted. A quote ends a part only before a comma, a closing bracket or the end, so quotes inside names are
    harmless; a backslash escapes the next character. Commas inside quotes belong to the part; an unquoted tail that
    commas have split is joined again. A part that the output's end has cut is dropped, and its triplet. Lists with
    fewer than three parts are no triplets. Text after the first whole list, or beyond 16,384 characters, is ignored.
    """
    # A pushdown parser that recovers: lists that the text leaves open are closed at its end, innermost first.
    position = text.find("[")
    if position < 0:
        return []
    text = text[: position + _MAX_OUTPUT_CHARS]
    closed: list[list[str]] = []
    stack: list[list[str]] = []
    while match := _TOKEN.match(text, position):
        position = match.end()
        if match[0] == "[":
            if len(stack) >= _MAX_DEPTH:
                break
            stack.append([])
        elif match[0] == "]":
            closed.append(stack.pop())
            if not stack:
                break
        elif match.lastindex == 5:
            stack[-1].append(match[5].strip(' \t\r\n"“”'))
        elif match.lastindex:
            stack[-1].append(_ESCAPE.sub(r"\1", match[match.lastindex]).strip())
    else:
        if position < len(text):  # the end has cut a part
            stack.pop()
    lists = ([part for part in parts if part] for parts in (*closed, *reversed(stack)))
    return [Triplet(parts[0], parts[1], ", ".join(parts[2:])) for parts in lists if len(parts) >= 3]
