"""Who does not ask for rejects is told of them."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, evaluate_stream, run_evaluation
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

RESPONSES: list[Any] = [
    {"question_id": "x"},
    answer(),
    {"question_id": "y\x1b[2J"},
    b"{",
    {"question_id": "z"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "responses.jsonl"
    path.write_text('{"question_id": "x"}\n{"question_id": "y"}\n')
    return path


async def test_the_end_is_one_warning(path: Path) -> None:
    with pytest.warns(GraphragEvalWarning) as caught:
        assert [result async for result in evaluate_stream(templates(1), path)] == []
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message).startswith(
        f"2 responses were rejected: unknown_question_id 2. The first: {path}: line 1 (byte 0): "
        "unknown_question_id: question_id 'x' is not in the reference set. "
    )


async def test_the_first_of_each_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.warns(GraphragEvalWarning):
        results = [result async for result in evaluate_stream(templates(1), RESPONSES)]
    assert len(results) == 1
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text.split(": ")[2] for text in logged[:2]] == ["unknown_question_id", "invalid_json"]
    assert logged[0].startswith("rejected: line 1 (byte 0): ")
    assert all(text.isprintable() for text in logged)


@pytest.mark.parametrize("heeded", ["rejects", "callable", "evaluation", "none"])
async def test_no_warning_is_needed(heeded: str, caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if heeded == "evaluation":
            await run_evaluation(templates(1), RESPONSES, on_reject="collect")
        else:
            options: dict[str, Any] = {"on_reject": lambda _: None} if heeded == "callable" else {}
            responses = [answer()] if heeded == "none" else RESPONSES
            async with evaluate_stream(templates(1), responses, **options) as stream:
                if heeded == "rejects":
                    assert len(stream.rejects) == 0
                assert len([result async for result in stream]) == 1
    assert not caplog.records


@pytest.mark.parametrize("read", [False, True])
async def test_rejects_may_be_read_until_the_context_ends(read: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with evaluate_stream(templates(1), RESPONSES) as stream:
            assert len([result async for result in stream]) == 1
            if read:
                assert len(stream.rejects) == 4
    assert [each.category for each in caught] == ([] if read else [GraphragEvalWarning])
