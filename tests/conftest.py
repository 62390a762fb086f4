"""What holds for all tests, and what several test modules build their input from."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import inspect
import os
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from tests.support.deadlines import in_time

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

# On a busy machine the time of an example says nothing about the code. The examples are the same everywhere,
# or a test could fail once on another machine; `--hypothesis-profile random` looks for new ones.
# A test that names health checks itself would bring back those that are named here.
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

HEAVY_BYTES = 200_000
"""More than a response may have to be scored on the event loop."""


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

    The methods of pytest-timeout print nothing in a worker of pytest-xdist, or cannot end a hanging thread.
    """
    faulthandler.dump_traceback_later(settings.timeout, exit=True, file=_stderr)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer() -> bool:
    faulthandler.cancel_dump_traceback_later()
    return True


@pytest.fixture(autouse=True, scope="module")
def _settled() -> None:
    """Let each garbage collection of a test look at what the test made, not at all that was imported."""
    gc.collect()
    gc.freeze()


def templates(questions: int = 3, **step: Any) -> list[dict[str, Any]]:
    """Template dicts with the questions q0, q1, ..., each with one reference step."""
    reference_step = {"name": "calculator", "output": "42"} | step
    return [
        {
            "template_id": "sums",
            "questions": [
                {"id": f"q{i}", "question_text": f"Sum {i}?", "reference_steps": [[reference_step]]}
                for i in range(questions)
            ],
        }
    ]


def answer(question: int = 0, **more: Any) -> dict[str, Any]:
    """A response that matches the reference."""
    step = {"name": "calculator", "id": f"call_{question}", "status": "success", "output": "42"}
    return {"question_id": f"q{question}", "actual_steps": [step], "input_tokens": question, **more}


def heavy(question: int = 0, **more: Any) -> dict[str, Any]:
    """The same, but so large that it is scored in a thread."""
    return answer(question, padding="x" * HEAVY_BYTES, **more)


@asynccontextmanager
async def leaving_nothing() -> AsyncGenerator[None]:
    """Within it, no task may be started that is still there afterwards, once callbacks have run."""
    before = asyncio.all_tasks()
    yield
    await settle()
    assert asyncio.all_tasks() <= before


async def settle() -> None:
    """Let every task run until it waits for something else than the event loop."""
    for _ in range(20):
        await asyncio.sleep(0)


class LoopClock:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.turn = 0
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self.turn += 1
        self._handle = self._loop.call_soon(self._tick)

    def stop(self) -> None:
        self._handle.cancel()
