"""The verdict on your own text: claims of an answer, checked against your documents by any policy that plays ClaimCheck.

    from factgym.check import check_text

    report = check_text("Refunds are paid within 30 days.", "handbook/")
    print(report)

`documents` reads a folder and finds a quote's place in its file, `answers` splits texts into claims, `agents` has the
default policy (`proof`, over `alignment`, `limits`, `clauses` and `words`), `checker` plays one episode for each claim and
verifies the quotes of its verdict, `calibration` says how often such verdicts are right, and `report` shows all of it as
text, JSON or a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from factgym.check.report import CheckReport, acheck_text, check_text

__all__ = ["CheckReport", "acheck_text", "check_text"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from factgym.check import report

    return getattr(report, name)
