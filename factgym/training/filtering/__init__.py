"""The learning zone: which questions a policy gets right sometimes, and therefore learns from (CorVer, section 4, A.2, A.4).

A group whose samples are all right or all wrong has no advantage under a group baseline. `filter_tasks` samples G
episodes of each task through the rollout engine into an ordinary run, `select` counts the right ones of any such run
and keeps `low <= n_correct <= high` with a fixed number of anchors, and `write_selection` writes what was kept.
`rules` says what counts as right in which environment, `subset` plays kept tasks of any environment again.
"""

from factgym.training.filtering.run import filter_tasks
from factgym.training.filtering.subset import Subset, only, read_tasks
from factgym.training.filtering.write import KEPT, SUMMARY, TASKS, write_selection

__all__ = [
    "KEPT",
    "SUMMARY",
    "TASKS",
    "Subset",
    "filter_tasks",
    "only",
    "read_tasks",
    "write_selection",
]
