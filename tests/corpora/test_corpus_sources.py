"""Sources of `build_corpus`: documents by libraries, broken records, tables and dumps."""

from __future__ import annotations

import bz2
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.core.errors import DataError, MissingExtraError
from factgym.corpora.build import build_corpus, document_text, read_passages
from factgym.corpora.cooccurrence.sources import BadRecords, Source
from factgym.corpora.documents import read_folder
from factgym.corpora.extraction import Extractor, ReadingBudget, read_file
from factgym.corpora.index import build_index
from factgym.corpora.store import StoredCorpus
from factgym.datasets.evidence import FolderStore
from factgym.text.folding import fold

SENTENCES = ("Refunds are paid within thirty days of the return.", "Annual plans renew on the first of March.")


def write_pdf(path: Path, pages: tuple[str, ...]) -> None:
    """Write a PDF by hand, as its specification lays out: objects, a cross-reference table, a trailer."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET"
        fonts = f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {fonts} >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    raw, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(raw))
        raw += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    end = (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(raw)}\n"
    )
    path.write_bytes(raw + f"{end}%%EOF\n".encode())


def write_docx(path: Path, paragraphs: tuple[str, ...], style: str = "", after: str = "") -> None:
    """Write the parts of Office Open XML that a text needs. style: of the first paragraph. after: what follows, as XML."""
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    office = "http://schemas.openxmlformats.org"
    mark = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    marks = [mark, *[""] * (len(paragraphs) - 1)]
    body = "".join(f"<w:p>{m}<w:r><w:t>{text}</w:t></w:r></w:p>" for m, text in zip(marks, paragraphs, strict=True))
    body += after
    styles = f'<w:styles xmlns:w="{word}"><w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/></w:style></w:styles>'
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    relations = f"{office}/package/2006/relationships"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'{head}<Types xmlns="{office}/package/2006/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'{head}<Relationships xmlns="{relations}"><Relationship Id="rId1" '
            f'Type="{office}/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>',
        )
        if style:
            archive.writestr("word/styles.xml", head + styles)
            archive.writestr(
                "word/_rels/document.xml.rels",
                f'{head}<Relationships xmlns="{relations}"><Relationship Id="rId1" '
                f'Type="{office}/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>',
            )
        archive.writestr(
            "word/document.xml", f'{head}<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>'
        )


def quoted(stored: StoredCorpus, folder: Path, query: str) -> tuple[str, str]:
    """Return the document of the best hit for a query, and the text at the offsets in it."""
    (hits,) = build_index(stored).search([query], 1)
    document, start, end = stored.source_of(hits[0].id)
    assert start is not None
    return document, document_text(folder / document.partition("#")[0])[start:end]


def test_a_quote_from_a_pdf_has_its_page_and_whole_words(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="needs the extra 'documents'")
    from factgym.check import check_text

    write_pdf(
        tmp_path / "leave.pdf", ("Nothing of interest is on this page.", "Leave requests are answered within ten days.")
    )
    (claim,) = check_text("Leave requests are answered within ten days.", tmp_path).claims
    assert (claim.status, claim.quotes[0].location.page) == ("supported", 2)
    assert str(claim.quotes[0].location).startswith("leave.pdf, p. 2")


def write_lines(path: Path, lines: Iterable[tuple[int, int, str]]) -> None:
    """Write a page of a PDF with texts at places, in the order given. lines: x, y and the text."""
    texts = ") Tj ET ".join(f"BT /F1 10 Tf {x} {y} Td ({text}" for x, y, text in lines)
    write_pdf(path, (f") Tj ET {texts}",))


COLUMNS = (
    ("The tenant pays the rent on the first", "The landlord keeps the roof and the"),
    ("day of each month. A deposit of two", "walls in good order. Repairs are com-"),
    ("months is due before the keys are", "pleted within ten days of a notice."),
    ("handed over to the tenant.", ""),
)
FEES = (("Plan", "Fee in euros", "Users"), ("Basic", "10", "1"), ("Pro", "20", "5"), ("Team", "30", ""))


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        (COLUMNS, ["The tenant pays the rent on the first day of each month. A deposit of two months is due before the keys are "
                   "handed over to the tenant.", "The landlord keeps the roof and the walls in good order. Repairs are completed "
                   "within ten days of a notice."]),
        (FEES, ["- Plan: Basic; Fee in euros: 10; Users: 1", "- Plan: Pro; Fee in euros: 20; Users: 5", "- Plan: Team; Fee in euros: 30"]),
        ([("1.", "A roof is kept."), ("2.", "A wall is kept."), ("3.", "A door is kept.")],
         ["1. A roof is kept.", "2. A wall is kept.", "3. A door is kept."]),
    ],
    ids=["columns", "table", "list"],
)  # fmt: skip
def test_lines_of_a_page_across_columns(rows: Sequence[Sequence[str]], lines: list[str], tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="needs the extra 'documents': pip install -e '.[documents]'")
    places = [
        (72 + 200 * column, 700 - 14 * row, text)
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
        if text
    ]
    write_lines(tmp_path / "a.pdf", places)
    (document,) = read_folder(tmp_path).documents
    assert [line for passage in document.passages for line in passage.text.split("\n")] == lines


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(1, 9)), min_size=1, unique_by=lambda cell: cell[:2]
    )
)
def test_each_word_of_a_pdf_is_read_once(places: list[tuple[int, int, int]]) -> None:
    """The words are known by construction, as each is written once."""
    pytest.importorskip("pypdf", reason="needs the extra 'documents': pip install -e '.[documents]'")
    texts = [" ".join(f"w{number}x{word}z" for word in range(length)) for number, (_, _, length) in enumerate(places)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.pdf"
        write_lines(path, ((72 + 120 * x, 700 - 14 * y, text) for (x, y, _), text in zip(places, texts, strict=True)))
        read = re.findall(r"w\d+x\d+z", read_file(path).text)
    assert sorted(read) == sorted(" ".join(texts).split())


def test_a_title_of_word_is_the_title_of_the_document(tmp_path: Path) -> None:
    pytest.importorskip("mammoth", reason="needs the extra 'documents'")
    write_docx(
        tmp_path / "a.docx", ("Plans of 2024", "The plan has two parts, and each costs ten euros."), style="Title"
    )
    (document,) = read_folder(tmp_path).documents
    assert document.title == "Plans of 2024"


@st.composite
def office_blocks(draw: st.DrawFn, depth: int = 2) -> str:
    """Return paragraphs and tables of Office Open XML; each `@` in them stands for a word."""
    runs = ("<w:r><w:t>@</w:t></w:r>", "<w:r><w:t>@</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>ly</w:t></w:r>",
            "<w:r><w:t>@</w:t><w:br/><w:t>@</w:t></w:r>", "<w:r><w:t>@</w:t><w:tab/><w:t>@</w:t></w:r>",
            '<w:hyperlink w:anchor="a"><w:r><w:t>@</w:t></w:r></w:hyperlink>', "<w:ins><w:r><w:t>@</w:t></w:r></w:ins>",
            "<w:del><w:r><w:delText>w9999z</w:delText></w:r></w:del><w:r><w:t>@</w:t></w:r>")  # fmt: skip
    space = '<w:r><w:t xml:space="preserve"> </w:t></w:r>'
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.booleans()):
            width = draw(st.integers(1, 3))
            row = st.lists(office_blocks(0 if depth == 1 else draw(st.integers(0, 1))), min_size=width, max_size=width)
            rows = draw(st.lists(row, min_size=1, max_size=3))
            cells = ("".join(f"<w:tc>{cell}</w:tc>" for cell in cells) for cells in rows)
            # The standard wants a paragraph behind a table in a cell.
            parts.append(f"<w:tbl>{''.join(f'<w:tr>{line}</w:tr>' for line in cells)}</w:tbl><w:p/>")
        else:
            style = draw(st.sampled_from(("", "<w:pPr><w:pStyle w:val='Title'/></w:pPr>")))
            parts.append(
                f"<w:p>{style}{space.join(draw(st.lists(st.sampled_from(runs), min_size=1, max_size=3)))}</w:p>"
            )
    return "".join(parts)


@given(office_blocks())
def test_each_word_of_a_docx_is_read_once(body: str) -> None:
    """Against its own words, each of which is written once."""
    pytest.importorskip("mammoth", reason="needs the extra documents")
    words = [f"w{number}z" for number in range(body.count("@"))]
    pieces = iter(words)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.docx")
        write_docx(path, ("Plans",), "Title", re.sub("@", lambda _: next(pieces), body))
        blocks = read_file(path).blocks
    headings = dict.fromkeys(heading for block in blocks for heading in block.path)
    read = "\n".join([*headings, *(line for block in blocks for line in block.paragraphs)])
    assert sorted(re.findall(r"w\d+z(?=(?:ly)?\b)", read)) == sorted(words), read


def test_html_pdf_and_docx_are_searched_and_quotes_lead_back(tmp_path: Path) -> None:
    for module in ("mammoth", "pypdf"):
        pytest.importorskip(module, reason="needs the extra 'documents': pip install -e '.[documents]'")
    docs = tmp_path / "docs"
    docs.mkdir()
    write_pdf(docs / "refund policy.pdf", ("Nothing here.", f"{'Nothing of interest. ' * 90}{SENTENCES[0]}"))
    write_docx(docs / "annual plans.docx", ("Plans", SENTENCES[1]))
    html = (
        "<html><head><title>Opening hours</title><style>p {}</style></head><body><nav>menu</nav><h2>Weekdays</h2>"
        "<p>Offices <b>close</b> at\n <a href='x'>five</a>.</p><script>alert(1)</script><p>Not on Sunday.</p></body></html>"
    )
    (docs / "hours.html").write_text(html)
    (docs / "note.md").write_text("# Note\n\nBring a pencil.\n")
    stored = build_corpus(docs, tmp_path / "out")
    document, text = quoted(stored, docs, "When are refunds paid?")
    assert document == "refund policy.pdf#page=2" and text.endswith(SENTENCES[0])
    document, text = quoted(stored, docs, "When do annual plans renew?")
    assert document == "annual plans.docx" and text.endswith(SENTENCES[1])
    document, text = quoted(stored, docs, "When do offices close?")
    assert (document, " ".join(text.split())) == ("hours.html", "Offices close at five. Not on Sunday.")
    assert quoted(stored, docs, "pencil") == ("note.md", "Bring a pencil.")
    assert {"Opening hours › Weekdays", "Note"} <= {passage.title for passage in stored}
    assert "menu" not in "".join(passage.text for passage in stored)


def test_quotes_lead_back_through_markup(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "Ask **your** [manager](https://a.example/b) (or [hers][1]) \"today\".\n\nNo <a href='x'>letters</a> — ever!\n"
    )
    stored = build_corpus(tmp_path, tmp_path.with_suffix(".corpus"))
    (passage,) = stored
    _, text = quoted(stored, tmp_path, "manager")
    assert passage.text == 'Ask your manager (or [hers][1]) "today".\nNo letters — ever!'
    assert text == (tmp_path / "a.md").read_text().strip()


def test_nearly_all_passages_of_real_policies_have_their_place(data_dir: Path, tmp_path: Path) -> None:
    """The words of a passage are those of its range, as sets: a check that knows nothing of the alignment."""
    passages = located = 0
    for number, folder in enumerate(sorted(data_dir.glob("policies_*"))):
        stored = build_corpus(folder, tmp_path / str(number))
        for passage in stored:
            document, start, end = stored.source_of(passage.id)
            passages += 1
            if start is not None:
                located += 1
                words = set(re.findall(r"\w{3,}", passage.text.lower()))
                text = (folder / document).read_text("utf-8-sig")[start:end].lower()
                assert len(words & set(re.findall(r"\w{3,}", text))) >= 0.8 * len(words), passage
    assert located > 0.94 * passages > 2000


def test_text_that_repeats_itself_is_read_in_linear_time(tmp_path: Path) -> None:
    """Where the search began anew at each of a million places, this would take hours."""
    (tmp_path / "a.md").write_text("](a " * 100_000 + "x. " * 100_000 + "<a " * 100_000)
    assert len(build_corpus(tmp_path, tmp_path.with_suffix(".corpus"))) > 300


def test_broken_documents_are_named_and_left_out_only_when_asked(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="needs the extra 'documents': pip install -e '.[documents]'")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("Offices are closed.\n")
    (docs / "b.pdf").write_bytes(b"%PDF-1.4 cut off")
    write_pdf(docs / "c.pdf", ("",))
    (docs / "d.docx").write_bytes(b"PK\x03\x04 no archive")
    (docs / "e.md").write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match=r"b.pdf: not readable .*--skip-bad"):
        build_corpus(docs, tmp_path / "out")
    bad = BadRecords()
    stored = build_corpus(docs, tmp_path / "out", skip_bad=True, bad=bad)
    assert [passage.text for passage in stored] == ["Offices are closed."]
    assert bad.count == stored.meta["left_out"] == 4
    assert sorted(message.partition(":")[0] for message in bad.messages) == ["b.pdf", "c.pdf", "d.docx", "e.md"]


def test_extraction_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mammoth", reason="needs the extra 'documents': pip install -e '.[documents]'")
    with zipfile.ZipFile(tmp_path / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 100_000_001)
    (tmp_path / "deep.html").write_text("<div>" * 20_000 + "text")
    (tmp_path / "a.html").write_text("<p>text</p>")
    with Extractor() as extract:
        with pytest.raises(DataError, match="bytes unpacked"):
            extract(tmp_path / "bomb.docx")
        with pytest.raises(DataError, match=r"nested too deeply|crashed"):
            extract(tmp_path / "deep.html")
        assert extract(tmp_path / "a.html").text == "text"
    with Extractor(ReadingBudget(seconds=0)) as extract, pytest.raises(DataError, match="not reached in the 0 s"):
        extract(tmp_path / "a.html")
    monkeypatch.setattr("factgym.corpora.extraction.find_spec", lambda name: None)
    with pytest.raises(DataError, match="needs the extra 'documents'"):
        build_corpus(tmp_path, tmp_path.with_suffix(".out"))


@pytest.mark.parametrize(
    "name, content, messages",
    [
        (
            "a.jsonl",
            b'{"id": 0\n{"id": 1, "contents": "T\\nx"}\n{"id": 2}\n{"id": 1, "contents": "T\\ny"}\n'
            b'{"id": 4, "contents": "caf\xe9"}\n[]\n{"id": 3, "contents": "T\\nz"}\n',
            ["line 1: not valid JSON", "line 3: no 'contents'", "line 4: the id '1'", "line 5: not UTF-8", "line 6: a JSON"],
        ),
        ("a.tsv", b"id\ttext\ttitle\n1\tx\tT\n2\ty\tT\tmore\n5\tcaf\xe9\tT\n3\tz\tT\n", ["line 3: 4 fields", "line 4: not UTF-8"]),
        ("a.json", b'[{"id": 1, "text": "x"}, {"id": 2, "text": ""}, {"id": 3, "text": "z"}]', ["a passage without text"]),
    ],
)  # fmt: skip
def test_broken_rows_are_left_out_only_when_asked(
    tmp_path: Path, name: str, content: bytes, messages: list[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError):
        build_corpus(tmp_path / name, tmp_path / "out")
    bad = BadRecords()
    stored = build_corpus(tmp_path / name, tmp_path / "out", skip_bad=True, bad=bad)
    assert [(passage.id, passage.text) for passage in stored] == [("1", "x"), ("3", "z")]
    assert len(bad.messages) == len(messages)
    assert all(part in message for part, message in zip(messages, bad.messages, strict=True)), bad.messages


ENTRY = '{"id": %d, "text": "x, {%d}"}'
BROKEN_ENTRIES = (
    '{"id": 2, "text" "y"}', '{"id": 2, "text": [}, 3]', '{"id": 2, "text": y}', '{"id": 2, "text": "y', '{"id": 2, "text": "y}',
    '"text, {2}"', "[1, {}]", "17", '{"id": 2, "text": "caf\udce9"}', '{"id": 2, "text": "y"', "{" * 5_000, '{"id": ' + "2" * 5_000 + "}",
)  # fmt: skip


@pytest.mark.parametrize("indent", ["", "  "])
@pytest.mark.parametrize("broken", BROKEN_ENTRIES)
def test_a_broken_entry_of_an_array_is_left_out_alone(tmp_path: Path, broken: str, indent: str) -> None:
    file = tmp_path / "a.json"
    for position in range(4):
        entries = [ENTRY % (number, number) for number in (3, 4, 5)]
        entries.insert(position, broken)
        content = "[\n" + ",\n".join(indent + entry for entry in entries) + "\n]\n"
        file.write_bytes(content.encode("utf-8", "surrogateescape"))
        with pytest.raises(DataError, match=rf"a\.json line {position + 2}"):
            build_corpus(file, tmp_path / "out")
        bad = BadRecords()
        stored = build_corpus(file, tmp_path / f"out{position}", skip_bad=True, bad=bad)
        assert [(passage.id, passage.text) for passage in stored] == [(f"{n}", f"x, {{{n}}}") for n in (3, 4, 5)]
        assert bad.count == 1
        assert f"line {position + 2}" in bad.messages[0]


def test_a_broken_entry_whose_end_is_unclear_stops(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"id": 1, "text": "x"}, {"id": 2, "text": "y}, {"id": 3, "text": "z"}]')
    with pytest.raises(DataError, match=r"line 1 \(entry 2\).*cannot be told apart: write JSON lines"):
        build_corpus(tmp_path / "a.json", tmp_path / "out", skip_bad=True)


@pytest.mark.parametrize("filler", [0, 3_000], ids=["at the end", "beyond csv's longest field"])
def test_an_unparsable_row_of_a_table_is_left_out_alone(tmp_path: Path, filler: int) -> None:
    good = [f"{number},{'word ' * 20}" for number in range(3, 5 + filler)]
    (tmp_path / "a.csv").write_text("\n".join(["id,text", '1,"a ""quoted""\ntext"', '2,"open', *good]) + "\n")
    with pytest.raises(DataError, match=r"a\.csv line 4: not readable as a table"):
        build_corpus(tmp_path / "a.csv", tmp_path / "out")
    bad = BadRecords()
    stored = build_corpus(tmp_path / "a.csv", tmp_path / "out", skip_bad=True, bad=bad)
    assert [passage.id for passage in stored] == ["1", *(str(number) for number in range(3, 5 + filler))]
    assert stored.get("1").text == 'a "quoted"\ntext'
    assert bad.count == 1
    assert "line 4" in bad.messages[0]


def test_damaged_row_groups_of_parquet_are_left_out(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs the extra 'export': pip install -e '.[export]'")
    pq = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "tables"
    folder.mkdir()
    rows = [{"id": f"{number}", "text": f"text {number}"} for number in range(300)]
    path = folder / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100, write_page_checksum=True, use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(1).column(1)
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(content)
    (folder / "b.parquet").write_bytes(content[:-9])
    with pytest.raises(DataError, match=r"a\.parquet: row group 2 cannot be read after row 100"):
        build_corpus(folder, tmp_path / "out")
    bad = BadRecords()
    stored = build_corpus(folder, tmp_path / "out", skip_bad=True, bad=bad)
    assert [passage.id for passage in stored] == [f"{number}" for number in (*range(100), *range(200, 300))]
    assert [message.partition(" cannot")[0].rpartition("/")[2] for message in bad.messages] == [
        "a.parquet: row group 2",
        "b.parquet:",
    ]


def test_parquet_and_saved_data_sets_are_read(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs the extra 'export': pip install -e '.[export]'")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [{"id": str(number), "title": "T", "text": f"text {number}"} for number in range(2_500)]
    expected = [(row["id"], row["text"]) for row in rows]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert [(p.id, p.text) for p in build_corpus(tmp_path / "a.parquet", tmp_path / "a")] == expected
    with pa.OSFile(str(tmp_path / "b.arrow"), "wb") as file, pa.ipc.new_file(file, pa.table({"id": [1]}).schema):
        pass
    (tmp_path / "c.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    for name, message in (("b.arrow", "holds no passage"), ("c.parquet", "cannot be read after row 0")):
        with pytest.raises(DataError, match=message):
            build_corpus(tmp_path / name, tmp_path / "out")
    datasets = pytest.importorskip("datasets", reason="needs the package datasets")
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved")
    assert [(p.id, p.text) for p in build_corpus(tmp_path / "saved", tmp_path / "d")] == expected


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match="needs the extra 'export'"):
        build_corpus(tmp_path / "a.parquet", tmp_path / "out")


# Wikipedia dumps and AVeriTeC's knowledge store.

ARTICLE = (
    "'''Anarchism''' is a [[political philosophy|philosophy]].<ref>no</ref>\n\n== History ==\nIt is old.\n"
    "=== Ancient ===\nStoics {{cn}} wrote of it.\n== Views ==\n* Some agree.\n* Some do not."
)
PAGES = (
    (0, 12, "Anarchism & co", ARTICLE),
    (0, 13, "../../secret.pdf", ""),
    (1, 14, "Talk:Anarchism", "A discussion."),
    (0, 15, "Anarchy", "#REDIRECT [[Anarchism]]"),
    (0, 16, "Zürich", "Zürich  is a [[city]] in Switzerland. " * 60),
)


def write_dump(path: Path, declaration: str = "", body: str = "") -> Path:
    """Write a dump as MediaWiki's export-0.11 schema lays it out."""
    head = (
        f'{declaration}<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">\n'
        '  <siteinfo>\n    <sitename>Wikipedia</sitename>\n    <namespaces><namespace key="0" case="first-letter" />'
        "</namespaces>\n  </siteinfo>\n"
    )
    pages = "".join(
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{ns}</ns>\n    <id>{number}</id>\n"
        + ('    <redirect title="Anarchism" />\n' if text.startswith("#REDIRECT") else "")
        + f"    <revision>\n      <id>{number + 900}</id>\n      <model>wikitext</model>\n      <format>text/x-wiki</format>\n"
        f'      <text bytes="{len(text)}" sha1="x" xml:space="preserve">{body or escape(text)}</text>\n'
        "      <sha1>x</sha1>\n    </revision>\n  </page>\n"
        for ns, number, title, text in PAGES
    )
    content = f"{head}{pages}</mediawiki>\n".encode()
    path.write_bytes(bz2.compress(content) if path.suffix == ".bz2" else content)
    return path


