"""Serialises running aggregates.

A header (magic, version, CRC-32 of the rest), then MessagePack: the order of the templates, and for each
template its counts, its questions and the values of its metrics. Sums and micro statistics are computed from
the values.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import msgspec

from graphrag_eval_async.aggregates.agreement import Agreement
from graphrag_eval_async.aggregates.group import Group, metric
from graphrag_eval_async.aggregates.histogram import BINS, Histogram
from graphrag_eval_async.aggregates.pending import Pending
from graphrag_eval_async.aggregates.questions import QuestionValues
from graphrag_eval_async.aggregates.series import Series, stored
from graphrag_eval_async.errors import AggregationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_HEADER = struct.Struct(">4sHI")
_MAGIC = b"GEAA"
_VERSION = 7

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
_Bin: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=BINS)]
# Bytes: a name may hold a lone surrogate, which MessagePack strings cannot.
_Name: TypeAlias = bytes


# Of each question in its place, its value as a little-endian double, or NaN; and by place, several: the bytes
# of their sum, and their number.
_Questions: TypeAlias = tuple[bytes, dict[_Count, tuple[bytes, _Positive]]]
_StepCounts: TypeAlias = Annotated[list[_Count], msgspec.Meta(min_length=4, max_length=4)]


class _Series(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    integral: bool
    # Little-endian doubles; or a list if some values are ints that no double equals.
    values: bytes | list[int | float]
    # By bin, the number of values and the bytes of their sum; and the number of values outside [0, 1].
    bins: dict[_Bin, tuple[_Positive, bytes]]
    outside: _Count
    questions: _Questions


class _Group(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    errors: _Count
    # 1 for each error, 0 for each success.
    errors_by_question: _Questions
    successes: _Count
    steps: dict[_Name, _StepCounts]
    # Counts of all steps not counted by name.
    other_steps: _StepCounts | None
    outcomes: list[tuple[_Name, _Name, _Positive]]
    questions: list[_Name]
    series: dict[_Name, _Series]


class _Agreement(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    # By judge, the number of scores and the bytes of the sums of them and of their squares.
    sums: dict[_Name, tuple[_Positive, bytes, bytes]]
    apart: dict[Annotated[int, msgspec.Meta(ge=2)], bytes]


class _State(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    include_errors: bool
    order: dict[_Name, _Count]
    groups: dict[_Name, _Group]
    pending: list[tuple[tuple[_Name, ...], list[tuple[_Name, ...]]]]
    fractions: list[_Name]
    expected: list[_Name]
    agreement: dict[_Name, _Agreement]


class Contents(NamedTuple):
    """The attributes of `RunningAggregates`."""

    include_errors: bool
    order: dict[str, int]
    groups: dict[str, Group]
    micro: dict[str, Series]
    pending: Pending
    fractions: set[str]
    expected: set[str]
    agreement: dict[str, Agreement]


def dump(contents: Contents) -> bytes:
    """Serialise aggregates; the bytes do not depend on the order of results."""
    include_errors, order, groups, _, pending, fractions, expected, agreement = contents
    state = _State(
        include_errors,
        {_encode(name): place for name, place in sorted(order.items())},
        {_encode(name): _dump_group(group) for name, group in sorted(groups.items())},
        [
            (_encode_all(key), [*map(_encode_all, sorted(metrics))])
            for key, metrics in sorted(pending.results.items())
        ],
        [*_encode_all(sorted(fractions))],
        [*_encode_all(sorted(expected))],
        {_encode(name): _dump_agreement(each) for name, each in sorted(agreement.items())},
    )
    body = msgspec.msgpack.encode(state)
    return _HEADER.pack(_MAGIC, _VERSION, zlib.crc32(body)) + body


def load(data: bytes) -> Contents:
    """Read the output of `dump`: its checksum tells whether it is, so what it says is not checked again."""
    body = _checked_body(data)
    try:
        state = msgspec.msgpack.decode(body, type=_State)
        micro: dict[str, Series] = {}
        names = set(map(_decode, state.expected))
        groups = {_decode(name): _load_group(group, micro, names) for name, group in state.groups.items()}
        order = {_decode(name): place for name, place in state.order.items()}
        fractions = set(map(_decode, state.fractions))
        pending = Pending()
        for (template, question, sample), expected in state.pending:
            key = (_decode(template), _decode(question), _decode(sample))
            pending.results[key] = [tuple(map(_decode, metrics)) for metrics in expected]
        agreement = {_decode(name): _load_agreement(each) for name, each in state.agreement.items()}
    except (msgspec.MsgspecError, ValueError, ArithmeticError) as error:
        raise AggregationError(f"serialised aggregates: {error}") from error
    return Contents(state.include_errors, order, groups, micro, pending, fractions, names, agreement)


def _checked_body(data: bytes) -> memoryview:
    if not isinstance(data, bytes | bytearray | memoryview) or len(data) < _HEADER.size:
        raise AggregationError("serialised aggregates: too short, or not bytes")
    magic, version, checksum = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise AggregationError("serialised aggregates: unknown header")
    if version != _VERSION:
        raise AggregationError(
            "serialised aggregates: written by another version of the library "
            f"(format {version}, this one reads {_VERSION}); make them again with "
            "`graphrag-eval-async aggregate RESULTS --aggregates FILE`, or evaluate again"
        )
    body = memoryview(data)[_HEADER.size :]
    if zlib.crc32(body) != checksum:
        raise AggregationError("serialised aggregates: corrupt, the checksum differs")
    return body


def _dump_group(group: Group) -> _Group:
    steps = dict(group.trimmed_steps)
    other = steps.pop(None, None)
    by_name = {_encode(name): counts for name, counts in sorted(steps.items()) if name is not None}
    questions = sorted(group.places)
    places = [group.places[question] for question in questions]
    series = {_encode(name): _dump_series(series, places) for name, series in sorted(group.series.items())}
    outcomes = [
        (_encode(what), _encode(kind), total) for (what, kind), total in sorted(group.outcomes.items())
    ]
    errors = _dump_questions(group.errors_by_question, places)
    names = [*_encode_all(questions)]
    return _Group(group.errors, errors, group.successes, by_name, other, outcomes, names, series)


def _load_group(state: _Group, micro: dict[str, Series], expected: Collection[str]) -> Group:
    group = Group(expected)
    group.errors, group.successes = state.errors, state.successes
    group.places = {_decode(name): place for place, name in enumerate(state.questions)}
    _load_questions(group.errors_by_question, state.errors_by_question)
    group.steps = {_decode(name): counts for name, counts in state.steps.items()}
    if state.other_steps is not None:
        group.steps[None] = state.other_steps
    for what, kind, total in state.outcomes:
        group.outcomes[_decode(what), _decode(kind)] = total
    for key, series in state.series.items():
        name = _decode(key)
        wide = isinstance(series.values, list)
        values = _load_values(series)
        bins = {place: (count, _load_int(units)) for place, (count, units) in series.bins.items()}
        histogram = Histogram(bins, series.outside)
        for each in (metric(group.series, name, by_question=True), metric(micro, name)):
            each.extend(values, integral=series.integral, wide=wide)
            if each.histogram is not None:
                each.histogram.merge(histogram)
        own = group.series[name]
        if own.questions is not None:
            _load_questions(own.questions, series.questions)
    return group


def _load_questions(questions: QuestionValues, state: _Questions) -> None:
    single: array[float] = array("d")
    single.frombytes(state[0])
    several = {place: (_load_int(total), values) for place, (total, values) in state[1].items()}
    questions.load(_little_endian(single), several)


def _dump_agreement(agreement: Agreement) -> _Agreement:
    return _Agreement(
        {
            _encode(judge): (count, _dump_int(total), _dump_int(squares))
            for judge, (count, total, squares) in sorted(agreement.sums.items())
        },
        {judges: _dump_int(apart) for judges, apart in sorted(agreement.apart.items())},
    )


def _load_agreement(state: _Agreement) -> Agreement:
    agreement = Agreement()
    for judge, (count, total, squares) in state.sums.items():
        agreement.sums[_decode(judge)] = [count, _load_int(total), _load_int(squares)]
    agreement.apart.update({judges: _load_int(apart) for judges, apart in state.apart.items()})
    return agreement


def _dump_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _load_int(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _dump_questions(questions: QuestionValues | None, places: Iterable[int]) -> _Questions:
    single, several = (questions or QuestionValues()).dump(places)
    return _little_endian(single).tobytes(), {
        place: (_dump_int(units), count) for place, (units, count) in several.items()
    }


def _dump_series(series: Series, places: Sequence[int]) -> _Series:
    # Adding 0 turns -0.0 into 0.0, so that the order of values does not matter.
    values = [value + 0 for value in sorted(value for chunk in series.values.chunks for value in chunk)]
    histogram = Histogram() if series.histogram is None else series.histogram
    bins = {place: (count, _dump_int(units)) for place, (count, units) in sorted(histogram.bins().items())}
    questions = _dump_questions(series.questions, places)
    kept = values if series.values.wide else _little_endian(array("d", values)).tobytes()
    return _Series(series.integral, kept, bins, histogram.outside, questions)


def _load_values(state: _Series) -> Collection[float]:
    values: array[float] | list[float]
    if isinstance(state.values, bytes):
        values = array("d")
        values.frombytes(state.values)
        values = _little_endian(values)
    else:
        values = [stored(value) for value in state.values]
    return values


def _little_endian(doubles: array[float]) -> array[float]:
    if sys.byteorder == "big":
        doubles.byteswap()
    return doubles


def _encode(name: str) -> _Name:
    return name.encode("utf-8", "surrogatepass")


def _encode_all(names: Iterable[str]) -> tuple[_Name, ...]:
    return tuple(map(_encode, names))


def _decode(name: _Name) -> str:
    return name.decode("utf-8", "surrogatepass")
