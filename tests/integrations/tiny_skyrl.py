"""SkyRL's real generator over an engine that says what a script says, and a tokenizer trained on the spot."""

from __future__ import annotations

import json
import typing
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import typing_extensions

# On Python 3.11 pydantic refuses what the standard library makes of SkyRL's typed dictionaries, at import.
typing.TypedDict = typing_extensions.TypedDict  # type: ignore[assignment]

from skyrl.train.config import GeneratorConfig, SkyRLGymConfig  # noqa: E402
from skyrl.train.generators.base import TrajectoryID  # noqa: E402
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

from factgym.core.messages import Message  # noqa: E402
from factgym.integrations.session import Session  # noqa: E402

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    texts = [message["content"] or "" for env in ("claimcheck-multihop", "seva") for message in Session(env).start(0)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=1200, show_progress=False, initial_alphabet=alphabet)
    )
    core.add_special_tokens([AddedToken(mark) for mark in ("<|im_start|>", "<|im_end|>", "<|pad|>")])
    result = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|pad|>")
    result.chat_template = CHAT
    return result


class ScriptedEngine:
    """`scripts[session]`: what the policy of a trajectory says, turn by turn. `shown`: the prompts that it was given."""

    def __init__(self, scripts: dict[str, Sequence[str]]) -> None:
        self.scripts, self.finished = scripts, 0
        self.prompts: dict[str, list[str]] = defaultdict(list)

    async def generate(self, batch: Any, model: str | None = None) -> dict[str, Any]:
        (session,), (prompt,) = batch["session_ids"], batch["prompt_token_ids"]
        turn = len(self.prompts[session])
        self.prompts[session].append(tokenizer().decode(prompt))
        text = self.scripts[session][turn % len(self.scripts[session])]
        ids = [*tokenizer().encode(text, add_special_tokens=False), tokenizer().eos_token_id]
        return {"responses": [text], "response_ids": [ids], "stop_reasons": ["stop"]}

    async def finish_session(self, session: str) -> None:
        self.finished += 1


def generator(engine: Any, kind: type[SkyRLGymGenerator] = SkyRLGymGenerator, **settings: Any) -> SkyRLGymGenerator:
    options = {"max_turns": 64, "max_input_length": 10**7, **settings}
    return kind(GeneratorConfig(**options), SkyRLGymConfig(max_env_workers=2), engine, tokenizer())


def batch(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "prompts": [row["prompt"] for row in rows],
        "env_classes": [row["env_class"] for row in rows],
        "env_extras": [{key: row[key] for key in ("task", "data_source")} for row in rows],
        "trajectory_ids": [TrajectoryID(str(index), 0) for index in range(len(rows))],
        "sampling_params": None,
    }


def written(message: Message) -> str:
    """A message as a policy without native calls writes it."""
    calls = [
        f'<tool_call>\n{{"name": {json.dumps(call["function"]["name"])}, "arguments": {call["function"]["arguments"]}}}\n</tool_call>'
        for call in message.get("tool_calls") or []
    ]
    return "\n".join([message["content"], *calls] if message["content"] else calls)
