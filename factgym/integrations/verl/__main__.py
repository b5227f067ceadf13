"""`python -m factgym.integrations.verl {rows,config} ENV`: what a run of verl's is given."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from factgym.core.errors import ConfigError, FactgymError
from factgym.integrations.verl.config import config_text
from factgym.integrations.verl.rows import write_rows


def main() -> int:
    """Write what was asked for; 2 with a message for settings that do not exist."""
    parser = argparse.ArgumentParser(prog="python -m factgym.integrations.verl", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    config = commands.add_parser("config", help="print the configuration of a run as YAML")
    config.add_argument("env")
    config.add_argument("--credit", help="grpo, hrpo or stepwise for token advantages, none for verl's own GRPO")
    rows = commands.add_parser("rows", help="write the tasks as a parquet file")
    rows.add_argument("env")
    rows.add_argument("file")
    rows.add_argument("--limit", type=int, help="at most so many tasks")
    rows.add_argument("--start", type=int, default=0, help="the first task's index")
    rows.add_argument(
        "--column", action="append", default=[], help="a value of the task's view, such as hops; repeatable"
    )
    for one in (config, rows):
        one.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting; repeatable")
    args = parser.parse_args()
    try:
        sys.stdout.write(_done(args, dict(map(_setting, args.set))))
    except FactgymError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _done(args: argparse.Namespace, settings: dict[str, Any]) -> str:
    if args.what == "config":
        return config_text(args.env, settings, args.credit)
    which = {"limit": args.limit, "start": args.start, "columns": args.column}
    count = write_rows(args.env, args.file, **which, **settings)
    return f"{args.file}: {count} rows of {args.env}\n"


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set takes KEY=VALUE, not {text!r:.80}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


if __name__ == "__main__":
    raise SystemExit(main())
