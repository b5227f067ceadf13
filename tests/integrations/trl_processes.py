"""Run by torch.distributed: writes the advantages that each process trains on, its share of one group of four."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed
from tiny_trl import Hops, Stepwise, corver_scripts, trained

from factgym.integrations.trl import dataset


def main(folder: Path) -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rows = dataset("corver-qa", limit=1).add_column("hops", [1])
    share = corver_scripts()[rank * 4 // world : (rank + 1) * 4 // world]
    found = {}
    for cls in (Stepwise, Hops):
        batch = trained(cls, "corver-qa", share, folder / cls.credit, rows=rows, num_generations=4).batch
        kept = zip(batch["advantages"], batch["completion_mask"].bool(), strict=True)
        found[cls.credit] = [values[mask].tolist() for values, mask in kept]
    (folder / f"{world}-{rank}.json").write_text(json.dumps(found), "utf-8")
    if torch.distributed.is_initialized():  # else its threads may still run when the process ends, which aborts it
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
