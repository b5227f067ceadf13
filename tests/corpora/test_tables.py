"""Tables as lines: the grid of a page, Markdown, CSV and XLSX, each against a reading by another library where there is one."""

from __future__ import annotations

import csv
import io
import re
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factgym.corpora.build import build_corpus
from factgym.corpora.documents import read_folder
from factgym.corpora.passage_files import iter_passages
from factgym.corpora.tables import Cell, read_sheets, row_lines, text_lines

HEAD = "<tr><th>Plan</th><th>Fee</th></tr>"
PAGES = {
    "caption": (f"<table><caption>Fees of 2024</caption>{HEAD}<tr><td>Basic</td><td>10</td></tr></table>",
                ["Fees of 2024", "- Plan: Basic; Fee: 10"]),
    "one row": ("<table><tr><td>Office hours</td><td>9 to 5</td></tr></table>", ["- Office hours: 9 to 5"]),
    "key and value": ("<table><tr><td>Notice</td><td>30 days</td></tr><tr><td>Deposit</td><td>2 months</td></tr></table>",
                      ["- Notice: 30 days", "- Deposit: 2 months"]),
    "rowspan": ("<table><tr><th>Area</th><th>Item</th></tr><tr><td rowspan=2>North</td><td>Rope</td></tr>"
                "<tr><td>Lamp</td></tr></table>", ["- Area: North; Item: Rope", "- Area: North; Item: Lamp"]),
    "colspan": ("<table><tr><th>A</th><th>B</th><th>C</th></tr><tr><td colspan=2>x</td><td>y</td></tr></table>",
                ["- A, B: x; C: y"]),
    "title row": (f"<table><tr><td colspan=2>Prices</td></tr>{HEAD}<tr><td>Pro</td><td>20</td></tr></table>",
                  ["- Prices", "- Plan: Pro; Fee: 20"]),
    "row heads": ("<table><tr><th></th><th>2023</th><th>2024</th></tr><tr><th>Sales</th><td>5</td><td>6</td></tr></table>",
                  ["- Sales; 2023: 5; 2024: 6"]),
    "bar": (f"<table>{HEAD}<tr><td>a | b</td><td>1</td></tr></table>", ["- Plan: a | b; Fee: 1"]),
    "nested": (f"<table>{HEAD}<tr><td>x<table><tr><td>in</td><td>side</td></tr></table></td><td>1</td></tr></table>",
               ["- Plan: x, in: side; Fee: 1"]),
    "total of headers": (f"<table>{HEAD}<tr><td>Pro</td><td>20</td></tr><tr><th>Sum</th><th>20</th></tr></table>",
                         ["- Plan: Pro; Fee: 20", "- Plan: Sum; Fee: 20"]),
    "second header": (f"<table>{HEAD}<tr><td>Pro</td><td>20</td></tr><tr><th>Team</th><th>Rent</th></tr>"
                      "<tr><td>B</td><td>7</td></tr></table>", ["- Plan: Pro; Fee: 20", "- Team: B; Rent: 7"]),
    "last header": (f"<table>{HEAD}<tr><td>Pro</td><td>20</td></tr><tr><th>Last</th><th>word</th></tr></table>",
                    ["- Plan: Pro; Fee: 20", "- Plan: Last; Fee: word"]),
    "headers in the first column": ("<table><tr><th>Plan</th><td>Basic</td><td>Pro</td></tr><tr><th>Fee</th><td>10</td><td>20"
                                    "</td></tr></table>", ["- Plan: Basic; Fee: 10", "- Plan: Pro; Fee: 20"]),
    "pairs of headers and values": ("<table><tr><th>Name<td>Ann<th>Age<td>41<tr><th>City<td>Rome<th>Job<td>chef</table>",
                                    ["- Name: Ann; Age: 41", "- City: Rome; Job: chef"]),
    "no header": ("<table><tr><td>Ann<td>Rome<td>chef<tr><td>Bob<td>Oslo<td>clerk</table>",
                  ["- Ann; Rome; chef", "- Bob; Oslo; clerk"]),
    "header without markup": ("<table><tr><td>Item<td>2023<td>2024<tr><td>Tea<td>5<td>6</table>",
                              ["- Item: Tea; 2023: 5; 2024: 6"]),
    "key and value of mixed kinds": ("<table><tr><td>Name<td>Zed<tr><td>Age<td>41<tr><td>Height<td>180</table>",
                                     ["- Name: Zed", "- Age: 41", "- Height: 180"]),
    "groups": ("<table><tr><th>City<th>Staff<tr><th colspan=2>Europe<tr><td>Rome<td>12<tr><th colspan=2>Asia<tr><td>Oslo"
               "<td>7</table>", ["- Europe", "- City: Rome; Staff: 12", "- Asia", "- City: Oslo; Staff: 7"]),
    "two rows of headers": ("<table><tr><th rowspan=2>Plan<th colspan=2>Fee<tr><th>Month<th>Year<tr><td>Pro<td>1<td>9</table>",
                            ["- Plan: Pro; Fee Month: 1; Fee Year: 9"]),
    "row span to the end": ("<table><tr><th>Area<th>Item<tr><td rowspan=0>North<td>Rope<tr><td>Lamp</table>",
                            ["- Area: North; Item: Rope", "- Area: North; Item: Lamp"]),
    "list in a cell": (f"<table>{HEAD}<tr><td><ul><li>red<li>blue</ul><td>1</table>", ["- Plan: red, blue; Fee: 1"]),
    "header alone": ("<table><tr><th>Open</th><th>daily</th></tr></table>", ["- Open: daily"]),
}  # fmt: skip


