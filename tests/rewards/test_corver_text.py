"""Blocks, sentences, answers, formats, queries: what is read off a completion, hostile ones included."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.rewards.corver.format import (
    code_format_faults,
    extract_answer,
    find_sections,
    format_faults,
    split_sentences,
)
from factgym.rewards.corver.judge import Label, gold_answers, is_refusal, judge_completion, normalise_answer
from factgym.rewards.corver.rubrics import CorverRules, JudgeRule
from factgym.rewards.corver.triplets import STOP_WORDS, Triplet, build_query, content_words

THOUGHT = "The Philadelphia Flyers won the Stanley Cup in 1975."
GOOD = f"<think>{THOUGHT}</think>\n<answer>1975</answer>"

PIECES = [
    "<think>",
    "</think>",
    "<answer>",
    "</answer>",
    "A b.",
    " ",
    "\n",
    "Ç!",
    "?",
    "1.5 ",
    "x",
    "<thin",
    "…",
    "\u2003",
    "𝔘",
]
completions = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def judge(answer: str | None, aliases: list[str] | str, rule: JudgeRule = "reference", question: str = "") -> Label:
    return judge_completion(answer or "", answer, aliases, question=question)[rule]


def texts(completion: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(completion)]


def test_both_blocks_are_read_in_order_with_their_offsets() -> None:
    text = "<think> One. Two!  Three </think>\n\n<answer>\nFour? Five.</answer> tail."
    assert texts(text) == ["One.", "Two!", "Three", "Four?", "Five."]
    assert [sentence.block for sentence in split_sentences(text)] == ["think"] * 3 + ["answer"] * 2
    for sentence in split_sentences(text):
        assert text[sentence.start : sentence.end] == sentence.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Plain. Text", ["Plain.", "Text"]),
        ("<think>Cut. Off", ["Cut.", "Off"]),
        ("<think>No end. <answer>Yes.</answer>", ["No end.", "Yes."]),
        ("<think>A.</think><answer>Cut off", ["A.", "Cut off"]),
        ("<answer>Only.</answer>", ["Only."]),
        ("<think></think><answer> </answer>", []),
        ("<think>A<think>B.</think>C.</think><answer>D</answer>", ["A<think>B.", "D"]),
        ("</think>X. <answer>Y</answer>", ["Y"]),
        ("A. B.</think>X. <answer>Y</answer>", ["A.", "B.", "Y"]),
        ("<answer>early</answer><think>Late.</think>", ["Late."]),
        ("", []),
        (" \n ", []),
        ("...", ["..."]),
        ("F. Kennedy e.g. here", ["F.", "Kennedy e.g.", "here"]),
    ],
)
def test_unclosed_nested_and_missing_blocks(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


@given(completions)
def test_sentences_lie_in_the_blocks_in_order_and_miss_only_white_space(text: str) -> None:
    sentences, sections = split_sentences(text), find_sections(text)
    covered = [range(section.start, section.end) for section in sections]
    end = 0
    for sentence in sentences:
        assert end <= sentence.start < sentence.end
        assert text[sentence.start : sentence.end] == sentence.text == sentence.text.strip()
        end = sentence.end
    included = {i for sentence in sentences for i in range(sentence.start, sentence.end)}
    missed = [text[i] for span in covered for i in span if i not in included]
    assert "".join(missed).strip() == ""
    assert included <= {i for span in covered for i in span}


@given(completions)
def test_a_block_is_split_as_the_published_expression_splits_it(text: str) -> None:
    # The expression is a fact of the published code; the places are ours.
    for section in find_sections(text):
        inside = text[section.start : section.end]
        expected = [text for text in re.split(r"(?<=[.!?])\s+", inside.strip()) if text.strip()]
        assert [
            sentence.text for sentence in split_sentences(text) if section.start <= sentence.start < section.end
        ] == expected


@pytest.mark.parametrize("fragment", [".", "a. ", "<think>", "</think><think>", "<answer>", " ", ".\u00a0", "\u0301"])
def test_megabytes_of_any_text_are_read(fragment: str) -> None:
    # A reader whose time grows with the square would not come back.
    for text in (fragment * 100_000, "<think>" + fragment * 100_000 + "</think><answer>x"):
        assert len(split_sentences(text)) <= 100_002
        format_faults(text)
        extract_answer(text)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer> 1975 </answer>", "1975"),
        ("<answer>1975", "1975"),
        ("<answer>a<answer>b</answer>", "a<answer>b"),
        ("<answer></answer>x", ""),
        ("1975", None),
        ("</answer><answer>x</answer>", "x"),
    ],
)
def test_the_answer_follows_the_first_tag(text: str, answer: str | None) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "published", "strict"),
    [
        (GOOD, True, True),
        (GOOD.removesuffix("</answer>"), True, True),
        ("<think></think>" + THOUGHT + "<answer>1975</answer>", False, False),
        ("<think>" + "." * 40 + "</think><answer>1975</answer>", False, False),
        ("<think>" + "a" + "." * 40 + "</think><answer>1975</answer>", True, False),
        ("<think>" + "word " * 20 + "</think><answer>1975</answer>", True, False),
        ("<think> </think> " + THOUGHT + " <answer>1975</answer>", False, False),
        ("<think><b>" + THOUGHT + "</think><answer>1975</answer>", False, False),
        (f"<think>{THOUGHT}</think> And so on. <answer>1975</answer>", True, False),
        (f"<think>{THOUGHT}</think><answer>1975</answer> trailing", True, False),
        (f"<think>{THOUGHT}</think><answer> </answer>", True, False),
        (f"<think>{THOUGHT}<answer>1975</answer>", False, False),
        (f"<answer>1975</answer><think>{THOUGHT}</think>", False, False),
        ("1975", False, False),
        ("<think>unknown</think><answer>I dont know</answer>", False, True),
        ("<think>unknown</think><answer>1975</answer>", False, False),
    ],
)
def test_formats(text: str, published: bool, strict: bool) -> None:
    assert (not format_faults(text)[0]) is published
    assert (not format_faults(text)[1]) is strict


@pytest.mark.parametrize(
    "text", [GOOD, f"<think>{THOUGHT}</think><answer>1975", f"<think>{THOUGHT}</think> And. <answer>1975"]
)
def test_a_think_tag_that_the_template_opened_is_no_fault(text: str) -> None:
    completion = text.removeprefix("<think>")
    assert texts(completion) == texts(text)
    for faults, expected in zip(format_faults(completion), format_faults(text), strict=True):
        assert faults == expected
    assert code_format_faults(completion) == code_format_faults(text)


CODE = re.compile(
    r"^<think>\s*([^<\s](?:(?!<think>|<answer>)[\s\S]){29,}?)\s*(?:<\/think>\s*)?<answer>\s*"
    r"(\S(?:(?!<think>|<answer>)[\s\S])*?)(?:\s*<\/answer>)?\s*$"
)
"""The expression of the authors' code; a fact about it."""


