"""The dashboard for Grafana fits the metrics."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.monitor.prometheus_metrics import METRICS, PREFIX
from tests.cli.support import run

if TYPE_CHECKING:
    from collections.abc import Iterator

LABELS = {
    f"{PREFIX}{metric.name}{end}": {*metric.labels, *({"le"} if end == "_bucket" else ())}
    for metric in METRICS
    for end in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
}
"""The labels of each series."""

OF_PROMETHEUS = {"instance"}


def printed(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run("grafana") == 0
    dashboard: dict[str, Any] = json.loads(capfd.readouterr().out)
    return dashboard


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def names_and_labels(expression: str) -> Iterator[tuple[str, set[str]]]:
    for name, selectors in re.findall(r"(graphrag_eval_\w+)\{([^}]*)\}", expression):
        yield name, {*re.findall(r'(\w+)=~?"', selectors)}


# Many versions of Grafana do not read the newer layout.
@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")
def test_it_is_made_from_the_table_of_metrics(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk==0.0.21")
    from docs.grafana import PATH, grafana

    text = grafana()
    assert PATH.read_text() == text, "python -m docs.grafana writes it"
    assert printed(capfd) == json.loads(text)


def test_queries_name_metrics_and_labels_that_there_are(capfd: pytest.CaptureFixture[str]) -> None:
    dashboard = printed(capfd)
    shown = set()
    for expression in expressions(dashboard):
        found = [*names_and_labels(expression)]
        assert len(found) == expression.count(PREFIX) > 0
        grouped = {label for part in re.findall(r"by \(([^)]*)\)", expression) for label in part.split(", ")}
        for name, labels in found:
            assert labels | grouped <= LABELS[name] | OF_PROMETHEUS, expression
            shown.add(name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count"))
    assert shown == {PREFIX + metric.name for metric in METRICS}, "each metric is shown somewhere"
