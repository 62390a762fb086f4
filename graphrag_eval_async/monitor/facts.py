"""The state of a run as one plain dict, which is printed as JSON or shown on the screen."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from math import inf
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.inference.confidence import show_confidence
from graphrag_eval_async.records.snapshots import (
    cut_note,
    tags_of,
)
from graphrag_eval_async.reference import misnamed_steps
from graphrag_eval_async.reports.groups import add_detail, group_facts, main_scores
from graphrag_eval_async.reports.overview import judge_state
from graphrag_eval_async.reports.progress import Phase, RunProgress
from graphrag_eval_async.reports.state import run_state
from graphrag_eval_async.reports.windows import window_facts
from graphrag_eval_async.sources import JsonlFiles
from graphrag_eval_async.sources.receiving import OtlpReceiver
from graphrag_eval_async.threads import work_in_slices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.monitor.counting import Counting
    from graphrag_eval_async.sources import Follower
    from graphrag_eval_async.stream import EvaluationStream

RATE_SECONDS = 10.0  # the time over which a rate is taken; longer if it was not asked for meanwhile
SUMS = "sums"  # the key of the sums that `complete` turns into confidence sequences
COURSES = "courses"  # the key of the `Courses` that `complete` turns into the state of the run
VARIANCES = "variances"  # the key of the functions by which `complete` computes variances of scores


MOST_RESULTS_A_QUESTION = 1.1
"""Results for each answered question above which questions seem to be asked more than once."""

WAITING_SECONDS = 5.0
"""Seconds without work and without a new line after which a run is waiting for lines."""


class Rate:
    def __init__(self, now: float) -> None:
        self._points = deque([(now, 0)])

    def at(self, now: float, count: int) -> float:
        """The rate until `now`, when the count is this."""
        while len(self._points) > 1 and self._points[1][0] <= now - RATE_SECONDS:
            self._points.popleft()
        since, before = self._points[0]
        self._points.append((now, count))
        return (count - before) / max(now - since, 1.0)


class Facts:
    """Collects the state of a run from all its parts."""

    def __init__(
        self,
        stream: EvaluationStream,
        counting: Counting,
        *,
        source: Follower | JsonlFiles | OtlpReceiver | None = None,
        config: Config | None = None,
        paths: Sequence[str] = (),
        level: float = 0.95,
    ) -> None:
        self.stream, self._source, self._counting, self._config = stream, source, counting, config
        self._fixed = {
            "paths": list(paths),
            "window": window_facts(counting.window),
            "level": level,
        }
        self._start = monotonic()
        self._pace, self._calls = Rate(self._start), Rate(self._start)
        # When the counts of results and lines were last seen to change, in seconds since 1970.
        self._counts: tuple[int, ...] = ()
        self._changed_at = time()

    async def prepare(self) -> None:
        """Do the slow part of `collect` in slices, so that other tasks can run."""
        await work_in_slices(self.stream.aggregates.prepare())

    def collect(self, detailed: float = inf) -> dict[str, Any]:
        """The state as it is now, without what `complete` adds; the caller owns the dict.

        Until `complete` takes it, the key `COURSES` has how the scores moved, for charts.

        Templates have details, as all results have, if there are at most `detailed` of them.
        """
        now = monotonic()
        stream = self.stream
        # Nobody knows how much more standard input or an exporter will send.
        lag, not_found = None, []
        if not isinstance(self._source, JsonlFiles | OtlpReceiver | None):
            lag, not_found = self._source.lag, self._source.not_found
        results_per_second = self._pace.at(now, self._counting.count)
        groups = self._groups(detailed)
        return {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "elapsed_sec": now - self._start,
            **self._fixed,
            "not_found": not_found,
            **groups,
            COURSES: self._counting.history.courses(),
            "progress": self._progress(groups["overall"], results_per_second).as_dict(),
            "results_per_sec": results_per_second,
            "in_flight": stream.in_flight,
            "rejects": dict(stream.rejects.counts),
            "questions": len(stream.reference.questions),
            "missing": len(stream.missing),
            "lag": None if lag is None else {"bytes": lag.bytes, "seconds": lag.seconds},
            "judge": self._judge(now),
            "journal": None if stream.journal is None else {"restored": stream.journal.restored},
            "skipped": stream.skipped,
            "misnamed": misnamed_steps(stream.reference, stream.aggregates._step_names()),
            "late": stream.late.facts(),
            "alerts": self._counting.alerts.facts(),
            "show": self._counting.show,
            "results": self._counting.listed(),
        }

    def _groups(self, detailed: float) -> dict[str, Any]:
        aggregates = self.stream.aggregates
        total, recent = aggregates.snapshot(), self._counting.recent.snapshot()
        overall = group_facts(total["micro"], recent["micro"])
        groups = total["per_template"]
        details = aggregates.per_template() if len(groups) <= detailed else {}
        # Templates whose results are all pending have nothing but details.
        templates = {
            template: group_facts(group, recent["per_template"].get(template))
            for template, group in (details | groups).items()
        }
        sums = add_detail(overall, aggregates.overall())
        for template, detail in details.items():
            sums += add_detail(templates[template], detail)
        found: dict[str, Any] = {"overall": overall, SUMS: sums, "templates": templates}
        found[VARIANCES] = aggregates.variances()
        if tags := tags_of(aggregates.per_tag()):
            recents = tags_of(recent)
            found["tags"] = {
                name: group_facts(own, recents.get(name)) for name, own in tags.items()
            }
            found["tags_note"] = cut_note(total)
            sums += [each for name in tags for each in add_detail(found["tags"][name], tags[name])]
        return found | ({"agreement": total["agreement"]} if "agreement" in total else {})

    def _progress(self, overall: Mapping[str, Any], rate: float) -> RunProgress:
        """Return how far the run is, given the facts of all results and the results per second."""
        stream = self.stream
        results = overall["samples"]["total"]
        questions = len(stream.reference.questions)
        missing = len(stream.missing)
        phase, since = self._phase()
        # The time left is known only if each question is answered about once.
        is_once = results <= (questions - missing) * MOST_RESULTS_A_QUESTION
        eta_seconds = None
        if phase is Phase.RUNNING and is_once and missing and rate > 0:
            eta_seconds = missing / rate
        return RunProgress(
            phase=phase,
            results=results,
            errors=overall["errors"]["total"],
            rejected=stream.rejects.total,
            done=questions - missing,
            total=questions or None,
            missing=missing,
            rate=rate,
            eta_seconds=eta_seconds,
            since=since,
        )

    def _phase(self) -> tuple[Phase, datetime | None]:
        """Return what the run does at the moment, and since when it waits for lines."""
        stream = self.stream
        if not stream.is_restored:
            return Phase.RESTORING, None
        if stream._has_ended:
            return Phase.ENDED, None

        counts = (self._counting.count, stream.rejects.total, stream.skipped, stream.in_flight)
        if counts != self._counts:
            self._counts = counts
            self._changed_at = time()
        if stream.in_flight == 0 and time() - self._changed_at >= WAITING_SECONDS:
            return Phase.WAITING, datetime.fromtimestamp(self._changed_at, UTC)
        return Phase.RUNNING, None

    def _judge(self, now: float) -> dict[str, Any] | None:
        state = judge_state(self.stream.usage, self._config)
        # Requests that were sent, not calls that wait to be.
        return state and {"calls_per_sec": self._calls.at(now, self.stream.usage.attempts), **state}


def complete(facts: dict[str, Any]) -> None:
    """Add to what `collect` gave what takes a while: confidence sequences, variances and the
    state, which replaces the courses.
    """
    for shown, sums in facts.pop(SUMS, ()):
        shown["confidence"] = show_confidence(sums, facts["level"])
    for metric, variance in facts.pop(VARIANCES, {}).items():
        facts["overall"]["metrics"][metric] |= variance()
    courses = facts.pop(COURSES, None)
    if courses is not None:
        state = run_state(courses, main_scores(facts["overall"]), facts["level"])
        facts["state"] = state.as_dict()
