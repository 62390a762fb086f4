"""What holds for all tests, and what several test modules build their input from."""

from __future__ import annotations

import faulthandler
import gc
import inspect
import os
from importlib.util import find_spec
from typing import Any

import hypothesis
import pytest

from tests.support.deadlines import in_time

# On a busy machine the time of an example says nothing about the code. The examples are the same
# everywhere, or a test could fail once on another machine; `--hypothesis-profile random` looks for
# new ones. A test that names health checks itself would bring back those that are named here.
_check = hypothesis.HealthCheck
_settings = hypothesis.settings(
    deadline=None,
    suppress_health_check=[
        *hypothesis.settings().suppress_health_check,
        _check.too_slow,
        _check.function_scoped_fixture,
    ],
)
hypothesis.settings.register_profile("same", _settings, derandomize=True, database=None)
hypothesis.settings.register_profile("random", _settings, derandomize=False)
hypothesis.settings.load_profile("same")

SOAK_SECONDS = 3600
"""How long a test with the mark soak may take."""


_stderr = -1
"""A copy of the stderr that the process began with, which pytest does not capture."""


def pytest_configure() -> None:
    global _stderr
    _stderr = os.dup(2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS))
        elif isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = in_time(item.obj)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("ragas") and find_spec("ragas") is None:
        pytest.skip("needs ragas: pip install '.[ragas]'")
    if item.get_closest_marker("ray") and find_spec("ray") is None:
        pytest.skip("needs Ray: pip install '.[ray]'")


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(settings: Any) -> bool:
    """On a timeout, print the stacks of all threads and end the process.

    The methods of pytest-timeout print nothing in a worker of pytest-xdist, or cannot end a hanging
    thread.
    """
    faulthandler.dump_traceback_later(settings.timeout, exit=True, file=_stderr)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer() -> bool:
    faulthandler.cancel_dump_traceback_later()
    return True


@pytest.fixture(autouse=True, scope="module")
def _settled() -> None:
    """Let each garbage collection of a test look at what the test made, not at all that was
    imported.
    """
    gc.collect()
    gc.freeze()
