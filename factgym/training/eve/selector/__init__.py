"""EVE's corpus selector: which documents the next iteration's questions are asked about (section 3.3, appendix F).

    vectors = corpus_embeddings(corpus)
    selector = Selector(vectors, corpus.ids, settings=SelectorSettings(growth=2.0), seed=0)
    choices = selector.draw(256)                        # document, cluster and question type, 256 times
    selector.feedback(rows, run_reward(.8, .4))         # after the iteration: what became of them

Needs the extra "selector" (scikit-learn), which is imported when a selector or an embedding is first made.
"""

from __future__ import annotations

from factgym.training.eve.selector.bandit import Arms
from factgym.training.eve.selector.clusters import Clusters, cluster
from factgym.training.eve.selector.embed import corpus_embeddings, text_embeddings
from factgym.training.eve.selector.feedback import arm_rewards, qualities, quality, run_reward
from factgym.training.eve.selector.selector import TASK_TYPES, Choice, Feedback, Selector, SelectorSettings

__all__ = [
    "TASK_TYPES",
    "Arms",
    "Choice",
    "Clusters",
    "Feedback",
    "Selector",
    "SelectorSettings",
    "arm_rewards",
    "cluster",
    "corpus_embeddings",
    "qualities",
    "quality",
    "run_reward",
    "text_embeddings",
]
