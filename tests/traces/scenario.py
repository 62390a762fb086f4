"""One scenario, as every format tells it: two calls in one turn, of which one fails, and an
answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

QUESTION = "Which feeders leave the Harbour substation?"
ANSWER = "Feeders F7 and F9."
QUERY = "SELECT ?f WHERE { ?f grid:leaves grid:Harbour }"
RESULTS = '{"head":{"vars":["f"]},"results":{"bindings":[]}}'
PROBLEM = "the index is being rebuilt"

CALLED = {"name": "sparql_query", "id": "call_1", "args": {"query": QUERY}}
SEARCHED = {"name": "retrieval_search", "id": "call_2", "args": {"text": "feeders Harbour", "k": 3}}
STEPS: list[dict[str, Any]] = [
    CALLED | {"status": "success", "output": RESULTS},
    SEARCHED | {"status": "error", "output": PROBLEM},
]

_LINES = map(json.loads, Path(__file__).with_name("histories.jsonl").read_text().splitlines())
HISTORIES: list[tuple[str, str, Any]] = [
    (each["format"], each["form"], each["history"]) for each in _LINES
]
"""Format, which of its forms, and the history."""

FORMS = {form: history for name, form, history in HISTORIES if name in ("openai", "langchain")}
CHAT, ITEMS, EVENTS = FORMS["chat"], FORMS["responses"], FORMS["events"]
ANTHROPIC = next(history for name, _, history in HISTORIES if name == "anthropic")

WITHOUT_QUESTION = {"run state"}
MEDIA_TYPE = "application/sparql-results+json"
STEP = {"name": "sparql_query", "output": RESULTS, "output_media_type": MEDIA_TYPE}
ASKED = {
    "id": "q1",
    "question_text": QUESTION,
    "reference_answer": ANSWER,
    "reference_steps": [[STEP]],
}
REFERENCE: list[dict[str, Any]] = [{"template_id": "t", "questions": [ASKED]}]
