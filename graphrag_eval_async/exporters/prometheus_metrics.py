"""The metrics for Prometheus: one table for the collector and the Grafana dashboard, and their
values.
"""

from __future__ import annotations

from collections import Counter
from math import fsum, inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from graphrag_eval_async.catalogue.metrics import is_score
from graphrag_eval_async.errors import FAILURES
from graphrag_eval_async.records.line import Reason
from graphrag_eval_async.records.snapshots import means_of
from graphrag_eval_async.steps.failure import CLASSES, NO_FAILURE, failure_counts
from graphrag_eval_async.text import escape

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
# The label value of all templates beyond `MAX_TEMPLATES`, and of names outside a closed set.
OTHER = "other"
# The value of a label that has none: Prometheus takes an empty value for no label at all.
ABSENT = "none"
MAX_TEMPLATES = 50  # How many templates have metrics of their own.

LABEL_CHARACTERS = 200


_HISTOGRAMS = {"score", "response_seconds"}
_TABLE = """\
results_total | template status | Results, by status: success or error.
rejects_total | reason | Rejects, by reason.
failures_total | failure | Wrong responses, by reason.
mean | template metric | Mean of all values so far: over results, not over questions.
window_mean | template metric | Mean over the values, not the questions, in the window of recent \
results.
score | metric | Values of metrics, except tokens, seconds and costs.
response_seconds | | Seconds the agent took to respond.
judge_calls_total | outcome | Metrics that were judged, by outcome: ok, no_value (there was none), \
skipped (an input was missing), or how they failed.
judge_retries_total | kind | Requests to judges that failed and were retried, by kind.
judge_tokens_total | kind | Tokens of judges: input (not from the server's cache), cached_input, \
output, embedding.
judge_cost_usd_total | | Cost of judging in US dollars, including restored results; absent if a \
price is unknown.
judge_in_flight | | Requests to judges in flight.
in_flight | | Responses that were read and have no result yet.
source_lag_bytes | | Bytes in the logs that are not evaluated yet.
source_lag_seconds | | Seconds since the log was last fully evaluated.
alert_active | alert | Whether an alert is active: 0 or 1.
last_result_timestamp_seconds | | Unix time of the scrape that first saw the latest result; \
absent before the first result.
info | version reference judge_model | 1, with facts about the run as labels.
"""


def _exported(line: str) -> ExportedMetric:
    """The metric of a line: its name, its labels and its description."""
    name, labels, text = map(str.strip, line.split("|"))
    kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
    return ExportedMetric(
        name, "histogram" if name in _HISTOGRAMS else kind, tuple(labels.split()), text
    )


METRICS = tuple(map(_exported, _TABLE.splitlines()))

SCORE_BUCKETS = tuple(tenth / 10 for tenth in range(11))
RESPONSE_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Upper ends of the buckets of histograms; the last one, infinity, is added."""

Groups: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""By label, the aggregates of a template; of all others for `OTHER`."""

Samples: TypeAlias = "list[tuple[tuple[str, ...], float]]"
"""The values of a metric, each with the values of its labels."""

Histograms: TypeAlias = "list[tuple[list[str], list[tuple[str, float]], float]]"


def label_of(text: str) -> str:
    """Return text from outside as the value of a label, which is short, visible and not empty."""
    return escape(text)[:LABEL_CHARACTERS] or ABSENT


def _means(groups: Groups) -> Samples:
    """The mean of each metric in each group."""
    return [
        ((label, metric), stats["mean"])
        for label, group in groups.items()
        for metric, stats in means_of(group).items()
    ]


def _values(stats: Mapping[str, Any]) -> int:
    return int(stats["coverage"]["values"])


