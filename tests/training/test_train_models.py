"""`factgym train` on models that were not made for it: their templates, precision, trained layers, memory and time.

Peers: TRL's own training templates for what is trained, and its own readers for what is read of a reply.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs factgym[train]: pip install -e '.[train]'")
pytest.importorskip("peft", reason="needs factgym[train]: pip install -e '.[train]'")

import torch
import trl
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from trl import chat_template_utils as utils

import factgym
from factgym.core.errors import ConfigError
from factgym.training.recipes import budget, stages
from factgym.training.recipes.budget import MemoryShortageError, device_rows, uses_bfloat16
from factgym.training.recipes.recipe import Recipe, recipe_of
from factgym.training.recipes.run import Observer, read_metrics, train
from factgym.training.recipes.stages import load_model
from factgym.training.recipes.templates import add_call_reader, training_template
from perf.integrations import tiny_model

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

PLAIN = """\
{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}\
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
"""ChatML as SmolLM2 and many others have it: without tools, and without marks."""
SFT = {"kind": "sft", "tasks": 6, "steps": 2, "batch": 4, "learning_rate": 1e-2, "warmup_steps": 0}
GRPO = {
    "kind": "grpo", "tasks": 4, "steps": 2, "groups": 2, "samples": 4, "max_completion": 24, "learning_rate": 1e-3,
    "warmup_steps": 0,
}  # fmt: skip
NONE = {"every": 0, "test_tasks": 0}
CHAT = [{"role": role, "content": f"{role} {n}"} for n in range(2) for role in ("user", "assistant")]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_model.tokenizer(tiny_model.texts_of(factgym.make("claimcheck-mini")), PLAIN, 1200)


@pytest.fixture(scope="module")
def llama(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2,
        max_position_embeddings=8192, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def gpt(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt")
    GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), n_positions=2048, n_embd=32, n_layer=2, n_head=2)
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def recipe(model: Path, env: str = "claimcheck-mini", **values: Any) -> Recipe:
    return recipe_of({"model": str(model), "env": env, "evaluation": NONE, "stages": [SFT], **values})


def run(folder: Path, options: Recipe) -> list[str]:
    """Train and return what was noted."""
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(options, folder, Observer(step=notes.append))
    return notes


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def trl_template(name: str) -> str:
    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text("utf-8")


def with_template(tokenizer: Any, template: str | None) -> Any:
    copy = tiny_model.tokenizer([], PLAIN, 300)
    copy._tokenizer = tokenizer._tokenizer
    copy.chat_template, copy.bos_token = template, tiny_model.PAD
    return copy


def test_chatml_without_tools_is_tuned_and_plays_with_tools(llama: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in llama.iterdir()}
    notes = run(tmp_path / "run", recipe(llama, stages=[SFT, GRPO], device_tokens=6000))
    assert {path.name: path.read_bytes() for path in llama.iterdir()} == before
    start = tmp_path / "run" / "start" / "model"
    assert (start / "model.safetensors").resolve() == llama / "model.safetensors"
    assert "<tools>" in load_model(str(start)).tokenizer.chat_template
    assert "<tools>" in load_model(str(tmp_path / "run" / "stages" / "1-grpo" / "model")).tokenizer.chat_template
    costs = [note for note in notes if "tokens a step in" in note]
    assert len(costs) == 2 and costs[1].endswith("and the rollouts")
    lines = list(read_metrics(tmp_path / "run"))
    assert [line["kind"] for line in lines] == ["sft", "sft", "grpo", "grpo"] and "components" in lines[-1]


def test_a_closed_book_keeps_a_template_without_tools(gpt: Path, tmp_path: Path) -> None:
    run(tmp_path / "run", recipe(gpt, "corver-qa", stages=[SFT, GRPO], gradient_checkpointing=True))
    assert not (tmp_path / "run" / "start").exists()
    assert load_model(str(tmp_path / "run" / "stages" / "1-grpo" / "model")).tokenizer.chat_template == PLAIN


@pytest.mark.parametrize(
    "name", ["cohere", "gemma", "gemma3", "lfm2", "lfm2_v2", "llama3", "qwen3_instruct_2507", "qwen3_vl"]
)
def test_the_replies_of_an_unknown_template_are_marked_as_trl_marks_known_ones(tokenizer: Any, name: str) -> None:
    changed = with_template(tokenizer, "{# changed #}" + trl_template(name))
    options = {"return_dict": True, "return_assistant_tokens_mask": True}
    ours = changed.apply_chat_template(CHAT, chat_template=training_template(changed, CHAT, ()), **options)
    theirs = changed.apply_chat_template(CHAT, chat_template=trl_template(f"{name}_training"), **options)
    assert 1 in ours["assistant_masks"]
    assert (ours["input_ids"], ours["assistant_masks"]) == (theirs["input_ids"], theirs["assistant_masks"])