def test_a_wikipedia_dump_is_cut_by_section_and_passages_lead_back(tmp_path: Path) -> None:
    """The prose is that of mwparserfromhell's own `strip_code`, templates and references aside."""
    parser = pytest.importorskip(
        "mwparserfromhell", reason="needs the extra 'wikipedia': pip install -e '.[wikipedia]'"
    )
    folder = tmp_path / "dumps"
    folder.mkdir()
    dump = write_dump(folder / "enwiki-20261101-pages-articles.xml.bz2")
    (folder / "enwiki-20261101-pages-articles-multistream-index.txt.bz2").write_bytes(b"no text")
    stored = build_corpus(folder, tmp_path / "out")
    assert list(stored) == list(build_corpus(dump, tmp_path / "file")) == list(read_passages(dump))
    titles = [passage.title for passage in stored]
    history = "Anarchism & co › History"
    assert titles[:4] == ["Anarchism & co", history, f"{history} › Ancient", "Anarchism & co › Views"]
    assert set(titles[4:]) == {"Zürich"}
    assert len(titles) > 5
    assert stored.get("12#1").text == "Anarchism is a philosophy."
    assert stored.get("12#3").text == "Stoics wrote of it."
    assert stored.get("12#4").text == "Some agree.\nSome do not."
    texts = dict(Source(dump))
    for passage in stored:
        title, start, end = stored.source_of(passage.id)
        assert title == passage.title.partition(" › ")[0]
        assert start is not None
        assert fold(texts[passage.id.partition("#")[0]][start:end]) == fold(passage.text)
    joined = " ".join(passage.text for passage in stored if passage.title == "Zürich")
    assert joined.split() == str(parser.parse(PAGES[-1][3]).strip_code()).split()


