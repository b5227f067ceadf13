"""The published JSON Schema of the verdict object, `verdict.schema.json` beside this file.

It is what the `submit` tool checks, for those who validate or constrain a model's output elsewhere. After a change of
`submit`, write it anew: `python -m factgym.envs.claimcheck.schema`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from factgym.envs.claimcheck.submission import submit

SCHEMA_FILE = Path(__file__).with_name("verdict.schema.json")


def verdict_schema() -> dict[str, Any]:
    """The schema of a verdict, by the `submit` tool's signature."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "ClaimCheck verdict"}
    return head | {"description": submit.description} | submit.parameters


def write_schema(file: Path = SCHEMA_FILE) -> None:
    """Write the schema as indented JSON."""
    file.write_text(json.dumps(verdict_schema(), indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write_schema()
