"""The grounded components: what counts as an alignment or a step, and that form alone earns little."""

from __future__ import annotations

import pytest
from seva_outputs import EXAMPLE_1, EXAMPLE_2, EXAMPLE_3, FIGURE_4, NEGATIVE, POSITIVE, aligned, output, step

from factgym.core.errors import ConfigError
from factgym.rewards.seva.output import LABELS, output_of
from factgym.rewards.seva.rubrics import GROUNDED, PROCESS
from factgym.rewards.seva.scoring import SevaGold, score_output

CLAIM = "The study involved 500 participants from 12 countries."
SOURCE = "The research included 500 volunteers from 8 different nations."
# Content words of the claim: study, involved, 500, participants, 12, countries.


def score(data, gold=NEGATIVE, claim=CLAIM, source=SOURCE):
    return score_output(output_of(data), gold, claim=claim, source=source)


def total(data, gold=NEGATIVE, rubric=GROUNDED, **texts):
    scored = score(data, gold, **texts)
    return rubric.total(scored.components, scored.gates)


HONEST = output(
    evidence_alignment=[
        aligned("500 participants", "500 volunteers", "match"),
        aligned("12 countries", "8 different nations", "mismatch"),
    ],
    reasoning_chain=[
        step("500 participants", "supported", "500 volunteers", "Volunteers are participants."),
        step("12 countries", "not_supported", "8 different nations", "There were 8 countries and not 12."),
    ],
)


def test_an_honest_output_earns_what_it_earns_under_the_published_rubric():
    """Four of the six content words are two thirds, which is full coverage. The calibration terms differ."""
    assert total(HONEST, rubric=PROCESS) == pytest.approx(1.0 + 0.15 * 0.85)
    assert total(HONEST) == pytest.approx(1.0 + 0.15 * (1 - 0.15**2))
    assert score(HONEST).gates == {"consistent": 1.0}


@pytest.mark.parametrize(
    ("entry", "share"),
    [
        (aligned("12 countries", "8 different nations", "mismatch"), 2 / 6),
        (aligned("12  countries", "8\ndifferent nations", "mismatch"), 2 / 6),
        (aligned("study involved 500 participants", "500 volunteers", "match"), 4 / 6),
        (aligned("12 nations", "8 different nations", "mismatch"), 0),
        (aligned("12 Countries", "8 different nations", "mismatch"), 0),
        (aligned("12 countries", "9 different nations", "mismatch"), 0),
        (aligned("12 countries", "8 different nations", "unsure"), 0),
        (aligned("12", "8 different nations", "mismatch"), 0),
        (aligned("12 countries", "NOT_FOUND", "not_found"), 2 / 6),
        (aligned("12 countries", "8 different nations", "not_found"), 0),
        (aligned("12 countries", "NOT_FOUND", "mismatch"), 0),
        (aligned("500", "NOT_FOUND", "not_found"), 0),
        (aligned("500", "500", "match"), 1 / 6),
        (aligned("500", "500", "mismatch"), 0),
        (aligned("from", "from", "match"), 0),
        ("12 countries", 0),
        ({"claim_span": ["12 countries"], "source_span": "8 different nations", "status": "mismatch"}, 0),
    ],
)
def test_an_alignment_counts_when_it_can_be_true(entry, share):
    """`share` of the content words is covered; two thirds earn everything."""
    scored = score(output(evidence_alignment=[entry])).components["grounded_alignment"]
    assert scored == pytest.approx(min(1.0, share * 1.5))


@pytest.mark.parametrize(
    ("reasoning_step", "counts"),
    [
        (step("12 countries", "not_supported", "8 different nations", "The countries are 8."), True),
        (step("12 countries", "not_supported", "NOT_FOUND", "No countries are named."), True),
        (step("12 countries", "supported", "NOT_FOUND", "No countries are named."), False),
        (step("12 nations", "not_supported", "8 different nations", "The countries are 8."), False),
        (step("12 countries", "refuted", "8 different nations", "The countries are 8."), False),
        (step("12 countries", "not_supported", "9 different nations", "The countries are 8."), False),
        (step("12 countries", "not_supported", "8 different nations", "It does not fit at all."), False),
        (step("12 countries", "not_supported", "8 different nations", "countries"), False),
        (step("12 countries", "not_supported", "from", "The countries are 8."), False),
        (step("12 countries", "not_supported", None, "The countries are 8."), False),
    ],
)
def test_a_step_counts_when_it_can_be_true(reasoning_step, counts):
    """One step: coverage of a third of the words is half of everything, weighed .8, and half of the bonus of .2."""
    scored = score(output(reasoning_chain=[reasoning_step])).components["grounded_chain"]
    assert scored == pytest.approx(0.8 * 0.5 + 0.1 if counts else 0.0)


