"""A quick check of SPARQL results in JSON. Loading a reference set makes thousands of such checks."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.steps.formats.results import FEW_CELLS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

TIMES = 20
"""Tables with equal columns get a decoder of their own after so many: it takes a third less time, but making
it takes as long as 20 tables."""

MAX_COLUMNS = 50
"""Maximum number of columns of such a decoder."""

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


class _Form:
    """A form that tables have: their columns."""

    __slots__ = ("columns", "decode")

    def __init__(self, decode: Callable[[str], Any], columns: list[str]) -> None:
        self.decode = decode
        self.columns = columns


_decode = msgspec.json.Decoder(_Document).decode
_forms: dict[str, _Form] = {}
_times: Counter[str] = Counter()


def are_plain(output: Any, required: Collection[str]) -> bool:
    """Whether text is SPARQL results with the required columns and nothing wrong or unusual.

    Much quicker than reading them; of what is not plain, reading tells whether it is right, and what is not.
    """
    if type(output) is not str:
        return False
    beginning = output[: output.find("]")]
    form = _forms.get(beginning)
    try:
        document = _decode(output) if form is None else form.decode(output)
    except (ValueError, RecursionError):
        return False
    rows, listed = document.results.bindings, document.head.vars
    if document.boolean is not msgspec.UNSET or len(listed) * len(rows) > FEW_CELLS:
        return False
    if form is not None and listed == form.columns == required:  # As most are.
        return True
    variables = frozenset(listed)
    is_plain = (
        len(variables) == len(listed)
        and len(frozenset(required)) == len(required)
        and variables.issuperset(required)
        and (variables.issuperset(chain.from_iterable(rows)) if form is None else listed == form.columns)
    )
    if is_plain and form is None and len(beginning) <= MAX_BEGINNING and len(listed) <= MAX_COLUMNS:
        _count(beginning, listed)
    return is_plain


def _count(beginning: str, columns: list[str]) -> None:
    """Count a table with these columns, and make a decoder after `TIMES` tables."""
    if len(_times) >= KEPT:
        _times.clear()
    _times[beginning] += 1
    if _times[beginning] >= TIMES:
        if len(_forms) >= KEPT:
            _forms.clear()
        with suppress(ValueError):  # A name has characters that msgspec does not take.
            _forms[beginning] = _form_of(columns)


def _form_of(columns: list[str]) -> _Form:
    names = {f"column_{index}": column for index, column in enumerate(columns)}
    cells: list[Any] = [(name, _Term | msgspec.UnsetType, msgspec.UNSET) for name in names]
    options: dict[str, Any] = {"gc": False, "forbid_unknown_fields": True, "rename": names}
    row = msgspec.defstruct("Row", cells, **options)
    results = msgspec.defstruct("Results", [("bindings", list[row])], gc=False)  # type: ignore[valid-type]
    document = msgspec.defstruct("Document", [("results", results)], bases=(_Document,), gc=False)
    return _Form(msgspec.json.Decoder(document).decode, columns)