def lines_of(folder: Path) -> list[str]:
    documents = read_folder(folder).documents
    return [line for document in documents for passage in document.passages for line in passage.text.split("\n")]


@pytest.mark.parametrize("name", PAGES)
def test_tables_of_pages(name: str, tmp_path: Path) -> None:
    html, lines = PAGES[name]
    (tmp_path / "a.html").write_text(f"<h1>T</h1>{html}", "utf-8")
    assert lines_of(tmp_path) == lines


def test_a_hostile_span_costs_nothing(tmp_path: Path) -> None:
    cells = "<td colspan=1000000000 rowspan=1000000000>x</td>" * 200
    (tmp_path / "a.html").write_text(f"<table>{f'<tr>{cells}</tr>' * 5}</table>", "utf-8")
    assert len("".join(lines_of(tmp_path))) < 100_000


def test_columns_without_a_value_are_named() -> None:
    assert text_lines("Plan,Fee,Notes\nBasic,10,\n", "a.csv") == ["Plan: Basic; Fee: 10", "Notes"]
    head = [Cell(text, header=True) for text in ("Plan", "Fee", "Notes")]
    rows = [head, [Cell("Basic"), Cell("10")], head[::-1], [Cell("late"), Cell(""), Cell("Pro")]]
    assert row_lines(rows) == ["Plan: Basic; Fee: 10", "Notes", "Notes: late; Plan: Pro", "Fee"]


def test_long_names_and_spanning_cells_are_repeated_within_bounds() -> None:
    names = [Cell("n" * 20_000, header=True), Cell("m", header=True)]
    lines = row_lines([names, *([Cell(f"a{row}"), Cell(f"b{row}")] for row in range(5_000))])
    assert sum(map(len, lines)) < 4_000_000 and lines[-1] == "a4999: b4999"
    lines = row_lines([[Cell("s" * 20_000, origin=1), Cell(f"b{row}")] for row in range(5_000)])
    assert sum(map(len, lines)) < 4_000_000 and lines[-1] == "b4999"


WORDS = st.text(alphabet="abcdefgh", min_size=1, max_size=6)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=5), st.booleans())
def test_no_cell_is_lost_or_doubled(rows: list[list[str]], has_header: bool) -> None:
    """Against the cells themselves: numbered, so that each is unique."""
    numbered = [[f"{text}{row}{column}z" for column, text in enumerate(line)] for row, line in enumerate(rows)]
    grid = [[Cell(text, header=has_header and not row) for text in line] for row, line in enumerate(numbered)]
    written = re.findall(r"\w+", " ".join(row_lines(grid)))
    body = numbered[1:] if len(rows) > 1 else numbered
    for text in (cell for line in body for cell in line):
        assert written.count(text) == 1
    assert all(text in written for text in numbered[0])


@given(st.lists(st.lists(st.text(alphabet='ab ,;"\n', max_size=8), min_size=2, max_size=4), min_size=2, max_size=5))
def test_csv_is_read_as_the_csv_module_writes_it(rows: list[list[str]]) -> None:
    output = io.StringIO()
    csv.writer(output).writerows([["h1", "h2", "h3", "h4"], *rows])
    text = "\n".join(text_lines(output.getvalue(), "a.csv"))
    assert all(field in re.split(r"\W+", text) for row in rows for cell in row for field in re.findall(r"\w+", cell))


