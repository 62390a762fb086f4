"""The questions that responses answer."""

from __future__ import annotations

from typing import Any

import msgspec


class Question(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One question of a reference set: what an agent is given by `evaluate_agent`, and a `Reference` yields.

    An agent needs `text`, and maybe `id`. The reference answer and steps are there, too: do not show them to
    the model. Questions are immutable; each access to `reference_steps` makes a copy.

    Attributes:
        template_id: the id of its template.
        id: its own id, which responses name as `question_id`.
        text: the question, as `question_text` has it in the reference set.
        reference_answer: the right answer; None if there is none.
        data: groups of reference steps, encoded; use `reference_steps`. The garbage collector need not walk
            it, and MessagePack is decoded in less than half the time of JSON.
    """

    template_id: str
    id: str
    text: str
    reference_answer: str | None
    data: bytes | None

    @property
    def size(self) -> int:
        """How many bytes the reference steps take, encoded."""
        return 0 if self.data is None else len(self.data)

    @property
    def reference_steps(self) -> list[list[dict[str, Any]]] | None:
        """Groups of steps in order of execution, decoded anew each time; None if there are none."""
        return None if self.data is None else decode_steps(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash((self.template_id, self.id))

    def as_dict(self) -> dict[str, Any]:
        """All that it is made of, its reference steps decoded."""
        return {
            "template_id": self.template_id,
            "id": self.id,
            "text": self.text,
            "reference_answer": self.reference_answer,
            "reference_steps": self.reference_steps,
        }


encode_steps = msgspec.msgpack.Encoder().encode
decode_steps = msgspec.msgpack.Decoder(list[list[dict[str, Any]]]).decode
