"""`python -m perf {env,startup,rollouts,memory,statistics,seva,meteor,cooccurrence,corver,eve,structure}`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from perf.cooccurrence import Plan, measure_cooccurrence, parse_tokens
from perf.corver import Plan as RewardPlan
from perf.corver import measure_corver
from perf.environment import measure_env
from perf.eve import measure_eve
from perf.lines import tell
from perf.memory import measure_memory
from perf.meteor import averitec_pairs, measure_meteor
from perf.rollouts import measure_rollouts
from perf.seva import measure_seva_reward
from perf.startup import measure_startup
from perf.statistics import measure_statistics
from perf.structure import main as structure


def main() -> int:
    """Run the chosen benchmark and print its table."""
    if sys.argv[1:2] == ["structure"]:
        structure(sys.argv[2:])
        return 0
    args = _parser().parse_args()
    return tell(lambda: _lines(args), sys.stdout, sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    env = commands.add_parser("env", help="steps per second, and where the time goes")
    env.add_argument("--env", default="claimcheck-multihop")
    env.add_argument("--episodes", type=int, default=500)
    env.add_argument("--repeats", type=int, default=5)
    startup = commands.add_parser("startup", help="import, and make + reset in a fresh process")
    startup.add_argument("--env", default="claimcheck-multihop")
    startup.add_argument("--repeats", type=int, default=7)
    rollouts = commands.add_parser("rollouts", help="many episodes at a time against a server with a fixed delay")
    rollouts.add_argument("--env", default="claimcheck-multihop")
    rollouts.add_argument("--episodes", type=int, default=512)
    rollouts.add_argument("--delay-ms", type=float, default=50.0)
    rollouts.add_argument("--concurrency", type=int, nargs="+", default=[8, 16, 32, 64, 512])
    rollouts.add_argument("--repeats", type=int, default=3)
    memory = commands.add_parser("memory", help="resident memory over a long run")
    memory.add_argument("--env", default="claimcheck-multihop")
    memory.add_argument("--episodes", type=int, default=20_000)
    memory.add_argument("--concurrency", type=int, default=512)
    scores = commands.add_parser("statistics", help="BCa intervals beside SciPy's")
    scores.add_argument("--repeats", type=int, default=7)
    seva = commands.add_parser("seva", help="SEVA's process reward a second, json.loads beside it")
    seva.add_argument("--repeats", type=int, default=9)
    meteor = commands.add_parser("meteor", help="METEOR beside NLTK's")
    meteor.add_argument("--repeats", type=int, default=5)
    meteor.add_argument("--path", help="AVeriTeC's dev.json: measure on its texts")
    meteor.add_argument("--predictions", help="predictions for it, to be compared with its texts")
    _add_corver(commands)
    eve = commands.add_parser("eve", help="scoring a proposer rollout of EVE beyond the policies' calls")
    eve.add_argument("--repeats", type=int, default=7)
    eve.add_argument("--passages", type=Path, help="file of passages; else a generated world's")
    return parser


def _add_corver(commands: Any) -> None:
    counting = commands.add_parser("cooccurrence", help="counts of words together, infini-gram beside ours")
    counting.add_argument("--tokens", default="50M", help="how large the corpus is, e.g. 500k, 50M")
    counting.add_argument("--text", type=Path, help="file or folder of text to draw sentences from; else generated")
    counting.add_argument("--queries", type=int, default=50, help="for each band and number of words")
    counting.add_argument("--workers", type=int, default=2)
    counting.add_argument("--memory-mb", type=int, default=2048, help="of each build")
    counting.add_argument("--keep", type=Path, help="folder for the indexes, which are used again if they are there")
    counting.add_argument("--no-peer", action="store_true", help="ours alone")
    counting.add_argument("--mapped", action="store_true", help="neither index is brought into memory beforehand")
    counting.add_argument("--clock", choices=["cpu", "wall"], default="cpu", help="which time of a query")
    reward = commands.add_parser("corver", help="CorVer's whole sentence reward, stage by stage")
    reward.add_argument("--index", type=Path, help="an index file, which needs --text; else one in memory")
    reward.add_argument("--text", type=Path, help="file or folder of the text to draw sentences from; else generated")
    reward.add_argument("--batches", type=int, default=15, help="of 384 completions each")
    reward.add_argument("--processes", type=int, default=2)


def _lines(args: argparse.Namespace) -> Iterable[str]:
    if args.what == "env":
        return measure_env(args.env, args.episodes, args.repeats)
    if args.what == "startup":
        return measure_startup(args.env, args.repeats)
    if args.what == "statistics":
        return measure_statistics(args.repeats)
    if args.what == "seva":
        return measure_seva_reward(args.repeats)
    if args.what == "meteor":
        pairs = averitec_pairs(args.path, args.predictions) if args.path else None
        return measure_meteor(args.repeats, pairs)
    if args.what == "cooccurrence":
        size, peer = parse_tokens(args.tokens), not args.no_peer
        how = (args.text, args.queries, args.workers, args.memory_mb, args.keep, peer, args.clock, args.mapped)
        return measure_cooccurrence(Plan(size, *how))
    if args.what == "corver":
        return measure_corver(RewardPlan(args.index, args.text, args.batches, args.processes))
    if args.what == "eve":
        return measure_eve(args.repeats, args.passages)
    if args.what == "memory":
        return measure_memory(args.env, args.episodes, args.concurrency)
    return measure_rollouts(args.env, args.episodes, args.delay_ms / 1e3, args.concurrency, args.repeats)


if __name__ == "__main__":
    raise SystemExit(main())
