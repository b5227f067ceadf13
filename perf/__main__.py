"""`python -m perf NAME …`: run `perf.NAME.main` and print its lines as they come."""

from __future__ import annotations

import sys
from importlib import import_module

from factgym.core.errors import FactgymError, did_you_mean

NAMES = {
    "env": "steps per second, and where the time goes, beside CartPole",
    "startup": "import, and make + reset in a fresh process",
    "rollouts": "many episodes at a time against a server with a fixed delay",
    "memory": "resident memory over a long run",
    "growth": "how time grows when hostile input doubles, for every parser, reader and reward",
    "statistics": "BCa intervals beside SciPy's",
    "seva": "SEVA's process reward, beside json.loads",
    "meteor": "METEOR beside NLTK's",
    "cooccurrence": "co-occurrence counts beside infini-gram's",
    "retrieval": "search over a corpus on disk, beside raw bm25s and the index in memory",
    "dense": "dense search over vectors on disk, exact and approximate, beside FAISS in memory",
    "retrieval-server": "the retrieval server under load, beside the index in a loop",
    "corver": "CorVer's sentence reward, stage by stage",
    "train": 'training a model from nothing: the engine "small" beside TRL',
    "eve": "scoring a proposer rollout of EVE",
    "integrations": "the overhead of each integration in process",
    "vf-eval": "the whole command of verifiers",
    "structure": "the package's structure in numbers",
    "wordnet-table": "builds the table of synonyms that METEOR reads",
}
"""Name -> summary. The module is the name with underscores; its `main(arguments)` returns the lines of a report."""


def main() -> int:
    """Run a measurement; 2 with a message for a wrong name or arguments that factgym refuses."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        listed = "\n".join(f"  {command:14} {summary}" for command, summary in NAMES.items())
        sys.stdout.write(f"usage: python -m perf NAME [OPTIONS]\n\n{listed}\n")
        return 0
    if name not in NAMES:
        sys.stderr.write(
            f"there is no measurement {name!r}.{did_you_mean(name, NAMES)} There are: {', '.join(NAMES)}\n"
        )
        return 2
    try:
        for line in import_module(f"perf.{name.replace('-', '_')}").main(arguments):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    except FactgymError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
