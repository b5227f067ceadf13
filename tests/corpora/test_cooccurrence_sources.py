"""Corpora as streams: every form, packed and not, whole and in parts, and what happens to what is broken."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import pickle
import random
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import ConfigError, DataError, MissingExtraError
from factgym.corpora.byte_ranges import CHUNK
from factgym.corpora.cooccurrence.sources import BadRecords, Source
from factgym.corpora.wikitext import strip_wikitext

PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
WORDS = ["Paris", "Rome", "été", "東京", "a", "the", "\u2028", "naïve"]


def documents(count: int, seed: int = 0) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(f"d{n}", " ".join(rng.choices(WORDS, k=rng.randrange(1, 40)))) for n in range(count)]


def write_jsonl(path: Path, records: list[tuple[str, str]], key: str = "text") -> Path:
    lines = [json.dumps({"id": id_, key: text}, ensure_ascii=False) for id_, text in records]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


@pytest.mark.parametrize("suffix", PACKERS)
def test_json_lines_packed_and_plain(tmp_path, suffix):
    made = documents(30)
    plain = write_jsonl(tmp_path / "plain.jsonl", made).read_bytes()
    (tmp_path / "plain.jsonl").unlink()
    (tmp_path / f"c.jsonl{suffix}").write_bytes(PACKERS[suffix](plain))
    source = Source(tmp_path)
    assert list(source) == made
    assert list(source) == made  # and again


def test_how_a_file_is_packed_is_seen_in_its_bytes_and_not_in_its_name(tmp_path):
    made = documents(3)
    plain = write_jsonl(tmp_path / "plain.jsonl", made).read_bytes()
    (tmp_path / "other.jsonl").write_bytes(gzip.compress(plain))
    assert list(Source(tmp_path / "other.jsonl")) == made


@given(st.lists(st.integers(0, 60), max_size=30), st.integers(1, 300), st.booleans())
def test_parts_are_the_whole(tmp_path_factory, lengths, part_bytes, ended):
    """Whatever the part size: borders inside lines, at their ends, and between the bytes of a character."""
    path = tmp_path_factory.mktemp("c") / "c.jsonl"
    made = [(f"d{n}", "é" * length) for n, length in enumerate(lengths)]
    write_jsonl(path, made)
    if not ended:
        path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    source = Source(path, part_bytes=part_bytes)
    assert [document for part in source.parts for document in source.read(part)] == made
    assert list(Source(path)) == made
    assert source.parts[0].range.end <= part_bytes


def test_a_source_reads_the_same_in_another_process(tmp_path):
    source = Source(write_jsonl(tmp_path / "c.jsonl", documents(40)), part_bytes=500)
    again = pickle.loads(pickle.dumps(source))
    assert again.parts == source.parts
    assert len(source.parts) > 3
    assert again.fingerprint() == source.fingerprint()
    assert list(again.read(source.parts[2])) == list(source.read(source.parts[2]))


def test_the_fingerprint_sees_bytes_names_and_settings(tmp_path):
    path = write_jsonl(tmp_path / "c.jsonl", documents(5))
    first = Source(path).fingerprint()
    assert Source(path, text_key="text").fingerprint() != first
    assert Source(path, skip_bad=True).fingerprint() != first
    content = path.read_bytes()
    path.write_bytes(content.replace(b"d4", b"d5"))
    assert Source(path).fingerprint() != first
    path.write_bytes(content)
    assert Source(path).fingerprint() == first
    assert Source(path.rename(tmp_path / "other.jsonl")).fingerprint() != first


def test_the_text_may_be_under_another_key(tmp_path):
    made = documents(4)
    assert list(Source(write_jsonl(tmp_path / "a.jsonl", made, "contents"))) == made
    assert list(Source(write_jsonl(tmp_path / "b.jsonl", made, "body"), text_key="body")) == made
    with pytest.raises(DataError, match=r"b\.jsonl line 1: no text under 'text' \(found: body, id\)"):
        list(Source(tmp_path / "b.jsonl"))


BROKEN = {
    '{"text": "a"': "not valid JSON",
    "[1]": "a JSON object is expected, not a list",
    '{"text": 3}': "no text under 'text'",
    '{"text": NaN, "contents": "b"}': "no text",
    "[" * 100_000: "not usable JSON",
    '{"text": ' + "1" * 5000 + "}": "not usable JSON",
}


@pytest.mark.parametrize("line", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("part_bytes", [60, 1 << 20])
def test_a_broken_line_is_named(tmp_path, line, part_bytes):
    path = write_jsonl(tmp_path / "c.jsonl", [("x", "a b"), ("y", "c")])
    path.write_bytes(path.read_bytes() + b"\n" + line.encode() + b"\n" + b'{"text": "after"}\n')
    source = Source(path, part_bytes=part_bytes)
    with pytest.raises(DataError, match="line 4") as caught:
        list(source)
    assert BROKEN[line] in str(caught.value)
    skipping = Source(path, part_bytes=part_bytes, skip_bad=True)
    assert [text for _, text in skipping] == ["a b", "c", "after"]
    assert skipping.bad.count == 1
    assert "line 4" in skipping.bad.messages[0]


def test_bytes_that_are_no_utf8_are_a_broken_line(tmp_path):
    (tmp_path / "c.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "\xff"}\n')
    with pytest.raises(DataError, match=r"line 2: not UTF-8 at byte 11"):
        list(Source(tmp_path / "c.jsonl"))
    assert [text for _, text in Source(tmp_path / "c.jsonl", skip_bad=True)] == ["a"]


def test_counts_of_what_is_left_out_can_be_gathered_per_part(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"text": "a"}\nbroken\n' * 60)
    source = Source(path, part_bytes=200, skip_bad=True)
    bad = BadRecords()
    for part in source.parts:
        list(source.read(part, bad))
    assert (bad.count, len(bad.messages), source.bad.count) == (60, 20, 0)
    assert bad.messages[1] == "c.jsonl line 4: not valid JSON at column 1 (Expecting value)"


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_a_cut_off_file_is_an_error_that_cannot_be_skipped(tmp_path, suffix):
    plain = write_jsonl(tmp_path / "plain", documents(2000)).read_bytes()
    packed = PACKERS[suffix](plain)
    (tmp_path / f"c.jsonl{suffix}").write_bytes(packed[: len(packed) * 2 // 3])
    with pytest.raises(DataError, match="cannot be read to its end"):
        list(Source(tmp_path / f"c.jsonl{suffix}", skip_bad=True))


def test_bytes_after_a_bzip2_stream_are_an_error(tmp_path):
    (tmp_path / "c.jsonl.bz2").write_bytes(bz2.compress(b'{"text": "a"}\n') + b"garbage")
    with pytest.raises(DataError, match="cannot be read to its end"):
        list(Source(tmp_path))


def test_a_packed_bomb_is_stopped_at_its_first_line(tmp_path, monkeypatch):
    """A few kilobytes that unpack to one line of many megabytes never lie in memory."""
    monkeypatch.setattr("factgym.corpora.cooccurrence.sources.MAX_RECORD_BYTES", 2 * CHUNK)
    for suffix, pack in PACKERS.items():
        (tmp_path / f"c.jsonl{suffix}").write_bytes(pack(bytes(8 * CHUNK)))
        with pytest.raises(DataError, match="a line has more than"):
            list(Source(tmp_path / f"c.jsonl{suffix}"))


TEXT = "first line\nsecond  line\n\n\nanother paragraph\r\n\n  last"


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("file", [TEXT]),
        ("paragraph", ["first line\nsecond  line", "another paragraph", "last"]),
        ("line", ["first line", "second  line", "another paragraph", "last"]),
    ],
)
def test_text_by_file_paragraph_and_line(tmp_path, unit, expected):
    (tmp_path / "t.txt").write_bytes(TEXT.encode())
    assert [text for _, text in Source(tmp_path / "t.txt", unit=unit)] == expected


def test_a_file_without_a_known_ending_is_text(tmp_path):
    (tmp_path / "README").write_text("hello")
    assert list(Source(tmp_path / "README")) == [("README", "hello")]
    assert Source(tmp_path / "README", form="jsonl").parts[0].form == "jsonl"


def test_a_folder_is_read_in_the_order_of_its_paths_and_says_what_it_ignored(tmp_path):
    for name in ("b/two.txt", "a/one.txt", "z.jsonl", "picture.png", ".hidden.txt", ".git/x.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"id": "z", "text": "z"}' if name == "z.jsonl" else name)
    source = Source(tmp_path)
    assert [id_ for id_, _ in source] == ["a/one.txt", "b/two.txt", "z"]
    assert source.ignored == ("picture.png",)
    assert [part.form for part in Source(tmp_path, form="text").parts] == ["text", "text"]


DOCS = """<doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="Anarchism">
Anarchism

