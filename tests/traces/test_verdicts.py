"""What histories and traces mean that frameworks were seen to write, or that were cut on their way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphrag_eval_async.traces import responses_from_otlp
from graphrag_eval_async.traces.format import read_trace

VERDICTS = [json.loads(each) for each in Path(__file__).with_name("verdicts.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("verdict", VERDICTS, ids=[verdict["what"] for verdict in VERDICTS])
def test_verdicts(verdict: dict[str, Any]) -> None:
    name, history, options = verdict["format"], verdict["history"], verdict["options"]
    if name == "otlp":
        found: Any = list(responses_from_otlp(history, **options))
    else:
        found = read_trace(history, name, **options)
    for response in found if name == "otlp" else [found]:
        response.get("trace_problems", []).sort()
    assert found == verdict["response"]
