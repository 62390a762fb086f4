"""Version 1 of Pydantic AI cannot be installed beside version 2: this is what it (1.107.10) wrote."""

from __future__ import annotations

from pathlib import Path

from graphrag_eval_async.traces import response_from_pydantic_ai
from tests.traces.frameworks.support import check


async def test_messages() -> None:
    history = Path(__file__).with_name("pydantic_ai_1.json").read_bytes()
    response = response_from_pydantic_ai(history)
    await check(response)
    assert (response["input_tokens"], response["output_tokens"]) == (135, 47)