def test_a_repeated_step_counts_once():
    first = step("12 countries", "not_supported", "8 different nations", "The countries are 8.")
    other = first | {"claim_part": "500 participants"}
    once = score(output(reasoning_chain=[first])).components["grounded_chain"]
    assert score(output(reasoning_chain=[first] * 9)).components["grounded_chain"] == once
    # Another part covers more, but the same explanation makes no second step.
    assert score(output(reasoning_chain=[first, other])).components["grounded_chain"] == pytest.approx(0.8 + 0.1)


def test_the_label_has_to_follow_from_the_steps():
    """A label that its own steps deny earns no outcome, and no calibration; the process part stays."""
    for data, gold, consistent in (
        (HONEST, NEGATIVE, 1.0),
        (HONEST | {"label": "Attributable"}, POSITIVE, 0.0),
        (HONEST | {"label": "?"}, POSITIVE, 0.0),
        (HONEST | {"reasoning_chain": []}, NEGATIVE, 0.0),
    ):
        scored = score(data, gold)
        assert scored.gates["consistent"] == consistent
        if not consistent:
            process = {name: scored.components[name] for name in ("format", "grounded_alignment", "grounded_chain")}
            assert GROUNDED.total(scored.components, scored.gates) == pytest.approx(
                sum(GROUNDED.weights[name] * value for name, value in process.items())
            )
    agreed = [HONEST["reasoning_chain"][0]]
    positive = output(evidence_alignment=HONEST["evidence_alignment"][:1], reasoning_chain=agreed)
    assert score(positive | {"label": "Attributable"}, POSITIVE).gates["consistent"] == 1.0
    assert score(positive | {"label": "Not Attributable"}).gates["consistent"] == 0.0


@pytest.mark.parametrize("gold", LABELS)
def test_a_template_about_nothing_earns_seventy_points_published_and_ten_grounded(gold):
    """One answer to every claim, of perfect form: the hole of the published rubric."""
    template = output(
        evidence_alignment=[aligned("the claim", "the source", "match")],
        reasoning_chain=[step("the claim", "supported", "the source", "The source supports the claim.")],
        label="Attributable",
        confidence=0,
    )
    scored = score(template, SevaGold(gold))
    process = sum(PROCESS.weights[name] * scored.components[name] for name in ("format", "alignment", "chain"))
    assert process == pytest.approx(0.70)
    assert GROUNDED.total(scored.components, scored.gates) == pytest.approx(0.10)


def test_the_appendix_examples_under_the_grounded_components():
    """The paper's own example 1 abbreviates San Francisco in its spans: it is not verbatim and does not count."""
    claim = "The company was founded in 2004 and is headquartered in San Francisco."
    source = "Founded in 2004, the technology firm operates from its main office in San Francisco, CA."
    scored = score(EXAMPLE_1, POSITIVE, claim=claim, source=source).components
    # founded and 2004 of company, founded, 2004, headquartered, San, Francisco.
    assert scored["grounded_alignment"] == pytest.approx(2 / 6 * 1.5)
    assert scored["grounded_chain"] == 0.0
    assert score(EXAMPLE_2).components["grounded_alignment"] == 1.0
    scored = score(
        FIGURE_4, claim="60% of participants significantly improved", source="60% of subjects showed improvement"
    )
    assert scored.components["grounded_alignment"] == 1.0
    assert scored.gates["consistent"] == 0.0  # its explanations name nothing of the claim, so no step counts
    scored = score(
        EXAMPLE_3,
        POSITIVE,
        claim="The policy was implemented to reduce emissions.",
        source="The new regulation was enacted with the goal of lowering greenhouse gas output.",
    )
    assert scored.components["grounded_alignment"] == pytest.approx(2 / 4 * 1.5)  # "GHG output" is not in the source


def test_a_claim_of_stop_words_and_an_empty_claim_can_be_scored():
    alignment = output(evidence_alignment=[aligned("was it", "was it", "match")])
    assert score(alignment, claim="Was it so? It was it.", source="was it").components["grounded_alignment"] > 0
    assert score(alignment, claim="", source="").components["grounded_alignment"] == 0.0


def test_grounded_rubrics_ask_for_the_texts():
    scored = score_output(output_of(HONEST), NEGATIVE)
    assert "grounded_alignment" not in scored.components
    for call in (GROUNDED.total, GROUNDED.shares):
        with pytest.raises(ConfigError, match="claim=, source="):
            call(scored.components, scored.gates)
    assert score_output(None, NEGATIVE, claim=CLAIM, source=SOURCE).gates == {"consistent": 0.0}
