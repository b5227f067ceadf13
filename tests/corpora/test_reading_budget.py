"""One budget for all files of a folder: what does not fit is left out and listed, and the rest is read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
import zlib
from itertools import count
from pathlib import Path

import pytest

from factgym.check.documents import CheckedDocuments
from factgym.core.errors import ConfigError
from factgym.corpora.documents import UniqueNames, read_folder, skipped_lines
from factgym.corpora.extraction import ReadingBudget
from factgym.corpora.plain_text import Block


def test_text_beyond_the_memory_is_left_out_and_smaller_files_are_read(tmp_path: Path) -> None:
    for name, length in (("a", 20_000), ("b", 10_000), ("c", 5_000)):
        (tmp_path / f"{name}.txt").write_text(("Offices close at five. " * length)[:length])
    folder = read_folder(tmp_path, budget=ReadingBudget(memory_mb=1))
    assert [document.path for document in folder.documents] == ["a.txt", "c.txt"]
    (skipped,) = folder.skipped
    assert skipped.path == "b.txt" and skipped.reason.startswith("10,000 characters; 6,189 are left")


def test_rows_beyond_the_budget_are_named_with_their_file(tmp_path: Path) -> None:
    rows = [json.dumps({"id": n, "text": "Offices close at five. " * 300}) for n in range(9)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    folder = read_folder(tmp_path, budget=ReadingBudget(memory_mb=1))
    assert len(folder.documents) == 26_214 // len(rows[0])
    assert folder.skipped[0].reason.startswith("in part: ")


def test_after_the_deadline_each_file_is_listed(tmp_path: Path) -> None:
    budget = ReadingBudget(seconds=1e-9)
    (tmp_path / "a.md").write_text("# A\n\nOffices close at five.\n")
    with pytest.raises(Exception, match=r"a.md: not reached in the 1e-09 s for all files \(read_seconds\)"):
        CheckedDocuments(tmp_path, budget)


def test_a_deadline_holds_for_a_folder_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that each look at it moves on by a second: what comes after the deadline is listed, one by one."""
    for number in range(2_000):
        (tmp_path / f"{number:04}.txt").write_text("Offices close at five.")
    clock = count(0.0)
    monkeypatch.setattr("factgym.corpora.extraction.time.monotonic", lambda: next(clock))
    folder = read_folder(tmp_path, budget=ReadingBudget(seconds=1_000))
    names = [document.path for document in folder.documents] + [file.path for file in folder.skipped]
    assert names == [f"{number:04}.txt" for number in range(2_000)]
    assert 400 <= len(folder.documents) <= 1_000
    assert {file.reason for file in folder.skipped} == {"not reached in the 1000 s for all files (read_seconds)"}


def pdf_of(stream: bytes) -> bytes:
    """A PDF of one page with a compressed content stream, its table of objects by position (ISO 32000-1, 7.5)."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    pdf, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(pdf))
        pdf += b"%d 0 obj%s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 6\n0000000000 65535 f \n"
    return pdf + head + table + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(pdf)


def test_a_compressed_stream_without_end_is_left_out(tmp_path: Path) -> None:
    """A bomb of FlateDecode, 500 MB in 500 kB, beside a page that is read."""
    pytest.importorskip("pypdf", reason="needs the extra 'documents': pip install -e '.[documents]'")
    line = b"BT /F 9 Tf 0 0 Td (Offices close at five.) Tj ET\n"
    compressor = zlib.compressobj(9)
    bomb = b"".join(compressor.compress(line * 20_000) for _ in range(500)) + compressor.flush()
    (tmp_path / "bomb.pdf").write_bytes(pdf_of(bomb))
    (tmp_path / "good.pdf").write_bytes(pdf_of(zlib.compress(line)))
    documents = CheckedDocuments(tmp_path, ReadingBudget(seconds=100, memory_mb=1024))
    assert [document.path for document in documents.documents] == ["good.pdf"]
    (skipped,) = documents.skipped
    assert skipped.path == "bomb.pdf" and re.match(
        "more than|too large|not readable .Limit|not extracted", skipped.reason
    ), skipped


def test_text_counts_by_the_memory_that_it_takes() -> None:
    """Letters of Chinese are words of the index in pairs, and blocks are passages."""
    budget = ReadingBudget(memory_mb=1)
    whole = budget.chars_left
    budget.take("a" * 1_000)
    assert budget.chars_left == whole - 1_000
    budget.take("中" * 1_000)
    assert budget.chars_left == whole - 8_000
    budget.take_blocks([Block((), ("A text.",))] * 10)
    assert budget.chars_left == whole - 8_250


def test_hostile_files_end_and_the_others_are_read(tmp_path: Path) -> None:
    """A bomb, a size that the archive does not tell, endless nesting, a giant, and cells that span a thousand columns."""
    pytest.importorskip("mammoth", reason="needs the extra 'documents': pip install -e '.[documents]'")
    with zipfile.ZipFile(tmp_path / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 100_000_001)
    (tmp_path / "deep.html").write_text("<div>" * 20_000 + "text")
    with (tmp_path / "giant.txt").open("wb") as file:
        file.truncate(1_000_000_000)
    (tmp_path / "good.md").write_text("# Hours\n\nOffices close at five.\n")
    (tmp_path / "spans.html").write_text("<table>" + "<tr><td colspan=1000000000>Offices close.</td></tr>" * 300)
    (tmp_path / "wide.html").write_text("<table><tr><th colspan=2>Plan<tr><td>Small<td>10 euros</table>")
    documents = CheckedDocuments(tmp_path)
    assert [document.path for document in documents.documents] == ["good.md", "spans.html", "wide.html"]
    assert [file.path for file in documents.skipped] == ["bomb.docx", "deep.html", "giant.txt"]
    assert sum(len(document.text) for document in documents.documents) < 50_000


def test_files_of_one_name_are_numbered_as_by_trying_each_number() -> None:
    names = ["a", "A", "a-2", "b", "a", "a-2", "a"] * 20
    taken: set[str] = set()
    expected = []
    for name in names:
        tries = [name, *(f"{name}-{number}" for number in range(2, 200))]
        expected.append(next(text for text in tries if text.lower() not in taken))
        taken.add(expected[-1].lower())
    unique = UniqueNames()
    assert [unique.take(name) for name in names] == expected


def test_many_skipped_files_are_counted(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(b"\xff\x1b[2J" if number else b"Offices close at five.")
    lines = skipped_lines(read_folder(tmp_path).skipped)
    assert len(lines) == 21 and lines[-1] == "and 9 more (9 × not UTF-8 at byte 0: convert it to UTF-8)"


@pytest.mark.parametrize("values", [{"seconds": -1}, {"seconds": float("nan")}, {"memory_mb": 0}])
def test_an_impossible_budget_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="budget"):
        ReadingBudget(**values)  # type: ignore[arg-type]


def test_a_script_without_a_guard_reads_pages(tmp_path: Path) -> None:
    """The worker is a fresh interpreter that must not run the caller's script once more."""
    (tmp_path / "a.html").write_text("<p>The mill has four floors.</p>", "utf-8")
    script = tmp_path / "script.py"
    script.write_text(
        "from factgym.check import check_text\nprint(check_text('The mill has four floors.', 'a.html').claims[0].status)\n",
        "utf-8",
    )
    done = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("supported\n", 0), done.stderr
