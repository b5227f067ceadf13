"""The published JSON Schema of a SEVA verdict, `verdict.schema.json` beside this file (sections 2.2 and K.1).

It says what a complete output is, for those who constrain or validate a model's output. The reward does not demand it:
an output that does not fit is scored line by line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA_FILE = Path(__file__).with_name("verdict.schema.json")

VERDICT_SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))
"""The schema as data. A copy is the caller's to change; this one is shared."""
