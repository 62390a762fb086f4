"""The metrics for Prometheus: one table for the collector and the Grafana dashboard, and their
values.
"""

from __future__ import annotations

from collections import Counter
from math import fsum, inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score
from graphrag_eval_async.errors import FAILURES
from graphrag_eval_async.helpers.text import escape
from graphrag_eval_async.records.line import Reason
from graphrag_eval_async.records.snapshots import mean_of_questions, means_of
from graphrag_eval_async.steps.failure import CLASSES, NO_FAILURE, failure_counts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.stream import EvaluationStream


class ExportedMetric(NamedTuple):
    """A metric family: its name after `PREFIX`, its type, its labels and its description."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


PREFIX = "graphrag_eval_"

MAX_TEMPLATES = 50
"""Number of templates that have a label value of their own."""

OTHER = "other"
"""The label value of all templates beyond `MAX_TEMPLATES`, and of names outside a closed set."""

ABSENT = "none"
"""The value of a label that has none: Prometheus takes an empty value for no label at all."""

LABEL_CHARACTERS = 200
"""Maximum length of a label value."""

METRICS = (
    ExportedMetric(
        name="results_total",
        kind="counter",
        labels=("template", "status"),
        help="Results, by status: success or error.",
    ),
    ExportedMetric(
        name="rejects_total", kind="counter", labels=("reason",), help="Rejects, by reason."
    ),
    ExportedMetric(
        name="failures_total",
        kind="counter",
        labels=("failure",),
        help="Wrong responses, by reason.",
    ),
    ExportedMetric(
        name="overall_mean",
        kind="gauge",
        labels=("metric",),
        help="Mean over all questions, each the mean of its values so far; of scores only.",
    ),
    ExportedMetric(
        name="overall_window_mean",
        kind="gauge",
        labels=("metric",),
        help="Mean over all questions in the window of recent results; of scores only.",
    ),
    ExportedMetric(
        name="error_rate",
        kind="gauge",
        labels=(),
        help="Share of responses that are errors: the mean over questions.",
    ),
    ExportedMetric(
        name="mean",
        kind="gauge",
        labels=("template", "metric"),
        help="Mean over the questions of a template, each the mean of its values so far.",
    ),
    ExportedMetric(
        name="window_mean",
        kind="gauge",
        labels=("template", "metric"),
        help="Mean over the questions of a template in the window of recent results.",
    ),
    ExportedMetric(
        name="score",
        kind="histogram",
        labels=("metric",),
        help="Values of metrics, except tokens, seconds and costs: one for each result.",
    ),
    ExportedMetric(
        name="response_seconds",
        kind="histogram",
        labels=(),
        help="Seconds the agent took to respond.",
    ),
    ExportedMetric(
        name="judge_calls_total",
        kind="counter",
        labels=("outcome",),
        help=(
            "Metrics that were judged, by outcome: ok, no_value (there was none), skipped (an "
            "input was missing), or how they failed."
        ),
    ),
    ExportedMetric(
        name="judge_retries_total",
        kind="counter",
        labels=("kind",),
        help="Requests to judges that failed and were retried, by kind.",
    ),
    ExportedMetric(
        name="judge_tokens_total",
        kind="counter",
        labels=("kind",),
        help=(
            "Tokens of judges: input (not from the server's cache), cached_input, output, "
            "embedding."
        ),
    ),
    ExportedMetric(
        name="judge_cost_usd_total",
        kind="counter",
        labels=(),
        help=(
            "Cost of judging in US dollars, including restored results; absent if a price is "
            "unknown."
        ),
    ),
    ExportedMetric(
        name="judge_in_flight", kind="gauge", labels=(), help="Requests to judges in flight."
    ),
    ExportedMetric(
        name="in_flight",
        kind="gauge",
        labels=(),
        help="Responses that were read and have no result yet.",
    ),
    ExportedMetric(
        name="source_lag_bytes",
        kind="gauge",
        labels=(),
        help="Bytes in the logs that are not evaluated yet.",
    ),
    ExportedMetric(
        name="source_lag_seconds",
        kind="gauge",
        labels=(),
        help="Seconds since the log was last fully evaluated.",
    ),
    ExportedMetric(
        name="alert_active",
        kind="gauge",
        labels=("alert",),
        help="Whether an alert is active: 0 or 1.",
    ),
    ExportedMetric(
        name="last_result_timestamp_seconds",
        kind="gauge",
        labels=(),
        help=(
            "Unix time of the scrape that first saw the latest result; absent before the first "
            "result."
        ),
    ),
    ExportedMetric(
        name="info",
        kind="gauge",
        labels=("version", "reference", "judge_model"),
        help="1, with facts about the run as labels.",
    ),
)
"""All metrics that are exported."""

SCORE_BUCKETS = tuple(tenth / 10 for tenth in range(11))
"""Upper ends of the buckets of scores; that of a last one, infinity, is added."""

RESPONSE_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Upper ends of the buckets of seconds; that of a last one, infinity, is added."""

