"""The scenario in every format, as frameworks write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.traces.scenario import QUESTION, STEPS

_LINES = map(json.loads, Path(__file__).with_suffix(".jsonl").read_text().splitlines())
HISTORIES: list[tuple[str, str, Any]] = [(each["format"], each["form"], each["history"]) for each in _LINES]
"""Format, which of its forms, and the history."""

ARGS = [json.dumps(step["args"]) for step in STEPS]
USER = {"role": "user", "content": QUESTION}
FORMS = {form: history for name, form, history in HISTORIES if name in ("openai", "langchain")}
CHAT, ITEMS, EVENTS = FORMS["chat"], FORMS["responses"], FORMS["events"]
ANTHROPIC, MCP = (next(each for name, _, each in HISTORIES if name == key) for key in ("anthropic", "mcp"))
LANGCHAIN = FORMS

WITHOUT_ANSWER = {"mcp"}
WITHOUT_QUESTION = {"mcp", "run state"}


def event(kind: str, name: str, run: str, *, root: bool = False, **data: Any) -> dict[str, Any]:
    """An event of LangChain."""
    parents = [] if root else ["run-0"]
    return {"event": kind, "name": name, "run_id": run, "parent_ids": parents, "data": data}
