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
"""What a response may say about its question if there is no reference set, and the keys for it."""


class Question(msgspec.Struct, frozen=True, gc=False):
    """One question of a reference set. `evaluate_agent` passes it to an agent; a `Reference` yields
    it.

    An agent needs `text`, and maybe `id`. Do not show the reference answer and steps to its model.
    Questions are immutable; each access to `reference_steps` returns a new copy.

    Attributes:
        template_id: id of its template.
        id: its own id; `question_id` in responses.
        text: the question; `question_text` in the reference set.
        reference_answer: the correct answer, its texts on lines if it is a list; None if there is
            none.
        data: groups of reference steps, encoded as MessagePack; use `reference_steps`.
        tags: pairs of a key and its value as text, those of the template included, sorted by key.
        forbidden_steps: names of steps that the agent must not execute.
        max_steps: maximum number of steps that the agent may execute; None if there is none.
        match: how answers are matched with the reference answer; None leaves that to the
            configuration.
        is_usual: whether responses to it can be scored by outputs that are plainly equal.
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
        return 0 if self.data is None else len(self.data)

    @property
    def limits(self) -> dict[str, Any]:
        """`forbidden_steps` and `max_steps` by name, as far as the question has them."""
        given = {"forbidden_steps": [*self.forbidden_steps] or None, "max_steps": self.max_steps}
        return {name: limit for name, limit in given.items() if limit is not None}

    @property
    def reference_steps(self) -> list[list[dict[str, Any]]] | None:
        """Groups of steps in order of execution, decoded on each access; None if there are none."""
        return None if self.data is None else decode_steps(self.data)

    def as_dict(self) -> dict[str, Any]:
        """The question as a dict, with decoded reference steps; tags and limits only if it has
        any.
        """
        names = ("template_id", "id", "text", "reference_answer", "reference_steps")
        tags = {"tags": dict(self.tags)} if self.tags else {}
        more = {
            name: own for name in ("match", "tolerance") if (own := getattr(self, name)) is not None
        }
        return {name: getattr(self, name) for name in names} | tags | self.limits | more


encode_steps = msgspec.msgpack.Encoder().encode
decode_steps = msgspec.msgpack.Decoder(list[list[dict[str, Any]]]).decode


class AnyQuestion(dict[str, Question]):
    """Stands for the questions of a reference set if there is none: each response names its own."""


def question_of(record: Mapping[str, Any]) -> Question:
    """The question that a response names: `question`, and if present `template` and `question_id`.

    Without a `template`, it is "all"; without a `question_id`, the SHA-256 hash of the question.
    """
    given: dict[str, str | None] = {}
    for name, keys in NAMES_OF_QUESTION.items():
        value = given[name] = next(
            (record[key] for key in keys if record.get(key) is not None), None
        )
        if value is not None and (type(value) is not str or not value.strip()):
            raise InvalidRecord("invalid_field", f"{name}: expected a string that is not empty")
    if (text := given["question"]) is None:
        problem = (
            "question: missing; without a reference set, each response needs the text of its "
            "question"
        )
        raise InvalidRecord("invalid_field", problem)
    question_id = given["question_id"] or sha256(text.encode(errors="surrogatepass")).hexdigest()
    return Question(given["template"] or "all", question_id, text, None, None)
