"""Log-probabilities of given replies under a local model: every number is computed a second time by the library."""

from __future__ import annotations

import asyncio

import pytest
import tiny_model

from factgym.agents.local import LocalModel
from factgym.core.errors import ConfigError
from factgym.core.policy import ContextOverflowError

torch, transformers = tiny_model.torch, tiny_model.transformers

ASKED = [{"role": "user", "content": "Where was Ada born?"}]


@pytest.fixture(scope="module", params=["qwen3", "llama"])
def folder(request, tmp_path_factory):
    return tiny_model.build_random(tmp_path_factory.mktemp(request.param), request.param)


def library(folder, text_before, completion):
    words = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    found = words(text_before + completion, add_special_tokens=False, return_offsets_mapping=True)
    ids = torch.tensor([found["input_ids"]])
    start = next(n for n, (_, end) in enumerate(found["offset_mapping"]) if end > len(text_before))
    with torch.no_grad():
        logs = model(ids).logits[0].log_softmax(-1)
    return sum(float(logs[place - 1, ids[0, place]]) for place in range(start, ids.shape[1]))


def test_it_is_what_a_forward_pass_says_whatever_else_is_in_the_batch(folder):
    long = [{"role": "user", "content": "The tenant pays the rent on the first day of each month. " * 3}]
    cases = [
        (ASKED, "Paris</answer>", "<answer>"),
        (long, "yes", ""),
        (ASKED, "a longer answer\nof lines", "No: "),
    ]

    async def go():
        model = LocalModel(folder, max_tokens=4, temperature=1.0)
        try:
            scores = (model.score(asked, said, given=given) for asked, said, given in cases)
            found = await asyncio.gather(*scores, model.act(ASKED, []))
            return found, model.counters
        finally:
            await model.close()

    found, counters = asyncio.run(go())
    assert counters.largest_batch == 4
    assert found[3]["content"] is not None
    for (asked, said, given), value in zip(cases, found, strict=False):
        before = f"<|im_start|>user\n{asked[0]['content']}<|im_end|>\n<|im_start|>assistant\n{given}"
        assert value == pytest.approx(library(folder, before, said), abs=1e-3)
        assert value < 0


def test_probabilities_of_parts_multiply(folder):
    async def go():
        model = LocalModel(folder)
        try:
            whole = await model.score(ASKED, "ab\ncd")
            parts = await model.score(ASKED, "ab"), await model.score(ASKED, "\ncd", given="ab")
            return whole, parts
        finally:
            await model.close()

    whole, parts = asyncio.run(go())
    assert whole == pytest.approx(sum(parts), abs=1e-3)


def test_what_cannot_be_scored_is_said(folder):
    from factgym.agents.local import LocalModel

    async def go():
        model = LocalModel(folder, context_length=40)
        try:
            with pytest.raises(ConfigError, match="must have a text"):
                await model.score(ASKED, "")
            with pytest.raises(ContextOverflowError):
                await model.score(ASKED, "word " * 60)
        finally:
            await model.close()

    asyncio.run(go())


def test_a_thought_that_the_template_opens_is_closed_first(tmp_path):
    folder = tiny_model.build_random(tmp_path, template=tiny_model.THINKING)

    async def go():
        model = LocalModel(folder)
        try:
            return await model.score(ASKED, "Paris")
        finally:
            await model.close()

    before = f"<|im_start|>user\n{ASKED[0]['content']}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    assert asyncio.run(go()) == pytest.approx(library(folder, before, "Paris"), abs=1e-3)