def test_hostile_and_broken_dumps_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("mwparserfromhell", reason="needs the extra 'wikipedia': pip install -e '.[wikipedia]'")
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    write_dump(tmp_path / "a.xml", f'<!DOCTYPE mediawiki [<!ENTITY l0 "lol">{entities}]>', "&l9;")
    with pytest.raises(DataError, match=r"a.xml: the page 'Anarchism & co' is not well-formed XML.*--skip-bad"):
        build_corpus(tmp_path / "a.xml", tmp_path / "out")
    with pytest.raises(DataError, match="no article with text"):
        build_corpus(tmp_path / "a.xml", tmp_path / "out", skip_bad=True)
    whole = write_dump(tmp_path / "b.xml").read_text("utf-8")
    (tmp_path / "b.xml").write_text(whole.replace("</revision>", "", 1), "utf-8")
    bad = BadRecords()
    stored = build_corpus(tmp_path / "b.xml", tmp_path / "out", skip_bad=True, bad=bad)
    assert {passage.title for passage in stored} == {"Zürich"}
    assert bad.count == stored.meta["left_out"] == 1
    (tmp_path / "c.xml").write_text(whole[:-100], "utf-8")
    with pytest.raises(DataError, match="cut off"):
        build_corpus(tmp_path / "c.xml", tmp_path / "none", skip_bad=True)
    assert not (tmp_path / "none").exists()