Groups: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""By label value, the aggregates of a template; of all others for `OTHER`."""


class Sample(NamedTuple):
    """A value of a counter or gauge.

    Attributes:
        value: the value.
        labels: the values of its labels, in the order of the metric's labels.
    """

    value: float
    labels: tuple[str, ...] = ()


class HistogramSample(NamedTuple):
    """A histogram.

    Attributes:
        buckets: for each bucket, its upper end, and the number of values up to it.
        total: the sum of all values.
        labels: the values of its labels, in the order of the metric's labels.
    """

    buckets: list[tuple[str, float]]
    total: float
    labels: tuple[str, ...] = ()


class Scrape(NamedTuple):
    """The values of all metrics at one moment, by the name of the metric.

    Attributes:
        samples: those of counters and gauges.
        histograms: those of histograms.
    """

    samples: Mapping[str, Sequence[Sample]]
    histograms: Mapping[str, Sequence[HistogramSample]]


def label_of(text: str) -> str:
    """Return text from outside as the value of a label, which is short, visible and not empty."""
    return escape(text)[:LABEL_CHARACTERS] or ABSENT


def _means_by_template(groups: Groups) -> list[Sample]:
    """Return samples of the mean over questions, for each metric of each group."""
    samples = []
    for label, group in groups.items():
        for metric, stats in means_of(group).items():
            samples.append(Sample(mean_of_questions(stats), labels=(label, metric)))
    return samples


def _overall_means(overall: Mapping[str, Any]) -> list[Sample]:
    """Return samples of the mean over all questions, for each score."""
    return [
        Sample(mean_of_questions(stats), labels=(metric,))
        for metric, stats in means_of(overall).items()
        if is_score(metric)
    ]


def rest_of(overall: Mapping[str, Any], groups: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the aggregates of all templates together, except for those in `groups`.

    They are what is left if `groups` are subtracted from the aggregates of all templates, so that
    thousands of templates take no time.

    Args:
        overall: the aggregates of all templates.
        groups: the aggregates of the templates to leave out.
    """
    rest: dict[str, Any] = {
        key: overall[key] - sum(group[key] for group in groups)
        for key in ("number_of_success_samples", "number_of_error_samples")
    }
    for metric, stats in means_of(overall).items():
        parts = [group[metric] for group in groups if "mean" in group.get(metric, ())]
        # Means are over questions, unless some results do not name their question.
        knows_questions = all("questions" in part for part in (stats, *parts))
        count_of = _questions if knows_questions else _values
        count = count_of(stats) - sum(map(count_of, parts))
        if count > 0:
            # Sums are computed from means, since a sum may be too large for a double.
            total = mean_of_questions(stats) * count_of(stats)
            negative_sums = [-mean_of_questions(part) * count_of(part) for part in parts]
            rest[metric] = {"mean": fsum([total, *negative_sums]) / count}
    return rest


def _questions(stats: Mapping[str, Any]) -> int:
    """Return the number of questions that have a value of a metric."""
    return int(stats["questions"])


def _values(stats: Mapping[str, Any]) -> int:
    """Return the number of values of a metric."""
    return int(stats["coverage"]["values"])


def families(scrape: Scrape) -> Iterator[Metric]:
    """Yield all metrics with their values, in the layout of `prometheus_client`."""
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    for metric in METRICS:
        name = PREFIX + metric.name
        if metric.kind == "histogram":
            histogram = HistogramMetricFamily(name, metric.help, labels=metric.labels)
            for distribution in scrape.histograms.get(metric.name, ()):
                labels = [label_of(value) for value in distribution.labels]
                histogram.add_metric(labels, distribution.buckets, distribution.total)
            yield histogram
            continue

        family_class = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = family_class(name, metric.help, labels=metric.labels)
        for sample in scrape.samples.get(metric.name, ()):
            family.add_metric([label_of(value) for value in sample.labels], sample.value)
        yield family


