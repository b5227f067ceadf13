"""`python -m factgym.benchmarks.speed {env,startup}`."""

from __future__ import annotations

import argparse
import sys

from factgym.benchmarks.speed.environment import measure_env
from factgym.benchmarks.speed.startup import measure_startup
from factgym.core.errors import FactgymError


def main() -> int:
    """Run the chosen benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m factgym.benchmarks.speed", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    env = commands.add_parser("env", help="steps per second, and where the time goes")
    env.add_argument("--env", default="claimcheck-multihop")
    env.add_argument("--episodes", type=int, default=500)
    env.add_argument("--repeats", type=int, default=5)
    startup = commands.add_parser("startup", help="import, and make + reset in a fresh process")
    startup.add_argument("--env", default="claimcheck-multihop")
    startup.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    try:
        lines = (
            measure_env(args.env, args.episodes, args.repeats)
            if args.what == "env"
            else measure_startup(args.env, args.repeats)
        )
    except FactgymError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
