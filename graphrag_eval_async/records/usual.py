"""Usual responses: known keys, plain types, and no nulls.

Most responses are usual. One typed decoder reads them in a few microseconds, and gives up at
whatever is unusual; that is left to `records.response`, which says what is wrong.
"""

from __future__ import annotations

from sys import float_info
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_STEPS = 100
"""Maximum number of steps of a usual response."""

DEEPEST = 4
"""How deep the values of usual steps nest."""

# orjson, which the slow path uses, reads larger integers as floats.
_Int: Any = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# NaN, which a Python object may hold, is in no range.
_Float: Any = Annotated[float, Meta(ge=-float_info.max, le=float_info.max)]
_Amount: Any = (
    Annotated[int, Meta(ge=0, le=2**63 - 1)] | Annotated[float, Meta(ge=0, lt=float(2**63))]
)
_Value: Any = str | _Int | _Float | bool
for _ in range(DEEPEST):
    _Value = str | _Int | _Float | bool | dict[str, _Value] | list[_Value]

_ABSENT: Any = None
"""Stands for a key that is absent. A key that is null is unusual, and is refused by its type."""


class UsualResponse(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A usual response, as a line of JSON has it."""

    question_id: str
    id: str = _ABSENT
    status: Literal["success", "error"] = "success"
    error: str = _ABSENT
    actual_answer: str = _ABSENT
    actual_steps: Annotated[list[dict[str, _Value]], Meta(max_length=MOST_STEPS)] = _ABSENT
    input_tokens: _Amount = _ABSENT
    output_tokens: _Amount = _ABSENT
    total_tokens: _Amount = _ABSENT
    elapsed_sec: _Amount = _ABSENT


# The type of a response says what its keys may be in JSON, not that those absent are None.
decode_usual: Callable[[bytes], Any] = msgspec.json.Decoder(UsualResponse).decode
"""Return the response in JSON text. Raises a `ValueError` or `RecursionError` if anything in it is
unusual.
"""

USUAL_KEYS = frozenset(UsualResponse.__struct_fields__)
"""The keys that a usual response may have."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(UsualResponse).decode


def copy_usual(item: dict[str, Any]) -> UsualResponse:
    """Return a copy of a response that is a Python object.

    It is made by way of MessagePack, which takes half as long as decoding the JSON text. All texts
    in it are plain `str`; `msgspec.convert`, which is quicker, would keep those of a subclass.

    Raises:
        TypeError: a value cannot be written.
        ValueError: something in it is unusual.
        RecursionError: it contains itself.
    """
    return _unpack(_pack(item))
