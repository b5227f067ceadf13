"""Which files of a folder are a corpus, and in which form, by their names and first bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from factgym.core.errors import ConfigError

Form = Literal["jsonl", "text", "wikiextractor", "mediawiki"]

_PACKED = (".gz", ".bz2", ".xz")
_SUFFIXES: dict[str, Form] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".txt": "text",
    ".text": "text",
    ".md": "text",
    ".xml": "mediawiki",
}
_EXTRACTED = re.compile(r"wiki_\d+")
_DUMP = re.compile(r"(.*)pages-(articles|meta-current)(-multistream)?(\d*)\.xml(-p\d+p\d+)?")


def _files_below(path: Path) -> tuple[Path, list[str]]:
    """A folder, and the paths of its files inside it, sorted; of a file, its folder and its name.

    Hidden files and folders are passed over, and links to folders are not followed.
    """
    if path.is_file():
        return path.parent, [path.name]
    if not path.is_dir():
        raise ConfigError(f"{path}: no such file or folder")
    return path, sorted(_walk(path))


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(folder).relative_to(root)
        yield from (
            (inside / name).as_posix()
            for name in files
            if not name.startswith(".") and (Path(folder) / name).is_file()
        )


def choose_files(path: Path, form: Form | None) -> tuple[Path, list[str], tuple[str, ...]]:
    """A folder, the files in it that are read, and those that are passed over.

    A named file is read whatever it is called. A folder with a Wikipedia dump is that dump, one with WikiExtractor's
    files is those, else every file with a known ending is read; with a form given, the files that have its names, and
    all where none has. Raises ConfigError for a dump that is there twice.
    """
    root, names = _files_below(path)
    if path.is_file():
        return root, names, ()
    forms = {name: _form_by_name(name) for name in names}
    dumps = [name for name in names if _DUMP.fullmatch(_bare(name))]
    if form:
        chosen = [name for name in names if forms[name] == form] or names
        chosen = dumps if form == "mediawiki" and dumps else chosen
    else:
        extracted = [name for name in names if forms[name] == "wikiextractor"]
        chosen = dumps or extracted or [name for name in names if forms[name]]
    _check_once(root, [name for name in chosen if name in dumps])
    taken = set(chosen)
    return root, chosen, tuple(name for name in names if name not in taken)


def _check_once(root: Path, dumps: Sequence[str]) -> None:
    """A dump comes whole, as numbered pieces, and each of them as multistream too: only one of them is wanted."""
    kinds = {(*match.group(1, 2, 3), bool(match[4])) for name in dumps if (match := _DUMP.fullmatch(_bare(name)))}
    if len(kinds) > 1:
        raise ConfigError(
            f"{root} holds a dump more than once ({', '.join(dumps[:4])}): name the file, or a folder with one of them"
        )


def _bare(name: str) -> str:
    """The file's name without folder and the suffix of its packing."""
    last = PurePosixPath(name).name
    return last.removesuffix(next((suffix for suffix in _PACKED if last.endswith(suffix)), ""))


def _form_by_name(name: str) -> Form | None:
    bare = _bare(name)
    if _DUMP.fullmatch(bare):
        return "mediawiki"
    if _EXTRACTED.fullmatch(bare):
        return "wikiextractor"
    return _SUFFIXES.get(PurePosixPath(bare).suffix.lower())


def form_of(file: Path) -> Form:
    """What a file holds, by its name, and text when that says nothing."""
    return _form_by_name(file.name) or "text"
