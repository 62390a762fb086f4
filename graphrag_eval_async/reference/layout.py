"""What people write in place of a list of templates."""

from __future__ import annotations

from typing import Any

from graphrag_eval_async.errors import describe
from graphrag_eval_async.reference.key_checks import describe_value
from graphrag_eval_async.reference.kinds import (
    MAX_NAME_CHARACTERS,
    QUESTION,
    TEMPLATE,
    simple_name,
    suggest_key,
)

LAYOUT_IN_JSON = '[{"template_id": "NAME", "questions": [...]}]'
"""How a file in JSON begins, for messages."""

LAYOUT_OF_TEMPLATE = "{template_id: NAME, questions: [...]}"
"""How a template begins, for messages."""

NAMES_OF_WHOLE_SET = ("templates", "template", "reference", "referenceset", "data")
"""Simple names of keys under which people put the list of templates."""

_KEYS_OF_CONFIGURATIONS = frozenset({"llm", "metrics", "execute", "aliases", "custom_metrics"})
"""Keys that are in configurations and never in reference sets."""


def problem_of_layout(document: Any, *, is_json: bool = False) -> str:
    """Return what is wrong with a value that should be a list of templates, and what to write.

    Args:
        document: the value.
        is_json: whether it is from a file in JSON.
    """
    expected = f"expected a list of at least one template, [{LAYOUT_OF_TEMPLATE}]"
    if isinstance(document, dict):
        cure = _cure_for_object(document, is_json=is_json)
        return f"{expected}, got {describe_value(document)}; {cure}"
    if isinstance(document, str) and "," in document:
        return f"{expected}, got text; for a table, run init --questions"
    if isinstance(document, str | int | float | list | None):
        return f"{expected}, got {describe_value(document)}"
    return f"{expected}, got {describe(document)}"


def _cure_for_object(document: dict[Any, Any], *, is_json: bool) -> str:
    """Return what to do about an object in place of a list of templates."""
    for key, value in document.items():
        shown_key = str(key)[:MAX_NAME_CHARACTERS]
        if is_whole_set(shown_key, value):
            return f"remove the key {shown_key}, and keep only its list"
        if isinstance(value, dict) and "questions" in value:
            if is_json:
                return f"write {LAYOUT_IN_JSON}, with {shown_key} as template_id"
            return f"begin each template with `- template_id: {shown_key}`"
    if is_json and ("template_id" in document or "questions" in document):
        return f"write {LAYOUT_IN_JSON}"
    if "template_id" in document:
        return "begin each template with `- template_id: `"
    if "questions" in document:
        return "begin with `- template_id: NAME`, and put `questions` below it"
    if not _KEYS_OF_CONFIGURATIONS.isdisjoint(document):
        return "it looks like a configuration, which --config takes"
    # Files of benchmarks are objects.
    return "read a benchmark with convert --from, or format="


def is_whole_set(key: str, value: Any) -> bool:
    """Return whether a key of an object holds the list of templates."""
    return simple_name(key) in NAMES_OF_WHOLE_SET and isinstance(value, list)


def is_question(template: dict[Any, Any]) -> bool:
    """Return whether a dict in place of a template has the keys of a question."""
    if "template_id" in template:
        return False
    has_question_text = False
    for key, value in template.items():
        shown_key = str(key)[:MAX_NAME_CHARACTERS]
        if suggest_key(shown_key, TEMPLATE).key == "questions" and isinstance(value, list):
            return False  # It is a template, even if the key is wrong.
        if suggest_key(shown_key, QUESTION).key == "question_text":
            has_question_text = True
    return has_question_text
