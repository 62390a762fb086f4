"""The kinds of objects in a reference set, and which key a wrong key may stand for."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import fields

from graphrag_eval_async.catalogue.reference_steps import KEYS_OF_EVALUATIONS
from graphrag_eval_async.reference.shapes import (
    AlternativeShape,
    GroupShape,
    QuestionShape,
    ReferenceStepShape,
    TemplateShape,
    keys_of_shape,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NAME_CHARACTERS = 64
"""How many characters of a key a message shows."""

MIN_SIMILARITY = 0.7
"""How similar a wrong key must be to a right one, from 0 to 1, to be taken for it. Chosen."""

MAX_CACHED = 1000
"""How many suggestions are cached, since the same wrong key is often written many times."""

_NOT_A_LETTER = re.compile(r"[\W_]+")


class Kind:
    """A kind of objects: templates, questions, groups of steps, steps or alternatives.

    Attributes:
        name: what messages call one of these objects.
        shape: the struct of msgspec that has its keys.
        other_names: what people and other tools write in place of its keys.
    """

    def __init__(self, name: str, shape: Any, other_names: Mapping[str, str]) -> None:
        """Define a kind; `other_names` has names with spaces in between, by key."""
        self.name = name
        self.shape = shape
        self.other_names = other_names

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys that such an object may have, sorted."""
        return keys_of_shape(self.shape)

    @cached_property
    def type_by_key(self) -> dict[str, Any]:
        """The type of the values of each key, as msgspec takes it."""
        return {field.name: field.type for field in fields(self.shape)}

    @cached_property
    def required(self) -> tuple[str, ...]:
        """The keys that each of these objects must have."""
        return tuple(field.name for field in fields(self.shape) if field.required)

    @cached_property
    def key_by_name(self) -> dict[str, str]:
        """The key for each simple name, which may be that of the key itself or another name of it.

        If a simple name stands for two keys, a key of this name takes precedence.
        """
        keys = {simple_name(key): key for key in self.keys}
        for key, names in self.other_names.items():
            for name in names.split():
                keys.setdefault(simple_name(name), key)
        return keys


class Suggestion(NamedTuple):
    """What a wrong key may stand for."""

    key: str | None  # None if no key is similar.
    kind: Kind  # The kind of objects that has the key.
    advice: str  # End of a message.


def simple_name(key: str) -> str:
    """Return the letters and digits of a key in lower case: `question-ID` as `questionid`."""
    return _NOT_A_LETTER.sub("", key).casefold()


TEMPLATE = Kind(
    "template",
    TemplateShape,
    {
        "template_id": "id template name template_name title category",
        "questions": "question items examples cases data samples",
    },
)
QUESTION = Kind(
    "question",
    QuestionShape,
    {
        "id": "question_id qid uid uuid key number nr no question_number question_name",
        "question_text": "question text query_text prompt input user_input utterance nl_question",
        "reference_answer": (
            "answer answers expected_answer correct_answer gold_answer right_answer reference "
            "ground_truth expected expected_output gold ideal target answer_text"
        ),
        "reference_steps": (
            "steps step reference_step expected_steps expected_step gold_steps correct_steps "
            "actual_steps tool_calls expected_tool_calls reference_tool_calls expected_tools tools "
            "trajectory"
        ),
        "match": "matching match_type match_mode",
        "tags": "labels features",
    },
)
GROUP = Kind("group of steps", GroupShape, {"steps": "group", "order": "ordered"})
STEP = Kind(
    "step",
    ReferenceStepShape,
    {
        "name": "tool tool_name step step_name function function_name action",
        "args": "arguments argument arg input inputs parameters params tool_input tool_args",
        "output": (
            "outputs expected_output reference_output tool_output expected result results "
            "expected_result response content value"
        ),
        "output_media_type": (
            "media_type mediatype mime_type mime content_type type output_type output_format format"
        ),
        "ordered": "order_matters is_ordered sorted is_sorted keep_order",
        "required_columns": "columns required required_vars required_variables",
        "ignore_duplicates": "distinct duplicates",
        "reference_query": (
            "query sparql cypher sparql_query cypher_query reference_sparql expected_query "
            "gold_query"
        ),
        "score": "scoring metric",
        "alternatives": "alternative or",
    },
)
ALTERNATIVE = Kind(
    "alternative",
    AlternativeShape,
    {
        "output": STEP.other_names["output"],
        "output_media_type": STEP.other_names["output_media_type"],
        "reference_query": STEP.other_names["reference_query"],
    },
)

_WITH_OTHER_LEVELS = (TEMPLATE, QUESTION, STEP)
"""Kinds whose keys people write one level too high or too low."""


@lru_cache(MAX_CACHED)
def suggest_key(key: str, kind: Kind) -> Suggestion:
    """Return the key for which a wrong key of an object may stand, with advice for the user.

    These are tried in turn: a key of the object that is written in another way, another name of
    such a key, a key of another kind of objects, and a similar key.

    Args:
        key: the wrong key, of at most `MAX_NAME_CHARACTERS`.
        kind: the kind of the object that has it.
    """
    name = simple_name(key)
    meant = kind.key_by_name.get(name)
    if meant is not None:
        return Suggestion(meant, kind, f"did you mean {meant}?")

    for other_kind in _WITH_OTHER_LEVELS:
        if name in map(simple_name, other_kind.keys):
            meant = other_kind.key_by_name[name]
            advice = f"{meant} is a key of a {other_kind.name}; move it there"
            return Suggestion(meant, other_kind, advice)

    similar = get_close_matches(name, kind.key_by_name, n=1, cutoff=MIN_SIMILARITY)
    if similar:
        meant = kind.key_by_name[similar[0]]
        return Suggestion(meant, kind, f"did you mean {meant}?")
    listed = [known for known in kind.keys if known not in KEYS_OF_EVALUATIONS]
    return Suggestion(None, kind, f"known: {', '.join(listed)}")
