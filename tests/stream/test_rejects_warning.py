"""Who does not ask for rejects is told of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, evaluate_stream, run_evaluation
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

RESPONSES: list[Any] = [{"question_id": "x"}, answer(), {"question_id": "y\x1b[2J"}, b"{"]


async def test_one_warning_at_the_end_and_a_line_in_the_log_for_each_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text('{"question_id": "\\u001b[2J"}\n{"question_id": "y"}\n{')
    stream = evaluate_stream(templates(1), path)
    with pytest.warns(GraphragEvalWarning) as caught:
        assert [result async for result in stream] == []
    await stream.aclose()  # Does not warn again, which would be logged here.
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message).startswith(
        f"3 responses were rejected: unknown_question_id 2, invalid_json 1. The first: {path}: line 1 (byte 0"
    )
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text.split(": ")[3] for text in logged] == ["unknown_question_id", "invalid_json"]
    assert logged[0].startswith(f"rejected: {path}: line 1 (byte 0): ")
    assert all(text.isprintable() for text in logged)


@pytest.mark.parametrize("way", ["ignored", "early", "late", "callable", "finished set"])
async def test_rejects_that_are_looked_at_need_no_warning(
    way: str, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """They may be read until the context ends."""
    options: dict[str, Any] = {"on_reject": lambda _: None} if way == "callable" else {}
    if way == "finished set":
        await run_evaluation(templates(1), RESPONSES, on_reject="collect")
    else:
        async with evaluate_stream(templates(1), RESPONSES, **options) as stream:
            assert way != "early" or len(stream.rejects) == 0
            assert len([result async for result in stream]) == 1
            assert way != "late" or len(stream.rejects) == 3
    assert [each.category for each in recwarn] == ([GraphragEvalWarning] if way == "ignored" else [])
    assert way in {"ignored", "late"} or not caplog.records
