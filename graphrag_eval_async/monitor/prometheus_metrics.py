"""The metrics for Prometheus: one table for the collector and the Grafana dashboard, and their values."""

from __future__ import annotations

from collections import Counter
from math import fsum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from graphrag_eval_async.errors import FAILURES
from graphrag_eval_async.records.line import Reason
from graphrag_eval_async.records.metrics import means_of
from graphrag_eval_async.steps.failure import CLASSES, NO_FAILURE, failure_counts
from graphrag_eval_async.text import escape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from graphrag_eval_async.aggregates.histogram import Weights
    from graphrag_eval_async.sources import Lag


class ExportedMetric(NamedTuple):
    """A metric family: its name after `PREFIX`, its type, its labels and its description."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


PREFIX = "graphrag_eval_"
OTHER = "other"
"""The label value of all templates beyond `MAX_TEMPLATES`, and of names outside a closed set."""

ABSENT = "none"
"""The value of a label that has none: Prometheus takes an empty value for no label at all."""

MAX_TEMPLATES = 50
"""How many templates have metrics of their own."""

LABEL_CHARACTERS = 200

ELAPSED = "elapsed_sec"
"""The metric of `response_seconds`."""


_HISTOGRAMS = {"score", "response_seconds"}
_TABLE = """\
results_total | template status | Results, by status: success or error.
rejects_total | reason | Responses that could not be evaluated.
failures_total | failure | Results that are wrong, by why they are.
metric_missing_total | metric reason | Results in which a metric applies but has no value, by why.
mean | template metric | Mean of all values so far: over results, not over questions.
values_total | template metric | Values that count in the mean.
mean_bound | template metric side | Ends of the confidence interval for the mean of first answers to \
questions, valid however often one looks; updated every few seconds. The level is in graphrag_eval_info.
window_mean | template metric | Mean over the values, not the questions, in the window of recent results.
quantile | metric quantile | Exact quantiles of all values so far.
score | metric | Values of scores.
response_seconds | | Seconds that responses took the agent.
judge_calls_total | outcome | Metrics that were judged, by outcome: ok, skipped (an input was missing), or \
how they failed.
judge_retries_total | kind | Requests to judges that failed and were retried, by how.
judge_tokens_total | kind | Tokens of judges: input (not from the server's cache), cached_input, output, \
embedding.
judge_cost_usd_total | | Cost of judging in US dollars, that of restored results included; absent if a \
price is unknown.
judge_in_flight | | Requests to judges in flight.
judge_queued | | Requests to judges that wait for a slot.
judge_concurrency_limit | | Current limit of requests in flight.
in_flight | | Responses that were read and have no result yet.
source_lag_bytes | | Bytes in the logs that are not evaluated yet.
source_lag_seconds | | How long there have been such bytes.
alert_active | alert | Whether an alert is active: 0 or 1.
last_result_timestamp_seconds | | Unix time of the scrape that first saw the latest result; absent before \
the first result.
templates_dropped | | Templates counted as "other": those after the first 50.
info | version reference judge_model level | 1, with facts about the run as labels; level is that of \
graphrag_eval_mean_bound.
"""


def _exported(line: str) -> ExportedMetric:
    """The metric of a line: its name, its labels and its description."""
    name, labels, text = map(str.strip, line.split("|"))
    kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
    return ExportedMetric(name, "histogram" if name in _HISTOGRAMS else kind, tuple(labels.split()), text)


METRICS = tuple(map(_exported, _TABLE.splitlines()))

SCORE_BUCKETS = tuple(tenth / 10 for tenth in range(11))
RESPONSE_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Upper ends of the buckets of histograms; the last one, infinity, is added."""

Groups: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""By label, the aggregates of a template; of all others for `OTHER`."""

Bounds: TypeAlias = "Mapping[tuple[str, str], tuple[float, float]]"
"""Confidence intervals by label of a template and metric."""

Samples: TypeAlias = "list[tuple[tuple[str, ...], float]]"
"""The values of a metric, each with the values of its labels."""


class State(NamedTuple):
    """The state of a run at one moment, which does not change any more."""

    overall: Mapping[str, Any]  # aggregates of all results
    groups: Groups  # of templates
    recent: Groups  # of their recent results
    counts: Mapping[str, Sequence[int]]  # by metric with a histogram, cumulative counts of its values
    usage: Mapping[str, Any]  # counts of the judge's calls
    rejects: Mapping[str, int]
    in_flight: int
    lag: Lag | None
    alerts: Mapping[str, bool]  # by name, whether each is active
    last_result: float | None  # Unix time at which the latest result was first seen
    dropped: int  # templates that count as `OTHER`


def label_of(text: str) -> str:
    """Return text from outside as the value of a label, which is short, visible and not empty."""
    return escape(text)[:LABEL_CHARACTERS] or ABSENT


def _by_metric(groups: Groups) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """Yield label, metric and its statistics."""
    for label, group in groups.items():
        for metric, stats in means_of(group).items():
            yield (label, metric), stats


def _values(stats: Mapping[str, Any]) -> int:
    return int(stats["coverage"]["values"])


def rest_of(overall: Mapping[str, Any], groups: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the aggregates of all templates but those in `groups`, without a look at each of them."""
    rest: dict[str, Any] = {
        key: overall[key] - sum(group[key] for group in groups)
        for key in ("number_of_success_samples", "number_of_error_samples")
    }
    for metric, stats in means_of(overall).items():
        parts = [group[metric] for group in groups if "mean" in group.get(metric, ())]
        if count := _values(stats) - sum(map(_values, parts)):
            sums = [stats["mean"] * _values(stats), *(-part["mean"] * _values(part) for part in parts)]
            rest[metric] = {"mean": fsum(sums) / count, "coverage": {"values": count}}
            weights = [stats["weights"], *(part["weights"] for part in parts)]
            if None not in weights:
                left = (max(0.0, each[0] - fsum(each[1:])) for each in zip(*weights, strict=True))
                rest[metric]["weights"] = (*left,)
    return rest


def weights_of(groups: Groups) -> Iterator[tuple[tuple[str, str], Weights]]:
    """Yield the weights of each metric from 0 to 1, of which confidence intervals are computed."""
    for key, stats in _by_metric(groups):
        if (weights := stats.get("weights")) is not None:
            yield key, weights


def families(state: State | None, bounds: Bounds, about: Sequence[str | None]) -> Iterator[Metric]:
    """Yield the metrics of the table, without samples if there is no state."""
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    samples = {} if state is None else _samples(state, bounds, about)
    plain = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
    for name, kind, labels, text in METRICS:
        if kind == "histogram":
            histogram = HistogramMetricFamily(PREFIX + name, text, labels=labels)
            for metric, buckets, total in () if state is None else _histograms(state, name):
                histogram.add_metric(metric, buckets, total)
            yield histogram
        else:
            family = plain[kind](PREFIX + name, text, labels=labels)
            for values, number in samples.get(name, ()):
                family.add_metric([*map(label_of, values)], number)
            yield family


def _samples(state: State, bounds: Bounds, about: Sequence[str | None]) -> dict[str, Samples]:
    overall, usage, metrics = state.overall, state.usage, [*_by_metric(state.groups)]
    coverage = {
        name: each["coverage"]
        for name, each in overall.items()
        if isinstance(each, dict) and "coverage" in each
    }
    return {
        "results_total": [
            ((label, status), group[f"number_of_{status}_samples"])
            for label, group in state.groups.items()
            for status in ("success", "error")
        ],
        "rejects_total": _closed(state.rejects, get_args(Reason)),
        "failures_total": _closed(failure_counts(overall), (name for name in CLASSES if name != NO_FAILURE)),
        "metric_missing_total": [
            ((metric, reason), count)
            for metric, each in coverage.items()
            for reason, count in each["failed"].items()
        ],
        "mean": [(key, stats["mean"]) for key, stats in metrics],
        "values_total": [(key, _values(stats)) for key, stats in metrics],
        "mean_bound": [
            ((*key, side), end)
            for key, ends in bounds.items()
            for side, end in zip(("low", "high"), ends, strict=True)
        ],
        "window_mean": [(key, stats["mean"]) for key, stats in _by_metric(state.recent)],
        "quantile": [
            ((metric, f"{int(name[1:]) / 100:g}"), value)
            for metric, stats in means_of(overall).items()
            for name, value in stats["quantiles"].items()
        ],
        "alert_active": [((alert,), int(is_on)) for alert, is_on in state.alerts.items()],
        "info": [(tuple(each or ABSENT for each in about), 1)],
        "judge_calls_total": _closed(usage["outcomes"], ("ok", "skipped", *FAILURES)),
        "judge_retries_total": _closed(usage["retries"], FAILURES),
        "judge_tokens_total": [
            (("input",), usage["input_tokens"] - usage["cached_tokens"]),
            (("cached_input",), usage["cached_tokens"]),
            (("output",), usage["output_tokens"]),
            (("embedding",), usage["embedding_tokens"]),
        ],
        "judge_cost_usd_total": _single(usage["dollars"]),
        "judge_in_flight": _single(usage["in_flight"]),
        "judge_queued": _single(usage["waiting"]),
        "judge_concurrency_limit": _single(usage["concurrency"]),
        "in_flight": _single(state.in_flight),
        "source_lag_bytes": _single(state.lag and state.lag.bytes),
        "source_lag_seconds": _single(state.lag and state.lag.seconds),
        "last_result_timestamp_seconds": _single(state.last_result),
        "templates_dropped": _single(state.dropped),
    }


def _closed(counts: Mapping[str, int], known: Iterable[str]) -> Samples:
    """Return counts for all `known` names, 0 by default; others count as `OTHER`."""
    found = Counter(dict.fromkeys(known, 0))
    for name, count in counts.items():
        found[name if name in found else OTHER] += count
    return [((name,), count) for name, count in found.items()]


def _single(value: float | None) -> Samples:
    return [] if value is None else [((), value)]


def _histograms(state: State, name: str) -> Iterator[tuple[list[str], list[tuple[str, float]], float]]:
    """Yield labels, cumulative counts by bucket, and the sum, of each histogram with this name."""
    of_score = name == "score"
    ends = [*map(str, SCORE_BUCKETS if of_score else RESPONSE_BUCKETS), "+Inf"]
    for metric, counts in state.counts.items():
        if of_score is (metric != ELAPSED):
            stats = state.overall.get(metric, {})
            total = stats.get("sum", stats.get("mean", 0.0) * counts[-1])
            yield [label_of(metric)] if of_score else [], [*zip(ends, counts, strict=True)], total
