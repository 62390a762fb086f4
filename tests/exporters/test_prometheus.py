"""Metrics for Prometheus, and the dashboard for Grafana that shows them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import threading
from collections import Counter
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import (
    Last,
    PrometheusCollector,
    RunningAggregates,
    UsageError,
    evaluate_stream,
)
from graphrag_eval_async.exporters.prometheus import MetricsServer
from graphrag_eval_async.exporters.prometheus_metrics import (
    LABEL_CHARACTERS,
    MAX_TEMPLATES,
    METRICS,
    PREFIX,
    RESPONSE_BUCKETS,
    SCORE_BUCKETS,
)
from graphrag_eval_async.records.snapshots import mean_of_questions
from tests.cli.support import REFERENCE, failed, response, run
from tests.support.dashboard import fetch
from tests.support.deadlines import WAIT_SECONDS, until
from tests.support.prometheus import Values, get, scrape
from tests.support.summaries import JUDGE, LAG, MODEL, with_answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

pytest.importorskip("prometheus_client", reason="needs the extra prometheus")
from prometheus_client import CollectorRegistry, generate_latest


def responses(count: int) -> list[Any]:
    chance = Random(count)
    found = []
    for _ in range(count):
        taken = {"actual_answer": "a", "elapsed_sec": round(chance.expovariate(0.1), 2)}
        answered = response(chance.choice(["q1", "q2", "q3"]), chance.random() < 0.7, **taken)
        found.append(failed("q3") if chance.random() < 0.1 else answered)
    return found


async def judged(
    count: int,
) -> tuple[Any, PrometheusCollector, RunningAggregates, list[dict[str, Any]]]:
    """A finished run: its stream, aggregates of its window, and its results."""
    stream = evaluate_stream(
        with_answers(REFERENCE),
        [*responses(count), b"{"],
        config={"llm": {"generation": MODEL}, "answer_correctness": {}},
        judge=JUDGE,
    )
    recent, alerts = RunningAggregates(window=Last(5)), {"a < 1": True, "b > 2": False}
    collector = PrometheusCollector(
        stream, recent=recent, source=LAG, alerts=lambda: alerts, judge_model="m"
    )
    results = [result async for result in stream]
    for result in results:
        recent.add(result)
    return stream, collector, recent, results


def check_groups(found: Values, snapshot: dict[str, Any], recent: dict[str, Any]) -> None:
    """The means and counts of templates are those of a snapshot."""
    for template, group in snapshot["per_template"].items():
        for status in ("success", "error"):
            results = get(found, "results_total", template=template, status=status)
            assert results == group[f"number_of_{status}_samples"]
        for metric, stats in group.items():
            if isinstance(stats, dict) and "mean" in stats:
                labels = {"template": template, "metric": metric}
                assert get(found, "mean", **labels) == mean_of_questions(stats)
                shown = recent["per_template"].get(template, {}).get(metric)
                expected = None if shown is None else mean_of_questions(shown)
                assert get(found, "window_mean", **labels) == expected


async def test_metrics_are_those_of_the_snapshot_and_of_the_results() -> None:
    stream, collector, recent, results = await judged(200)
    found = scrape(collector)
    snapshot = stream.aggregates.snapshot(detail=True)
    windowed = recent.snapshot()
    check_groups(found, snapshot, windowed)
    micro = snapshot["micro"]
    score = micro["steps_score"]
    assert score["mean_of_questions"] != score["mean"], "so that the right one is told apart"
    assert get(found, "overall_mean", metric="steps_score") == score["mean_of_questions"]
    recent_score = windowed["micro"]["steps_score"]["mean_of_questions"]
    assert get(found, "overall_window_mean", metric="steps_score") == recent_score
    assert get(found, "overall_mean", metric="elapsed_sec") is None
    assert get(found, "error_rate") == micro["error_rate"]
    seconds = [result["elapsed_sec"] for result in results if result["status"] == "success"]
    for end in RESPONSE_BUCKETS:
        assert get(found, "response_seconds_bucket", le=str(end)) == sum(
            each <= end for each in seconds
        )
    assert get(found, "response_seconds_bucket", le="+Inf") == len(seconds)
    assert get(found, "response_seconds_count") == len(seconds)
    assert get(found, "response_seconds_sum") == micro["elapsed_sec"]["sum"]
    scores = [result["steps_score"] for result in results if result["steps_score"] is not None]
    for end in SCORE_BUCKETS:
        counted = get(found, "score_bucket", metric="steps_score", le=str(end))
        assert counted == sum(each <= end for each in scores)
    assert get(found, "score_sum", metric="steps_score") == micro["steps_score"]["sum"]
    failures = Counter(result["failure"] for result in results)
    for failure in ("wrong_query_result", "no_steps", "no_answer"):
        assert get(found, "failures_total", failure=failure) == failures[failure]
    assert get(found, "failures_total", failure="none") is None
    assert get(found, "rejects_total", reason="invalid_json") == 1
    assert get(found, "rejects_total", reason="too_long") == 0
    assert get(found, "judge_calls_total", outcome="ok") == stream.usage.outcomes["ok"] > 0
    assert get(found, "judge_calls_total", outcome="timeout") == 0
    assert (get(found, "source_lag_bytes"), get(found, "source_lag_seconds")) == (12, 0.5)
    assert (
        get(found, "alert_active", alert="a < 1"),
        get(found, "alert_active", alert="b > 2"),
    ) == (1, 0)
    [info] = [dict(labels) for name, labels in found if name == "info"]
    assert (info["judge_model"], info["reference"]) == ("m", "none")
    when = get(found, "last_result_timestamp_seconds")
    assert when is not None
    assert get(scrape(collector), "last_result_timestamp_seconds") == when
    names = {
        name.removesuffix(end) for name, _ in found for end in ("", "_bucket", "_sum", "_count")
    }
    assert names >= {metric.name for metric in METRICS}


async def test_another_thread_scrapes_while_the_stream_runs() -> None:
    """Counters never fall, and every scrape is of one moment."""
    is_over, scraped = threading.Event(), list[Values]()

    def keep_scraping() -> None:
        while not is_over.is_set():
            scraped.append(scrape(collector))

    async def source() -> AsyncIterator[Any]:
        for i, each in enumerate(responses(1000)):
            yield each
            await until(lambda: len(scraped) >= i // 150)  # noqa: B023

    stream = evaluate_stream(REFERENCE, source())
    collector = PrometheusCollector(stream)
    scraping = asyncio.create_task(asyncio.to_thread(keep_scraping))
    async for _ in stream:
        await asyncio.sleep(0)
    is_over.set()
    await scraping
    for before, after in pairwise([*scraped, last := await asyncio.to_thread(scrape, collector)]):
        for key, value in before.items():
            if key[0].endswith(("_total", "_bucket", "_count")):
                assert after[key] >= value
        results = {
            labels: value for (name, labels), value in after.items() if name == "results_total"
        }
        successes = sum(
            value for labels, value in results.items() if ("status", "success") in labels
        )
        assert get(after, "response_seconds_count") == successes
    check_groups(last, stream.aggregates.snapshot(detail=True), {"per_template": {}})


def scraped_templates(templates: Iterable[str]) -> tuple[Values, set[str]]:
    """A scrape of a run with one result for each template, and their labels."""
    stream = evaluate_stream(None, [])
    collector = PrometheusCollector(stream)
    for i, template in enumerate(templates):
        stream.aggregates.add({"template_id": template, "question_id": "q", "elapsed_sec": i})
        if i == 10:
            collector.collect()
    found = scrape(collector)
    return found, {dict(labels)["template"] for name, labels in found if name == "results_total"}


HOSTILE = [
    "",
    "other",
    'a"b\\c',
    "a\nb",
    "\x1b[31m",
    "\u202e",
    "\ud800",
    "\udfff",
    "x" * 10_000,
    "x" * 9_999,
]


async def test_names_from_outside_are_bounded_and_escaped() -> None:
    found, labels = scraped_templates(HOSTILE)
    assert labels >= {
        "none",
        "other",
        'a"b\\c',
        "a\nb",
        "\\x1b[31m",
        "\\u202e",
        "\\ud800",
        "\\udfff",
    }
    assert max(map(len, labels)) == LABEL_CHARACTERS
    counts = {
        label: get(found, "results_total", template=label, status="success") for label in labels
    }
    assert sum(filter(None, counts.values())) == len(HOSTILE)
    assert counts["x" * LABEL_CHARACTERS] == 1


async def test_templates_beyond_a_limit_count_together() -> None:
    names = [f"t{i:03}" for i in Random(1).sample(range(1000), 80)]
    found, shown = scraped_templates(names)
    assert len(shown) == MAX_TEMPLATES + 1
    assert shown >= {*names[:10]}, "those that were scraped before keep their label"
    others = {*names} - shown
    assert len(others) == 30
    assert get(found, "results_total", template="other", status="success") == 30
    expected = sum(map(names.index, others)) / 30
    assert get(found, "mean", template="other", metric="elapsed_sec") == pytest.approx(expected)


async def test_the_mean_of_the_other_templates_is_over_their_questions() -> None:
    stream = evaluate_stream(None, [])
    for place in range(MAX_TEMPLATES + 2):
        # Of the last two templates, the question of one is asked four times.
        is_repeated = place == MAX_TEMPLATES
        names = {"template_id": f"t{place:02}", "question_id": "q", "status": "success"}
        for sample in range(1, 5 if is_repeated else 2):
            score = 0.0 if is_repeated else 1.0
            stream.aggregates.add({**names, "sample": sample, "steps_score": score})
    found = scrape(PrometheusCollector(stream))
    assert get(found, "mean", template="other", metric="steps_score") == pytest.approx(0.5)


async def test_a_level_is_refused_with_what_to_use() -> None:
    removed: Any = {"level": 0.9}
    with pytest.raises(UsageError, match="level= is gone; Prometheus has no intervals"):
        PrometheusCollector(evaluate_stream(REFERENCE, []), **removed)


def test_metrics_on_loopback_are_for_this_machine_only() -> None:
    with MetricsServer("127.0.0.1", 0) as server:
        for headers, status in [
            ({}, 200),
            ({"Host": "localhost:9999"}, 200),
            ({"Host": "evil.example:9464"}, 403),
            ({"Origin": "http://evil.example"}, 403),
        ]:
            assert fetch(server.address, **headers)[0] == status
    with MetricsServer("0.0.0.0", 0) as server:  # noqa: S104
        address = server.address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        assert fetch(address, Host="prometheus.example")[0] == 200


LABELS = {
    f"{PREFIX}{metric.name}{end}": {*metric.labels, *({"le"} if end == "_bucket" else ())}
    for metric in METRICS
    for end in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
}
"""The labels of each series."""


def printed(capfd: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], list[str]]:
    """The dashboard for Grafana, and its queries."""
    assert run("grafana") == 0
    dashboard: dict[str, Any] = json.loads(capfd.readouterr().out)
    return dashboard, [
        each["expr"] for panel in dashboard["panels"] for each in panel.get("targets", ())
    ]


# Many versions of Grafana do not read the newer layout.
@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")
def test_the_dashboard_is_made_from_the_table_of_metrics(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk==0.0.21")
    from docs.grafana import grafana

    assert printed(capfd)[0] == json.loads(grafana()), "python -m docs.grafana writes it"


def test_its_queries_name_metrics_and_labels_that_there_are(
    capfd: pytest.CaptureFixture[str],
) -> None:
    shown = set()
    for expression in printed(capfd)[1]:
        found = re.findall(r"(graphrag_eval_\w+)\{([^}]*)\}", expression)
        assert len(found) == expression.count(PREFIX) > 0
        grouped = {
            label
            for part in re.findall(r"by \(([^)]*)\)", expression)
            for label in part.split(", ")
        }
        for name, selectors in found:
            labels = {*re.findall(r'(\w+)=~?"', selectors)}
            assert labels | grouped <= LABELS[name] | {"instance"}, expression
            shown.add(name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count"))
    assert shown == {PREFIX + metric.name for metric in METRICS}, "each metric is shown somewhere"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="apt-get install prometheus")
async def test_prometheus_itself_reads_metrics_and_queries(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def check(*arguments: str, text: str = "") -> int:
        command = ["promtool", "check", *arguments]
        return subprocess.run(
            command, input=text, text=True, check=False, timeout=WAIT_SECONDS
        ).returncode

    registry = CollectorRegistry()
    registry.register((await judged(50))[1])
    assert check("metrics", text=generate_latest(registry).decode()) == 0
    queries = [query.replace("$__rate_interval", "1m") for query in printed(capfd)[1]]
    rules = [{"record": f"query_{i}", "expr": query} for i, query in enumerate(queries)]
    path = tmp_path / "rules.yml"
    # Which is YAML, too.
    path.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    assert check("rules", str(path)) == 0
