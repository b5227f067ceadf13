"""`python -m factgym.integrations.verl {rows,config} ENV`: the files of a run of verl's."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from factgym.core.errors import ConfigError, FactgymError
from factgym.integrations.verl.rows import config_text, write_rows


def main() -> int:
    """Write the requested file; return 2, with a message, for settings that do not exist."""
    parser = argparse.ArgumentParser(prog="python -m factgym.integrations.verl", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
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
    for command in (config, rows):
        command.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="a setting; repeatable")
    args = parser.parse_args()
    try:
        settings = dict(map(_parse_setting, args.set))
        if args.command == "config":
            sys.stdout.write(config_text(args.env, settings, args.credit))
        else:
            count = write_rows(args.env, args.file, limit=args.limit, start=args.start, columns=args.column, **settings)
            sys.stdout.write(f"{args.file}: {count} rows of {args.env}\n")
    except FactgymError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _parse_setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set takes KEY=VALUE, not {text!r:.80}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


if __name__ == "__main__":
    raise SystemExit(main())
