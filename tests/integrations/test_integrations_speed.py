"""The measurement of every integration runs, pays the rewards of `reset` and `step`, and makes the framework's own tokens.

Both are refused by the measurement itself where they are not so. What is not installed is skipped.
"""

from __future__ import annotations

import pytest

from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.registry import load_attribute
from perf.integrations import INTEGRATIONS
from perf.integrations.compare import measure_integration

pytestmark = pytest.mark.filterwarnings("default")  # the frameworks' own


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_the_integration_is_measured(name: str) -> None:
    try:
        first, *more = measure_integration(name, load_attribute(INTEGRATIONS[name]), episodes=2, repeats=1)
    except MissingExtraError as missing:
        pytest.skip(str(missing))
    assert first.split()[:3] == [name, "2", "episodes"]
    assert ("by hand" in first) == bool(more)


def test_an_environment_that_is_answered_in_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="of corver-qa answers in text: take --env claimcheck-multihop"):
        list(measure_integration("session", load_attribute(INTEGRATIONS["session"]), 1, 1, "corver-qa"))