@pytest.mark.parametrize("name", ["glm4moe", "lfm2_v2", "llama3_1", "qwen2_5", "qwen3_5_think", "qwen3_instruct_2507"])
def test_the_reader_of_an_unknown_template_is_the_one_that_trl_gives_a_known_one(tokenizer: Any, name: str) -> None:
    recognised, changed = (with_template(tokenizer, start + trl_template(name)) for start in ("", "{# changed #}"))
    utils.add_response_schema(recognised)
    add_call_reader(changed)
    assert changed.response_template == recognised.response_template


def test_templates_that_cannot_be_trained_are_refused_with_the_fix(llama: Path, tokenizer: Any, tmp_path: Path) -> None:
    def refusal(template: str | None, env: str, **values: Any) -> str:
        folder = tmp_path / "model"
        with_template(tokenizer, template).save_pretrained(folder)
        for name in ("config.json", "model.safetensors"):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(llama / name)
        if template is None:
            (folder / "chat_template.jinja").unlink(missing_ok=True)
        with pytest.raises(ConfigError) as error:
            run(tmp_path / f"{len(list(tmp_path.iterdir()))}", recipe(folder, env, **values))
        return str(error.value)

    advice = 'set chat_template="chatml", or a file'
    assert f"has no chat template: {advice}" in refusal(None, "corver-qa")
    last = PLAIN.replace("message['content']", "('' if loop.last else message['content'])")
    assert f"writes a message otherwise when another follows): {advice}" in refusal(last, "corver-qa")
    other = PLAIN.replace("<|im_start|>", "<|start|>")
    assert f"renders no tool calls, which the environment has: {advice}" in refusal(other, "claimcheck-mini")
    assert "Did you mean 'chatml'" in refusal(PLAIN, "corver-qa", chat_template="chatm")
    file = tmp_path / "own.jinja"
    file.write_text(PLAIN.replace("<|im_end|>", "<|stop|>"), "utf-8")
    assert "take a template whose replies end with {{ eos_token }}" in refusal(
        PLAIN, "corver-qa", chat_template=str(file)
    )
    unread = trl_template("qwen3_instruct_2507").replace("<tool_call>", "<call>")
    assert f"TRL reads no tool call from the chat template of the model: {advice}" in refusal(
        unread, "claimcheck-mini", stages=[GRPO]
    )
    with pytest.raises(ConfigError, match="made for its own chat template"):
        run(tmp_path / "s", recipe(Path("scratch:30k"), "corver-qa", chat_template="chatml"))


@pytest.mark.parametrize("lora", [None, {"rank": 2}])
def test_all_but_the_last_layers_stay_bit_equal(llama: Path, tmp_path: Path, lora: dict[str, Any] | None) -> None:
    run(tmp_path / "run", recipe(llama, "corver-qa", train_layers=1, lora=lora, dtype="float32"))
    before, after = weights(llama), weights(tmp_path / "run" / "stages" / "0-sft" / "model")
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and all(name.startswith("model.layers.2.") for name in moved)
    with pytest.raises(ConfigError, match="train_layers=4 is more than the 3 layers of the model"):
        run(tmp_path / "more", recipe(llama, "corver-qa", train_layers=4))


