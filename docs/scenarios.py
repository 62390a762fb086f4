"""Runs that pictures and tests of the live page show: a fall, a steady run and others.

They last hours for whoever looks at the page, and a second for whoever waits for the picture.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from graphrag_eval_async import Dashboard, Last, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

PACKAGE = "graphrag_eval_async"

START = 1_790_000_000.0
"""When each run begins, in seconds since 1970."""

QUESTIONS_OF_TEMPLATE = 60

FALLEN_TEMPLATE = "lines_between"

TEMPLATES = {
    "lines_between": 0.95,
    "load_of_day": 0.97,
    "voltage_levels": 0.93,
    "outages_in_year": 0.9,
}
"""How often the agent is right, by template."""

STEP_ERROR = "TypeError: 'NoneType' object is not subscriptable"
TIMEOUT = "TimeoutError: the agent gave no answer within 60 s"


class Clock:
    """The time of a run that takes hours."""

    def __init__(self) -> None:
        self.seconds = START

    def time(self) -> float:
        """Return the time in seconds since 1970, as `time.time`."""
        return self.seconds

    def monotonic(self) -> float:
        """Return the seconds since the run began, as `time.monotonic`."""
        return self.seconds - START

    def datetime_class(self) -> type[datetime]:
        """Return a `datetime` whose `now` is the time of the run."""
        clock = self

        class DatetimeOfRun(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> DatetimeOfRun:
                return cls.fromtimestamp(clock.seconds, tz)

        return DatetimeOfRun


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run that the page shows.

    Attributes:
        responses: number of responses.
        seconds_between: how long a response takes.
        chances: how often the agent is right, by template.
        falls_after: after how many responses one template gets worse; None if it never does.
        fallen_chance: how often the agent is right in this template after the fall.
        error_chance: how often the agent fails.
        pause_after: after how many responses the agent rests for half an hour.
        ends: whether the run ends; otherwise more responses are expected.
        silent_seconds: how long ago the last response arrived.
        alerts: the alerts of the run.
    """

    responses: int
    seconds_between: float = 12.0
    chances: Mapping[str, float] = field(default_factory=lambda: TEMPLATES)
    falls_after: int | None = None
    fallen_chance: float = 0.73
    error_chance: float = 0.004
    pause_after: int | None = None
    ends: bool = False
    silent_seconds: float = 0.0
    alerts: tuple[str, ...] = ("error_rate > 0.1 over 100", "steps_score < 0.85 over 100")


SCENARIOS = {
    "fall": Scenario(responses=2400, seconds_between=6, falls_after=1200, pause_after=500),
    "doubt": Scenario(responses=1400, seconds_between=6, falls_after=1200, fallen_chance=0.8),
    "steady": Scenario(responses=900),
    "early": Scenario(responses=24),
    "errors": Scenario(responses=700, error_chance=0.22),
    "ended": Scenario(responses=1500, ends=True),
    "waiting": Scenario(responses=600, silent_seconds=1500),
}
"""The runs by name."""


def reference() -> list[dict[str, Any]]:
    """Return the reference set of all runs."""
    return [
        {"template_id": template, "questions": [_question(template, i) for i in range(60)]}
        for template in TEMPLATES
    ]


def _question(template: str, number: int) -> dict[str, Any]:
    """Return one question of a template."""
    words = template.replace("_", " ")
    return {
        "id": f"{template}-{number + 1:02}",
        "question_text": f"What are the {words} of substation {number + 1}?",
        "reference_answer": f"{words} {number}",
        "reference_steps": [[{"name": "sparql_query", "args": {}, "output": f"{words} {number}"}]],
        "match": "exact",
    }


def responses(scenario: Scenario) -> Iterator[dict[str, Any]]:
    """Yield the responses of a run, whose questions come in random order, again and again."""
    chance = Random(11)
    places = [(template, number) for template in TEMPLATES for number in range(60)]
    order: list[tuple[str, int]] = []
    for place in range(scenario.responses):
        if not order:
            order = chance.sample(places, len(places))
        template, number = order.pop()
        has_fallen = scenario.falls_after is not None and place >= scenario.falls_after
        right_chance = scenario.chances[template]
        if has_fallen and template == FALLEN_TEMPLATE:
            right_chance = scenario.fallen_chance
        yield _response(template, number, chance, right_chance, scenario.error_chance)


def _response(
    template: str, number: int, chance: Random, right_chance: float, error_chance: float
) -> dict[str, Any]:
    """Return a response, which is right with a chance, or an error of the agent."""
    response: dict[str, Any] = {
        "question_id": f"{template}-{number + 1:02}",
        "elapsed_sec": round(chance.uniform(3, 8), 2),
        "total_tokens": round(12_000 * chance.uniform(0.8, 1.3)),
    }
    if chance.random() < error_chance:
        return response | {"status": "error", "error": TIMEOUT}
    expected = f"{template.replace('_', ' ')} {number}"
    step = {"id": "call_1", "name": "sparql_query", "args": {}, "status": "success"}
    if chance.random() < right_chance:
        step["output"] = expected
        # Now and then, the agent does not understand what it found.
        answer = expected if chance.random() < 0.96 else "I am not sure."
        return response | {"actual_answer": answer, "actual_steps": [step]}
    if chance.random() < 0.7:
        step |= {"status": "error", "error": STEP_ERROR}
    else:
        step["output"] = "nothing"
    return response | {"actual_answer": "I could not find that.", "actual_steps": [step]}


@asynccontextmanager
async def showing(name: str, **options: Any) -> AsyncIterator[Dashboard]:
    """Serve the page of a run until the block ends.

    Args:
        name: the run, one of `SCENARIOS`.
        options: options of the dashboard.
    """
    scenario = SCENARIOS[name]
    clock = Clock()
    stop = asyncio.Event()

    async def arriving() -> AsyncIterator[dict[str, Any]]:
        for place, response in enumerate(responses(scenario)):
            clock.seconds += scenario.seconds_between
            if place == scenario.pause_after:
                clock.seconds += 1800
            yield response
            await asyncio.sleep(0)  # Results come as the responses do.
        if not scenario.ends:
            await stop.wait()

    async def consume(dashboard: Dashboard, count: int) -> None:
        """Take the results that there are; at the end of a run also the end."""
        async for _ in dashboard:
            count -= 1
            if count == 0 and not scenario.ends:
                return

    stream = evaluate_stream(reference(), arriving(), ordered=True)
    options = {"title": "Nightly run of the grid agent", "alerts": scenario.alerts} | options
    with at_time_of(clock):
        dashboard = Dashboard(stream, port=0, window=Last(200), **options)
        async with dashboard:
            await consume(dashboard, scenario.responses)
            # A look at the page at the time of the last response, as a browser has it open.
            dashboard._board._facts.collect()
            clock.seconds += scenario.silent_seconds
            yield dashboard
            stop.set()


def at_time_of(clock: Clock) -> ExitStack:
    """Return a context in which the package has the time of a clock."""
    stack = ExitStack()
    for module, name, value in (
        ("reports.history", "time", clock.time),
        ("reports.timeline", "time", clock.time),
        ("monitor.counting", "monotonic", clock.monotonic),
        ("monitor.facts", "time", clock.time),
        ("monitor.facts", "monotonic", clock.monotonic),
        ("monitor.facts", "datetime", clock.datetime_class()),
        ("monitor.alerts", "datetime", clock.datetime_class()),
        ("reports.rendering", "datetime", clock.datetime_class()),
        ("reports.state", "datetime", clock.datetime_class()),
    ):
        stack.enter_context(patch(f"{PACKAGE}.{module}.{name}", value))
    return stack