@given(st.lists(st.sampled_from([*PIECES, THOUGHT, "." * 28, "        "]), max_size=9).map("".join))
def test_the_format_of_the_authors_code_is_that_of_its_expression(text: str) -> None:
    match = CODE.search(text if text.startswith("<think>") else f"<think>{text}")
    assert (not code_format_faults(text)) == (match is not None and re.search("[A-Za-z]", match[1]) is not None)


def test_a_format_s_faults_are_named() -> None:
    assert format_faults("<think>" + "." * 9 + "</think><answer>x")[0] == (
        "the think block has fewer than 30 characters",
        "the think block has no letter",
    )
    assert format_faults(GOOD, CorverRules(min_think_chars=500))[0] != ()


def test_the_closed_class_has_thirty_five_words() -> None:
    assert len(STOP_WORDS) == 35
    assert "it" in STOP_WORDS


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        ("First Congress of the United States", ["First", "Congress", "United", "States"]),
        ("John Adams", ["John", "Adams"]),
        ("theory of general relativity", ["theory", "general", "relativity"]),
        ("The capital", ["capital"]),
        ("Mumbai, Maharashtra, India", ["Mumbai", "Maharashtra", "India"]),
        ("A I", ["A I"]),
        ("1975", ["1975"]),
        ("of it", ["of it"]),
        ("Game 5", ["Game"]),
        ("", []),
    ],
)
def test_content_words(entity: str, words: list[str]) -> None:
    assert content_words(entity) == words