def test_files_of_tables_and_of_utf16(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Plan;Fee\nBasic;10 euros\n", "utf-8")
    (tmp_path / "b.tsv").write_text("Plan\tFee\nPro\t20 euros\n", "utf-16")
    (tmp_path / "c.md").write_text("| Open | daily |\n| --- | --- |\n", "utf-16")
    assert lines_of(tmp_path) == ["- Plan: Basic; Fee: 10 euros", "- Plan: Pro; Fee: 20 euros", "- Open: daily"]


def test_sheets(tmp_path: Path) -> None:
    """A workbook by hand, after ECMA-376: a shared string, an inline one, a number, and a gap."""
    names = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as book:
        book.writestr("xl/workbook.xml", f'<workbook xmlns="{names}"><sheets><sheet name="Fees"/></sheets></workbook>')
        book.writestr(
            "xl/sharedStrings.xml",
            f'<sst xmlns="{names}"><si><t>Plan</t></si><si><r><t>Ba</t></r><r><t>sic</t></r></si></sst>',
        )
        rows = (
            '<row><c r="A1" t="s"><v>0</v></c><c r="C1" t="inlineStr"><is><t>Fee</t></is></c></row>'
            '<row><c r="A2" t="s"><v>1</v></c><c r="B2"><v>3</v></c><c r="C2"><v>10.5</v></c></row>'
        )
        book.writestr(
            "xl/worksheets/sheet1.xml", f'<worksheet xmlns="{names}"><sheetData>{rows}</sheetData></worksheet>'
        )
    assert lines_of(tmp_path)[-1] == "- Basic; 3; 10.5"
    (tmp_path / "b.xlsx").write_bytes(b"PK no workbook")
    assert [file.path for file in read_folder(tmp_path).skipped] == ["b.xlsx"]


def write_workbook(path: Path, sheets: dict[str, tuple[str, str]], formats: tuple[str, ...] = ()) -> None:
    """Write a workbook after ECMA-376, part 1; sheets: their rows and merged cells, the last one's part is the first."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relations = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
    parts = {f"r{number}": f"worksheets/sheet{len(sheets) - number}.xml" for number in range(len(sheets))}
    entries = "".join(f'<sheet name="{name}" r:id="r{number}"/>' for number, name in enumerate(sheets))
    codes = "".join(f'<numFmt numFmtId="{164 + n}" formatCode="{code}"/>' for n, code in enumerate(formats))
    styles = "".join(f'<xf numFmtId="{number}"/>' for number in (0, 14, 10, *range(164, 164 + len(formats))))
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("xl/workbook.xml", f'<workbook {main} xmlns:r="{office}"><sheets>{entries}</sheets></workbook>')
        book.writestr(
            "xl/styles.xml", f"<styleSheet {main}><numFmts>{codes}</numFmts><cellXfs>{styles}</cellXfs></styleSheet>"
        )
        targets = "".join(f'<Relationship Id="{id_}" Target="{part}"/>' for id_, part in parts.items())
        book.writestr("xl/_rels/workbook.xml.rels", f"<Relationships {relations}>{targets}</Relationships>")
        for part, (rows, merged) in zip(parts.values(), sheets.values(), strict=True):
            cells = "".join(f'<mergeCell ref="{reference}"/>' for reference in merged.split())
            book.writestr(
                f"xl/{part}",
                f"<worksheet {main}><sheetData>{rows}</sheetData><mergeCells>{cells}</mergeCells></worksheet>",
            )


@given(
    st.lists(st.dictionaries(st.integers(0, 5), st.integers(0, 1), min_size=1), min_size=1, max_size=6),
    st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(0, 2), st.integers(0, 2)),
)
def test_each_word_of_a_sheet_is_read_once(rows: list[dict[int, int]], merged: tuple[int, int, int, int]) -> None:
    """Against its own words; those of merged cells, of which only the first has a text, are in the line of each row."""
    column, top, width, height = merged
    inside = {(x, y) for x in range(column, column + width + 1) for y in range(top, top + height + 1)} - {(column, top)}
    words, lines = [], []
    for y, row in enumerate(rows, start=1):
        cells = ""
        for x, has_rich_text in sorted(row.items()):
            if (x, y) in inside:
                continue
            words.append(f"w{x}x{y}z")
            text = (
                f"<r><t>{words[-1][:2]}</t></r><r><t>{words[-1][2:]}</t></r>"
                if has_rich_text
                else f"<t>{words[-1]}</t>"
            )
            cells += f'<c r="{"ABCDEFGH"[x]}{y}" t="inlineStr"><is>{text}</is></c>'
        lines.append(f'<row r="{y}">{cells}</row>')
    area = f"{'ABCDEFGH'[column]}{top}:{'ABCDEFGH'[column + width]}{top + height}"
    with tempfile.TemporaryDirectory() as folder:
        write_workbook(Path(folder, "a.xlsx"), {"Fees": ("".join(lines), area)})
        read = Counter(
            re.findall(
                r"w\dx\dz", "\n".join(line for _, sheet in read_sheets(Path(folder, "a.xlsx")) for line in sheet)
            )
        )
    first = f"w{column}x{top}z"
    assert set(read) == set(words) and all(number == 1 for word, number in read.items() if word != first)
    assert read[first] <= height + 1


def test_sheets_show_numbers_and_merged_cells_as_a_person_sees_them(tmp_path: Path) -> None:
    """Serial numbers of days after ECMA-376, part 1, section 18.17.4: 45352 is 1 March 2024."""

    def text(at: str, value: str) -> str:
        return f'<c r="{at}" t="inlineStr"><is><t>{value}</t><rPh><t>no</t></rPh></is></c>'

    head = text("B1", "Prices")
    names = "".join(
        text(f"{column}2", name) for column, name in zip("BCDE", ("Plan", "Fee", "Share", "Since"), strict=True)
    )
    first = (
        text("B3", "Basic")
        + '<c r="C3" s="3"><v>10.100000000000001</v></c><c r="D3" s="2"><v>0.195</v></c><c r="E3" s="1"><v>45352</v></c>'
    )
    second = '<c r="C4" s="4"><v>20</v></c><c r="D4" t="b"><v>1</v></c><c r="E4" s="5"><v>45352.5625</v></c>'
    rows = "".join(f'<row r="{n}">{cells}</row>' for n, cells in enumerate((head, names, first, second), start=1))
    sheets = {
        "Fees": (rows, "B1:E1 B3:B4"),
        "Terms": (f'<row r="1">{text("A1", "Notice")}{text("B1", "30 days")}</row>', ""),
    }
    write_workbook(tmp_path / "a.xlsx", sheets, ("&quot;€&quot;#,##0.00", "#,##0.00 [$€-407]", "dd/mm/yyyy hh:mm"))
    (document,) = read_folder(tmp_path).documents
    assert [(passage.title, passage.text.split("\n")) for passage in document.passages] == [
        ("A › Fees", ["- Prices", "- Plan: Basic; Fee: €10.1; Share: 19.5%; Since: 2024-03-01",
                      "- Plan: Basic; Fee: 20 €; Share: TRUE; Since: 2024-03-01 13:30"]),
        ("A › Terms", ["- Notice: 30 days"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"Notice period,30 days\nDeposit,2 months\n", ["Notice period: 30 days", "Deposit: 2 months"]),
        (b"sep=;\nPlan;Fee\nBasic;10\n", ["Plan: Basic; Fee: 10"]),
        (b"Prices of 2024\n\nPlan,Fee\nBasic,10\nPro,20\n", ["Prices of 2024", "Plan: Basic; Fee: 10", "Plan: Pro; Fee: 20"]),
        (b'Name;Fee;Note\nTea;1,50;"a; b"\nRye;2,50;"two\r\nlines"\n', ["Name: Tea; Fee: 1,50; Note: a; b", "Name: Rye; Fee: 2,50; Note: two lines"]),
        ("Büro;Preis\nZug;10 €\n".encode("cp1252"), ["Büro: Zug; Preis: 10 €"]),
        ("Plan|Fee\r\nBüro|10\r\n".encode("utf-8-sig"), ["Plan: Büro; Fee: 10"]),
        ("Plan,Fee\nBüro,10\n".encode("utf-16"), ["Plan: Büro; Fee: 10"]),
    ],
)  # fmt: skip
def test_values_in_any_dialect(raw: bytes, lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "A.CSV").write_bytes(raw)
    assert lines_of(tmp_path) == [f"- {line}" for line in lines]


def test_files_of_every_kind_are_read_or_named(tmp_path: Path) -> None:
    for name, content in {
        "A.TXT": "Plain.",
        "b.ndjson": '{"text": "Row."}',
        "c.xhtml": "<p>Page.",
        "d.Markdown": "Mark.",
    }.items():
        (tmp_path / name).write_text(content, "utf-8")
    for name in ("e.png", "f", "g.json"):
        (tmp_path / name).write_bytes(b"\x89PNG")
    folder = read_folder(tmp_path)
    assert sorted(document.passages[0].text for document in folder.documents) == ["Mark.", "Page.", "Plain.", "Row."]
    assert [(file.path, file.is_other) for file in folder.skipped] == [("e.png", True), ("f", True), ("g.json", True)]
    assert build_corpus(tmp_path, tmp_path.with_suffix(".out")).meta["not_read"] == ["e.png", "f", "g.json"]


def test_a_table_without_texts_is_built_as_a_document(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Plan,Fee\nBasic,10 euros\n", "utf-8")
    for source in (tmp_path, tmp_path / "a.csv"):
        assert [passage.text for passage in iter_passages(source)] == ["- Plan: Basic; Fee: 10 euros"]
