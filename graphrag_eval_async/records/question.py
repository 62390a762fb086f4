"""The questions that responses answer."""

from __future__ import annotations

from typing import Any

import msgspec


class Question(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One question of a reference set.

    Its reference steps are held as MessagePack, which the garbage collector need not walk and which is
    decoded in less than half the time of JSON.

    Attributes:
        template_id: of its template.
        id: of the question.
        text: the question.
        reference_answer: None if there is none.
        data: groups of reference steps, encoded by `encode_steps`; None if there are none.
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
