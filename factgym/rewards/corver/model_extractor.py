"""Triplets from a language model in a folder: the published QuCo-extractor-0.5B, through `transformers` (extra "local").

The model (ZhishanQ/QuCo-extractor-0.5B, a Qwen2.5-0.5B-Instruct) was tuned on one prompt, which its authors publish as
`prompt_templates.json` in the QuCo-RAG repository. Put that file into the model's folder and it is used; otherwise a
prompt of ours with the same requirements and the same layout is. Outputs are generated greedily, so that a sentence
always has the same triplets. (The published code samples by the model's generation settings.)

Weights are read from safetensors only, and code that a model brings is not run.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.core.prompts import prompt, prompt_hash
from factgym.rewards.corver.triplet_text import read_triplets
from factgym.rewards.corver.triplets import Triplet

TEMPLATES = "prompt_templates.json"
_TEMPLATE_KEY = "entity_extraction_prompt"
_MAX_SENTENCE_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class _Loaded:
    model: Any
    tokenizer: Any
    device: str


class ModelExtractor:
    """Asks a model for the triplets of each sentence. Safe in threads (one batch at a time); a copy loads anew.

    path: a folder as `save_pretrained` makes it. batch: sentences at a time, padded on the left. max_new_tokens: of
    each output. device: "auto" (a GPU where there is one), or what torch calls it. dtype: "auto" is bfloat16 on a GPU
    and float32 elsewhere. The model is loaded at the first sentence; until then only the folder is looked at.

    Raises ConfigError for a folder without a model, DataError for a broken template file.
    """

    def __init__(
        self, path: str, *, batch: int = 32, max_new_tokens: int = 256, device: str = "auto", dtype: str = "auto"
    ) -> None:
        if batch < 1 or max_new_tokens < 1:
            raise ConfigError("ModelExtractor: batch and max_new_tokens must be at least 1")
        self.path = Path(path).expanduser()
        self.batch, self.max_new_tokens, self.device, self.dtype = batch, max_new_tokens, device, dtype
        _check_folder(self.path)
        self.template = _template(self.path)
        self._loaded: _Loaded | None = None
        self._lock = threading.Lock()

    def extract(self, sentences: Sequence[str]) -> list[list[Triplet]]:
        """The triplets of each sentence, of which the first 2,000 characters are shown to the model."""
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self.path, self.device, self.dtype)
            return [read_triplets(one) for one in self._generate(self._loaded, sentences)]

    def describe(self) -> dict[str, Any]:
        """The model's name, a hash of its configuration and of its weights' sizes, and that of the prompt."""
        files = sorted((one.name, one.stat().st_size) for one in self.path.glob("*.safetensors"))
        config = (self.path / "config.json").read_bytes()
        return {
            "extractor": "quco",
            "model": self.path.name,
            "files": hashlib.sha256(config + repr(files).encode()).hexdigest(),
            "prompt": prompt_hash(self.template),
            "max_new_tokens": self.max_new_tokens,
        }

    def _generate(self, loaded: _Loaded, sentences: Sequence[str]) -> list[str]:
        """One output for each sentence; sentences of like length go together, which saves padding."""
        prompts = [_prompt_ids(loaded.tokenizer, self.template, one[:_MAX_SENTENCE_CHARS]) for one in sentences]
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        outputs = [""] * len(prompts)
        for start in range(0, len(order), self.batch):
            chosen = order[start : start + self.batch]
            texts = _generate(loaded, [prompts[i] for i in chosen], self.max_new_tokens)
            for i, text in zip(chosen, texts, strict=True):
                outputs[i] = text
        return outputs

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (str(self.path), self.batch, self.max_new_tokens, self.device, self.dtype)


def _rebuild(path: str, batch: int, max_new_tokens: int, device: str, dtype: str) -> ModelExtractor:
    return ModelExtractor(path, batch=batch, max_new_tokens=max_new_tokens, device=device, dtype=dtype)


def _check_folder(path: Path) -> None:
    if not (path / "config.json").is_file():
        raise ConfigError(
            f"{path} is no folder with a model (it has no config.json). Download the extractor first, for example "
            f"with: hf download ZhishanQ/QuCo-extractor-0.5B --local-dir {path}"
        )
    if not any(path.glob("*.safetensors")):
        raise ConfigError(f"{path} has no .safetensors weights; other formats are pickles and are not read")


def _template(path: Path) -> str:
    """The published template where the folder has it, else ours; `{sentence}` stands for the sentence."""
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


def _load(path: Path, device: str, dtype: str) -> _Loaded:
    try:
        import jinja2  # noqa: F401 - chat templates need it
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("the model extractor", "local") from error
    where = device if device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    kind = dtype if dtype != "auto" else ("bfloat16" if where.startswith("cuda") else "float32")
    common = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **common)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=kind, use_safetensors=True, **common)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{path} cannot be loaded as a language model: {error}") from error
    if not tokenizer.chat_template:
        raise ConfigError(f"the tokenizer in {path} has no chat template, so it is no instruction-tuned extractor")
    return _Loaded(model.to(where).eval(), tokenizer, where)


def _prompt_ids(tokenizer: Any, template: str, sentence: str) -> list[int]:
    message = {"role": "user", "content": template.replace("{sentence}", sentence)}
    text = tokenizer.apply_chat_template([message], add_generation_prompt=True, tokenize=False)
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _generate(loaded: _Loaded, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[str]:
    """Greedy outputs of a batch that is padded on the left."""
    import torch
    from transformers import GenerationConfig

    tokenizer = loaded.tokenizer
    end = loaded.model.generation_config.eos_token_id
    end = tokenizer.eos_token_id if end is None else end
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(one)) + list(one) for one in prompts], device=loaded.device)
    mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts], device=loaded.device)
    settings = GenerationConfig(
        max_new_tokens=max_new_tokens, do_sample=False, eos_token_id=end, pad_token_id=pad, use_cache=True
    )
    with torch.inference_mode():
        outputs = loaded.model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)
    return [tokenizer.decode(one[width:], skip_special_tokens=True) for one in outputs]