def rest_of(overall: Mapping[str, Any], groups: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the aggregates of all templates but those in `groups`, without a look at each of
    them.
    """
    rest: dict[str, Any] = {
        key: overall[key] - sum(group[key] for group in groups)
        for key in ("number_of_success_samples", "number_of_error_samples")
    }
    for metric, stats in means_of(overall).items():
        parts = [group[metric] for group in groups if "mean" in group.get(metric, ())]
        if count := _values(stats) - sum(map(_values, parts)):
            sums = [
                stats["mean"] * _values(stats),
                *(-part["mean"] * _values(part) for part in parts),
            ]
            rest[metric] = {"mean": fsum(sums) / count, "coverage": {"values": count}}
    return rest


def families(
    samples: Mapping[str, Samples], histograms: Mapping[str, Histograms]
) -> Iterator[Metric]:
    """Yield the metrics of the table."""
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    plain = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
    for name, kind, labels, text in METRICS:
        if kind == "histogram":
            histogram = HistogramMetricFamily(PREFIX + name, text, labels=labels)
            for metric, buckets, total in histograms.get(name, ()):
                histogram.add_metric(metric, buckets, total)
            yield histogram
        else:
            family = plain[kind](PREFIX + name, text, labels=labels)
            for values, number in samples.get(name, ()):
                family.add_metric([*map(label_of, values)], number)
            yield family


def samples_of(
    stream: EvaluationStream,
    overall: Mapping[str, Any],
    groups: Groups,
    recent: Groups,
    about: Sequence[str | None],
) -> dict[str, Samples]:
    """The values of all metrics that a stream and its aggregates have at this moment."""
    usage = stream.usage.as_dict()
    return {
        "results_total": [
            ((label, status), group[f"number_of_{status}_samples"])
            for label, group in groups.items()
            for status in ("success", "error")
        ],
        "rejects_total": _closed(
            {str(each): n for each, n in stream.rejects.counts.items()}, get_args(Reason)
        ),
        "failures_total": _closed(
            failure_counts(overall), (name for name in CLASSES if name != NO_FAILURE)
        ),
        "mean": _means(groups),
        "window_mean": _means(recent),
        "info": [(tuple(each or ABSENT for each in about), 1)],
        "judge_calls_total": _closed(usage["outcomes"], ("ok", "no_value", "skipped", *FAILURES)),
        "judge_retries_total": _closed(usage["retries"], FAILURES),
        "judge_tokens_total": [
            (("input",), usage["input_tokens"] - usage["cached_tokens"]),
            (("cached_input",), usage["cached_tokens"]),
            (("output",), usage["output_tokens"]),
            (("embedding",), usage["embedding_tokens"]),
        ],
        "judge_cost_usd_total": single(usage["dollars"]),
        "judge_in_flight": single(usage["in_flight"]),
        "in_flight": single(stream.in_flight),
    }


def _closed(counts: Mapping[str, int], known: Iterable[str]) -> Samples:
    """Return counts for all `known` names, 0 by default; others count as `OTHER`."""
    found = Counter(dict.fromkeys(known, 0))
    for name, count in counts.items():
        found[name if name in found else OTHER] += count
    return [((name,), count) for name, count in found.items()]


def single(value: float | None) -> Samples:
    return [] if value is None else [((), value)]


def histograms_of(
    aggregates: RunningAggregates, overall: Mapping[str, Any]
) -> dict[str, Histograms]:
    """Labels, cumulative counts by bucket, and the sum, of each histogram, by name."""

    def histogram(metric: str, ends: Sequence[float]) -> tuple[list[tuple[str, float]], float]:
        counts = aggregates.cumulative_counts(metric, (*ends, inf))
        stats = overall.get(metric, {})
        total = stats.get("sum", stats.get("mean", 0.0) * counts[-1])
        return [*zip([*map(str, ends), "+Inf"], counts, strict=True)], total

    scores = filter(is_score, means_of(overall))
    return {
        "score": [([label_of(metric)], *histogram(metric, SCORE_BUCKETS)) for metric in scores],
        "response_seconds": [([], *histogram("elapsed_sec", RESPONSE_BUCKETS))],
    }
