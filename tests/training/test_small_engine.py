"""The engine "small" beside transformers' forward pass and TRL's GRPOTrainer and SFTTrainer, which nobody here wrote."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_model

pytest.importorskip("trl", reason="needs factgym[train]")
pytest.importorskip("peft", reason="needs factgym[train]")

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config
from typer.testing import CliRunner

import factgym
from factgym.agents.local.chat import ChatFormat, Codec
from factgym.agents.local.loading import LocalSettings, load
from factgym.agents.resolve import find_agent
from factgym.agents.runs.collect import collect
from factgym.cli.main import app
from factgym.core.errors import ConfigError
from factgym.integrations.session import Session, play_oracle
from factgym.training.recipes import scratch, small, stages
from factgym.training.recipes.curves import result_tables
from factgym.training.recipes.evaluation import evaluate, playing_agent
from factgym.training.recipes.recipe import Recipe, recipe_of, with_changes
from factgym.training.recipes.results import stored_result
from factgym.training.recipes.run import read_metrics, train
from factgym.training.recipes.task_sets import TaskSets
from factgym.training.small_model import Cache, SmallModel, TokenRow, backward, sampler

pytestmark = pytest.mark.filterwarnings("default")  # the framework's own

ENV = "claimcheck-mini"
SFT = {"kind": "sft", "tasks": 12, "steps": 4, "batch": 4, "learning_rate": 1e-2, "warmup_steps": 1, "save_every": 2}
GRPO = {
    "kind": "grpo", "tasks": 6, "steps": 4, "groups": 2, "samples": 4, "max_completion": 120, "save_every": 2,
    "learning_rate": 1e-3, "warmup_steps": 0,
}  # fmt: skip
EVALUATION = {"every": 2, "tasks": 2, "test_tasks": 2, "max_tokens": 8}


def recipe(**values: Any) -> Recipe:
    settings = {"model": "scratch:50k", "env": ENV, "engine": "small", "evaluation": EVALUATION, "stages": [SFT, GRPO]}
    return recipe_of({**settings, **values})


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights of a usual size, with the tokenizer of one from nothing."""
    session, texts = Session(ENV, split="train"), []
    for index in range(40):
        session.start(index)
        play_oracle(session.env)
        texts.append(json.dumps(session.env.episode.messages))
        texts += [message["content"] or "" for message in session.env.episode.messages]
    tokenizer = scratch.make_tokenizer(texts, 700)
    model = scratch.make_model(tokenizer, 250_000, seed=1)
    folder = tmp_path_factory.mktemp("base")
    with_noise(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def with_noise(model: Any) -> Any:
    """Weights far from uniform, and norms that are not 1."""
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data = 1 + 0.3 * noise if parameter.ndim == 1 else 0.15 * noise
    return model


def reference(source: Path | str) -> Any:
    """A model of a folder, or by its name one of a pretrained model's shape: few heads of keys, a head of its own or not, long positions."""
    if isinstance(source, Path):
        return AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    shape = {
        "vocab_size": 410, "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3, "head_dim": 16,
        "num_attention_heads": 6, "num_key_value_heads": 2, "rope_theta": 100_000.0,
    }  # fmt: skip
    config, _, form = source.partition(" ")
    if form == "scaled":
        shape |= {"rope_scaling": SCALED, "max_position_embeddings": 2048}
    return with_noise(AutoModelForCausalLM.from_config(SHAPES[config](**shape, tie_word_embeddings=form == "tied")))


SHAPES = {"llama": LlamaConfig, "qwen3": Qwen3Config}
SCALED = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
PRETRAINED = ["llama tied", "llama untied", "llama scaled", "qwen3 tied", "qwen3 untied"]


def logprobs(model: Any, ids: list[int], temperature: float = 1.0) -> torch.Tensor:
    """(tokens − 1,): of each token but the first, by one pass of transformers' without a cache."""
    logits = model(torch.tensor([ids])).logits[0, :-1] / temperature
    return logits.log_softmax(-1).gather(-1, torch.tensor(ids[1:]).unsqueeze(-1)).squeeze(-1)


def assert_equal_gradients(ours: Any, expected: Any) -> None:
    for (name, first), second in zip(expected.named_parameters(), ours.parameters(), strict=True):
        error = (second.grad - first.grad).abs().max() / first.grad.abs().max()
        assert error < 2e-4, f"{name}: {error}"


def stage_run(
    base: Path, tmp_path: Path, engine: str, env: str = ENV, config: dict[str, Any] | None = None, **stage: Any
) -> stages.StageRun:
    stage, config = {**GRPO, "device_batch": 8, **stage}, {"split": "train", **(config or {})}
    options = recipe(engine=engine, env=env, stages=[stage], model=str(base), dtype="float32", env_config=config)
    made = factgym.make(env, **config)
    return stages.StageRun(options, options.stages[0], made, config, [0, 1, 2, 3, 4, 5], tmp_path, str(base))


def token_rows(shared: int) -> list[TokenRow]:
    """Three rows with the same first tokens."""
    numbers = random.Random(4)
    start = [numbers.randrange(400) for _ in range(shared)]
    rows = []
    for length in (5, 17, 11):
        ids = start + [numbers.randrange(400) for _ in range(length)]
        trained = [False] * shared + [numbers.random() < 0.6 for _ in range(length - 1)] + [True]
        rows.append(TokenRow(ids, trained, [numbers.gauss(0, 1) * each for each in trained]))
    return rows


@pytest.mark.parametrize(("shared", "temperature"), [(2, 1.0), (2, 0.7), (9, 1.0)])
@pytest.mark.parametrize("shape", ["", *PRETRAINED])
def test_log_probabilities_and_gradients_are_those_of_transformers(
    base: Path, shape: str, shared: int, temperature: float
) -> None:
    rows = token_rows(shared)
    expected, ours = reference(shape or base), reference(shape or base)
    loss, entropy, count = torch.zeros(()), 0.0, 0
    for row in rows:
        values = logprobs(expected, list(row.ids), temperature)
        loss = loss - (values * torch.tensor(row.weights[1:])).sum()
        count += sum(row.trained)
        for index in [index for index, each in enumerate(row.trained) if each]:
            logits = expected(torch.tensor([row.ids[:index]])).logits[0, -1].detach() / temperature
            entropy += float(torch.distributions.Categorical(logits=logits).entropy())
    loss.backward()
    sums = backward(SmallModel(ours), [rows[:1], rows[1:]], temperature)
    assert sums["loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert sums["entropy"] == pytest.approx(entropy, rel=1e-4)
    assert sums["tokens"] == count
    assert_equal_gradients(ours, expected)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("shape", ["llama tied", "qwen3 untied"])
def test_the_last_layers_alone_are_trained_where_the_others_are_frozen(shape: str, layers: int) -> None:
    rows, (expected, ours) = token_rows(5), (reference(shape), reference(shape))
    stages.freeze_layers(ours, layers)
    backward(SmallModel(expected), [rows])
    backward(SmallModel(ours), [rows])
    for (name, first), second in zip(expected.named_parameters(), ours.parameters(), strict=True):
        assert (second.grad is None) is all(f"layers.{number}." not in name for number in range(3 - layers, 3)), name
        if second.grad is not None:
            torch.testing.assert_close(second.grad, first.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", PRETRAINED)
def test_products_in_16_bits_give_nearly_the_same_gradients(shape: str) -> None:
    """As near to those of 32 bits as transformers' own pass is under autocast, within a factor."""
    rows, (exact, ours, autocast) = token_rows(5), (reference(shape) for _ in range(3))
    backward(SmallModel(exact), [rows])
    backward(SmallModel(ours, dtype=torch.bfloat16), [rows])
    with torch.autocast("cpu", torch.bfloat16):
        for row in rows:
            values = logprobs(autocast, list(row.ids)).float()
            (-(values * torch.tensor(row.weights[1:])).sum()).backward()

    def error(model: Any) -> float:
        pairs = zip(model.parameters(), exact.parameters(), strict=True)
        return max(float((each.grad - other.grad).norm() / other.grad.norm()) for each, other in pairs)

    assert all(weight.grad.dtype == torch.float32 for weight in ours.parameters())
    assert 0 < error(ours) < 1.5 * error(autocast)


@pytest.mark.parametrize("shape", ["", *PRETRAINED])
def test_a_cache_gives_what_a_pass_without_it_gives(base: Path, shape: str) -> None:
    """Rows with equal prompts, chunks of any length, rows that change places and rows that end."""
    numbers, model = random.Random(5), reference(shape or base)
    engine = SmallModel(model)
    with torch.inference_mode():
        weights, cache = engine.weights(), Cache(engine)
        for _ in range(2):  # a cache is used again for the next step
            prompts = [[numbers.randrange(400) for _ in range(length)] for length in (4, 9, 6)]
            texts = {row: list(prompts[row // 2]) for row in range(6)}
            cache.clear(range(6), 40)
            hidden = cache.extend(weights, prompts, repeats=2)
            for order in ([0, 1, 2, 3, 4, 5], [4, 1, 2, 5, 0, 3], [3, 0, 1], [1, 2]):
                expected = [model(torch.tensor([texts[row]])).logits[0, -1] for row in cache.rows]
                got = (hidden @ weights.head.T).log_softmax(-1)
                torch.testing.assert_close(got, torch.stack(expected).log_softmax(-1), rtol=0, atol=1e-4)
                cache.reorder(order)
                chunks = [[numbers.randrange(400) for _ in range(numbers.randint(1, 7))] for _ in cache.rows]
                for row, chunk in zip(cache.rows, chunks, strict=True):
                    texts[row] += chunk
                hidden = cache.extend(weights, chunks)


def test_draws_have_the_distribution_of_the_logits() -> None:
    logits = torch.tensor([1.0, -2.0, 0.5, -30.0, 2.0])
    draw = sampler(0.8, seed=3)
    counts = torch.bincount(draw(logits.expand(200_000, -1)), minlength=5)
    expected = (logits / 0.8).softmax(-1)
    assert (counts / 200_000 - expected).abs().max() < 0.005  # 4.5 standard deviations
    assert counts[3] == 0


def scripted() -> Iterator[list[str]]:
    """The replies of each episode of a step: the oracle's, malformed and half ones, several calls at once, plain texts."""
    for index in (0, 1):
        session = Session(ENV, split="train")
        session.start(index)
        texts = [str(action) for action in play_oracle(session.env) or []]
        yield texts
        yield ["I do not know.", *texts[:1], *texts[-1:]]
        yield ['<tool_call>\n{"name": "search", "argu', "\n".join(texts[:2]), "Nothing."]
        yield [texts[0], "<think>\nWho?\n</think>\n\n" + texts[-1].replace("contradicted", "supported")]


@pytest.fixture
def replies(base: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[list[int]]]:
    """Replaces what is sampled by `scripted`; the last reply is repeated, and cut at its limit."""
    tokenizer = load(str(base), LocalSettings(device="cpu")).tokenizer
    encoded = [
        [[*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id] for text in texts]
        for texts in scripted()
    ]
    turns = [0] * len(encoded)

    def sample(self: Cache, weights: Any, hidden: Any, limits: dict[int, int], end: int, draw: Any) -> Any:
        sampled = {}
        for row in self.rows:
            sampled[row] = encoded[row][min(turns[row], len(encoded[row]) - 1)][: limits[row]]
            turns[row] += 1
        return sampled

    monkeypatch.setattr(Cache, "sample", sample)
    return encoded


@pytest.mark.parametrize(
    "settings",
    [
        {"max_completion": 330},
        {"max_completion": 400, "trl": {"loss_type": "grpo"}},
        {"max_completion": 400, "trl": {"loss_type": "dr_grpo", "scale_rewards": "none"}},
        {"max_completion": 400, "credit": "stepwise", "temperature": 0.8},
        {"max_completion": 400, "credit": "grpo"},
        {"max_completion": 400, "config": {"prompt": "mini"}},
    ],
    ids=["dapo", "grpo", "dr_grpo", "stepwise", "credit", "mini"],
)
def test_a_step_is_that_of_trls_trainer_on_the_same_episodes(
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    replies: list[list[list[int]]],
    settings: dict[str, Any],
) -> None:
    """Tokens, masks, rewards, advantages, loss and gradients. TRL's own loop gets the replies in index of its generation."""
    monkeypatch.setattr(small, "tasks_of_step", lambda *arguments: [0, 1])
    ours = small._GrpoSteps(stage_run(base, tmp_path, "small", **settings), stages.load_model(str(base)))
    played, play = [], ours.play
    monkeypatch.setattr(ours, "play", lambda step: played.extend(play(step)) or played)
    metrics = ours.step(0)
    rollouts = [(rollout.ids, rollout.sequences[0][1], rollout.start) for rollout in played]

    trainer, _ = stages._grpo(stage_run(base, tmp_path, "trl", **settings), stages.load_model(str(base)))
    budget, requests = ours.limit, dict.fromkeys(range(8), 0)

    def generate(contexts: Any, *arguments: Any, **options: Any) -> Any:
        ids = []
        for context in contexts:
            row = next(
                row
                for row, (tokens, _, _) in enumerate(rollouts)
                if tokens[: len(context)] == list(context) and row not in used
            )
            used.add(row)
            reply = replies[row][min(requests[row], len(replies[row]) - 1)]
            ids.append(reply[:budget])
            requests[row] += 1
        used.clear()
        return ids, None

    used: set[int] = set()
    trainer._generate_single_turn = generate
    rows = [trainer.train_dataset[index] for index in (0, 1) for _ in range(4)]
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows)
    for index, (ids, trained, start) in enumerate(rollouts):
        prompt = batch["prompt_ids"][index][batch["prompt_mask"][index].bool()].tolist()
        length = int(batch["completion_mask"][index].sum())
        assert prompt + batch["completion_ids"][index][:length].tolist() == ids
        assert [False] * start + batch["tool_mask"][index][:length].bool().tolist() == trained
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    logged = {name: values[-1] for name, values in trainer._metrics["train"].items() if values}
    assert metrics["loss"] == pytest.approx(loss.item(), abs=1e-5)
    assert metrics["reward_std"] > 0.01
    for theirs, name in (
        ("reward", "reward"), ("reward_std", "reward_std"), ("frac_reward_zero_std", "zero_signal"), ("entropy", "entropy"),
        ("completions/mean_length", "length"), ("completions/max_length", "length_max"),
        ("completions/clipped_ratio", "clipped"), ("factgym/turns", "turns"), ("factgym/truncated", "truncated"),
    ):  # fmt: skip
        assert metrics[name] == pytest.approx(logged[theirs], rel=1e-4, abs=1e-5), name
    for name, value in metrics["components"].items():
        assert value == pytest.approx(logged[f"rewards/{name}/mean"]), name
    assert_equal_gradients(ours.loaded.model, trainer.model)


def test_tuning_takes_the_rows_and_the_step_of_trls_trainer(base: Path, tmp_path: Path) -> None:
    messages = [
        [{"role": "user", "content": f"Is {name} a mill?"}, {"role": "assistant", "content": f"{name} is an inn."}]
        * count
        for name, count in (("Zesor", 1), ("Dusel", 2), ("Nusen", 3), ("Bulo", 2))
    ]
    data = tmp_path / "lines.jsonl"
    data.write_text("".join(json.dumps({"messages": each}) + "\n" for each in messages), "utf-8")
    made = []
    for engine in ("small", "trl"):
        stage = {**SFT, "data": str(data), "max_length": 60}
        options = recipe(engine=engine, stages=[stage], model=str(base), dtype="float32")
        run = stages.StageRun(options, options.stages[0], factgym.make(ENV), {}, [], tmp_path, str(base), data)
        make = small._SftSteps if engine == "small" else lambda *arguments: stages._sft(*arguments)[0]
        made.append(make(run, stages.load_model(str(base))))
    ours, trainer = made
    for line, row in zip(ours.lines, trainer.train_dataset, strict=True):
        ids, trained = ours.encode(line)
        assert ids == row["input_ids"]
        assert [each != -100 for each in row["labels"]] == trained
    batch = trainer.data_collator([trainer.train_dataset[index] for index in range(4)])
    loss = trainer.compute_loss(trainer.model.train(), batch, num_items_in_batch=(batch["labels"] != -100).sum())
    loss.backward()
    metrics = ours.step(0)
    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-4)
    logged = {name: values[-1] for name, values in trainer._metrics["train"].items()}
    assert metrics["entropy"] == pytest.approx(logged["entropy"], rel=1e-4)
    assert metrics["token_accuracy"] == pytest.approx(logged["mean_token_accuracy"])
    assert_equal_gradients(ours.loaded.model, trainer.model)


PASSAGES = [f"The {thing} of Zarendel is {name}. It was built in {1700 + 7 * number}."
            for number, (thing, name) in enumerate((t, n) for t in ("mill", "inn", "ferry") for n in ("Bulo", "Nusen"))]  # fmt: skip


def passages_file(folder: Path) -> Path:
    path = folder / "passages.jsonl"
    lines = [{"id": str(number), "text": text} for number, text in enumerate(PASSAGES)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_language_modelling_has_the_loss_and_gradients_of_transformers(base: Path, tmp_path: Path) -> None:
    data = passages_file(tmp_path)
    stage = {"kind": "lm", "data": str(data), "max_length": 24, "steps": 2, "batch": 3, "warmup_steps": 0}
    options = recipe(stages=[stage], model=str(base), dtype="float32")
    run = stages.StageRun(options, options.stages[0], factgym.make(ENV), {}, [], tmp_path, str(base), data)
    steps = small._SftSteps(run, stages.load_model(str(base)))
    end = steps.tokenizer.eos_token
    assert steps.tokenizer.decode([token for row in steps.lines for token in row[1:]]) == "".join(
        text + end for text in PASSAGES
    )
    expected, loss, count = reference(base), torch.zeros(()), 0
    for ids in steps.step_lines(0):
        loss = loss - logprobs(expected, ids)[1:].sum()
        count += len(ids) - 2
    (loss / count).backward()
    assert steps.step(0)["loss"] == pytest.approx(loss.item() / count, rel=1e-4)
    assert_equal_gradients(steps.loaded.model, expected)


@pytest.mark.parametrize("engine", ["small", "trl"])
def test_a_model_from_nothing_reads_before_it_is_tuned(engine: str, tmp_path: Path) -> None:
    data = passages_file(tmp_path)
    reading = {**SFT, "kind": "lm", "data": str(data), "max_length": 32}
    del reading["tasks"]
    options = recipe(engine=engine, stages=[reading, SFT], evaluation={**EVALUATION, "every": 0})
    result = train(options, tmp_path / "run")
    assert list(result["splits"]["test"]["scores"]) == ["start", "0-lm", "1-sft"]
    steps = [line for line in read_metrics(tmp_path / "run") if line["kind"] == "lm" and "evaluation" not in line]
    assert steps[3]["loss"] < steps[0]["loss"]


def test_a_tokenizer_from_nothing_knows_the_words_of_passages() -> None:
    chats = [f"<|im_start|>user\nIs {name} a mill?<|im_end|>\n" for name in ("Bulo", "Nusen")] * 20
    without, with_passages = (scratch.make_tokenizer(iter(chats), 700, more) for more in ((), PASSAGES))
    assert len(with_passages.encode("Zarendel")) < len(without.encode("Zarendel"))
    assert with_passages.encode(chats[0])[:1] == with_passages.encode("<|im_start|>")
    assert with_passages.decode(with_passages.encode(PASSAGES[0])) == PASSAGES[0]


def test_every_line_is_in_a_pass_once(base: Path, tmp_path: Path) -> None:
    data = tmp_path / "lines.jsonl"
    lines = [{"messages": [{"role": "user", "content": str(number)}]} for number in range(10)]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    options = recipe(stages=[SFT], model=str(base))
    run = stages.StageRun(options, options.stages[0], factgym.make(ENV), {}, [], tmp_path, str(base), data)
    steps = small._SftSteps(run, stages.load_model(str(base)))
    order = [line["messages"][0]["content"] for step in range(5) for line in steps.step_lines(step)]
    assert sorted(order[:10]) == sorted(order[10:]) == sorted(map(str, range(10)))
    assert order[:10] != order[10:]


def test_sampled_episodes_are_those_of_passes_without_a_cache(base: Path, tmp_path: Path) -> None:
    """Nearly greedy: each sampled token is the likeliest of transformers' pass over all tokens before it."""
    run = stage_run(base, tmp_path, "small", temperature=1e-4, max_completion=160)
    steps, model = small._GrpoSteps(run, stages.load_model(str(base))), reference(base)
    for rollout in steps.play(0):
        ids, trained = rollout.sequences[0]
        likeliest = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
        assert any(trained)
        assert all(ids[index] == likeliest[index - 1] for index, each in enumerate(trained) if each)


@pytest.mark.parametrize(("options", "limit"), [({"device_tokens": 700}, 2), ({"device_batch": 2}, 2), ({}, 4)])
def test_rows_are_computed_together_within_the_budget_of_tokens(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, int], limit: int
) -> None:
    run = stage_run(base, tmp_path, "small", device_batch=options.get("device_batch"))
    tokens = {"device_tokens": options.get("device_tokens")}
    run = replace(run, recipe=run.recipe.model_copy(update=tokens))
    steps, batches = small._GrpoSteps(run, stages.load_model(str(base))), []
    monkeypatch.setattr(small, "backward", lambda model, rows, temperature: batches.extend(rows))
    rows = [TokenRow([5] * 300, [False] * 4 + [True] * 296, [0.0] * 300)] * 8
    steps._backward(rows)
    assert max(map(len, batches)) == limit and sum(map(len, batches)) == 8


@pytest.mark.parametrize("env", ["profact", "claimcheck-mini", "corver-qa-search", "eve-solver", "seva"])
def test_prompts_are_those_of_an_evaluation(base: Path, tmp_path: Path, env: str) -> None:
    """The renderer of local models, which play in evaluations, makes the same prompts; ProFact's hide evidence and tools.

    Rewards are those of the texts played anew.
    """
    run = stage_run(base, tmp_path, "small", env=env, max_completion=12)
    loaded = stages.load_model(str(base))
    steps = small._GrpoSteps(run, loaded)
    chat = ChatFormat(loaded.tokenizer, Codec(loaded.tokenizer, loaded.eos, ()), "base")
    session, rollouts = Session(env, split="train"), steps.play(0)
    for rollout in rollouts:
        session.start(rollout.slot.session.task)
        for ids, trained in rollout.sequences:
            start = trained.index(True)
            prompt = chat.render(session.env.policy_prompt(), session.env.available_tools()).text
            assert ids[:start] == chat.codec.encode(prompt)
            if not steps.hides:
                break
            assert all(trained[start:]) and len(ids) - start <= 12
            session.step(steps.tokenizer.decode(ids[start:], skip_special_tokens=True))
        assert not steps.hides or session.close().total == rollout.slot.session.close().total
    assert any(len(rollout.sequences) > 1 for rollout in rollouts) == steps.hides
    rows = steps.token_rows(rollouts, [1.0] * 8)
    assert sum(sum(row.weights) for row in rows) == pytest.approx(1.0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("run") / "run"
    return folder, train(recipe(), folder)


def test_a_run_has_curves_scores_and_a_model_that_plays(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, result = finished
    lines = list(read_metrics(folder))
    steps = [line for line in lines if "evaluation" not in line]
    assert [line["total_step"] for line in steps] == list(range(1, 9))
    assert steps[3]["loss"] < steps[0]["loss"]
    for line in steps[4:]:
        assert {"reward", "reward_std", "zero_signal", "length", "entropy", "components", "turns"} <= line.keys()
    assert [line["total_step"] for line in lines if line.get("evaluation") == "validation"] == [0, 2, 4, 6, 8]
    assert list(result["splits"]["test"]["scores"]) == ["start", "0-sft", "1-grpo"]
    references = result["splits"]["test"]["references"]
    assert {role: row["agent"] for role, row in references.items()} == {"honest": "differences", "teacher": "teacher"}
    assert references["teacher"]["reward"] == pytest.approx(1.0)
    tables = result_tables(result)
    assert [column.name for column in tables[-1].columns] == ["score", "honest", "teacher"]
    assert all(len(table.columns) <= len(result["stages"]) + 4 for table in tables)  # they fit 80 columns
    stored = stored_result([folder], "factgym train", "abc")["splits"]["test"]["references"]
    assert stored["honest"]["reward"] == pytest.approx(references["honest"]["reward"], abs=1e-4)
    model = f"hf:{folder / 'stages' / '1-grpo' / 'model'}"
    arguments = ["eval", ENV, "--agent", model, "-n", "2", "--agent-set", "max_tokens=8", "--out", str(folder / "eval")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output


def test_a_stage_ends_with_the_model_that_is_best_on_validation_tasks(tmp_path: Path) -> None:
    tuning = {**SFT, "steps": 6, "evaluate_every": 1, "keep": "best", "batch": 8, "learning_rate": 3e-2}
    evaluation = {**EVALUATION, "every": 0, "tasks": 4, "max_tokens": 60}
    options = recipe(stages=[{**SFT, "steps": 30}, tuning, {**GRPO, "steps": 1}], evaluation=evaluation)
    folder = tmp_path / "run"
    chosen = train(options, folder)["stages"][1]["kept"]
    lines = [line for line in read_metrics(folder) if line.get("evaluation") == "validation" and line["stage"] == 1]
    best = max(lines, key=lambda line: (line["reward"], -line["step"]))
    assert chosen == {"step": best["step"], "reward": best["reward"]} and len(lines) == 6
    loaded = stages.load_model(str(folder / "stages/1-sft/model"))
    with playing_agent(loaded, temperature=1.0, max_tokens=60, batch_size=64) as agent:
        scores = evaluate(agent, factgym.make(ENV, split="validation"), tmp_path / "again", 4, options.evaluation, 0)
    assert scores["reward"] == best["reward"] and scores["components"] == best["components"]
    first, second = (reference(folder / name) for name in ("stages/1-sft/best", "stages/1-sft/model"))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_a_stage_without_an_evaluation_ends_with_its_last_model(tmp_path: Path) -> None:
    tuning = {**SFT, "evaluate_every": 9, "keep": "best"}
    control = {**SFT, "steps": 1000, "control_of": 0, "evaluate_every": 999, "keep": "best"}
    result = train(recipe(stages=[tuning, control], evaluation={**EVALUATION, "every": 0}), tmp_path / "run")
    assert result["stages"][0]["kept"]["step"] == 4  # its last step is always evaluated
    assert "kept" not in result["stages"][1] and (tmp_path / "run/stages/1-sft/model").is_dir()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env": "toy", "stages": [{**SFT, "keep": "best"}]}, "keep='best' needs a validation split, and toy has none"),
        ({"stages": [{"kind": "lm", "data": "/absent"}]}, "'/absent' does not exist"),
        ({"model": "RELU"}, "trains plain models like Llama and Qwen3, not "),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_played(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    if changes.get("model") == "RELU":
        config = tiny_model.build_random(tmp_path / "relu", context=2048) / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text("utf-8")), "hidden_act": "relu"}), "utf-8")
        changes = {"model": str(tmp_path / "relu")}
    with pytest.raises(ConfigError, match=message):
        train(recipe(**changes), tmp_path / "run")
    assert not (tmp_path / "run" / "evaluations").exists() and not (tmp_path / "run" / "stages").exists()


def test_a_pretrained_model_is_tuned_and_plays_with_its_first_layers_frozen(tmp_path: Path) -> None:
    """Of Llama's shape: all else stays bit-equal."""
    folder = tiny_model.build_random(tmp_path / "llama", "llama", context=4096)
    options = recipe(model=str(folder), train_layers=1, evaluation={"every": 0, "test_tasks": 0})
    train(options, tmp_path / "run")
    models = [folder, *(tmp_path / "run" / "stages" / name / "model" for name in ("0-sft", "1-grpo"))]
    before, tuned, after = (load_file(path / "model.safetensors") for path in models)
    moved = {name for name in before if not torch.equal(before[name], tuned[name])}
    assert moved and all(name.startswith("model.layers.1.") for name in moved)
    assert moved >= {name for name in before if not torch.equal(tuned[name], after[name])}


def test_a_filter_leaves_skipped_tasks_out(tmp_path: Path) -> None:
    options = recipe(
        stages=[
            {**SFT, "skip_tasks": 6, "filter": "failures", "filter_data": str(tmp_path / "played")},
            {**SFT, "steps": 1, "filter": "failures", "filter_data": str(tmp_path / "played")},
        ],
        model="scratch:50k",
        evaluation={**EVALUATION, "every": 0},
    )
    sets = TaskSets(options)
    env = sets.restricted(sets.trained(12))
    collect(env, find_agent("always-supported", ENV), tmp_path / "played", n=12, k=1, seed=0)
    train(options, tmp_path / "run")
    trained = []
    for number in (0, 1):
        lines = (tmp_path / f"run/stages/{number}-sft/data.jsonl").read_text("utf-8").splitlines()
        trained.append({json.loads(line)["task"] for line in lines})
    first = {str(sets.env.tasks[index].id) for index in sets.trained(6)}
    assert trained[0] and trained[0] == trained[1] - first < trained[1]


def test_an_option_chooses_the_engine() -> None:
    done = CliRunner().invoke(app, ["train", ENV, "--model", "scratch:50k", "--engine", "small", "--dry-run"])
    assert done.exit_code == 0 and 'engine = "small"' in done.output, done.output


@pytest.mark.parametrize("stage", [0, 1])
def test_a_run_that_is_continued_ends_with_the_same_weights(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: int
) -> None:
    class KilledError(Exception):
        pass

    run_small_stage = small.run_small_stage

    def run_killed(run: Any, log: Any, on_step_end: Any) -> Any:
        def end(step: int, loaded: Any) -> None:
            on_step_end(step, loaded)
            if step == 3 and run.stage == options.stages[stage]:
                raise KilledError

        return run_small_stage(run, log, end)

    folder, options = tmp_path / "run", recipe()
    with monkeypatch.context() as patch:
        patch.setattr(small, "run_small_stage", run_killed)
        with pytest.raises(KilledError):
            train(options, folder)
    train(options, folder)
    for name in ("0-sft", "1-grpo"):
        first, second = (reference(each / "stages" / name / "model") for each in (finished[0], folder))
        assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)), name

    def curve(each: Path) -> list[Any]:
        return [{**line, "step_time": 0, "cpu_time": 0} for line in read_metrics(each) if "evaluation" not in line]

    assert curve(folder) == curve(finished[0])


def test_a_stage_without_signal_ends(base: Path, tmp_path: Path) -> None:
    run = stage_run(base, tmp_path, "small", stop_share=0.0, stop_patience=2, max_completion=4)
    facts = small.run_small_stage(run, lambda step, metrics: None, lambda step, loaded: None)
    assert facts["steps"] == 2
    assert "step 2: for 2 steps" in facts["stopped"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "smal"}, "engine"),
        ({"stages": [{"kind": "lm"}]}, "data"),
        ({"evaluation": {"every": 0}, "stages.0.keep": "best"}, "keep='best' needs evaluations of whole models"),
        ({"engine": "trl", "lora": {"rank": 4}, "stages.0.keep": "best"}, "the stage trains an adapter"),
        ({"stages": [{"kind": "dpo"}]}, "engine = \"small\" has no stages of kind 'dpo'"),
        ({"stages.1.beta": 0.1}, 'engine = "small" has no beta above 0'),
        ({"stages.1.credit": "hrpo"}, "engine = \"small\" has no credit 'hrpo'"),
        ({"gradient_checkpointing": True}, 'engine = "small" has no gradient_checkpointing'),
        ({"lora": {"rank": 4}}, 'engine = "small" has no \\[lora\\]'),
        ({"stages.1.trl": {"top_k": 4}}, 'engine = "small" has no trl.top_k'),
        ({"stages.0.trl": {"loss_type": "dapo"}}, 'engine = "small" has no trl.loss_type'),
        ({"stages.1.trl": {"loss_type": "sapo"}}, "trl.loss_type is one of dapo, bnpo, grpo, dr_grpo, not 'sapo'"),
    ],
)
def test_what_the_engine_lacks_is_refused_in_a_line(changes: dict[str, Any], message: str) -> None:
    values = recipe().model_dump(exclude_none=True)
    with pytest.raises(ConfigError, match=message) as refusal:
        recipe_of(with_changes(values, changes))
    assert "\n" not in str(refusal.value)
