"""A Hugging Face causal language model on this machine, as a policy: the extra "local".

`LocalModel` plays many episodes at once: their requests queue up and one thread answers them in padded batches. Left
out on purpose: continuous batching, paged caches and several machines. A served model (vLLM, SGLang) has these.
"""

from factgym.agents.local.counters import LocalCounters
from factgym.agents.local.model import LocalModel, LocalPolicy
from factgym.agents.local.settings import LocalSettings

__all__ = ["LocalCounters", "LocalModel", "LocalPolicy", "LocalSettings"]
