"""Text that would harm a page or a terminal if it were not escaped."""

from __future__ import annotations

from typing import Any

from tests.support.data import question, template

EVIL = (
    "</script><script>window.harmed=1</script><img src=x onerror=window.harmed=1>"
    "\u202egnp\x1b[31m\x07\u2028'\"&lt;"
)
QUESTION = f"q {EVIL}"


def table(first: str, second: str) -> dict[str, Any]:
    row = {first: {"type": "literal", "value": first}, "b": {"type": "literal", "value": second}}
    return {"head": {"vars": [first, "b"]}, "results": {"bindings": [row]}}


def reference() -> list[dict[str, Any]]:
    """A reference set with such text in every field."""
    output = {"output": table(EVIL, "1"), "output_media_type": "application/sparql-results+json"}
    steps: list[dict[str, Any]] = [
        {"name": "sparql_query", "args": {EVIL: EVIL}, **output},
        {"name": "retrieval", "args": {}, "output": [{"id": EVIL, "text": EVIL}]},
        {"name": EVIL, "args": {}, "output": EVIL},
        {"name": "partial", **output, "score": "f1"},
    ]
    asked = question(*steps, question_id=QUESTION, question_text=EVIL, reference_answer=EVIL)
    return template(asked, template_id=f"t {EVIL}")


def responses() -> list[dict[str, Any]]:
    """Responses to it: one with such text in every field, and one that failed."""
    steps: list[dict[str, Any]] = [
        {"name": "sparql_query", "args": {EVIL: [EVIL]}, "output": f"{EVIL},b\n{EVIL},2\n"},
        {"name": "retrieval", "args": {"k": 2}, "output": [{"id": EVIL + "2", "text": EVIL}]},
        {"name": EVIL, "args": {}, "status": "error", "error": EVIL},
        {"name": EVIL, "args": {}, "output": EVIL + "!"},
        {"name": "partial", "output": table(EVIL + "?", "1")},
    ]
    numbered = [{"id": str(number), **step} for number, step in enumerate(steps)]
    return [
        {
            "question_id": QUESTION,
            "actual_answer": EVIL,
            "actual_steps": numbered,
            "metadata": {EVIL: EVIL},
        },
        {"question_id": QUESTION, "error": EVIL},
    ]


def check(html: str) -> None:
    """A page has no markup and no invisible characters of these."""
    assert "<img" not in html
    assert html.count("<script") == 1
    assert not {"\x1b", "\x07", "\u202e", "\u2028"} & {*html}
