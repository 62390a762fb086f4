"""Inputs that are something else: results, a DataFrame, CSV, or the reference set in place of
responses.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import orjson
import pandas
import pytest
import yaml

from graphrag_eval_async import (
    AggregationError,
    Evaluator,
    ReferenceDataError,
    RejectedResponse,
    UsageError,
    compare,
    compute_aggregates,
    evaluate_stream,
    follow_jsonl,
    run_evaluation,
    run_evaluation_sync,
)
from graphrag_eval_async.sources import FRAME_ROWS
from tests.cli.support import ROOT, from_jsonl, run

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE, RESPONSES = ROOT / "examples/reference.yaml", ROOT / "examples/responses.jsonl"
TEMPLATES = yaml.safe_load(REFERENCE.read_text())
ROWS = from_jsonl(RESPONSES.read_bytes())
SWAPPED = "give the reference set first, then the responses"


async def test_every_result_is_rejected_as_such() -> None:
    results = await run_evaluation(TEMPLATES, ROWS)
    for reference, options in ((TEMPLATES, {}), (TEMPLATES, {"format": "auto"}), (None, {})):
        async with evaluate_stream(reference, results, **options) as stream:  # type: ignore[arg-type]
            assert [result async for result in stream] == []
        assert stream.rejects.counts == {"not_a_response": len(results)}
        assert "aggregate, report and compare read results" in stream.rejects[0].message
    with pytest.raises(RejectedResponse, match="not_a_response"):
        await Evaluator(TEMPLATES).evaluate(results[0])
    own = {"template_id": "t", "question_text": "?"}  # A harness may log them.
    results = await run_evaluation(TEMPLATES, [row | own for row in ROWS])
    assert all(result["metadata"].items() >= own.items() for result in results)


async def test_a_data_frame_is_its_rows() -> None:
    rows = ROWS * (FRAME_ROWS // len(ROWS) + 2)
    frame = pandas.DataFrame(rows)  # Missing keys are NaN in it.
    assert frame.isna().any().any()
    assert await run_evaluation(TEMPLATES, frame) == await run_evaluation(TEMPLATES, rows)
    frame["ts"] = pandas.Timestamp("2026-01-02T03:04:05+00:00")
    results = await run_evaluation(TEMPLATES, frame)
    assert {result["metadata"]["ts"] for result in results} == {"2026-01-02T03:04:05+00:00"}


def test_a_table_of_texts_is_not_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "responses.csv")
    pandas.DataFrame(ROWS).to_csv(path, index=False)
    for read in (lambda: run_evaluation_sync(TEMPLATES, path), lambda: follow_jsonl(path)):
        with pytest.raises(
            UsageError, match=r"responses\.csv: a table of texts cannot hold steps.*to_json"
        ):
            read()
    for command in (["evaluate"], ["evaluate", "--jobs", "2"], ["validate"], ["watch"]):
        assert run(*command, str(REFERENCE), path) == 2
        assert "write JSON lines (.jsonl), in pandas" in " ".join(capfd.readouterr().err.split())


IS_RESPONSE = "this is a response, not a result; `evaluate` makes results of responses"
IS_TEMPLATE = "this is a template of a reference set, not a result"


def test_what_is_no_result_is_named_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    results, reference = tmp_path / "results.jsonl", tmp_path / "reference.json"
    results.write_bytes(
        b"".join(orjson.dumps(each) + b"\n" for each in run_evaluation_sync(TEMPLATES, ROWS))
    )
    reference.write_text(json.dumps(TEMPLATES))
    for path, told, count in (
        (RESPONSES, IS_RESPONSE, len(ROWS)),
        (reference, IS_TEMPLATE, len(TEMPLATES)),
    ):
        for command in (
            *(["aggregate", path], ["report", path], ["plan", "--detect", "0.1", path]),
            *(["compare", path, results], ["compare", results, path]),
        ):
            assert run(*map(str, command)) in {2, 3}
            out, err = capfd.readouterr()
            assert err.count(told) == 1
            assert f"... and {count - 1} more" in err
            assert "must be a string" not in out + err
            assert "known:" not in err
        for pair in ((results, path), (path, results)):
            with pytest.raises(AggregationError, match=told):
                compare(*pair)
    for given, told in ((ROWS, IS_RESPONSE), (TEMPLATES, IS_TEMPLATE)):
        with pytest.raises(AggregationError, match=told):
            compute_aggregates(given)


def test_swapped_arguments_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "list.json"
    document.write_text(json.dumps(ROWS, indent=1))
    for given in (RESPONSES, document, ROWS, run_evaluation_sync(TEMPLATES, ROWS)):
        with pytest.raises(
            ReferenceDataError, match=f"holds responses or results; {SWAPPED}"
        ) as caught:
            run_evaluation_sync(given, TEMPLATES)
        assert len(caught.value.problems) == 1
    for command in ("evaluate", "validate", "watch"):
        assert run(command, str(RESPONSES), str(REFERENCE)) == 2
        assert "first, then the responses" in " ".join("".join(capfd.readouterr()).split())
    # Only the responses are wrong.
    with pytest.raises(
        UsageError, match=r"reference\.yaml: YAML is not read here; .* give it first"
    ):
        run_evaluation_sync(TEMPLATES, str(REFERENCE))
    document.write_text(json.dumps(TEMPLATES))
    assert run("evaluate", str(REFERENCE), str(document)) == 3
    assert "not_a_response: this is a template of a reference set" in capfd.readouterr().err
