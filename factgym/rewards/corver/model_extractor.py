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
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.core.prompts import prompt, prompt_hash
from factgym.rewards.corver.triplets import Triplet

TEMPLATES = "prompt_templates.json"
_TEMPLATE_KEY = "entity_extraction_prompt"
_MAX_SENTENCE_CHARS = 2_000

_MAX_OUTPUT_CHARS = 16_384
_MAX_DEPTH = 16
_CLOSING_QUOTES = {'"': '"', "“": "”", "”": "”", "„": "”", "'": "'", "‘": "’"}


class _LoadedModel(NamedTuple):
    model: Any
    tokenizer: Any
    device: str


class ModelExtractor:
    """Prompts a model for the triplets of each sentence. Safe in threads (one batch at a time); a copy loads anew.

    path: a folder as `save_pretrained` makes it. batch: sentences at a time, padded on the left. max_new_tokens: of
    each output. device: "auto" (a GPU if available), or a torch device. dtype: "auto" is bfloat16 on a GPU and float32
    elsewhere. The model is loaded at the first sentence; until then only the folder is inspected.

    Raises ConfigError for a folder without a model, DataError for a broken template file.
    """

    def __init__(
        self, path: str, *, batch: int = 32, max_new_tokens: int = 256, device: str = "auto", dtype: str = "auto"
    ) -> None:
        if batch < 1 or max_new_tokens < 1:
            raise ConfigError("ModelExtractor: batch and max_new_tokens must be at least 1")
        self.path = Path(path).expanduser()
        self.batch, self.max_new_tokens, self.device, self.dtype = batch, max_new_tokens, device, dtype
        if not (self.path / "config.json").is_file():
            raise ConfigError(
                f"{self.path} is no folder with a model (it has no config.json). Download the extractor first, for "
                f"example with: hf download ZhishanQ/QuCo-extractor-0.5B --local-dir {self.path}"
            )
        if not any(self.path.glob("*.safetensors")):
            raise ConfigError(f"{self.path} has no .safetensors weights; other formats are pickles and are not read")
        self.template = _read_template(self.path)
        self._loaded: _LoadedModel | None = None
        self._lock = threading.Lock()

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """Return the triplets of each sentence, of which the model sees the first 2,000 characters."""
        with self._lock:
            if self._loaded is None:
                self._loaded = _load_model(self.path, self.device, self.dtype)
            tokenizer = self._loaded.tokenizer
            prompts = []
            for sentence in sentences:
                content = self.template.replace("{sentence}", sentence[:_MAX_SENTENCE_CHARS])
                messages = [{"role": "user", "content": content}]
                text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
                prompts.append(tokenizer(text, add_special_tokens=False)["input_ids"])
            # Sentences of similar length share a batch, which saves padding.
            order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
            outputs = [""] * len(prompts)
            for start in range(0, len(order), self.batch):
                batch = order[start : start + self.batch]
                texts = generate_greedily(self._loaded, [prompts[i] for i in batch], self.max_new_tokens)
                for i, text in zip(batch, texts, strict=True):
                    outputs[i] = text
        return [read_triplets(output) for output in outputs]

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
        template = json.loads(file.read_text("utf-8"))[_TEMPLATE_KEY]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file} holds no text under {_TEMPLATE_KEY!r}: {error}") from error
    if not isinstance(template, str) or template.count("{}") != 1:
        raise DataError(f"{file}: {_TEMPLATE_KEY!r} must be a text with one {{}} for the sentence")
    return template.replace("{}", "{sentence}")


def _load_model(path: Path, device: str, dtype: str) -> _LoadedModel:
    try:
        import jinja2  # noqa: F401 - chat templates need it
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
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
    return _LoadedModel(model.to(device).eval(), tokenizer, device)


def generate_greedily(loaded: _LoadedModel, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[str]:
    """Return greedy outputs of a batch that is padded on the left."""
    import torch
    from transformers import GenerationConfig

    tokenizer = loaded.tokenizer
    eos = loaded.model.generation_config.eos_token_id
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(ids)) + list(ids) for ids in prompts], device=loaded.device)
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts], device=loaded.device)
    settings = GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=False,
        eos_token_id=tokenizer.eos_token_id if eos is None else eos,
        pad_token_id=pad,
        use_cache=True,
    )
    with torch.inference_mode():
        outputs = loaded.model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)
    return [tokenizer.decode(output[width:], skip_special_tokens=True) for output in outputs]


def read_triplets(text: str) -> list[Triplet]:
    """Parse the triplets in a model's output, in order, tolerating the errors of small models. Never raises.

        entities: [["Rajiv Rai", "place of birth", "Mumbai, Maharashtra, India"], [“O'Brien”, wrote, 'The "Big" Book']

    Lists may be nested to any depth and need not be closed. Parts may be in straight or curly, double or single quotes,
    or unquoted. A quote ends a part only before a comma, a closing bracket or the end, so quotes inside names are
    harmless; a backslash escapes the next character. Commas inside quotes belong to the part; an unquoted tail that
    commas have split is joined again. A part that the output's end has cut is dropped, and its triplet. Lists with
    fewer than three parts are no triplets. Text after the first whole list, or beyond 16,384 characters, is ignored.
    """
    start = text.find("[")
    return _TripletReader(text[start : start + _MAX_OUTPUT_CHARS]).read() if start >= 0 else []


class _TripletReader:
    """One pass over the text, with a stack of the open lists' parts; see `read_triplets`."""

    # A pushdown parser that recovers: lists that the text leaves open are closed at its end, innermost first.

    def __init__(self, text: str) -> None:
        self.text, self.offset = text, 0
        self.triplets: list[Triplet] = []

    def read(self) -> list[Triplet]:
        stack: list[list[str]] = []
        while self.offset < len(self.text):
            char = self.text[self.offset]
            if char == "[":
                if len(stack) >= _MAX_DEPTH:
                    break
                stack.append([])
                self.offset += 1
            elif char == "]":
                self._close(stack.pop())
                self.offset += 1
                if not stack:
                    break
            elif char == "," or char.isspace():
                self.offset += 1
            else:
                part = self._quoted(_CLOSING_QUOTES[char]) if char in _CLOSING_QUOTES else self._unquoted()
                if part is None:  # cut by the end of the text
                    stack.pop()
                elif part:
                    stack[-1].append(part)
        for parts in reversed(stack):
            self._close(parts)
        return self.triplets

    def _close(self, parts: list[str]) -> None:
        if len(parts) >= 3:
            self.triplets.append(Triplet(parts[0], parts[1], ", ".join(parts[2:])))

    def _quoted(self, quote: str) -> str | None:
        """Read up to the closing quote; None without one."""
        text, i = self.text, self.offset + 1
        chars: list[str] = []
        while i < len(text):
            if text[i] == "\\" and i + 1 < len(text):
                i += 1
            # Only a comma, a closing bracket or the end may follow; few characters are read ahead, to stay linear.
            elif text[i] == quote and text[i + 1 : i + 9].lstrip()[:1] in ("", ",", "]"):
                self.offset = i + 1
                return "".join(chars).strip()
            chars.append(text[i])
            i += 1
        self.offset = i
        return None

    def _unquoted(self) -> str | None:
        """Read up to the next comma or bracket; None without one."""
        start = self.offset
        ends = [end for end in (self.text.find(char, start) for char in ",[]") if end >= 0]
        self.offset = min(ends, default=len(self.text))
        return self.text[start : self.offset].strip(' \t\r\n"“”') if ends else None
