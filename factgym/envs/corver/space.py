"""What a policy may emit here: a completion in the two-block form, or a call of the tools that are open."""

from __future__ import annotations

import copy
from typing import Any

from factgym.core.spaces import ActionSpace, UnicodeText

_CALL_SHARE = 0.5


class CompletionSpace(ActionSpace):
    """As `ActionSpace`, but `sample` gives a completion, and half of the time a tool call where a tool is open."""

    def sample(self, mask: None = None, probability: None = None) -> Any:
        """A completion text, or a tool call whose arguments fit the tool's schema."""
        if self.tools() and self.np_random.random() < _CALL_SHARE:
            return super().sample()
        texts = UnicodeText(seed=self.np_random)
        return f"<think>{texts.sample()}</think><answer>{texts.sample()}</answer>"

    def __deepcopy__(self, memo: dict[int, Any]) -> CompletionSpace:
        return _completion_space(self.tools, copy.deepcopy(self._np_random, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return _frozen_space, (list(self.tools()), self._np_random)


def _completion_space(tools: Any, rng: Any) -> CompletionSpace:
    space = CompletionSpace(tools)
    space._np_random = rng
    return space


def _frozen_space(tools: list[Any], rng: Any) -> CompletionSpace:
    return _completion_space(lambda: tools, rng)
