"""The scenario in every format, as frameworks write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_LINES = map(json.loads, Path(__file__).with_suffix(".jsonl").read_text().splitlines())
HISTORIES: list[tuple[str, str, Any]] = [(each["format"], each["form"], each["history"]) for each in _LINES]
"""Format, which of its forms, and the history."""

FORMS = {form: history for name, form, history in HISTORIES if name in ("openai", "langchain")}
CHAT, ITEMS, EVENTS = FORMS["chat"], FORMS["responses"], FORMS["events"]
ANTHROPIC, MCP = (next(each for name, _, each in HISTORIES if name == key) for key in ("anthropic", "mcp"))

WITHOUT_ANSWER = {"mcp"}
WITHOUT_QUESTION = {"mcp", "run state"}
