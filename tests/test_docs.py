"""The pages of documentation say what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from docs.make import DRAWN, MADE
from graphrag_eval_async import __all__, config, follow_jsonl, scale, traces
from graphrag_eval_async.aggregates import steps
from graphrag_eval_async.batch import MAX_RESULT_BYTES
from graphrag_eval_async.cli.exits import DRAIN_SECONDS
from graphrag_eval_async.cli.options import options
from graphrag_eval_async.cli.watch import views
from graphrag_eval_async.config import LimitsConfig
from graphrag_eval_async.judge.protocol import MAX_VALUES
from graphrag_eval_async.monitor import (
    board,
    counting,
    dashboard_server,
    markdown,
    otel,
    prometheus_metrics,
    report,
    webhooks,
    worst,
)
from graphrag_eval_async.records import decoding, evaluation, reject, yaml_file
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.scale.ray import evaluation as ray
from graphrag_eval_async.scale.redis import group, worker
from graphrag_eval_async.sinks.rejects import MAX_REJECT_BYTES
from graphrag_eval_async.sources import logs, receiving, remote
from graphrag_eval_async.sources.lines import MAX_DOCUMENT_BYTES
from graphrag_eval_async.steps import differences
from graphrag_eval_async.steps.budget import STEPS
from graphrag_eval_async.steps.formats import xml_results
from graphrag_eval_async.steps.graphs import reading
from graphrag_eval_async.steps.tables import partial
from graphrag_eval_async.stream import MAX_IN_FLIGHT
from graphrag_eval_async.stream.agent import MAX_CONCURRENCY
from graphrag_eval_async.threads import CLOSING_SECONDS
from graphrag_eval_async.traces import grouping, plain
from graphrag_eval_async.usual import LARGE_BYTES
from tests.support.cases import each

ROOT = Path(__file__).parents[1]
LIMITS = (ROOT / "docs" / "limits.md").read_text()


def size(count: int) -> str:
    for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << bits:
            assert count % (1 << bits) == 0
            return f"{count >> bits} {unit}"
    return f"{count} bytes"


def seconds(parameter: str) -> str:
    return f"{inspect.signature(follow_jsonl).parameters[parameter].default:g} s"


DEFAULTS = {
    "length of a line, or of a pushed dict as JSON": size(MAX_LINE_BYTES),
    "calls of the agent at a time": f"{MAX_CONCURRENCY}",
    "time for one call": "none",
    "time to clean up after a cancellation": f"{CLOSING_SECONDS:g} s",
    "lists, objects and commas in a line": f"{MAX_LINE_BYTES // decoding.BYTES_PER_VALUE:,}",
    "depth of lists and objects": f"{decoding.MAX_DEPTH}",
    "responses read and not yet handed out": f"{MAX_IN_FLIGHT}",
    "rejects kept in `stream.rejects`": f"{reject.KEPT_REJECTS:,}",
    "size of a JSON array of responses, which is decoded whole": size(MAX_DOCUMENT_BYTES),
    "JSON on one line that is searched for duplicate keys": size(yaml_file.CHECKED_BYTES),
    "growth of a YAML file by its aliases": f"{yaml_file.MAX_EXPANSION} times, or 1 MB",
    "rejected lines in a file": size(MAX_REJECT_BYTES),
    "length of a result that `aggregate` and `compare` read": size(MAX_RESULT_BYTES),
    "traces whose spans are still coming": f"{grouping.MAX_TRACES:,}, and {size(grouping.MAX_BYTES)}",
    "wait for late spans after the root span": f"{grouping.GRACE:g} s",
    "evaluated traces that are kept for late spans": f"{grouping.KEPT_BYTES >> 20} MiB",
    "wait for a root span": f"{grouping.TRACE_IDLE:g} s",
    "traces remembered after they were evaluated": f"{grouping.REMEMBERED:,}",
    "requests to the receiver at a time": f"{receiving.MAX_WAITING}",
    "length of a request, as sent and decompressed": size(MAX_LINE_BYTES),
    "time for the body of a request": f"{receiving.BODY_SECONDS:g} s",
    "depth of a history; of an attribute of a span": f"{plain.MAX_DEPTH}; {plain.MAX_ATTRIBUTE_DEPTH}",
    "work of comparing the steps of one response": f"{STEPS:,} cells or so",
    "work of finding the best pairing of columns for [partial credit](scoring.md#partial-credit)": (
        f"{partial.SEARCH_STEPS:,} cells or so, and {partial.MOST_COLUMNS} required columns"
    ),
    "differences of a step in `diff`": (
        f"{differences.MAX_DIFFERENCES}, of values of {differences.MAX_TEXT} characters and rows of "
        f"{differences.MAX_CELLS} cells"
    ),
    "entries that a worker reads at once, beyond `max_in_flight`": f"{worker.MOST_ENTRIES}",
    "time until an entry that its worker does not touch is taken over": (
        f"{group.CLAIM_SECONDS:g} s, and `result_timeout_sec` with judges"
    ),
    "deliveries of an entry": f"{group.MAX_DELIVERIES}",
    "results on the server": "all",
    "time without the server": f"{group.MAX_OUTAGE_SEC:g} s",
    "responses in a batch of Ray": f"{ray.BATCH:,}, or {ray.JUDGED_BATCH} with a judge",
    "a range of an address": f"{size(remote.RANGE_BYTES)}, read up to {remote.ATTEMPTS} times",
    "tags of SPARQL results XML, and depth of triples in it": (
        f"{xml_results.MAX_TAGS:,}, and {xml_results.MAX_DEPTH}"
    ),
    "depth of JSON-LD, RDF/XML and triple terms in a graph": f"{reading.MAX_DEPTH}",
    "step names counted by name": f"{steps.MOST_NAMES:,} for each template, and those of the reference set",
    "steps of one response counted by name": f"{evaluation.MANY_STEPS:,}",
    "length of a step name that is counted by name": f"{evaluation.LONGEST_NAME} characters",
    "length of a reply, as sent and decompressed": size(LimitsConfig().max_reply_bytes),
    "lists, objects and commas in a reply": f"{MAX_VALUES:,}",
    "latest results with a page of their own; the same of the worst": f"{counting.KEPT}",
    "questions on the page of a template": f"{worst.OF_TEMPLATE}",
    "browsers that get updates": f"{dashboard_server.MAX_CLIENTS}",
    "updates of a page": f"{1 / board.UPDATE_SECONDS:g} a second",
    "results with details in a report": (
        f"{report.DETAILED}, and about {report.DETAIL_CHARACTERS:,} characters"
    ),
    "results in the table of a report": f"{report.LISTED:,}",
    "templates with gauges of their own": f"{prometheus_metrics.MAX_TEMPLATES}",
    "wait for the collector at the end of a run": f"{otel.CLOSING_SECONDS:g} s",
    "open files": f"three quarters of what the system allows, at most {logs.MAX_OPEN:,}",
    "time until a rotated file counts as finished": seconds("rotate_wait"),
    "pause between looks at files": seconds("poll_interval"),
    "age of files that are read": "none",
    "window of recent results": "200",
    "results that are listed": f"{counting.LISTED}",
    "messages that wait for a slow terminal or pipe": f"{views.MAX_MESSAGES:,}",
    "length of a page of Markdown": f"{markdown.MAX_CHARACTERS:,} characters",
    "questions that are listed as the worst": options()["worst"].default,
    "changes of one alert that wait for `--on-alert` or `--on-alert-url`": f"{webhooks.MAX_WAITING}",
    "time that a command of `--on-alert` may take": f"{webhooks.DELIVERY_SECONDS:g} s",
    "attempts of `--on-alert-url`, and the time for all of them": (
        f"{webhooks.ATTEMPTS}, and {webhooks.TOTAL_SECONDS:g} s"
    ),
    "templates with a label of their own": f"{prometheus_metrics.MAX_TEMPLATES}",
    "length of a label": f"{prometheus_metrics.LABEL_CHARACTERS} characters",
}


def rows() -> dict[str, str]:
    """The default of each limit in the tables."""
    cells = [line.strip("|").split("|") for line in LIMITS.splitlines() if line.startswith("| ")]
    return {limit.strip(): default.strip() for limit, default, *_ in cells if limit.strip() != "limit"}


def test_limits_have_their_defaults() -> None:
    assert rows() == DEFAULTS


@each("name", MADE)
def test_pages_and_pictures_are_those_of_the_code(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == MADE[name](), "python -m docs.make writes it"


@each("name", DRAWN)
def test_plots_are_drawn(name: str) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    assert (ROOT / "docs" / name).exists()
    assert DRAWN[name]().startswith("<?xml")


def test_the_reference_has_all_that_is_public() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    names = re.findall(r"^::: graphrag_eval_async\.([\w.]+)$", page, re.MULTILINE)
    elsewhere = {f"config.{name}" for name in vars(config) if name.endswith("Config")}
    elsewhere |= {f"scale.{name}" for name in scale.__all__ if name not in __all__}
    elsewhere |= {f"traces.{name}" for name in traces.__all__ if name != "TraceOptions"} | {"sources.Lag"}
    assert sorted(names) == sorted({*__all__} | elsewhere)


def test_the_page_of_prometheus_lists_the_metrics() -> None:
    page = (ROOT / "docs" / "prometheus.md").read_text()
    expected = []
    for name, kind, labels, text in prometheus_metrics.METRICS:
        shown = ", ".join(f"`{each}`" for each in labels) or "none"
        expected.append(f"| `{prometheus_metrics.PREFIX}{name}` | {kind} | {shown} | {text} |")
    assert [line for line in page.splitlines() if line.startswith("| `graphrag_eval_")] == expected


def test_other_figures() -> None:
    assert f"Lines of {size(LARGE_BYTES)} or more" in LIMITS
    assert f"within {DRAIN_SECONDS:g} seconds" in LIMITS
    assert logs.OPEN_SHARE == 0.75


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_contributing_names_the_modules_of_soak_tests() -> None:
    section = (
        (ROOT / "docs" / "contributing.md").read_text().partition("## Long tests")[2].partition("## ")[0]
    )
    soak = re.compile(r"pytest\.mark\.soak|^from tests\.fuzz\.seeds import .*\bsizes", re.MULTILINE)
    modules = (ROOT / "tests").rglob("test_*.py")
    found = [str(path.relative_to(ROOT / "tests")) for path in modules if soak.search(path.read_text())]
    assert sorted(re.findall(r"`(\S+\.py)`", section)) == sorted(found)
