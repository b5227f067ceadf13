"""Small models built on the spot, saved as folders that `transformers` loads: nothing is downloaded.

`build_random` makes a real architecture (Qwen3 or Llama, two layers) with random weights, for arithmetic. `build_scripted`
makes a model whose replies are given: each script is a marker and a text, and a prompt with the marker gets the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import factgym

REASON = "needs the extra 'local'"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

END, START, TEXT_END = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")

CHATML = (
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
CHATML_TOOLS = (
    "{%- if tools %}{{ '<|im_start|>system\n' }}{%- if messages[0].role == 'system' %}{{ messages[0].content + '\n' }}"
    "{%- endif %}{%- for t in tools %}{{ t | tojson + '\n' }}{%- endfor %}{{ '<|im_end|>\n' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'tool' %}"
    "{{ '<|im_start|>user\n<tool_response>' + m.content + '</tool_response><|im_end|>\n' }}"
    "{%- elif not (m.role == 'system' and tools) %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
    "{%- for c in m.tool_calls or [] %}{{ '<tool_call>' + c.function.name + '(' }}"
    "{%- for key, value in c.function.arguments.items() %}{{ key + '=' + (value | string) + ';' }}{%- endfor %}"
    "{{ ')</tool_call>' }}{%- endfor %}{{ '<|im_end|>\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
ALTERNATING = (
    "{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{%- endif %}"
    "{%- for m in messages %}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{%- endif %}"
    "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
THINKING = CHATML.replace(
    "'<|im_start|>assistant\n' }}{%- endif %}", "'<|im_start|>assistant\n<think>\n' }}{%- endif %}"
)
DEAF = (
    "{%- for m in messages %}{%- if m.role != 'system' %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
"""Drops the system message without a word."""

_CORPUS = [
    "The tenant pays the rent on the first day of each month.",
    "Is the claim supported by the documents? Search, read and submit a verdict.",
    '{"name": "search", "arguments": {"query": "notice period", "k": 5}}',
    "system user assistant tool Zürich naïve 漢字 — the landlord may not enter without notice.",
]


def _prompts() -> list[str]:
    """What the environments say, so that their prompts are not many more tokens than with a real tokenizer."""
    package = Path(factgym.__file__).parent
    tools = list(factgym.make("claimcheck-multihop").available_tools())
    return [json.dumps(tools)] * 2 + [path.read_text("utf-8") for path in sorted(package.rglob("*.md"))]


@cache
def _backend(special_tags: bool) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(_CORPUS * 3 + _prompts(), trainer)
    backend.add_special_tokens([AddedToken(token, special=True) for token in (TEXT_END, START, END)])
    tags = [AddedToken(tag, special=special_tags, normalized=False) for tag in TAGS]
    backend.add_special_tokens(tags) if special_tags else backend.add_tokens(tags)
    backend.add_tokens([AddedToken(f"[[{n}]]", special=False, normalized=False) for n in range(16)])
    return backend


def tokenizer(template: str | None = CHATML, *, special_tags: bool = False, max_length: int = 4096) -> Any:
    """A byte-level BPE tokenizer with ChatML tokens, the tags of TAGS and the markers `[[0]]` to `[[15]]`."""
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_backend(special_tags), eos_token=END, pad_token=TEXT_END, model_max_length=max_length
    )
    made.chat_template = template
    return made


def build_random(
    folder: Path,
    kind: str = "qwen3",
    *,
    template: str | None = CHATML_TOOLS,
    generation: Mapping[str, Any] | None = None,
    context: int = 4096,
    std: float = 0.3,
) -> Path:
    """A two-layer model with random weights; `std` is large enough for logits that are far apart."""
    words = tokenizer(template, max_length=context)
    config_class = {"qwen3": transformers.Qwen3Config, "llama": transformers.LlamaConfig}[kind]
    config = config_class(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=context, initializer_range=std,
        eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id, bos_token_id=None,
        tie_word_embeddings=kind == "qwen3",
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        model = transformers.AutoModelForCausalLM.from_config(config)
    _save(folder, model, words, generation)
    return folder


def _save(folder: Path, model: Any, words: Any, generation: Mapping[str, Any] | None) -> None:
    values = {"eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id, **(generation or {})}
    model.generation_config = transformers.GenerationConfig(**values)
    model.save_pretrained(folder)
    words.save_pretrained(folder)


class ScriptedConfig(transformers.PretrainedConfig):
    model_type = "factgym-scripted"

    def __init__(
        self, vocab_size: int = 8, scripts: Sequence[Any] = (), prompt_end: Sequence[int] = (), **kwargs: Any
    ) -> None:
        self.vocab_size, self.scripts, self.prompt_end = vocab_size, list(scripts), list(prompt_end)
        self.hidden_size, self.num_hidden_layers, self.num_attention_heads = 8, 1, 1
        super().__init__(**kwargs)


PEAK = 40.0
"""Logit of the scripted token; all others are 0, so that a sampled reply is the scripted one too."""


class ScriptedModel(transformers.PreTrainedModel, transformers.GenerationMixin):
    config_class = ScriptedConfig
    config: Any
    on_batch: Any = None
    """Called with the number of rows of each forward pass."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.post_init()

    def prepare_inputs_for_generation(
        self, input_ids: Any, attention_mask: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def forward(self, input_ids: Any, attention_mask: Any = None, **kwargs: Any) -> Any:
        if ScriptedModel.on_batch is not None:
            ScriptedModel.on_batch(input_ids.shape[0])
        logits = torch.zeros(*input_ids.shape, self.config.vocab_size)
        masks = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        for row, (ids, mask) in enumerate(zip(input_ids.tolist(), masks.tolist(), strict=True)):
            token = self._next([id_ for id_, seen in zip(ids, mask, strict=True) if seen])
            logits[row, -1, token] = PEAK
        return transformers.modeling_outputs.CausalLMOutputWithPast(logits=logits)

    def _next(self, ids: list[int]) -> int:
        end = self.config.prompt_end
        start = max(i for i in range(len(ids) - len(end) + 1) if ids[i : i + len(end)] == end) + len(end)
        reply = next(reply for marker, reply in self.config.scripts if marker in ids[:start])
        done = len(ids) - start
        return int(reply[done] if done < len(reply) else reply[-1])


def register_scripted() -> None:
    """Let the library's Auto classes load a scripted model."""
    transformers.AutoConfig.register("factgym-scripted", ScriptedConfig, exist_ok=True)
    transformers.AutoModelForCausalLM.register(ScriptedConfig, ScriptedModel, exist_ok=True)


def build_scripted(
    folder: Path, replies: Sequence[str], *, template: str = CHATML, special_tags: bool = False, context: int = 4096
) -> Path:
    """A model that answers a prompt with the marker `[[n]]` by the n-th reply; write `<|im_end|>` where it ends.

    A reply without an end goes on with its last token.
    """
    register_scripted()
    words = tokenizer(template, special_tags=special_tags, max_length=context)
    opening = f"{START}assistant\n" + ("<think>\n" if template == THINKING else "")
    scripts = [
        (words.convert_tokens_to_ids(f"[[{n}]]"), words(text, add_special_tokens=False)["input_ids"])
        for n, text in enumerate(replies)
    ]
    config = ScriptedConfig(
        vocab_size=len(words), scripts=scripts, prompt_end=words(opening, add_special_tokens=False)["input_ids"]
    )
    _save(folder, ScriptedModel(config), words, None)
    return folder
