"""The measurement of every door runs, pays the rewards of `reset` and `step`, and makes the framework's own tokens.

Both are refused by the measurement itself where they are not so. What is not installed is skipped.
"""

from __future__ import annotations

import pytest

from factgym.core.errors import ConfigError, MissingExtraError
from factgym.core.registry import load_attribute
from perf.integrations.__main__ import DOORS
from perf.integrations.frame import measure_door

pytestmark = pytest.mark.filterwarnings("default")  # the frameworks' own


@pytest.mark.parametrize("name", DOORS)
def test_the_door_is_measured(name: str) -> None:
    try:
        first, *more = measure_door(name, load_attribute(DOORS[name]), episodes=2, repeats=1)
    except MissingExtraError as missing:
        pytest.skip(str(missing))
    assert first.split()[:3] == [name, "2", "episodes"]
    assert ("by hand" in first) == bool(more)


def test_an_environment_that_is_answered_in_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="of corver-qa answers in text: take --env claimcheck-multihop"):
        list(measure_door("session", load_attribute(DOORS["session"]), 1, 1, "corver-qa"))
