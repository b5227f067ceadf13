"""Whether leaving information out can pay: true of the published rubric within limits, and never of the grounded one.

The process part is .10 R_f + .30 R_a + .30 R_c, of the grounded preset the same over the grounded components. The
published R_a and R_c are means, so leaving out an item below the mean raises them; the grounded ones cover the claim.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seva_outputs import NEGATIVE, aligned, output, step

from factgym.rewards.seva.output import JUDGMENTS, NOT_FOUND, STATUSES, output_of
from factgym.rewards.seva.scoring import score_output

CLAIM = "The study involved 500 participants from 12 countries and ended in March 2019."
SOURCE = "The research included 500 volunteers from 8 different nations. It ended in March 2019, a year late."

PARTS = ["500 participants", "12 countries", "The study", "ended in March 2019", CLAIM, "not in the claim", "", "a"]
SOURCE_SPANS = ["500 volunteers", "8 different nations", "March 2019", NOT_FOUND, "nowhere to be found", "", SOURCE]
WORDS = ["The number of countries is another.", "It ended in March.", "too short", "no", "Nothing is shared here", ""]

PROCESS = {"format": 0.10, "alignment": 0.30, "chain": 0.30}
GROUNDED = {"format": 0.10, "grounded_alignment": 0.30, "grounded_chain": 0.30}

ENTRIES = st.lists(
    st.builds(aligned, st.sampled_from(PARTS), st.sampled_from(SOURCE_SPANS), st.sampled_from([*STATUSES, "?"])),
    max_size=5,
)
STEPS = st.lists(
    st.builds(
        step, st.sampled_from(PARTS), st.sampled_from([*JUDGMENTS, "?"]), st.sampled_from(SOURCE_SPANS), st.sampled_from(WORDS)
    ),
    max_size=5,
)  # fmt: skip
OUTPUTS = st.builds(lambda entries, steps: output(evidence_alignment=entries, reasoning_chain=steps), ENTRIES, STEPS)


def part(data: dict[str, Any], weights: dict[str, float]) -> float:
    scored = score_output(output_of(data), NEGATIVE, claim=CLAIM, source=SOURCE).components
    return sum(weight * scored[name] for name, weight in weights.items())


def drop_field(draw: st.DataObject, data: dict[str, Any]) -> None:
    del data[draw.draw(st.sampled_from(sorted(data)))]


def draw_item(draw: st.DataObject, data: dict[str, Any]) -> dict[str, Any] | None:
    items = [item for name in ("evidence_alignment", "reasoning_chain") for item in data[name]]
    return draw.draw(st.sampled_from(items)) if items else None


def drop_item_field(draw: st.DataObject, data: dict[str, Any]) -> None:
    item = draw_item(draw, data)
    if item is not None:
        del item[draw.draw(st.sampled_from(sorted(item)))]


def empty_text(draw: st.DataObject, data: dict[str, Any]) -> None:
    item = draw_item(draw, data)
    if item is not None:
        item[draw.draw(st.sampled_from(sorted(item)))] = draw.draw(st.sampled_from(["", None]))


def shorten_explanation(draw: st.DataObject, data: dict[str, Any]) -> None:
    """Below its bound; where it is below already, further."""
    if data["reasoning_chain"]:
        reasoning_step = draw.draw(st.sampled_from(data["reasoning_chain"]))
        reasoning_step["explanation"] = reasoning_step["explanation"][: draw.draw(st.integers(0, 9))]


def empty_item(draw: st.DataObject, data: dict[str, Any]) -> None:
    item = draw_item(draw, data)
    if item is not None:
        item.clear()


def drop_items(draw: st.DataObject, data: dict[str, Any]) -> None:
    for name in ("evidence_alignment", "reasoning_chain"):
        keep = draw.draw(st.lists(st.booleans(), min_size=len(data[name]), max_size=len(data[name])))
        data[name] = [item for item, is_kept in zip(data[name], keep, strict=True) if is_kept]


INSIDE = [drop_field, drop_item_field, empty_text, shorten_explanation, empty_item]


@settings(max_examples=500, deadline=None)
@given(OUTPUTS, st.sampled_from(INSIDE), st.data())
def test_published_rubric_no_removal_inside_the_items_pays(data, mutate, draw):
    less = copy.deepcopy(data)
    mutate(draw, less)
    assert part(less, PROCESS) <= part(data, PROCESS) + 1e-12


@settings(max_examples=800, deadline=None)
@given(OUTPUTS, st.sampled_from([*INSIDE, drop_items]), st.data())
def test_grounded_preset_no_removal_at_all_pays(data, mutate, draw):
    less = copy.deepcopy(data)
    mutate(draw, less)
    assert part(less, GROUNDED) <= part(data, GROUNDED) + 1e-12


@settings(max_examples=300, deadline=None)
@given(OUTPUTS, st.data())
def test_published_rubric_leaving_out_an_item_at_or_above_the_mean_does_not_pay(data, draw):
    """The mutations for which the published means do hold: an item that is not below the mean of its list."""
    for name, component in (("evidence_alignment", "alignment"), ("reasoning_chain", "chain")):
        worth = [score_output(output_of(data | {name: [item]}), NEGATIVE).components[component] for item in data[name]]
        if worth:
            best = draw.draw(st.sampled_from([i for i, value in enumerate(worth) if value == max(worth)]))
            less = data | {name: [item for index, item in enumerate(data[name]) if index != best]}
            assert part(less, PROCESS) <= part(data, PROCESS) + 1e-12


def test_known_exploit_of_the_published_rubric_hiding_the_weak_item_pays():
    """A weak second alignment costs .15 of reward, so a policy learns to say less; the grounded preset pays for both."""
    strong = aligned("12 countries", "8 different nations", "mismatch")
    weak = aligned("500 participants", "", "match")
    both, hidden = output(evidence_alignment=[strong, weak]), output(evidence_alignment=[strong])
    assert part(hidden, PROCESS) - part(both, PROCESS) == pytest.approx(0.30 * 0.2)
    assert part(hidden, GROUNDED) == pytest.approx(part(both, GROUNDED))
    good = aligned("500 participants", "500 volunteers", "match")
    assert part(output(evidence_alignment=[strong, good]), GROUNDED) > part(hidden, GROUNDED)

    firm = step("12 countries", "not_supported", "8 different nations", "The number of countries is another.")
    vague = step("500 participants", "supported", "", "same")
    assert part(output(reasoning_chain=[firm]), PROCESS) > part(output(reasoning_chain=[firm, vague]), PROCESS)
    assert part(output(reasoning_chain=[firm]), GROUNDED) == part(output(reasoning_chain=[firm, vague]), GROUNDED)


def test_known_exploit_of_the_published_rubric_cutting_an_overlong_span_pays():
    """By .03 a span at most: the rubric wants spans of up to 200 characters. So does the grounded preset."""
    long, cut = aligned("x" * 201, "abc", "match"), aligned("x" * 200, "abc", "match")
    gain = part(output(evidence_alignment=[cut]), PROCESS) - part(output(evidence_alignment=[long]), PROCESS)
    assert gain == pytest.approx(0.03)
