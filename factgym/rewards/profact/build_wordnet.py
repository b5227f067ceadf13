"""Builds the synonym table that `factgym.rewards.profact.wordnet` reads, from the files of WordNet 3.0.

METEOR asks WordNet one thing: the single-word lemmas of the synsets of a word. The table answers it for every lemma,
one line a lemma, sorted by bytes: the lemma, then by part of speech (noun, verb, adjective, adverb) its synonyms, then
by part of speech the base forms of the exception lists. Fields are parted by tabs and words by spaces; `*` is the lemma
itself. Names with a capital letter or an underscore are left out of the synonyms, for METEOR compares words in lower
case; they stay as lemmas that can be looked up.

    python -m factgym.rewards.profact.build_wordnet /usr/share/wordnet wordnet.tsv.gz

The folder is what Debian's package `wordnet-base` installs. The licence of WordNet allows this and asks for its notice,
which lies beside the table.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from factgym.core.errors import DataError

PARTS = ("noun", "verb", "adj", "adv")
_MARKER = re.compile(r"\((?:a|p|ip)\)$")

Fields = dict[str, list[list[str]]]
"""Lemma -> synonyms by part of speech, then base forms by part of speech."""


def build_table(folder: Path) -> bytes:
    """The table's text. Raises DataError when `folder` lacks a file of WordNet."""
    table: Fields = {}
    for part, name in enumerate(PARTS):
        names = dict(_synsets(folder / f"data.{name}"))
        for line in _lines(folder / f"index.{name}"):
            fields = line.split()
            offsets = fields[6 + int(fields[3]) :]
            found = {one for offset in offsets for one in names[offset]}
            _row(table, fields[0])[part] = sorted(found)
        for line in _lines(folder / f"{name}.exc"):
            form, *bases = line.split()
            _row(table, form)[4 + part] = bases
    rows = sorted((lemma.encode(), _text(lemma, fields)) for lemma, fields in table.items() if any(fields))
    return b"".join(b"\n" + lemma + text for lemma, text in rows) + b"\n"


def _row(table: Fields, lemma: str) -> list[list[str]]:
    return table.setdefault(lemma, [[] for _ in range(8)])


def _text(lemma: str, fields: list[list[str]]) -> bytes:
    cells = [" ".join("*" if one == lemma else one for one in words) for words in fields]
    return ("\t" + "\t".join(cells)).rstrip("\t").encode()


def _synsets(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Offset -> the synset's names that a word in lower case can equal."""
    for line in _lines(path):
        fields = line.split(" | ")[0].split()
        names = [_MARKER.sub("", fields[4 + 2 * i]) for i in range(int(fields[3], 16))]
        yield fields[0], [name for name in names if "_" not in name and name == name.lower()]


def _lines(path: Path) -> Iterator[str]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Give the folder of WordNet 3.0's files.") from error
    return (line for line in text.splitlines() if line and not line.startswith("  "))


def main(arguments: list[str]) -> int:
    """Write the table of the folder `arguments[0]` to the file `arguments[1]`."""
    if len(arguments) != 2:
        sys.stderr.write("python -m factgym.rewards.profact.build_wordnet FOLDER FILE\n")
        return 2
    Path(arguments[1]).write_bytes(gzip.compress(build_table(Path(arguments[0])), 9, mtime=0))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
