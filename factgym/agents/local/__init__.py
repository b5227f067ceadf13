"""A Hugging Face causal language model on this machine, as a policy: the extra "local".

`LocalModel` serves many episodes at once: their requests queue up and one thread answers them in padded batches.
Continuous batching is left out on purpose: transformers' own draws every row from one generator, so that a reply
would depend on its batch. A served model (vLLM, SGLang) has it, paged caches and several machines.
"""

from factgym.agents.local.loading import LocalSettings
from factgym.agents.local.model import LocalModel, LocalPolicy

__all__ = ["LocalModel", "LocalPolicy", "LocalSettings"]
