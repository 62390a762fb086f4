"""Write what the installed frameworks record."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path

from tests.traces.frameworks.recorders.scenario import Recording

PATH = Path(__file__).parents[2] / "recorded.jsonl"
RECORDERS = (
    "adk",
    "agno",
    "autogen",
    "cohere",
    "haystack",
    "inspect_log",
    "langgraph",
    "llamaindex",
    "mcp_log",
    "mlflow",
    "mlflow_langgraph",
    "openinference",
    "semantic_kernel",
    "smolagents",
    "strands",
    "traceloop",
)


def record(name: str) -> list[Recording]:
    """Return what a recorder records; nothing if its framework is not installed."""
    try:
        recorder = import_module(f"tests.traces.frameworks.recorders.{name}")
    except ImportError as error:
        print(f"{name}: {error}")  # noqa: T201
        return []
    return list(asyncio.run(recorder.record()))


def main() -> None:
    """Replace the recordings that can be made anew, or that are in files named as arguments."""
    lines = PATH.read_text().splitlines() if PATH.exists() else []
    for path in sys.argv[1:]:
        lines += Path(path).read_text().splitlines()
    recordings = [Recording(**json.loads(line)) for line in lines]
    by_form = {(recording.format, recording.form): recording for recording in recordings}
    for name in RECORDERS:
        for recording in record(name):
            by_form[recording.format, recording.form] = recording
    texts = [
        json.dumps(by_form[key]._asdict(), separators=(",", ":")) + "\n" for key in sorted(by_form)
    ]
    PATH.write_text("".join(texts))


if __name__ == "__main__":
    main()
