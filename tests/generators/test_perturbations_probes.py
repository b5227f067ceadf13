"""Probes by the rules: the operators on real sentences and on any text, strategies, and the survey."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError
from factgym.datasets.attribution import ATTRIBUTABLE, ERROR_TYPES, NOT_ATTRIBUTABLE, AttributionClaim, read_benchmark
from factgym.generators.perturbations.grammar import main_verb, split_claim
from factgym.generators.perturbations.names import Pool, find_names
from factgym.generators.perturbations.operator import NoEdit
from factgym.generators.perturbations.probes import (
    MAX_CLAIM_CHARS,
    STRATEGIES,
    Probe,
    check_probe,
    generate_probes,
    make_probe,
    strategies_for,
    survey_strategies,
)
from factgym.text.folding import fold


def claim_item(id, claim, source, label=ATTRIBUTABLE, error_type=None):
    return AttributionClaim(id, claim, source, label, error_type)


BILLBOARD = claim_item(
    "fever-1",
    "Alan Metter directed Billboard Dad.",
    "Billboard Dad is a 1998 American direct-to-video comedy film, directed by Alan Metter starring the Olsen twins.",
)
SPADE = claim_item("fever-2", "David Spade appeared in Black Sheep.", "Spade starred in Black Sheep with Chris Farley.")
LEIGH = claim_item(
    "fever-3", "Janet Leigh was from America.", "Janet Leigh was an American actress, singer and author."
)
MEDINA = claim_item("anli-1", "Ernest Medina was acquitted in 1971.", "Ernest Medina was tried and acquitted in 1971.")
METER = claim_item("own-1", "The bridge is 240 metres long.", "The bridge, of 240 metres, spans the river.")
WATSON = claim_item("fever-4", "Emma Watson appeared in a film .", "Watson starred in a film.")
POOL = Pool([WATSON, BILLBOARD, SPADE, LEIGH, MEDINA, METER])


def checked_probe(item, strategy, **more):
    probe = make_probe(item, strategy, pool=POOL, **more)
    assert isinstance(probe, Probe), probe
    assert not check_probe(probe)
    return probe


def test_a_name_is_replaced_by_one_of_its_kind_that_the_source_lacks():
    probe = checked_probe(LEIGH, "entity_confusion")
    assert probe.claim.endswith(" was from America.")
    name = probe.claim.removesuffix(" was from America.")
    assert name != "Janet Leigh"
    assert name not in LEIGH.source
    assert (probe.gold_label, probe.error_type) == (NOT_ATTRIBUTABLE, "entity_substitution")


def test_a_demonym_takes_its_article_with_it():
    item = claim_item("x", "Daag is an Indian film.", "Daag is an Indian film of 1973.")
    articles = {checked_probe(item, "entity_confusion", seed=seed).claim.split()[2] for seed in range(30)}
    assert articles == {"a", "an"}


@pytest.mark.parametrize(
    "claim",
    [
        "The Los Angeles area was hot.",
        "Warsaw, Poland is a city.",
        'The song "Germany" was released.',
        "Anne Rice is not a poet.",
    ],
)
def test_names_of_uncertain_kind_are_left_alone(claim):
    assert isinstance(make_probe(claim_item("x", claim, claim), "entity_confusion", pool=POOL), NoEdit)


def test_the_first_word_of_a_sentence_is_a_name_only_where_the_source_shows_it():
    assert [name.text for name in find_names("Matadors wave capes in Spain", "matadors wave capes")] == ["Spain"]
    assert [name.text for name in find_names("Penicillin helped.", "In 1928, Penicillin was probe.")] == ["Penicillin"]
    assert find_names("The film was long.", "") == []


def test_a_year_is_a_temporal_shift_and_a_count_an_exaggeration():
    year = checked_probe(MEDINA, "numerical_perturb")
    assert year.error_type == "temporal_shift"
    assert year.claim.startswith("Ernest Medina was acquitted in ")
    assert year.claim != MEDINA.claim
    count = checked_probe(METER, "numerical_perturb")
    assert count.error_type == "numerical_exaggeration"
    assert count.claim.split()[3].isdigit()
    assert count.claim.endswith(" metres long.")


@pytest.mark.parametrize(
    "claim",
    [
        "Uranium-235 is an isotope.",
        "Apollo 11 landed.",
        "Blade Runner 2048 is short.",
        "One of the men won.",
        "The rating is 4.0 stars out of 5.0.",
        "Heavy metal grew in the early 1970 's .",
        "Jackie (2016 film) was shown.",
        "She did not die in 1969.",
        "More than 1 in 10,000 people have it.",
    ],
)
def test_a_number_that_names_something_or_is_denied_stays(claim):
    assert isinstance(make_probe(claim_item("x", claim, ""), "numerical_perturb"), NoEdit)


def test_the_new_number_is_never_in_the_source_in_words_or_figures():
    item = claim_item("x", "She could speak nine languages.", "She spoke 7, 8, ten, 11 and six languages, nine in all.")
    new = {checked_probe(item, "numerical_perturb", seed=seed).claim.split()[3] for seed in range(20)}
    assert new == {"twelve"}


def test_the_years_of_a_span_keep_their_order():
    item = claim_item("x", "He sailed on the Beagle from 1831 to 1836.", "The voyage lasted from 1831 to 1836.")
    for seed in range(20):
        words = checked_probe(item, "numerical_perturb", seed=seed).claim.rstrip(".").split()
        assert int(words[-3]) < int(words[-1])


def test_a_decade_keeps_the_label_or_shifts_the_time():
    same = checked_probe(MEDINA, "multi_hop_graft", keep=True)
    assert same.claim == "Ernest Medina was acquitted in the 1970s."
    assert (same.gold_label, same.error_type) == (ATTRIBUTABLE, None)
    wrong = checked_probe(MEDINA, "multi_hop_graft", error_type="temporal_shift")
    assert wrong.claim.startswith("Ernest Medina was acquitted in the ")
    assert "1970s" not in wrong.claim


def test_a_borrowed_fact_becomes_a_clause_of_the_subject():
    probe = checked_probe(LEIGH, "multi_hop_graft", error_type="fabrication")
    assert probe.claim in {
        "Janet Leigh, who directed Billboard Dad, was from America.",
        "Janet Leigh, who appeared in Black Sheep, was from America.",
    }


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("Alan Metter directed Billboard Dad.", "Alan Metter did not direct Billboard Dad."),
        ("Java was formed by eruptions .", "Java was not formed by eruptions ."),
        ("Germany is not a city", "Germany is a city"),
        ("Ekta Kapoor did not work in film .", "Ekta Kapoor worked in film ."),
        ("Princess Mononoke has a happy atmosphere .", "Princess Mononoke does not have a happy atmosphere ."),
        ("Yale 's alumni includes five men .", "Yale 's alumni does not include five men ."),
        ("Tilda Swinton acts.", "Tilda Swinton does not act."),
    ],
)
def test_a_negation_comes_and_goes_with_its_auxiliary(claim, expected):
    probe = checked_probe(claim_item("x", claim, claim), "paraphrase", error_type="negation_flip")
    assert (probe.claim, probe.error_type) == (expected, "negation_flip")


@pytest.mark.parametrize(
    "claim",
    [
        "Some people are rich.",
        "They've succeeded in their aims.",
        "Yes, you can teach an old dog new tricks",
        "Cheektowaga is not too far from Buffalo",
        "Harvard is barely residential .",
        "He ate and was ill.",
        "He could have a cold.",
        "The exact reason why it was made remains open",
    ],
)
def test_no_negation_where_it_would_not_reverse_the_claim(claim):
    assert isinstance(make_probe(claim_item("x", claim, claim), "paraphrase", error_type="negation_flip"), NoEdit)


def test_a_qualifier_is_widened():
    item = claim_item("x", "Being hit by a train is generally a bad thing.", "A train does harm.")
    probe = checked_probe(item, "paraphrase", error_type="scope_inflation")
    assert probe.claim == "Being hit by a train is always a bad thing."


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("Alan Metter directed Billboard Dad.", "Billboard Dad was directed by Alan Metter."),
        ("The Declaration was signed on July 4, 1776", "On July 4, 1776, the Declaration was signed"),
        ("Le Café is located in Isla Vista.", "Le Café is situated in Isla Vista."),
    ],
)
@pytest.mark.parametrize("label", [ATTRIBUTABLE, NOT_ATTRIBUTABLE])
def test_a_rewording_keeps_label_and_error(claim, expected, label):
    error = None if label == ATTRIBUTABLE else "fabrication"
    probe = checked_probe(claim_item("x", claim, claim, label, error), "paraphrase", keep=True)
    assert (probe.claim, probe.gold_label, probe.error_type) == (expected, label, error)


def test_a_presupposition_and_an_unsettled_detail_leave_the_claim_as_it_is():
    for strategy in ("presupposition", "unanswerable_wrap"):
        probe = checked_probe(METER, strategy, error_type="fabrication")
        assert "bridge is 240 metres long" in probe.claim
        assert probe.claim.endswith(".")
        assert probe.claim[0].isupper()


def test_uniqueness_is_presupposed():
    item = claim_item("x", "Janet Leigh was an American actress.", "Janet Leigh was an American actress.")
    probe = checked_probe(item, "presupposition", error_type="scope_inflation")
    assert probe.claim.startswith("Janet Leigh was the ")
    assert probe.claim.endswith(" American actress.")


def test_tokenised_text_stays_tokenised():
    item = claim_item("x", "Java was formed by eruptions .", "Java was formed by eruptions .")
    assert checked_probe(item, "unanswerable_wrap").claim.endswith(" .")


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        ("Who directed it? John Shanley directed the movie.", "statement"),
        ("Who directed it? John Shanley", "fragment"),
        ("Where did fortune cookies originate?", "question"),
        ("In which year did he die 1974", "question"),
        ("What is it? coriander leaves", "fragment"),
        ("Matadors wear red capes because bulls hate red", "statement"),
        ("Dogs often bite people", "statement"),
    ],
)
def test_claims_are_split_at_their_last_question(claim, kind):
    parts = split_claim(claim)
    assert parts.kind == kind
    assert parts.lead + parts.text == claim


def test_the_main_verb_is_not_one_of_a_clause_inside():
    assert main_verb("The place where it was shot") is None
    assert main_verb("The exact reason why it was made") is None
    text = 'The song "It is time" was long.'
    verb = main_verb(text)
    assert verb is not None
    assert verb.start == text.index("was")


def test_refusals_have_reasons():
    false = replace(LEIGH, label=NOT_ATTRIBUTABLE)
    assert make_probe(false, "paraphrase") == NoEdit("not_attributable", "the claim is false already")
    assert make_probe(claim_item("x", "Who? Guru", "Guru"), "paraphrase") == NoEdit("fragment")
    assert make_probe(claim_item("x", "Who was it?", "Guru"), "paraphrase") == NoEdit("question")


def test_unknown_names_are_refused_with_a_hint():
    with pytest.raises(ConfigError, match="entity_confusion"):
        make_probe(LEIGH, "entity_confusoin")
    with pytest.raises(ConfigError, match="does not aim"):
        make_probe(LEIGH, "entity_confusion", error_type="fabrication")
    with pytest.raises(ConfigError):
        make_probe(LEIGH, "entity_confusion", keep=True)
    with pytest.raises(ConfigError):
        make_probe(LEIGH, "paraphrase", error_type="negation_flip", keep=True)
    with pytest.raises(ConfigError, match="fabrication"):
        strategies_for("fabricatoin")


def test_every_error_has_a_strategy_and_probes_aim_at_it():
    items = [BILLBOARD, LEIGH, MEDINA, METER, claim_item("q", "Dogs often bite people.", "Dogs bite.")]
    for error in ERROR_TYPES:
        assert strategies_for(error)
        probes = list(generate_probes(items, error, pool=POOL))
        assert probes, error
        assert {probe.error_type for probe in probes} == {error}
        assert len({probe.meta["of"] for probe in probes}) == len(probes)


WORDS = (
    'The a an Paris London John Smith was is not directed 1971 in of , . ? " ( ) 15% $3 three first some said who'
    " American On May 5 and 's - only never Dr. U.S. étude"
)
TEXT = st.one_of(st.text(max_size=120), st.lists(st.sampled_from(WORDS.split()), max_size=14).map(" ".join))


@given(
    claim=TEXT, source=TEXT, strategy=st.sampled_from(sorted(STRATEGIES)), seed=st.integers(0, 5), keep=st.booleans()
)
def test_any_text_gives_a_checked_probe_or_a_reason_and_always_the_same(claim, source, strategy, seed, keep):
    keep = keep and None in STRATEGIES[strategy]
    item = claim_item("x", claim, source)
    probe = make_probe(item, strategy, seed=seed, pool=POOL, keep=keep)
    assert make_probe(item, strategy, seed=seed, pool=Pool(POOL.items), keep=keep) == probe
    if isinstance(probe, Probe):
        assert fold(probe.claim).casefold() != fold(claim).casefold()
        assert probe.gold_label == (ATTRIBUTABLE if keep else NOT_ATTRIBUTABLE)
        assert (probe.error_type is None) == keep
        assert not check_probe(probe)
        assert probe.to_dict()["claim"] == probe.claim


@pytest.mark.parametrize(
    "text", ["a " * 20_000, "A" * 50_000, '"' * 20_000, "In " + "1971 " * 8_000, "Paris, " * 6_000]
)
def test_hostile_lengths_end(text):
    for strategy in STRATEGIES:
        assert make_probe(claim_item("x", text, "The source."), strategy, pool=POOL) == NoEdit("too_long")
        make_probe(claim_item("x", text[:MAX_CLAIM_CHARS], text), strategy, pool=POOL)


@pytest.mark.parametrize("name", ["fever", "truthfulqa", "halueval"])
def test_nearly_all_probes_of_the_papers_slices_pass_their_checks(data_dir, name):
    claims = list(read_benchmark(name, data_dir / "seva_official" / f"{name}.jsonl"))
    assert isinstance(claims[0], AttributionClaim)
    for keep in (False, True):
        for report in survey_strategies(claims, keep=keep):
            # A fifth of a dozen says nothing; the rate is asked for where there are enough to tell.
            assert report.passed >= 0.95 * report.generated or report.generated - report.passed <= 1, report
            assert report.generated + sum(report.reasons.values()) == report.claims


def test_coverage_on_fever(data_dir):
    claims = list(read_benchmark("fever", data_dir / "seva_official" / "fever.jsonl"))
    coverage = {report.strategy: report.coverage for report in survey_strategies(claims)}
    assert coverage["paraphrase"] > 0.7
    assert coverage["presupposition"] > 0.8
    assert coverage["unanswerable_wrap"] > 0.8
    assert coverage["entity_confusion"] > 0.25
