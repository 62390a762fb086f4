"""Text that would harm a page or a terminal if it were not escaped."""

from __future__ import annotations

from typing import Any

EVIL = (
    "</script><script>window.harmed=1</script><img src=x onerror=window.harmed=1>"
    "\u202egnp\x1b[31m\x07\u2028'\"&lt;"
)

TEMPLATE = f"t {EVIL}"
QUESTION = f"q {EVIL}"


def reference() -> list[dict[str, Any]]:
    """A reference set with such text in every field."""
    table = {
        "head": {"vars": [EVIL]},
        "results": {"bindings": [{EVIL: {"type": "literal", "value": EVIL}}]},
    }
    steps = [
        {
            "name": "sparql_query",
            "args": {EVIL: EVIL},
            "output": table,
            "output_media_type": "application/sparql-results+json",
        },
        {"name": "retrieval", "args": {}, "output": [{"id": EVIL, "text": EVIL}]},
        {"name": EVIL, "args": {}, "output": EVIL},
        {
            "name": "partial",
            "output": {
                "head": {"vars": [EVIL, "b"]},
                "results": {"bindings": [{EVIL: {"value": EVIL}, "b": {"value": "1"}}] * 2},
            },
            "output_media_type": "application/sparql-results+json",
            "score": "f1",
        },
    ]
    question = {"id": QUESTION, "question_text": EVIL, "reference_answer": EVIL, "reference_steps": [steps]}
    return [{"template_id": TEMPLATE, "questions": [question]}]


def responses() -> list[dict[str, Any]]:
    """Responses to it: one with such text in every field, and one that failed."""
    steps = [
        {"id": "1", "name": "sparql_query", "args": {EVIL: [EVIL]}, "output": f"{EVIL},b\n{EVIL},2\n"},
        {"id": "2", "name": "retrieval", "args": {"k": 2}, "output": [{"id": EVIL + "2", "text": EVIL}]},
        {"id": "3", "name": EVIL, "args": {}, "status": "error", "error": EVIL},
        {"id": "4", "name": EVIL, "args": {}, "output": EVIL + "!"},
        {
            "id": "5",
            "name": "partial",
            "output": {
                "head": {"vars": ["a", "b"]},
                "results": {"bindings": [{"a": {"value": EVIL + "?"}, "b": {"value": "1"}}]},
            },
        },
    ]
    return [
        {"question_id": QUESTION, "actual_answer": EVIL, "actual_steps": steps, "metadata": {EVIL: EVIL}},
        {"question_id": QUESTION, "error": EVIL},
    ]