def test_a_knowledge_store_of_real_sentences(tmp_path: Path, data_dir: Path) -> None:
    """Sentences that HerO retrieved from AVeriTeC's store, in the store's form: each is in a passage of its page."""
    lines = (data_dir / "averitec/HerO_dev_reranking_top_k.json").read_text("utf-8").splitlines()[:40]
    folder = tmp_path / "dev"
    folder.mkdir()
    pages: set[tuple[str, str]] = set()
    for number, hits in enumerate(json.loads(line)["top_10"] for line in lines):
        row = {"claim_id": str(number), "type": "question", "query": ""}
        rows = [{**row, "url": hit["url"], "url2text": [hit["sentence"]]} for hit in hits]
        rows.append({**row, "url": "https://empty.example", "url2text": []})
        (folder / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        pages.update((hit["url"], hit["sentence"]) for hit in hits)
    stored = build_corpus(tmp_path, tmp_path / "out")
    texts: dict[str | None, str] = {}
    for passage in stored:
        url = stored.source_of(passage.id)[0]
        texts[url] = f"{texts.get(url, '')} {passage.text}"
    assert all(" ".join(sentence.split()) in texts[url] for url, sentence in pages)
    # Ids are those of ProFact's own reader, so that its searches and this corpus name a passage alike.
    assert {passage.id for passage in FolderStore(folder).passages()} <= {passage.id for passage in stored}
    (folder / "3.json").write_text('{"url": "https://a.example", "url2text": 3}\n')
    with pytest.raises(DataError, match=r"3.json line 1: 'url2text' must be a list of sentences"):
        build_corpus(folder, tmp_path / "none", layout="web-pages")
