"""Builds the table of `factgym.text.wordnet` from the files of WordNet 3.0.

python -m perf wordnet-table /usr/share/wordnet wordnet.tsv.gz
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from factgym.core.errors import ConfigError, DataError

_PARTS = ("noun", "verb", "adj", "adv")

_MARKER = re.compile(r"\((?:a|p|ip)\)$")
"""Syntactic marker of an adjective in WordNet's data files."""


def build_table(folder: Path) -> bytes:
    """Return the table's text from WordNet's files. Raises DataError when `folder` lacks one of them."""
    table: dict[str, list[list[str]]] = {}
    for part, name in enumerate(_PARTS):
        synsets = {}
        for line in _lines(folder / f"data.{name}"):
            fields = line.split(" | ")[0].split()
            words = [_MARKER.sub("", fields[4 + 2 * i]) for i in range(int(fields[3], 16))]
            # No word in lower case can equal a name of several words or with a capital.
            synsets[fields[0]] = [word for word in words if "_" not in word and word == word.lower()]
        for line in _lines(folder / f"index.{name}"):
            fields = line.split()
            offsets = fields[6 + int(fields[3]) :]
            lemmas = {lemma for offset in offsets for lemma in synsets[offset]}
            table.setdefault(fields[0], [[] for _ in range(8)])[part] = sorted(lemmas)
        for line in _lines(folder / f"{name}.exc"):
            form, *bases = line.split()
            table.setdefault(form, [[] for _ in range(8)])[4 + part] = bases
    rows = []
    for lemma, cells in table.items():
        texts = [" ".join("*" if word == lemma else word for word in words) for words in cells]
        if any(cells):
            rows.append((lemma.encode(), ("\t" + "\t".join(texts)).rstrip("\t").encode()))
    return b"".join(b"\n" + lemma + text for lemma, text in sorted(rows)) + b"\n"


def _lines(path: Path) -> Iterator[str]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Give the folder of WordNet 3.0's files.") from error
    return (line for line in text.splitlines() if line and not line.startswith("  "))


def main(arguments: Sequence[str]) -> Iterator[str]:
    """Write the table. arguments: WordNet's folder and the compressed file."""
    if len(arguments) != 2:
        raise ConfigError("python -m perf wordnet-table FOLDER FILE")
    folder, file = map(Path, arguments)
    file.write_bytes(gzip.compress(build_table(folder), 9, mtime=0))
    yield f"wrote {file}"