Anarchism is a political philosophy.
</doc>

<doc id="25" url="u" title="Autism">
Autism
Text with <doc> in it? No: <b>bold</b>.
</doc>
"""


def test_wikiextractor_in_both_of_its_forms(tmp_path):
    (tmp_path / "AA").mkdir()
    (tmp_path / "AA" / "wiki_00").write_text(DOCS)
    lines = [{"id": "39", "title": "Albedo", "text": "Albedo is"}, {"id": "40", "title": "R", "text": ""}]
    packed = bz2.compress("".join(f"{json.dumps(line)}\n" for line in lines).encode())
    (tmp_path / "AA" / "wiki_01.bz2").write_bytes(packed)
    (tmp_path / "log.txt").write_text("done")
    source = Source(tmp_path)
    assert [id_ for id_, _ in source] == ["12", "25", "39"]
    assert next(iter(source))[1] == "Anarchism\n\nAnarchism is a political philosophy."
    assert source.ignored == ("log.txt",)


@pytest.mark.parametrize(
    ("content", "message"),
    [(DOCS.removesuffix("</doc>\n"), "line 7: this article has no </doc>"), ("<p>\n", "line 1: an article begins")],
)
def test_broken_wikiextractor_output(tmp_path, content, message):
    (tmp_path / "wiki_00").write_text(content)
    with pytest.raises(DataError, match=message):
        list(Source(tmp_path))


def dump(pages: list[tuple[int, str, str]], redirects: tuple[int, ...] = ()) -> tuple[str, list[str], str]:
    """Head, pages and foot of a dump, as MediaWiki exports it; a page is (namespace, title, wikitext)."""
    head = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10">\n  <siteinfo/>\n'
    made = [
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{ns}</ns>\n    <id>{n + 10}</id>\n"
        + ('    <redirect title="x" />\n' if n in redirects else "")
        + f"    <revision>\n      <id>{n + 99}</id>\n      <text bytes='1' xml:space='preserve'>{escape(text)}</text>\n"
        "    </revision>\n  </page>\n"
        for n, (ns, title, text) in enumerate(pages)
    ]
    return head, made, "</mediawiki>\n"


PAGES = [
    (0, "Paris & co", "'''Paris''' is the [[capital city|capital]] of {{flag|France}} [[France]].<ref>no</ref>"),
    (1, "Talk:Paris", "nothing"),
    (0, "Redirect", "#REDIRECT [[Paris]]"),
    (0, "Tag", "How to write <nowiki><page></nowiki> in XML."),
    (0, "Long", "word " * 500_000),
    (0, "東京", "Tōkyō\n{| class=x\n| cell\n|}\n都"),
]
PROSE = {
    "10": "Paris is the capital of  France.",
    "13": "How to write <page> in XML.",
    "14": ("word " * 500_000).strip(),
    "15": "Tōkyō\n\n都",
}


@pytest.fixture(scope="module")
def _library():
    pytest.importorskip("mwparserfromhell", reason="needs the extra wikipedia")


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("suffix", PACKERS)
def test_a_wikipedia_dump(tmp_path, suffix):
    head, pages, foot = dump(PAGES, redirects=(2,))
    content = "".join([head, *pages, foot]).encode()
    (tmp_path / f"enwiki-20231101-pages-articles.xml{suffix}").write_bytes(PACKERS[suffix](content))
    (tmp_path / "enwiki-20231101-pages-articles-multistream-index.txt.bz2").write_bytes(bz2.compress(b"1:2:x"))
    assert dict(Source(tmp_path)) == PROSE


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("streams", ["of whole pages", "cut anywhere"])
def test_parts_of_a_dump_in_several_bzip2_streams(tmp_path, streams):
    """Each page is read once, by the part in which it begins: streams as Wikipedia makes them, and as pbzip2 does."""
    made = [(0, f"P{n}", f"text{n} " * (n % 7) + str(n)) for n in range(200)]
    head, pages, foot = dump(made)
    complete = "".join([head, *pages, foot]).encode()
    rng = random.Random(1)
    cuts = sorted(rng.sample(range(1, len(complete)), 60))
    pieces = (
        [head, *("".join(pages[at : at + 5]) for at in range(0, 200, 5)), foot]
        if streams == "of whole pages"
        else [complete[a:b].decode() for a, b in zip([0, *cuts], [*cuts, len(complete)], strict=True)]
    )
    packed = b"".join(bz2.compress(page.encode()) for page in pieces)
    file = tmp_path / "enwiki-20231101-pages-articles-multistream.xml.bz2"
    file.write_bytes(packed)
    expected = [(str(n + 10), text.strip()) for n, (_, _, text) in enumerate(made)]
    for part_bytes in (97, 1_000, 5_000, 1 << 30):
        source = Source(file, part_bytes=part_bytes)
        assert [document for part in source.parts for document in source.read(part)] == expected
    assert len(Source(file, part_bytes=97).parts) == -(-len(packed) // 97)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("part_bytes", [50, 333, 100_000])
def test_parts_of_a_dump_that_is_not_packed(tmp_path, part_bytes):
    made = [(0, f"P{n}", f"text {n}") for n in range(40)]
    head, pages, foot = dump(made)
    (tmp_path / "x.xml").write_text("".join([head, *pages, foot]))
    source = Source(tmp_path / "x.xml", part_bytes=part_bytes)
    assert [text for _, text in source] == [text for _, _, text in made]


def test_entities_of_a_dump_are_never_expanded(tmp_path):
    """A billion laughs: its declarations are not parsed, so the page that uses them is broken, and nothing grows."""
    lol = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    head, pages, foot = dump([(0, "A", "text")])
    bomb = f'<!DOCTYPE mediawiki [<!ENTITY l0 "lol">{lol}]>' + head + pages[0].replace("text</", "&l9;</") + foot
    (tmp_path / "bomb.xml").write_text(bomb)
    with pytest.raises(DataError, match="'A' is not well-formed XML"):
        list(Source(tmp_path))
    inside = head + pages[0].replace("<page>", '<page><!DOCTYPE x [<!ENTITY a "b">]>') + foot
    (tmp_path / "bomb.xml").write_text(inside)
    with pytest.raises(DataError, match="not well-formed"):
        list(Source(tmp_path))


@pytest.mark.usefixtures("_library")
def test_a_broken_page_is_named_and_can_be_left_out(tmp_path):
    head, pages, foot = dump([(0, "A", "one"), (0, "B", "two"), (0, "C", "three")])
    broken = pages[1].replace("</revision>", "")
    (tmp_path / "x.xml").write_text(head + pages[0] + broken + pages[2] + foot)
    with pytest.raises(DataError, match="the page 'B' is not well-formed"):
        list(Source(tmp_path))
    source = Source(tmp_path, skip_bad=True)
    assert [text for _, text in source] == ["one", "three"]
    assert source.bad.count == 1


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("cut", [len("</mediawiki>\n"), 60, 400])
def test_a_dump_that_is_cut_off(tmp_path, cut):
    head, pages, foot = dump([(0, "A", "one"), (0, "B", "two")])
    (tmp_path / "x.xml").write_text("".join([head, *pages, foot])[:-cut])
    with pytest.raises(DataError, match="cut off"):
        list(Source(tmp_path, skip_bad=True))


def test_a_dump_that_is_there_twice_is_not_read_twice(tmp_path):
    for name in ("enwiki-pages-articles.xml.bz2", "enwiki-pages-articles-multistream.xml.bz2"):
        (tmp_path / name).write_bytes(bz2.compress(b"x"))
    with pytest.raises(ConfigError, match="more than once"):
        Source(tmp_path)
    (tmp_path / name).unlink()
    for n in (1, 2):
        (tmp_path / f"enwiki-pages-articles{n}.xml-p{n}p9.bz2").write_bytes(b"x")
    (tmp_path / "enwiki-pages-articles.xml.bz2").unlink()
    assert len(Source(tmp_path).parts) == 2


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mwparserfromhell", None)
    head, pages, foot = dump([(0, "A", "one")])
    (tmp_path / "x.xml").write_text("".join([head, *pages, foot]))
    with pytest.raises(MissingExtraError, match="wikipedia"):
        list(Source(tmp_path))


WIKITEXT = {
    "A [[File:x.jpg|thumb|A [[link]] in a caption]] B": "A  B",
    "[[Category:People]][[de:Mensch]]Text": "Text",
    "[[Star Trek: Voyager]] and [[NASA|the agency]]": "Star Trek: Voyager and the agency",
    "== Life ==\nHe": "Life \n\nHe",
    "a&nbsp;b &amp; c &#8211; d": "a\xa0b & c – d",
    "[https://example.org the site] and https://example.org": "the site and",
    "x<math>E=mc^2</math>y <b>z</b><!-- c -->": "xy z",
    "{{Infobox|a={{b}}}}Text ({{lang|fr|x}}) end": "Text  end",
    "line<br/>break": "line\nbreak",
    "'''''both''''' ''it''": "both it",
    "{{unclosed [[and]] text": "{{unclosed and text",
}


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("wikitext", WIKITEXT)
def test_wikitext_as_prose(wikitext):
    assert strip_wikitext(wikitext) == WIKITEXT[wikitext]


UNCLOSED = (
    "{{a|",
    "{{{a|",
    "[[a|b ",
    "\n{|\n|a\n",
    "[http://a b ",
    "<b>c ",
    "<ref name=a>c ",
    "<!-- c ",
    "<li>c ",
    "<br>c ",
)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("mark", UNCLOSED)
def test_marks_that_nothing_closes_are_text_as_in_the_parser_itself(mark, monkeypatch):
    page = f"Before [[a|b]] {{{{c}}}} '''d''' [http://e f].\n\n{mark * 60}g <i>h</i> [[i]] {{{{j}}}} k"
    text = strip_wikitext(page)
    monkeypatch.setattr("factgym.corpora.wikitext._MAX_UNCLOSED", 10_000)
    assert strip_wikitext(page) == text


def test_settings_and_places_that_do_not_fit(tmp_path):
    (tmp_path / "a.png").write_text("")
    for path, message in ((tmp_path / "none", "no such file or folder"), (tmp_path, "no file that can be read")):
        with pytest.raises(ConfigError, match=message):
            Source(path)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ConfigError, match="Did you mean 'jsonl'"):
        Source(tmp_path, form="json")
    with pytest.raises(ConfigError, match="unit"):
        Source(tmp_path, unit="page")
    assert list(Source(tmp_path)) == [("a.txt", "")]


def test_memory_is_bounded_by_the_largest_document(tmp_path):
    """Thirty megabytes of lines are read with a few in memory."""
    import tracemalloc

    path = tmp_path / "c.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for n in range(30_000):
            file.write(b'{"id": "%d", "text": "%s"}\n' % (n, b"some words " * 90))
    tracemalloc.start()
    assert sum(1 for _ in Source(path)) == 30_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20