def test_weights_are_held_in_16_bits_only_where_that_is_asked_for(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "run", recipe(llama, "corver-qa", dtype="bfloat16"))
    after = weights(tmp_path / "run" / "stages" / "0-sft" / "model")
    assert {tensor.dtype for tensor in after.values()} == {torch.bfloat16}
    assert not uses_bfloat16(recipe(llama, dtype="float32"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for flags, expected in (("fpu avx512_bf16 amx_tile", True), ("fpu avx2", False)):
        monkeypatch.setattr(budget, "_text", lambda path, flags=flags: flags)
        assert uses_bfloat16(recipe(llama)) is expected
        assert not uses_bfloat16(recipe(Path("scratch:1m")))


@pytest.mark.parametrize(
    ("values", "tokens", "expected"),
    [
        ({}, 600, 2),  # three fit into 2,048 tokens, and two divide sixteen
        ({}, 5000, 1),
        ({"device_tokens": 10_000}, 600, 16),
        ({"model": "scratch:1m"}, 600, 16),
        ({"model": "scratch:1m", "device_tokens": 2400}, 600, 4),
        ({"stages": [{**SFT, "device_batch": 8}]}, 5000, 8),
    ],
)
def test_the_device_batch_follows_from_a_budget_of_tokens(
    values: dict[str, Any], tokens: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = recipe_of({"model": "folder", "env": "corver-qa", "stages": [SFT], **values})
    assert device_rows(options, options.stages[0], 16, tokens) == expected


def test_a_stage_that_does_not_fit_is_refused_with_numbers(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures of a machine stand in for one: a process of 2 GB, and a batch that needs a tenth more for each row."""
    monkeypatch.setattr(budget, "_memory", lambda: 2 * 10**9)
    monkeypatch.setattr(budget, "_cost", lambda trainer, batch: (1.0, 2 * 10**9 + len(batch["input_ids"]) * 2 * 10**8))

    def refusal(limit: float, **values: Any) -> str:
        monkeypatch.setattr(budget, "memory_limit", lambda: int(limit * 1e9))
        with pytest.raises(MemoryShortageError) as error:
            run(tmp_path / f"{len(list(tmp_path.iterdir()))}", recipe(llama, "corver-qa", **values))
        return str(error.value)

    whole = {"stages": [{**SFT, "device_batch": 4}]}
    assert "weights, gradients and optimiser: about 2.00 GB of memory, and there are 1.90" in refusal(1.9)
    assert "train fewer weights with [lora] or train_layers=N" in refusal(1.9)
    assert "a row of" in (text := refusal(2.15)) and "about 2.20 GB of memory, and there are 2.15" in text
    assert "4 rows of" in (text := refusal(2.5, **whole)) and "about 2.80 GB" in text and "set device_batch=2" in text
    many = {**GRPO, "groups": 1000, "samples": 1000}
    assert "lower groups, samples or max_completion" in refusal(2.1, stages=[many])
    monkeypatch.setattr(budget, "memory_limit", lambda: 5 * 10**9)
    notes = run(tmp_path / "fits", recipe(llama, "corver-qa", **whole))
    cost = next(note for note in notes if "tokens a step in 1 batch of up to" in note)
    assert (
        "; about 2.8 GB of 5; about 2 seconds" in cost
    )  # two steps of a second, rows a little shorter than the longest


def test_a_loss_that_takes_more_than_tokens_is_trained_unmeasured(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cost(trainer: Any, batch: Any) -> Any:
        raise KeyError("importance_sampling_ratio")

    monkeypatch.setattr(budget, "_cost", cost)
    notes = run(tmp_path / "run", recipe(llama, "corver-qa"))
    assert any("not measured: the loss takes 'importance_sampling_ratio'" in note for note in notes)
    assert len(list(read_metrics(tmp_path / "run"))) == 2


@pytest.mark.parametrize("stage", [SFT, GRPO], ids=["sft", "grpo"])
def test_measuring_a_batch_leaves_the_training_as_it_was(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: dict[str, Any]
) -> None:
    options = recipe(llama, "corver-qa", stages=[stage], lora={"rank": 2, "dropout": 0.5}, dtype="float32")
    run(tmp_path / "measured", options)
    monkeypatch.setattr(stages, "announce", lambda *_: None)
    run(tmp_path / "plain", options)
    lines = [
        [{name: value for name, value in line.items() if "time" not in name} for line in read_metrics(tmp_path / name)]
        for name in ("measured", "plain")
    ]
    assert lines[0] == lines[1] and len(lines[0]) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="a matter of glibc")
def test_large_buffers_are_not_given_back_to_the_system() -> None:
    code = (
        "import resource, sys, numpy as np\n"
        "from factgym.training.recipes.budget import keep_memory\n"
        "if sys.argv[1] == 'kept': keep_memory()\n"
        "for _ in range(20): np.ones(1 << 24)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"
    )
    faults = {
        name: int(subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True).stdout)
        for name in ("plain", "kept")
    }
    pages = (1 << 24) * 8 // 4096
    assert faults["plain"] - faults["kept"] > 10 * pages or faults["kept"] < 3 * pages  # a musl build keeps none


def test_a_stage_that_is_shorter_than_its_warm_up_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"stage 0 \(sft\): warmup_steps=3 is more than the 2 steps"):
        recipe(Path("m"), stages=[{**SFT, "warmup_steps": 3}])
    for steps, warmup in ((1, 0), (8, 4), (100, 10)):
        (stage,) = recipe(Path("m"), stages=[{"kind": "sft", "steps": steps}]).stages
        assert stage.warmup == warmup
