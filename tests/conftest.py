"""Shared fixtures, and how Hypothesis searches.

Every run draws the same examples: a test run passes or fails for everybody alike. Other examples are drawn by profile:

- `--hypothesis-profile=explore`: ten times as many, random, and those that failed before. What it finds becomes a test.
- `--hypothesis-profile=tenfold --hypothesis-seed=N`: ten times as many, from the seed. CI runs it.

No profile has a clock. A test that needs more or fewer examples takes a multiple of `settings.default.max_examples`.
"""

from __future__ import annotations

import gc
import os
import secrets
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from public_data import find_data_dir

CLOCKLESS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile("repeatable", CLOCKLESS, max_examples=40, derandomize=True)
# Hypothesis derandomises where the environment says CI, unless told otherwise.
settings.register_profile("tenfold", CLOCKLESS, max_examples=400, derandomize=False, database=None)
settings.register_profile("explore", CLOCKLESS, max_examples=400, derandomize=False)
settings.load_profile("repeatable")

# Ray reads these when it is first imported, which any test of the process may do (transformers and datasets import it).
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16), "RAY_USAGE_STATS_ENABLED": "0"}

LONGEST = (
    "test_certificates.py",
    "test_readme.py",
    "test_guides.py",
    "test_document_claims.py",
    "test_claimcheck_exploits.py",
    "test_determinism.py",
    "test_seva_loop.py",
    "test_eve_proposer_exploits.py",
)
"""Files that take some twenty seconds of CPU or more, the longest first."""


def pytest_configure(config: pytest.Config) -> None:
    """Give each worker one thread, and let pytest-xdist take files in our order: the longest have few tests."""
    if config.getoption("--hypothesis-profile", None) != "explore":
        # Of the processes that pytest-xdist or a test starts; tests of the order of sets set others.
        os.environ.setdefault("PYTHONHASHSEED", "0")
        # Hypothesis also draws constants of the modules that happen to be imported: those of the tests that ran before.
        providers._get_local_constants = lambda: providers._local_constants
    # Threads of BLAS and OpenMP in as many processes as cores wait for each other. Read when numpy is imported: later.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    config.option.loadscopereorder = False
    # Without bytecode each process that a test starts compiles the package again, and each run rewrites all assertions.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than cores for `-n auto`: tests wait for servers, processes and kills for a quarter of the time."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Take modules and test cases out of garbage collection, and let it begin less often than in a small program.

    All of them live to the end, and each full collection would scan them: a sixth of the tests' CPU time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files, so that no worker is left with one of them when the others have finished."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONGEST)))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    folder = find_data_dir()
    if folder is None:
        pytest.skip("needs the public data sets: set FACTGYM_DATA to their folder")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Corpora that are built in the user's cache go to a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FACTGYM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
