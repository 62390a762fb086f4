"""What a scrape for Prometheus holds, by the client's own parser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.exporters.prometheus_metrics import PREFIX

if TYPE_CHECKING:
    from graphrag_eval_async import PrometheusCollector

pytest.importorskip("prometheus_client", reason="needs the extra prometheus")
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(collector: PrometheusCollector) -> Values:
    """Scrape a collector, and return the values by name and labels."""
    registry = CollectorRegistry()
    registry.register(collector)
    return parsed(generate_latest(registry).decode())


def parsed(text: str) -> Values:
    """Return the values of a scrape, in which nothing comes twice."""
    found: Values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name.removeprefix(PREFIX), tuple(sorted(sample.labels.items()))
            assert key not in found
            assert all(sample.labels.values()), "Prometheus takes an empty value for no label"
            found[key] = sample.value
    return found


def get(found: Values, name: str, **labels: str) -> float | None:
    """Return the value with this name and these labels; None if there is none."""
    return found.get((name, tuple(sorted(labels.items()))))