@pytest.mark.parametrize(
    ("triplet", "query"),
    [
        (Triplet("Ella Fitzgerald", "mother", "Height Fitzgerald"), ("Ella", "Fitzgerald", "Height")),
        (Triplet("Paris", "is", "paris"), None),
        (Triplet("Ronkonkoma NY", "zip code", "11777"), ("Ronkonkoma", "NY", "11777")),
        (Triplet("the team", "defeated", "Buffalo Sabres"), ("team", "Buffalo", "Sabres")),
    ],
)
def test_queries(triplet: Triplet, query: tuple[str, ...] | None) -> None:
    assert build_query(triplet) == query


def test_the_relation_s_words_join_the_query_when_asked_for() -> None:
    assert build_query(Triplet("Ann", "was director of", "Jaws"), relation=True) == ("Ann", "Jaws", "director")
    assert build_query(Triplet("Ann", "was in", "Jaws"), relation=True) == ("Ann", "Jaws")


@pytest.mark.parametrize(
    ("head", "tail", "valid"),
    [("Ann", "Jaws", True), ("She", "Jaws", False), ("Ann", " ", False), ("", "Jaws", False), ("Ann", "THEM", False)],
)
def test_pronouns_and_empty_parts_make_a_triplet_invalid(head: str, tail: str, valid: bool) -> None:
    assert Triplet(head, "r", tail).valid is valid


# The two judges: what the published rule takes, and which of it the boundary judge refuses

GOLD_NAME = ["William Jefferson Clinton", "Bill Clinton"]


@pytest.mark.parametrize(
    ("answer", "gold", "reference", "boundary"),
    [
        ("1975", ["1975"], "good", "good"),
        ("the Michigan Wolverines", ["Michigan"], "good", "good"),
        ("bill clinton", GOLD_NAME, "good", "good"),
        ("Paris", ["London"], "bad", "bad"),
        # The holes of containment between characters.
        ("1", ["1975"], "good", "bad"),
        ("e", ["Michigan; Michigan Wolverines; the Wolverines"], "good", "bad"),
        ("art", ["Bart Simpson"], "good", "bad"),
        ("I won in 19751", ["1975"], "good", "bad"),
        # Parts of a gold answer.
        ("United States", ["in the United States of America"], "good", "good"),
        ("William", GOLD_NAME, "good", "bad"),
        ("Bill", GOLD_NAME, "good", "bad"),
        ("of the", ["King of the Hill"], "good", "bad"),
        ("14 August 1947", ["on 14 August 1947"], "good", "good"),
        # Dumps of candidates, hedges, denials.
        ("1971, 1972, 1973, 1974, 1975, 1976", ["1975"], "good", "bad"),
        ("1971\n1972\n1973\n1974\n1975", ["1975"], "good", "bad"),
        ("1974 or 1975", ["1975"], "good", "bad"),
        ("It was not 1975", ["1975"], "good", "bad"),
        ("It wasn't 1975 but 1974", ["1975"], "good", "bad"),
        ("word " * 80 + "1975", ["1975"], "good", "bad"),
        ("Rome, Oslo", ["Oslo"], "good", "bad"),
        ("Rome, Oslo, Bonn", ["Bonn"], "good", "bad"),
        ("Rome. Oslo. Bonn.", ["Bonn"], "good", "bad"),
        ("It is Rome, Oslo or Bonn", ["Oslo"], "good", "bad"),
        ("1973 1974 1975", ["1975"], "good", "bad"),
        ("Rome Oslo Bonn Paris Berlin Madrid Lisbon Athens Vienna Prague", ["Bonn"], "good", "bad"),
        # What looks like one of these and is none.
        ("John, Paul, George, Ringo", ["John, Paul, George, Ringo"], "good", "good"),
        ("George Harrison, John Lennon, Paul McCartney, Ringo Starr, Pete Best", ["George Harrison", "John Lennon", "Paul McCartney", "Ringo Starr"], "good", "good"),
        ("Paris, Île-de-France, France", ["Paris"], "good", "good"),
        ("Trick or Treat", ["Trick or Treat"], "good", "good"),
        ("It was Simon and Garfunkel.", ["Simon and Garfunkel"], "good", "good"),
        # Unicode: the published rule breaks words at marks.
        ("Bjork", ["Björk"], "bad", "good"),
        ("Björk", ["Björk"], "good", "good"),
        ("naïve art", ["NAÏVE ART"], "good", "good"),
        ("The Who", ["The Who"], "good", "good"),
        ("The The", ["The The"], "na", "good"),
        # Refusals.
        ("", ["1975"], "na", "na"),
        ("I don't know", ["1975"], "na", "na"),
        ("i don’t know", ["1975"], "na", "na"),
        ("I do not know", ["1975"], "na", "na"),
        ("I dont know", ["1975"], "bad", "na"),
        ("I don't know.", ["1975"], "bad", "na"),
        ("!!!", ["1975"], "na", "na"),
        ("I don't know, maybe 1975", ["1975"], "good", "bad"),
        (None, ["1975"], "na", "na"),
        ("Paris", [], "bad", "bad"),
        ("Paris", ["", " ; "], "bad", "bad"),
    ],
)  # fmt: skip
def test_labels(answer: str | None, gold: list[str] | str, reference: Label, boundary: Label) -> None:
    assert judge(answer, gold) == reference
    assert judge(answer, gold, "boundary") == boundary


