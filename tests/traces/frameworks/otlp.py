"""Spans as the JSON file exporter of OpenTelemetry writes them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.json.file", reason="needs the extra test-traces")

from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def exported(path: Path) -> Iterator[TracerProvider]:
    """A provider whose spans are in the file at the end."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(path)))
    yield provider
    provider.shutdown()
