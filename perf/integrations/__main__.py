"""`python -m perf.integrations {doors,vf-eval}`: what the doors cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping

from factgym.core.errors import ConfigError, MissingExtraError, did_you_mean
from factgym.core.registry import load_attribute
from perf.integrations.frame import ENV, measure_door
from perf.integrations.vf_eval import measure_vf_eval
from perf.lines import tell

DOORS: Mapping[str, str] = {
    "session": "perf.integrations.session:door",
    "verifiers": "perf.integrations.verifiers:door",
    "trl": "perf.integrations.trl:door",
    "trl-rollout": "perf.integrations.trl_rollout:door",
    "inspect": "perf.integrations.inspect:door",
    "mcp": "perf.integrations.mcp:door",
    "openenv": "perf.integrations.openenv:door",
    "skyrl": "perf.integrations.skyrl:door",
    "verl": "perf.integrations.verl:door",
    "verl-rollout": "perf.integrations.verl_rollout:door",
}
"""Name -> `door(env_id)`. A missing framework raises MissingExtraError there, and its line says so."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m perf.integrations", description=__doc__)
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