@pytest.mark.parametrize(
    ("question", "answer", "gold", "boundary"),
    [
        ("when was the last time philly won the stanley cup", "The Philadelphia Flyers last won it in 1975.", ["1975"], "good"),
        ("when was the last time philly won the stanley cup", "The Flyers won the cup in 1974 and in 1975.", ["1975"], "bad"),
        ("Who won the Stanley Cup in 1975?", "In 1975, the Flyers won.", ["Flyers"], "good"),
        ("What is Raymond S. Burton's occupation?", "The occupation of Raymond S. Burton is politician.", ["politician"], "good"),
        ("What was Harvey Peltier, Sr.'s occupation?", "Harvey Peltier, Sr. is a lawyer.", ["lawyer"], "good"),
        ("Which film is from 1986?", "the film Trick or Treat, from 1986", ["Trick or Treat"], "good"),
        ("Who wrote Crimson Orvessa?", "Crimson Orvessa was written by Marek Dolvin.", ["Marek Dolvin"], "good"),
        ("Who wrote Crimson Orvessa?", "Marek Dolvin wrote Crimson Orvessa.", ["Marek Dolvin"], "good"),
        ("Who wrote Crimson Orvessa?", "Therefore, the author of Crimson Orvessa is Marek Dolvin.", ["Marek Dolvin"], "good"),
        ("Who wrote Crimson Orvessa?", "Selma Brandt wrote Crimson Orvessa, not Marek Dolvin.", ["Marek Dolvin"], "bad"),
        ("Who wrote Crimson Orvessa?", "The author of Crimson Orvessa is Selma Brandt or Marek Dolvin", ["Marek Dolvin"], "bad"),
        ("Who wrote Crimson Orvessa?", "Marek Dolvin is wrong", ["Marek Dolvin"], "bad"),
        ("Who wrote Crimson Orvessa?", "Marek Dolvin would be a mistake", ["Marek Dolvin"], "bad"),
        ("When was Crimson Orvessa published?", "1975 rather than 1931", ["1931"], "bad"),
        ("When was Crimson Orvessa published?", "anything but 1931", ["1931"], "bad"),
        # A question that offers its answers.
        ("Which is bigger, Rome or Oslo?", "Oslo is bigger.", ["Oslo"], "good"),
        ("Which is bigger, Rome or Oslo?", "The bigger one is Oslo.", ["Oslo"], "good"),
        ("Which is bigger, Rome or Oslo?", "Rome Oslo", ["Oslo"], "bad"),
        ("which is bigger rome or oslo", "rome oslo", ["oslo"], "bad"),
        # Parts of a gold answer, as real models give them.
        ("Who led it?", "C. S. Lewis", ["Clive Staples Lewis"], "good"),
        ("Who led it?", "Reggie Jackson", ['Reginald Martinez "Reggie" Jackson'], "good"),
        ("Who led it?", "Edith Cavell", ["Edith Louisa Cavell"], "good"),
        ("Where is it?", "Kew", ["Kew, Melbourne, Australia"], "good"),
        ("How many are there?", "40", ["40 members"], "good"),
        ("Who led it?", "Louisa Cavell", ["Edith Louisa Cavell Smith"], "bad"),
    ],
)  # fmt: skip
def test_one_answer_is_read_off_with_the_question_s_words_passed_over(
    question: str, answer: str, gold: list[str], boundary: Label
) -> None:
    assert judge(answer, gold, "boundary", question) == boundary


