"""How tests make a reference set, and responses to it."""

from __future__ import annotations

from typing import Any

from graphrag_eval_async import load_reference

HEAVY_BYTES = 200_000
"""More than a response may have to be scored on the event loop."""


def template(*questions: dict[str, Any], template_id: str = "t") -> list[dict[str, Any]]:
    """A reference set of one template."""
    return [{"template_id": template_id, "questions": list(questions)}]


def question(*steps: dict[str, Any], question_id: str = "q", **more: Any) -> dict[str, Any]:
    """A question whose only group are these reference steps; `reference_steps=` gives several
    groups.
    """
    groups = {"reference_steps": [list(steps)]} if steps else {}
    return {"id": question_id, "question_text": f"What is {question_id}?"} | groups | more


def templates(questions: int = 3, **step: Any) -> list[dict[str, Any]]:
    """Template dicts with the questions q0, q1, ..., each with one reference step."""
    reference_step = {"name": "calculator", "output": "42"} | step
    asked = (
        question(reference_step, question_id=f"q{i}", question_text=f"Sum {i}?")
        for i in range(questions)
    )
    return template(*asked, template_id="sums")


REFERENCE = load_reference(templates())
"""The loaded set of three questions, for tests that need no other."""


def taken(step: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The actual step that a reference step describes; `more` overrides its keys."""
    return {"name": step["name"], "status": "success", "output": step["output"]} | more


def answer(question: int = 0, **more: Any) -> dict[str, Any]:
    """A response that matches the reference set of `templates`."""
    step = taken({"name": "calculator", "output": "42"}, id=f"call_{question}")
    return {"question_id": f"q{question}", "actual_steps": [step], "input_tokens": question, **more}


def heavy(question: int = 0, **more: Any) -> dict[str, Any]:
    """The same, but so large that it is scored in a thread."""
    return answer(question, padding="x" * HEAVY_BYTES, **more)