def samples_of(
    stream: EvaluationStream,
    overall: Mapping[str, Any],
    groups: Groups,
    recent: Mapping[str, Any] | None,
    recent_groups: Groups,
    about: Sequence[str | None],
) -> dict[str, list[Sample]]:
    """Return the values of the metrics that a stream and its aggregates know.

    Args:
        stream: the stream.
        overall: the aggregates of all its results, with details.
        groups: the aggregates of templates, by label.
        recent: the aggregates of the results in the window; None without a window.
        recent_groups: the aggregates of templates over the window, by label.
        about: the values of the labels of `info`; None for values that are not known.
    """
    usage = stream.usage.as_dict()
    rejects = {str(reason): count for reason, count in stream.rejects.counts.items()}
    failures = [name for name in CLASSES if name != NO_FAILURE]
    results = [
        Sample(group[f"number_of_{status}_samples"], labels=(label, status))
        for label, group in groups.items()
        for status in ("success", "error")
    ]
    # Cached tokens are a part of the input, and are shown apart.
    tokens_by_kind = {
        "input": usage["input_tokens"] - usage["cached_tokens"],
        "cached_input": usage["cached_tokens"],
        "output": usage["output_tokens"],
        "embedding": usage["embedding_tokens"],
    }
    return {
        "results_total": results,
        "rejects_total": _counts_of_known(rejects, get_args(Reason)),
        "failures_total": _counts_of_known(failure_counts(overall), failures),
        "overall_mean": _overall_means(overall),
        "overall_window_mean": [] if recent is None else _overall_means(recent),
        "error_rate": single(overall.get(ERROR_RATE)),
        "mean": _means_by_template(groups),
        "window_mean": _means_by_template(recent_groups),
        "info": [Sample(1, labels=tuple(value or ABSENT for value in about))],
        "judge_calls_total": _counts_of_known(
            usage["outcomes"], ("ok", "no_value", "skipped", *FAILURES)
        ),
        "judge_retries_total": _counts_of_known(usage["retries"], FAILURES),
        "judge_tokens_total": [
            Sample(count, labels=(kind,)) for kind, count in tokens_by_kind.items()
        ],
        "judge_cost_usd_total": single(usage["dollars"]),
        "judge_in_flight": single(usage["in_flight"]),
        "in_flight": single(stream.in_flight),
    }


def _counts_of_known(counts: Mapping[str, int], known: Iterable[str]) -> list[Sample]:
    """Return samples of counts by name, with a label for each known name.

    Args:
        counts: the counts; a known name may be missing, and counts 0 then.
        known: the names that have a label. All other names count together as `OTHER`.
    """
    counts_by_label = Counter(dict.fromkeys(known, 0))
    for name, count in counts.items():
        label = name if name in counts_by_label else OTHER
        counts_by_label[label] += count
    return [Sample(count, labels=(label,)) for label, count in counts_by_label.items()]


def single(value: float | None) -> list[Sample]:
    """Return the values of a metric without labels: one, or none if `value` is None."""
    if value is None:
        return []
    return [Sample(value)]


def histograms_of(
    aggregates: RunningAggregates, overall: Mapping[str, Any]
) -> dict[str, list[HistogramSample]]:
    """Return the histograms of scores and of the seconds of responses.

    Args:
        aggregates: the aggregates of all results.
        overall: the statistics over all templates from these aggregates, with details.
    """
    scores = []
    for metric, stats in means_of(overall).items():
        if is_score(metric):
            scores.append(_histogram(aggregates, metric, stats, SCORE_BUCKETS, labels=(metric,)))
    seconds = overall.get("elapsed_sec", {})
    return {
        "score": scores,
        "response_seconds": [_histogram(aggregates, "elapsed_sec", seconds, RESPONSE_BUCKETS)],
    }


def _histogram(
    aggregates: RunningAggregates,
    metric: str,
    stats: Mapping[str, Any],
    bounds: Sequence[float],
    *,
    labels: tuple[str, ...] = (),
) -> HistogramSample:
    """Return the histogram of the values of a metric.

    Args:
        aggregates: the aggregates of all results.
        metric: the name of the metric.
        stats: its statistics; empty without values.
        bounds: the upper ends of the buckets, without infinity.
        labels: the values of the labels.
    """
    counts = aggregates.cumulative_counts(metric, (*bounds, inf))
    ends = [*map(str, bounds), "+Inf"]
    buckets: list[tuple[str, float]] = list(zip(ends, counts, strict=True))
    # The statistics have no sum if it is beyond the largest double; they still have the mean.
    total = stats.get("sum", stats.get("mean", 0.0) * counts[-1])
    return HistogramSample(buckets, total, labels)