NAMES = st.from_regex(r"[A-Z][a-z]{3,8}v[a-z]{2}", fullmatch=True)
SEPARATORS = st.lists(
    st.one_of(
        st.text(st.characters(categories=("P", "S", "Z", "C")), max_size=3),
        st.from_regex(r"[a-z]{1,9}", fullmatch=True),
    ),
    max_size=3,
).map(lambda parts: f" {' '.join(parts)} ")


@given(
    st.lists(NAMES, min_size=2, max_size=5, unique_by=str.casefold),
    SEPARATORS,
    st.sampled_from(("", "It is ", "could have been ")),
)
def test_a_list_earns_no_more_than_its_first_item_whatever_separates_the_items(
    names: list[str], separator: str, prefix: str
) -> None:
    question = "Who wrote Crimson Orvessa?"
    answer = separator.join(prefix + name for name in names)
    for name in names[1:]:
        assert judge(answer, [name], "boundary", question) != "good"


def test_real_right_answers_are_recognised(data_dir: Path) -> None:
    """The short answers of a 7B model on HotpotQA, judged by GPT-4o: recall, and precision."""
    file = data_dir / "r1_searcher_outputs" / "hotpotqa_qwen.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    good = [judge(row["pred_ans"].strip(), [row["answer"]], "boundary", row["question"]) == "good" for row in rows]
    right = [row["gpt4o_output"] == "True" for row in rows]
    both = sum(map(min, good, right))
    assert both / sum(right) > 0.92  # 0.904 where the judge accepted a gold answer anywhere in the text
    assert both / sum(good) > 0.985


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  The  Stanley-Cup, (1975)! ", "stanley cup 1975"),
        ("An apple a day", "apple day"),
        ("Theodore", "theodore"),
        ("ﬁlm", "film"),
        ("snake_case", "snake_case"),
        ("Ｆｕｌｌ", "full"),
        ("…", ""),
    ],
)
def test_normalisation(text: str, normal: str) -> None:
    assert normalise_answer(text) == normal


def test_gold_answers_are_separated_by_semicolons() -> None:
    assert gold_answers("a; b ;;a") == ("a", "b")
    assert gold_answers(["x; y", "z", ""]) == ("x", "y", "z")


words = st.lists(st.sampled_from(["paris", "london", "the", "1975", "7", "or", "not", "Ö", ",", "of"]), max_size=8)


@given(words.map(" ".join), st.lists(words.map(lambda gold: " ".join(gold[:2])), max_size=3))
def test_the_boundary_judge_accepts_a_subset_of_the_published_one(answer: str, golds: list[str]) -> None:
    # On plain letters, and but for names without their middle; marks are where the published rule refuses what it should not,
    # and so are words that name nothing before a part of a gold answer ("of 1975" for "1975 metres").
    if judge(answer, golds, "boundary") == "good" and answer.isascii():
        visible = [gold for gold in golds if normalise_answer(gold)]
        named = " ".join(word for word in answer.split() if word not in ("the", "of"))
        assert "good" in (judge(answer, visible), judge(named, visible)) or not normalise_answer(answer)


def test_a_word_that_names_nothing_is_passed_over_before_a_part_of_a_gold_answer() -> None:
    """Found by the property above; the published rule compares the whole text."""
    assert judge("of 1975", ["1975 metres"], "boundary") == "good"
    assert judge("of 1975", ["1975 metres"]) == "bad"


@given(st.text(max_size=60), st.lists(st.text(max_size=20), max_size=3))
def test_any_texts_are_judged_and_a_gold_answer_is_good(answer: str, golds: list[str]) -> None:
    for rule in ("reference", "boundary"):
        assert judge(answer, golds, rule) in ("good", "bad", "na")
    for gold in gold_answers(golds):
        assert judge(gold, golds) in ("good", "na")
        assert judge(gold, golds, "boundary") in ("good", "na")


def test_long_answers_and_runs_of_marks_are_judged() -> None:
    # A judge whose time grows with the square would not come back.
    for answer in ("a" + "\u0301\u0300" * 500_000, "1974, " * 300_000, "x " * 500_000 + "1975", "'" * 1_000_000):
        assert judge(answer, ["1975"], "boundary") in ("bad", "na")
        judge(answer, ["1975"])
    assert not is_refusal("i dont know " * 100_000, "boundary")


def test_a_gold_answer_of_marks_alone_is_judged() -> None:
    """Found by random examples: an aside without a word."""
    for rule in ("reference", "boundary"):
        assert judge("0", ["(/)"], rule) in ("bad", "na")
