"""Reading of templates whose keys and types are usual: typed JSON, decoded in one pass.

It gives up at anything that is unusual, doubtful or invalid. Then `careful` reads the templates. If
both can read templates, they return equal questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, convert

from graphrag_eval_async.catalogue.media_types import CSV, GRAPHS, MEDIA_TYPES, TSV
from graphrag_eval_async.catalogue.tags import read_tags
from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.question import Matching  # noqa: TC001  (msgspec reads annotations)
from graphrag_eval_async.reference.contents import (
    NO_STEPS,
    Contents,
    EncodedSteps,
    has_usual_steps,
)
from graphrag_eval_async.reference.doubts import doubt_about_id
from graphrag_eval_async.reference.shapes import (  # msgspec reads annotations.
    ColumnRule,  # noqa: TC001
    Score,  # noqa: TC001
    TagsShape,  # noqa: TC001
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

    from graphrag_eval_async.steps import Comparator

_CHECKED_FOR_MISTAKES = (*GRAPHS, CSV, TSV)
"""Media types of outputs that only the careful reader checks for probable mistakes."""

_USUAL_MEDIA_TYPES = tuple(name for name in MEDIA_TYPES if name not in _CHECKED_FOR_MISTAKES)
_UsualMediaType: Any = Literal[_USUAL_MEDIA_TYPES]
_Scalar: TypeAlias = str | int | float | bool | None


class _Unusual(Exception):  # noqa: N818
    """The templates have something that only the careful reader reads."""


class _UsualStep(Struct, forbid_unknown_fields=True, gc=False):
    name: str
    args: dict[str, _Scalar | list[_Scalar] | dict[str, _Scalar]] | None = None
    output: str | None = None
    output_media_type: _UsualMediaType | None = None
    ordered: bool | None = None
    required_columns: list[str] | None = None
    ignore_duplicates: bool | None = None
    score: Score = None
    match_columns: ColumnRule = None
    compare: Literal["table"] | None = None
    args_match: Literal["exact", "subset", "none"] | None = None
    order: Literal["strict", "any"] | None = None
    reference_query: str | None = None


class _UsualQuestion(Struct, forbid_unknown_fields=True, gc=False):
    id: Annotated[str, Meta(min_length=1)]
    question_text: str
    reference_answer: str | list[str] | None = None
    match: Matching | None = None
    tolerance: Annotated[float, Meta(ge=0)] | None = None
    reference_steps: EncodedSteps | None = None
    tags: TagsShape | None = None


class _UsualTemplate(Struct, forbid_unknown_fields=True):
    template_id: Annotated[str, Meta(min_length=1)]
    questions: list[_UsualQuestion]
    tags: TagsShape | None = None


class _StepsEncoder:
    """Checks and encodes the steps of one question after another.

    Only the steps of one question are in memory at a time.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._encoder = msgspec.msgpack.Encoder()
        self._buffer = bytearray()

    def encode(self, groups: Any) -> EncodedSteps:
        """Check and encode the groups of a question's steps, and add the steps to the contents.

        Raises:
            _Unusual: the groups are not lists of steps, or a step that is not the first of its
                group has an order.
            MalformedStep: a step is invalid.
            msgspec.ValidationError: a key of a step is unknown, or its value has another type.
        """
        if type(groups) is not list:
            raise _Unusual
        for group in groups:
            if type(group) is not list or not group:
                raise _Unusual
            for step in group:
                convert(step, _UsualStep)  # This raises an error if the step is not usual.
                if step is not group[0] and step.get("order") is not None:
                    raise _Unusual
                self._contents.add_step(step)
        if not groups:
            return NO_STEPS

        # One buffer for all questions is faster than `encode`, which grows a buffer for each call.
        self._encoder.encode_into(groups, self._buffer)
        data = bytes(self._buffer)
        return EncodedSteps(data, are_usual=has_usual_steps(groups, len(data)))


def read_usual(text: Raw, comparators: Mapping[str, Comparator]) -> Contents | None:
    """Read templates from JSON text, and return their contents.

    Returns:
        None if anything is invalid, doubtful or unusual, or if there is no template.
    """
    contents = Contents(comparators)
    try:
        templates = _decode(text, contents)
        for template in templates:
            _add_template(contents, template)
    except (
        _Unusual,
        MalformedStep,
        # The errors of msgspec for invalid JSON and for values of other types.
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
    ):
        return None

    # Contents store questions by id: if an id is used twice, there are fewer than in the text.
    question_count = sum(len(template.questions) for template in templates)
    has_unique_questions = len(contents.questions) == question_count
    has_unique_templates = len(set(contents.templates)) == len(templates)
    if templates and has_unique_questions and has_unique_templates:
        return contents
    return None


def _decode(text: Raw, contents: Contents) -> list[_UsualTemplate]:
    """Decode templates from JSON text, and encode their reference steps as MessagePack.

    The steps are also checked and added to `contents`.
    """
    steps_encoder = _StepsEncoder(contents)

    def encode_steps(_type: type[EncodedSteps], groups: Any) -> EncodedSteps:
        return steps_encoder.encode(groups)

    decoder = msgspec.json.Decoder(list[_UsualTemplate], dec_hook=encode_steps)
    return decoder.decode(text)


def _add_template(contents: Contents, template: _UsualTemplate) -> None:
    """Add a template and its questions to `contents`.

    Raises:
        ValueError: a question is invalid.
        _Unusual: an id or a text is probably not as it was meant.
    """
    contents.templates.append(template.template_id)
    template_tags = read_tags(template.tags)
    _check_id(template.template_id)
    for question in template.questions:
        _check_id(question.id)
        if not question.question_text.strip():
            raise _Unusual
        contents.add_question(
            question,
            template_id=template.template_id,
            template_tags=template_tags,
            steps=question.reference_steps or NO_STEPS,
        )


def _check_id(identifier: str) -> None:
    """Check that an id is usual.

    Raises:
        _Unusual: there is a doubt about the id.
    """
    if doubt_about_id(identifier) is not None:
        raise _Unusual
