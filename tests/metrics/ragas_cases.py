"""A response that has all that metrics of ragas need, and a model that replies by the schema."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import JudgeError, TokenUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DOCUMENTS = [
    {"id": "d1", "text": "Nordnett has run Lindau since 1998."},
    {"id": "d2", "text": "Lindau is a town on a lake."},
]
ROWS = """
{"head": {"vars": ["operator"]},
 "results": {"bindings": [{"operator": {"type": "literal", "value": "Nordnett"}}]}}
"""
SEARCH = {"name": "retrieval", "args": {"query": "Lindau"}}
QUESTION = "Who runs Lindau?"
ANSWER = 'Nordnett "has run Lindau" since 1998.'
REFERENCE_ANSWER = "Nordnett runs Lindau."

REFERENCE = [
    {
        "template_id": "operators",
        "questions": [
            {
                "id": "lindau",
                "question_text": QUESTION,
                "reference_answer": REFERENCE_ANSWER,
                "reference_steps": [[{**SEARCH, "output": DOCUMENTS[:1]}]],
            }
        ],
    }
]

RESPONSE = {
    "question_id": "lindau",
    "actual_answer": ANSWER,
    "actual_steps": [
        {**SEARCH, "status": "success", "output": DOCUMENTS},
        {
            "name": "sparql_query",
            "status": "success",
            "args": {"query": "SELECT ?operator {}"},
            "output": ROWS,
        },
    ],
}

CONTEXTS = [*(document["text"] for document in DOCUMENTS), "operator\nNordnett"]

INPUTS: dict[str, Any] = {
    "user_input": QUESTION,
    "response": ANSWER,
    "reference": REFERENCE_ANSWER,
    "retrieved_contexts": CONTEXTS,
    "retrieved_context_ids": ["d1", "d2"],
    "reference_contexts": [DOCUMENTS[0]["text"]],
    "reference_context_ids": ["d1"],
}
"""What metrics of ragas get of this response."""


def filled(schema: Any, root: Any) -> Any:
    """The value that a judge replies: a text, 1 or true, and one item in each list."""
    if "$ref" in schema:
        return filled(reduce(getitem, schema["$ref"].split("/")[1:], root), root)
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], root)
    if "enum" in schema:
        return schema["enum"][-1]
    if "const" in schema:
        return schema["const"]
    match schema["type"]:
        case "object":
            values = {name: filled(part, root) for name, part in schema["properties"].items()}
            # The only rating that all metrics with ratings know, besides 0.
            return values | ({"rating": 2} if "rating" in values else {})
        case "array":
            return [filled(schema["items"], root)]
        case kind:
            scalars: dict[str, Any] = {
                "string": "Nordnett runs Lindau.",
                "integer": 1,
                "number": 1.0,
                "boolean": True,
            }
            return scalars[kind]


def vector(text: str) -> list[float]:
    return [1.0, float(len(text)), float(text.count("a"))]


class Judge:
    """Replies by the schema of each call, and counts the calls.

    `replies` are by the titles of schemas: a value, or an error to raise.
    """

    def __init__(self, **replies: Any) -> None:
        self.replies = replies
        self.prompts: Counter[str] = Counter()
        self.embedded: list[list[str]] = []

    async def complete(self, messages: Sequence[Mapping[str, str]], schema: Any) -> Any:
        self.prompts[messages[-1]["content"]] += 1
        reply = self.replies.get(schema["title"])
        if isinstance(reply, JudgeError):
            raise reply
        if schema["title"] == "TextReply":
            reply = {"text": "2"}
        if reply is None:
            reply = filled(schema, schema)
        return reply, TokenUsage(100, 10)

    async def embed(self, texts: Sequence[str]) -> Any:
        self.embedded.append([*texts])
        return [vector(text) for text in texts], TokenUsage(10)
