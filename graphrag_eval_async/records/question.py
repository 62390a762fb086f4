"""Questions of a reference set."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from graphrag_eval_async.records.decoding import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.catalogue.tags import Tags

Matching: TypeAlias = Literal["exact", "contains", "number", "regex", "list"]
"""The ways to match an answer with the reference answer, without a judge."""

NAMES_OF_QUESTION = {
    "question": ("question", "question_text"),
    "template": ("template", "template_id"),
    "question_id": ("question_id",),
}
"""What a response may say about its question if there is no reference set.

Each has several spellings of its key. If a response has more than one, the first one counts.
"""


class Question(msgspec.Struct, frozen=True, gc=False):
    """One question of a reference set.

    A `Reference` yields its questions, and `evaluate_agent` passes them to an agent. An agent needs
    `text`, and maybe `id`. Do not show the reference answer and steps to its model. Questions are
    immutable: each access to `reference_steps` returns a new copy.

    Attributes:
        template_id: id of its template.
        id: its own id; `question_id` in responses.
        text: the question; `question_text` in the reference set.
        reference_answer: the correct answer. If it is a list, each of its texts is on its own line.
            None if there is no reference answer.
        data: groups of reference steps, encoded as MessagePack; use `reference_steps`.
        tags: pairs of a key and its value as text, sorted by key. They include the tags of the
            template.
        forbidden_steps: names of steps that the agent must not execute.
        max_steps: maximum number of steps that the agent may execute; None if there is no maximum.
        match: how answers are matched with the reference answer; None if the configuration says.
        is_usual: whether equal outputs are enough to score most responses to it, which is faster
            than comparing them.
        tolerance: for `match` "number", as a share of the reference number; None means the default.
    """

    template_id: str
    id: str
    text: str
    reference_answer: str | None
    data: bytes | None
    tags: Tags = ()
    forbidden_steps: tuple[str, ...] = ()
    max_steps: int | None = None
    match: Matching | None = None
    tolerance: float | None = None
    is_usual: bool = False

    @property
    def size(self) -> int:
        """Size of the encoded reference steps in bytes."""
        if self.data is None:
            return 0
        return len(self.data)

    @property
    def limits(self) -> dict[str, Any]:
        """`forbidden_steps` and `max_steps`, as far as the question sets them."""
        limits: dict[str, Any] = {}
        if self.forbidden_steps:
            limits["forbidden_steps"] = [*self.forbidden_steps]
        if self.max_steps is not None:
            limits["max_steps"] = self.max_steps
        return limits

    @property
    def reference_steps(self) -> list[list[dict[str, Any]]] | None:
        """Groups of steps in order of execution, decoded on each access; None if there are none."""
        if self.data is None:
            return None
        return decode_steps(self.data)

    def as_dict(self) -> dict[str, Any]:
        """Return the question as a dict, with its reference steps decoded.

        Tags, limits, `match` and `tolerance` are absent if the question does not set them.
        """
        question: dict[str, Any] = {
            "template_id": self.template_id,
            "id": self.id,
            "text": self.text,
            "reference_answer": self.reference_answer,
            "reference_steps": self.reference_steps,
        }
        if self.tags:
            question["tags"] = dict(self.tags)
        question |= self.limits
        if self.match is not None:
            question["match"] = self.match
        if self.tolerance is not None:
            question["tolerance"] = self.tolerance
        return question


encode_steps = msgspec.msgpack.Encoder().encode
decode_steps = msgspec.msgpack.Decoder(list[list[dict[str, Any]]]).decode


class AnyQuestion(dict[str, Question]):
    """Stands for the questions of a reference set if there is none.

    Then each response has the text of its own question.
    """


def question_of(record: Mapping[str, Any]) -> Question:
    """Return the question that a response names, if there is no reference set.

    A response without a template gets the template "all". A response without an id of its question
    gets the SHA-256 digest of the text as the id.

    Raises:
        InvalidRecord: the response has no question, or one of the fields is not a string with text.
    """
    text = _text_under(record, "question")
    template_id = _text_under(record, "template")
    question_id = _text_under(record, "question_id")
    if text is None:
        problem = (
            "question: missing; without a reference set, each response needs the text of its "
            "question"
        )
        raise InvalidRecord("invalid_field", problem)

    if question_id is None:
        question_id = sha256(text.encode(errors="surrogatepass")).hexdigest()
    return Question(
        template_id=template_id or "all",
        id=question_id,
        text=text,
        reference_answer=None,
        data=None,
    )


def _text_under(record: Mapping[str, Any], name: str) -> str | None:
    """Return what a response says about its question under a name of `NAMES_OF_QUESTION`.

    Returns:
        None if the response has none of the keys of this name, or only null.

    Raises:
        InvalidRecord: the value is not a string, or is blank.
    """
    for key in NAMES_OF_QUESTION[name]:
        value = record.get(key)
        if type(value) is str and value.strip():
            return value
        if value is not None:
            raise InvalidRecord("invalid_field", f"{name}: expected a string that is not empty")
    return None
