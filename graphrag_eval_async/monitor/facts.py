"""The facts of a run as one plain dict, which is printed as JSON or shown on a screen."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from math import inf
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.helpers.threads import work_in_slices
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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.monitor.counting import Counting
    from graphrag_eval_async.reports.history import Courses
    from graphrag_eval_async.reports.state import RunState
    from graphrag_eval_async.sources import Follower
    from graphrag_eval_async.stream import EvaluationStream

RATE_SECONDS = 10.0
"""Seconds over which a rate is taken; more if nobody asked for it meanwhile."""

LEAST_RATE_SECONDS = 1.0
"""Least number of seconds over which a rate is taken, so that it is not huge at the beginning."""

MOST_RESULTS_A_QUESTION = 1.1
"""Results for each answered question above which questions seem to be asked more than once."""

WAITING_SECONDS = 5.0
"""Seconds without work and without a new line after which a run is waiting for lines."""

VISIBLE = 0.005
"""Difference of two means from which on they look different with two digits."""

# Keys of facts that are not complete: what `complete` takes out, as it takes long to compute with.
HISTOGRAMS = "histograms"
"""Facts of metrics, each with the histogram from which its confidence sequence is computed."""

VARIANCES = "variances"
"""By score, the functions that compute variances."""

COURSES = "courses"
"""The `Courses` of the scores, from which the state of the run is computed."""


class Rate:
    """The rate at which a count has grown of late."""

    def __init__(self, now: float) -> None:
        """Start counting from 0 at the time `now`, in seconds."""
        self._points = deque([(now, 0)])

    def at(self, now: float, count: int) -> float:
        """Return the growth of the count per second, over the last `RATE_SECONDS`.

        Args:
            now: the time in seconds; it must not be before that of an earlier call.
            count: the count at this time.
        """
        # Each point is a time and the count at this time. Keep one that is old enough.
        while len(self._points) > 1 and self._points[1][0] <= now - RATE_SECONDS:
            self._points.popleft()
        start, count_at_start = self._points[0]
        self._points.append((now, count))
        return (count - count_at_start) / max(now - start, LEAST_RATE_SECONDS)


class Facts:
    """Collects the facts of a run from all its parts."""

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
        """Start the clock of a run.

        Args:
            stream: the stream of the run.
            counting: what counts its results.
            source: what the stream reads; None if it is none of these kinds.
            config: the configuration.
            paths: the logs that are read, as they were named.
            level: confidence level of intervals and of the state.
        """
        self.stream = stream
        self._counting = counting
        self._source = source
        self._config = config
        self._fixed = {
            "paths": list(paths),
            "window": window_facts(counting.window),
            "level": level,
        }
        self._start = monotonic()
        self._result_rate = Rate(self._start)
        self._call_rate = Rate(self._start)
        # The counts of what the stream had read at the last look, and the time at which they last
        # changed, in seconds since 1970.
        self._read: tuple[int, ...] = ()
        self._read_at = time()

    async def prepare(self) -> None:
        """Do the slow part of `collect` in slices, so that other tasks can run."""
        await work_in_slices(self.stream.aggregates.prepare())

    def collect(self, detailed: float = inf) -> dict[str, Any]:
        """Return the facts as they are now, without what `complete` adds.

        `complete` removes three keys, which JSON cannot hold. One of them is `COURSES`, the courses
        of scores; read it before, to draw charts.

        Args:
            detailed: greatest number of templates with which each template has details. If there
                are more templates, only the facts of all results have details.

        Returns:
            a new dict.
        """
        now = monotonic()
        stream = self.stream
        counting = self._counting
        groups = self._groups(max_detailed_templates=detailed)
        results_per_second = self._result_rate.at(now, counting.count)
        progress = self._progress(groups["overall"], results_per_second)
        return {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "elapsed_sec": now - self._start,
            **self._fixed,
            **self._input(),
            **groups,
            COURSES: counting.history.courses(),
            "progress": progress.as_dict(),
            "results_per_sec": results_per_second,
            "in_flight": stream.in_flight,
            "rejects": dict(stream.rejects.counts),
            "questions": len(stream.reference.questions),
            "missing": len(stream.missing),
            "judge": self._judge(now),
            "journal": None if stream.journal is None else {"restored": stream.journal.restored},
            "skipped": stream.skipped,
            "misnamed": misnamed_steps(stream.reference, stream.aggregates._step_names()),
            "late": stream.late.facts(),
            "alerts": counting.alerts.facts(),
            "show": counting.show,
            "results": counting.listed(),
            "failure_texts": counting.failure_texts(),
        }

    def _input(self) -> dict[str, Any]:
        """Return how far evaluation is behind the logs, and the paths that do not exist yet.

        If the stream does not follow logs, both are unknown: how much standard input or an exporter
        of traces will send cannot be known.
        """
        if self._source is None or isinstance(self._source, JsonlFiles | OtlpReceiver):
            return {"not_found": [], "lag": None}
        lag = self._source.lag
        return {
            "not_found": self._source.not_found,
            "lag": {"bytes": lag.bytes, "seconds": lag.seconds},
        }

    def _groups(self, *, max_detailed_templates: float) -> dict[str, Any]:
        """Return the facts of all results, of templates, of tags and of judges.

        Args:
            max_detailed_templates: greatest number of templates with which each has details.
        """
        aggregates = self.stream.aggregates
        snapshot = aggregates.snapshot()
        recent = self._counting.recent.snapshot()

        overall = group_facts(snapshot["micro"], recent["micro"])
        histograms = add_detail(overall, aggregates.overall())

        template_aggregates = snapshot["per_template"]
        details: dict[str, Any] = {}
        if len(template_aggregates) <= max_detailed_templates:
            details = aggregates.per_template()
        templates = {}
        # Templates whose results are all pending have nothing but details.
        for template, group in (details | template_aggregates).items():
            templates[template] = group_facts(group, recent["per_template"].get(template))
        for template, detail in details.items():
            histograms += add_detail(templates[template], detail)

        facts: dict[str, Any] = {
            "overall": overall,
            "templates": templates,
            VARIANCES: aggregates.variances(),
        }
        tag_details = tags_of(aggregates.per_tag())
        if tag_details:
            recent_tags = tags_of(recent)
            tags = {}
            for name, detail in tag_details.items():
                tags[name] = group_facts(detail, recent_tags.get(name))
                histograms += add_detail(tags[name], detail)
            facts["tags"] = tags
            facts["tags_note"] = cut_note(snapshot)
        if "agreement" in snapshot:
            facts["agreement"] = snapshot["agreement"]
        facts[HISTOGRAMS] = histograms
        return facts

    def _progress(self, overall: Mapping[str, Any], results_per_second: float) -> RunProgress:
        """Return how far the run is.

        Args:
            overall: the facts of all results.
            results_per_second: the recent rate of results.
        """
        stream = self.stream
        results = overall["samples"]["total"]
        questions = len(stream.reference.questions)
        missing = len(stream.missing)
        answered = questions - missing
        phase, since = self._phase()

        eta_seconds: float | None = None
        # If questions are asked several times, the rate of results is not that of new questions.
        is_each_asked_once = results <= answered * MOST_RESULTS_A_QUESTION
        if phase is Phase.RUNNING and is_each_asked_once and missing and results_per_second > 0:
            eta_seconds = missing / results_per_second
        return RunProgress(
            phase=phase,
            results=results,
            errors=overall["errors"]["total"],
            rejected=stream.rejects.total,
            done=answered,
            total=questions or None,
            missing=missing,
            rate=results_per_second,
            eta_seconds=eta_seconds,
            since=since,
        )

    def _phase(self) -> tuple[Phase, datetime | None]:
        """Return what the run is doing and, if it is waiting for lines, since when."""
        stream = self.stream
        if not stream.is_restored:
            return Phase.RESTORING, None
        if stream._has_ended:
            return Phase.ENDED, None

        read = (self._counting.count, stream.rejects.total, stream.skipped, stream.in_flight)
        if read != self._read:
            self._read = read
            self._read_at = time()
        is_idle = stream.in_flight == 0 and time() - self._read_at >= WAITING_SECONDS
        if not is_idle:
            return Phase.RUNNING, None
        return Phase.WAITING, datetime.fromtimestamp(self._read_at, UTC)

    def _judge(self, now: float) -> dict[str, Any] | None:
        """Return the facts of the judge at a time in seconds; None if no metric is judged."""
        state = judge_state(self.stream.usage, self._config)
        if state is None:
            return None
        # These are requests that were sent, without calls that still wait.
        calls_per_second = self._call_rate.at(now, self.stream.usage.attempts)
        return {"calls_per_sec": calls_per_second, **state}


def complete(facts: dict[str, Any]) -> None:
    """Complete the facts that `Facts.collect` returned with what takes long to compute.

    These are confidence sequences, variances, and the state of the run. The keys from which they
    are computed are removed, so that the facts can be written as JSON.
    """
    for metric_facts, histogram in facts.pop(HISTOGRAMS, ()):
        metric_facts["confidence"] = show_confidence(histogram, facts["level"])
    for metric, compute_variance in facts.pop(VARIANCES, {}).items():
        facts["overall"]["metrics"][metric] |= compute_variance()
    courses = facts.pop(COURSES, None)
    if courses is not None:
        facts["state"] = _state(courses, facts).as_dict()


def _state(courses: Courses, facts: Mapping[str, Any]) -> RunState:
    """Return the state of a run.

    Args:
        courses: how its scores moved.
        facts: its facts, with confidence sequences.
    """
    overall = facts["overall"]
    # Only scores that are from 0 to 1 by definition have a confidence sequence.
    scores = [name for name in main_scores(overall) if "confidence" in overall["metrics"][name]]
    groups: dict[str | None, Any] = {None: overall, **facts["templates"]}
    uneven_groups = [name for name, group in groups.items() if _is_uneven(group, scores)]
    return run_state(courses, scores, facts["level"], uneven_groups=uneven_groups)


def _is_uneven(group: Mapping[str, Any], scores: Sequence[str]) -> bool:
    """Return whether the mean of a score over results visibly differs from that over questions.

    Args:
        group: the facts of a template, or of all results.
        scores: the scores to look at.
    """
    for score in scores:
        stats = group["metrics"].get(score)
        if stats is not None and abs(stats["mean"] - stats["mean_of_results"]) >= VISIBLE:
            return True
    return False
