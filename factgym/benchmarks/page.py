"""Self-contained HTML pages by Jinja2: foreign text is escaped, nothing is loaded from elsewhere, all is ASCII."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlencode

from factgym.benchmarks.formats import count, decimal, interval, label, percent, whole, whole_interval
from factgym.core.errors import DataError, MissingExtraError, install_command
from factgym.core.paths import create_file, make_folder

if TYPE_CHECKING:
    from jinja2 import Environment

    from factgym.benchmarks.report import Chart, Report

_MAX_CHARS = 2000
"""Of one text on a page."""
_NO_CHARACTERS = "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    f"\ud800-\udfff\ufdd0-\ufdef{_NO_CHARACTERS}\U000e0000-\U000e007f]"
)
"""Characters that change the display without being seen: controls, direction marks, tags, surrogates, non-characters."""
STATIC_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Content security policy of a page without scripts."""
_IN_SCRIPT = (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"))


def visible(text: str) -> str:
    """Return the text with characters that hide or reorder others written as `[U+202E]`."""
    return _INVISIBLE.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def data_block(element_id: str, value: Any) -> str:
    """Return `value` as a JSON data block, which no browser runs; `element_id` is ours.

    Nothing in it can end the block or open a comment: `<`, `>`, `&` and everything outside ASCII are escapes.
    """
    body = json.dumps(value, separators=(",", ":"))
    # JSON allows these escapes inside strings only, and outside strings the characters cannot occur.
    for char, escaped in _IN_SCRIPT:
        body = body.replace(char, escaped)
    return f'<script type="application/json" id="{element_id}">{body}</script>\n'


def asset(*names: str) -> str:
    """Return the text of our own style sheets or scripts, one after another."""
    folder = files("factgym.benchmarks") / "templates"
    return "\n".join((folder / name).read_text("ascii") for name in names)


def fill_template(name: str, values: Mapping[str, Any]) -> str:
    """Return a template of ours filled with values, as ASCII text."""
    text: str = templates().get_template(name).render(values)
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


@cache
def templates() -> Environment:
    """Return the environment of our templates: everything is escaped, cut and made visible unless it is `Markup`."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    from factgym.benchmarks import tables  # takes a tenth of `factgym check`, which writes no page by default
    from factgym.benchmarks.report import KINDS, Bar, Chart, Link, Styled, Table

    def finalize(value: Any) -> Any:
        if isinstance(value, Markup) or not isinstance(value, str):
            return value
        return visible(cut(value, _MAX_CHARS))

    environment = Environment(
        loader=FunctionLoader(lambda name: (files("factgym.benchmarks") / "templates" / name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cut": cut,
        "cut_plain": lambda text: text[:300],
        "decimal": decimal,
        "interval": interval,
        "percent": percent,
        "whole": whole,
        "whole_interval": whole_interval,
        "label": label,
        "count_of": count,
        "install_command": install_command,
        "query": lambda values: urlencode(values, errors="replace"),
        "sizes": tables.sizes,
        "measures": tables.measures,
        "effort": tables.effort,
        "image": chart_image,
        "style": lambda names: Markup(asset(*names)),
    }
    environment.tests |= {
        kind.__name__.lower(): lambda value, kind=kind: isinstance(value, kind)
        for kind in (Bar, Styled, Table, Chart, Link)
    }
    environment.globals["kinds"] = KINDS
    return environment


def chart_image(chart: Chart) -> str | None:
    """Return a chart as the address of an image, so that its style cannot reach the page; None without the library."""
    try:
        svg = chart.draw()
    except MissingExtraError:
        return None
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8")).decode("ascii")


def report_page(report: Report) -> str:
    """Return the page of a report as ASCII text."""
    import factgym

    values = {"report": report, "title": report.title, "by": f"factgym {factgym.__version__}"}
    return fill_template("report.html", {**values, "styles": ("base.css", "report.css"), "policy": STATIC_POLICY})


def write_page(text: str, path: Path) -> Path:
    """Write a page and return its path; an existing page is replaced only by a complete one.

    Raises DataError when the file cannot be written.
    """
    with contextlib.suppress(OSError):
        make_folder(path.parent)
    with open_page(path) as page:
        page.write(text)
    return path


@contextlib.contextmanager
def open_page(path: Path) -> Iterator[IO[str]]:
    """Open a page for writing, which gets its name when it is complete. Raises DataError when it cannot be written."""
    part = path.with_name(path.name + ".part")
    try:
        with TextIOWrapper(create_file(part), "ascii", newline="\n") as page:
            yield page
        part.replace(path)
    except OSError as error:
        raise DataError(f"cannot write {path} ({error.strerror}): name another file") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
