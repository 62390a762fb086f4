"""A quick check of SPARQL results in JSON. Loading a reference set makes thousands of such checks."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.steps.formats.results import FEW_CELLS

if TYPE_CHECKING:
    from collections.abc import Collection

TIMES = 20
"""Tables with equal columns get a decoder of their own after so many: it takes a third less time, but making
it takes as long as 20 tables."""

MAX_BEGINNING = 1000
"""Maximum number of characters up to the end of the list of columns in its tables."""

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
# By the beginning of tables: their decoder and columns, or how many there were so far.
_forms: dict[str, tuple[Any, list[str]] | int] = {}


def are_plain(output: Any, required: Collection[str]) -> bool:
    """Whether text is SPARQL results with the required columns and nothing wrong or unusual.

    Much quicker than reading them; of what is not plain, reading tells whether it is right, and what is not.
    """
    if type(output) is not str:
        return False
    beginning = output[: output.find("]")]
    form = _forms.get(beginning, 0)
    decode, columns = (_decode, None) if isinstance(form, int) else form
    try:
        document = decode(output)
    except (ValueError, RecursionError):
        return False
    rows, listed = document.results.bindings, document.head.vars
    if document.boolean is not msgspec.UNSET or len(listed) * len(rows) > FEW_CELLS:
        return False
    if listed == columns == required:  # As most are.
        return True
    variables = frozenset(listed)
    is_plain = len(variables) == len(listed) and len(frozenset(required)) == len(required)
    bound = listed if columns is not None else chain.from_iterable(rows)
    is_plain = is_plain and variables.issuperset(required) and variables.issuperset(bound)
    if is_plain and isinstance(form, int) and len(beginning) <= MAX_BEGINNING:
        if len(_forms) >= KEPT:
            _forms.clear()
        _forms[beginning] = form + 1
        if form >= TIMES:
            with suppress(ValueError):  # A name has characters that msgspec does not take.
                _forms[beginning] = _decoder_of(listed), listed
    return is_plain and columns in (None, listed)


def _decoder_of(columns: list[str]) -> Any:
    """A decoder of tables with these columns."""
    names = {f"column_{index}": column for index, column in enumerate(columns)}
    cells: list[Any] = [(name, _Term | msgspec.UnsetType, msgspec.UNSET) for name in names]
    row = msgspec.defstruct("Row", cells, gc=False, forbid_unknown_fields=True, rename=names)
    results = msgspec.defstruct("Results", [("bindings", list[row])], gc=False)  # type: ignore[valid-type]
    document = msgspec.defstruct("Document", [("results", results)], bases=(_Document,), gc=False)
    return msgspec.json.Decoder(document).decode
