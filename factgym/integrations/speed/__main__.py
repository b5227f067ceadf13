"""`python -m factgym.integrations.speed {doors,vf-eval}`: what the doors cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping

from factgym.benchmarks.speed.lines import tell
from factgym.core.errors import ConfigError, MissingExtraError, did_you_mean
from factgym.core.registry import load_attribute
from factgym.integrations.speed.frame import ENV, measure_door
from factgym.integrations.speed.vf_eval import measure_vf_eval

DOORS: Mapping[str, str] = {
    "session": "factgym.integrations.speed.session:door",
    "verifiers": "factgym.integrations.speed.verifiers:door",
    "trl": "factgym.integrations.speed.trl:door",
    "trl-rollout": "factgym.integrations.speed.trl_rollout:door",
    "inspect": "factgym.integrations.speed.inspect:door",
    "mcp": "factgym.integrations.speed.mcp:door",
    "openenv": "factgym.integrations.speed.openenv:door",
    "skyrl": "factgym.integrations.speed.skyrl:door",
    "verl": "factgym.integrations.speed.verl:door",
    "verl-rollout": "factgym.integrations.speed.verl_rollout:door",
}
"""Name -> `door(env_id)`. A missing framework raises MissingExtraError there, and its line says so."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m factgym.integrations.speed", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    doors = commands.add_parser("doors", help="what each in-process door adds to an episode's own cost")
    doors.add_argument("doors", nargs="*", help="all by default: " + ", ".join(DOORS))
    doors.add_argument("--episodes", type=int, default=100)
    doors.add_argument("--repeats", type=int, default=40)
    whole = commands.add_parser("vf-eval", help="the whole command of verifiers, and what tool servers would cost")
    whole.add_argument("--episodes", type=int, default=128)
    whole.add_argument("--servers", type=int, default=16, help="episodes where each rollout starts a tool server")
    whole.add_argument("--repeats", type=int, default=3)
    for one in (doors, whole):
        one.add_argument("--env", default=ENV)
    args = parser.parse_args()
    return tell(lambda: _lines(args), sys.stdout, sys.stderr)


def _lines(args: argparse.Namespace) -> Iterable[str]:
    if args.what == "vf-eval":
        return measure_vf_eval(args.env, args.episodes, args.servers, args.repeats)
    return _doors(args)


def _doors(args: argparse.Namespace) -> Iterator[str]:
    for name in args.doors or DOORS:
        if name not in DOORS:
            raise ConfigError(f"there is no door {name!r}.{did_you_mean(name, DOORS)} There are: {', '.join(DOORS)}.")
        try:
            yield from measure_door(name, load_attribute(DOORS[name]), args.episodes, args.repeats, args.env)
        except MissingExtraError as error:
            yield f"{name:>14}  not measured: {error}"


if __name__ == "__main__":
    raise SystemExit(main())
