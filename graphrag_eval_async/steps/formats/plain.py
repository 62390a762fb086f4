"""A quick check of SPARQL results in JSON. Loading a reference set makes thousands of such checks."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from graphrag_eval_async.steps.formats.results import FEW_CELLS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Decode: TypeAlias = Callable[[str], Any]

TIMES = 20
"""Tables with equal columns get a decoder of their own after so many: it takes a third less time, but making
it takes as long as 20 tables."""

MAX_COLUMNS, MAX_BEGINNING = 50, 1000
"""Maximum number of columns of such a decoder, and of characters up to their end in its tables."""

KEPT = 256
"""Maximum number of such decoders, and of others that are counted."""


class _Term(msgspec.Struct, gc=False):
    value: str
    datatype: str | None = None


class _Head(msgspec.Struct, gc=False):
    vars: list[str]


class _Results(msgspec.Struct, gc=False):
    bindings: list[dict[str, _Term]]


class _Document(msgspec.Struct, gc=False):
    head: _Head
    results: _Results
    boolean: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(_Document).decode
_decoders: dict[str, tuple[Decode, list[str]]] = {}
"""The decoders, and their columns, by the beginning of their tables."""
_times: Counter[str] = Counter()


def are_plain(output: Any, required: Collection[str]) -> bool:
    """Whether text is SPARQL results with the required columns and nothing wrong or unusual.

    Much quicker than reading them; of what is not plain, reading tells whether it is right, and what is not.
    """
    if type(output) is not str:
        return False
    beginning = output[: output.find("]")]
    decode, columns = _decoders.get(beginning) or (_decode, None)
    try:
        document = decode(output)
    except (ValueError, RecursionError):
        return False
    rows, listed = document.results.bindings, document.head.vars
    if document.boolean is not msgspec.UNSET or len(listed) * len(rows) > FEW_CELLS:
        return False
    if listed == columns == required:  # As most are.
        return True
    variables, wanted = frozenset(listed), frozenset(required)
    if not (len(variables) == len(listed) and len(wanted) == len(required) and wanted <= variables):
        return False
    if columns is not None:
        return bool(listed == columns)
    is_plain = variables.issuperset(chain.from_iterable(rows))
    if is_plain and len(beginning) <= MAX_BEGINNING and len(listed) <= MAX_COLUMNS:
        _count(beginning, listed)
    return is_plain


def _count(beginning: str, columns: list[str]) -> None:
    """Count a table with these columns, and make a decoder after `TIMES` tables."""
    for known in (_times, _decoders):
        if len(known) >= KEPT:
            known.clear()
    _times[beginning] += 1
    if _times[beginning] >= TIMES:
        with suppress(ValueError):  # A name has characters that msgspec does not take.
            _decoders[beginning] = _decoder_of(columns), columns


def _decoder_of(columns: list[str]) -> Decode:
    names = {f"column_{index}": column for index, column in enumerate(columns)}
    cells: list[Any] = [(name, _Term | msgspec.UnsetType, msgspec.UNSET) for name in names]
    options: dict[str, Any] = {"gc": False, "forbid_unknown_fields": True, "rename": names}
    row = msgspec.defstruct("Row", cells, **options)
    results = msgspec.defstruct("Results", [("bindings", list[row])], gc=False)  # type: ignore[valid-type]
    document = msgspec.defstruct("Document", [("results", results)], bases=(_Document,), gc=False)
    return msgspec.json.Decoder(document).decode
