"""The metrics for Prometheus: one table for the collector and the Grafana dashboard."""

from __future__ import annotations

from typing import Literal, NamedTuple


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

ELAPSED = "elapsed_sec"
"""The metric of `response_seconds`."""

_BY_METRIC = ("template", "metric")

METRICS = (
    ExportedMetric(
        "results_total", "counter", ("template", "status"), "Results, by status: success or error."
    ),
    ExportedMetric("rejects_total", "counter", ("reason",), "Responses that could not be evaluated."),
    ExportedMetric("failures_total", "counter", ("failure",), "Results that are wrong, by why they are."),
    ExportedMetric(
        "metric_missing_total",
        "counter",
        ("metric", "reason"),
        "Results in which a metric applies but has no value, by why.",
    ),
    ExportedMetric(
        "mean", "gauge", _BY_METRIC, "Mean of all values so far: over results, not over questions."
    ),
    ExportedMetric("values_total", "counter", _BY_METRIC, "Values that count in the mean."),
    ExportedMetric(
        "mean_bound",
        "gauge",
        (*_BY_METRIC, "side"),
        "Ends of the confidence interval for the mean of first answers to questions, valid however often one "
        "looks; updated every few seconds. The level is in graphrag_eval_info.",
    ),
    ExportedMetric(
        "window_mean",
        "gauge",
        _BY_METRIC,
        "Mean over the values, not the questions, in the window of recent results.",
    ),
    ExportedMetric("quantile", "gauge", ("metric", "quantile"), "Exact quantiles of all values so far."),
    ExportedMetric("score", "histogram", ("metric",), "Values of scores."),
    ExportedMetric("response_seconds", "histogram", (), "Seconds that responses took the agent."),
    ExportedMetric(
        "judge_calls_total",
        "counter",
        ("outcome",),
        "Metrics that were judged, by outcome: ok, skipped (an input was missing), or how they failed.",
    ),
    ExportedMetric(
        "judge_retries_total",
        "counter",
        ("kind",),
        "Requests to judges that failed and were retried, by how.",
    ),
    ExportedMetric(
        "judge_tokens_total",
        "counter",
        ("kind",),
        "Tokens of judges: input (not from the server's cache), cached_input, output, embedding.",
    ),
    ExportedMetric(
        "judge_cost_usd_total",
        "counter",
        (),
        "Cost of judging in US dollars, that of restored results included; absent if a price is unknown.",
    ),
    ExportedMetric("judge_in_flight", "gauge", (), "Requests to judges in flight."),
    ExportedMetric("judge_queued", "gauge", (), "Requests to judges that wait for a slot."),
    ExportedMetric("judge_concurrency_limit", "gauge", (), "Current limit of requests in flight."),
    ExportedMetric("in_flight", "gauge", (), "Responses that were read and have no result yet."),
    ExportedMetric("source_lag_bytes", "gauge", (), "Bytes in the logs that are not evaluated yet."),
    ExportedMetric("source_lag_seconds", "gauge", (), "How long there have been such bytes."),
    ExportedMetric("alert_active", "gauge", ("alert",), "Whether an alert is active: 0 or 1."),
    ExportedMetric(
        "last_result_timestamp_seconds",
        "gauge",
        (),
        "Unix time of the scrape that first saw the latest result; absent before the first result.",
    ),
    ExportedMetric(
        "templates_dropped",
        "gauge",
        (),
        f'Templates counted as "{OTHER}": those after the first {MAX_TEMPLATES}.',
    ),
    ExportedMetric(
        "info",
        "gauge",
        ("version", "reference", "judge_model", "level"),
        "1, with facts about the run as labels; level is that of graphrag_eval_mean_bound.",
    ),
)

SCORE_BUCKETS = tuple(tenth / 10 for tenth in range(11))
RESPONSE_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Upper ends of the buckets of histograms; the last one, infinity, is added."""
