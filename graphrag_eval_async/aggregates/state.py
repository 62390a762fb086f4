"""Serialises running aggregates.

A header (magic, version, CRC-32 of the rest), then MessagePack: the order of the templates, and for
each template its counts, its questions and the values of its metrics. Sums and micro statistics are
computed from the values. If there are tags, the same follows for each, with numbers and sums in
place of values.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from graphrag_eval_async.aggregates.agreement import Agreement
from graphrag_eval_async.aggregates.group import Group, metric
from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.aggregates.pending import Pending
from graphrag_eval_async.aggregates.questions import QuestionValues
from graphrag_eval_async.aggregates.series import Series, stored
from graphrag_eval_async.aggregates.tags import Tagged
from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.errors import AggregationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_HEADER = struct.Struct(">4sHI")
_MAGIC = b"GEAA"
_VERSION = 9


class Contents(NamedTuple):
    """The attributes of `RunningAggregates`."""

    order: dict[str, int]
    groups: dict[str, Group]
    micro: dict[str, Series]
    pending: Pending
    fractions: set[str]
    expected: set[str]
    agreement: dict[str, Agreement]
    tags: Tagged


def dump(contents: Contents) -> bytes:
    """Serialise aggregates; the bytes do not depend on the order of results."""
    order, groups, _, pending, fractions, expected, agreement, tags = contents
    state: tuple[Any, ...] = (
        False,  # Earlier versions could also count the values of errors.
        {_encode(name): place for name, place in sorted(order.items())},
        {_encode(name): _dump_group(group) for name, group in sorted(groups.items())},
        [
            (_encode_all(key), [*map(_encode_all, sorted(metrics))])
            for key, metrics in sorted(pending.results.items())
        ],
        _encode_all(sorted(fractions)),
        _encode_all(sorted(expected)),
        {_encode(name): _dump_agreement(each) for name, each in sorted(agreement.items())},
    )
    if tags.groups:
        state += (
            [(_encode_all(tag), _dump_group(own)) for tag, own in sorted(tags.groups.items())],
            tags.are_cut,
        )
    body = msgspec.msgpack.encode(state)
    return _HEADER.pack(_MAGIC, _VERSION, zlib.crc32(body)) + body


def load(data: bytes) -> Contents:
    """Read the output of `dump`: its checksum tells whether it is, so what it says is not
    checked again.
    """
    body = _checked_body(data)
    micro: dict[str, Series] = {}
    pending = Pending()
    try:
        state = msgspec.msgpack.decode(body)
        _, order, groups, waiting, fractions, expected, agreement, *more = state
        tags = Tagged(RIGHT_CONDITIONS)
        per_tag, tags.are_cut = more or ((), False)
        for (key, value), group in per_tag:
            tags.groups[_decode(key), _decode(value)] = _load_group(group, {}, (), ordered=False)
        names = {*_decode_all(expected)}
        pending.results = {
            _decode_all(key): [*map(_decode_all, metrics)] for key, metrics in waiting
        }
        return Contents(
            {_decode(name): place for name, place in order.items()},
            {_decode(name): _load_group(group, micro, names) for name, group in groups.items()},
            micro,
            pending,
            {*_decode_all(fractions)},
            names,
            {_decode(name): _load_agreement(*each) for name, each in agreement.items()},
            tags,
        )
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise AggregationError(f"serialised aggregates: {error}") from error


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


def _dump_group(group: Group) -> tuple[Any, ...]:
    steps = dict(group.trimmed_steps)
    other = steps.pop(None, None)
    questions = sorted(group.places)
    places = [group.places[question] for question in questions]
    return (
        group.errors,
        _dump_questions(group.errors_by_question, places),
        [
            (_encode_all(key), *_dump_questions(own, places))
            for key, own in sorted(group.rights.known.items())
        ],
        group.successes,
        {_encode(name): counts for name, counts in sorted(steps.items()) if name is not None},
        other,
        [
            (_encode(what), _encode(kind), total)
            for (what, kind), total in sorted(group.outcomes.items())
        ],
        _encode_all(questions),
        {
            _encode(name): _dump_series(series, places)
            for name, series in sorted(group.series.items())
        },
    )


def _load_group(
    state: Sequence[Any],
    micro: dict[str, Series],
    expected: Collection[str],
    *,
    ordered: bool = True,
) -> Group:
    group = Group(expected, ordered=ordered)
    group.errors, errors, right, group.successes, steps, other, outcomes, questions, metrics = state
    group.places = {name: place for place, name in enumerate(_decode_all(questions))}
    _load_questions(group.errors_by_question, *errors)
    for lacking, *values in right:
        group.rights.known[_decode_all(lacking)] = known_right = QuestionValues()
        _load_questions(known_right, *values)
    group.steps = {_decode(name): counts for name, counts in steps.items()}
    if other is not None:
        group.steps[None] = other
    group.outcomes.update({(_decode(what), _decode(kind)): total for what, kind, total in outcomes})
    for name, (integral, values, bins, outside, by_question) in metrics.items():
        wide, own = isinstance(values, list), group.metric(_decode(name))
        histogram = Histogram(
            {place: (n, _load_int(sum_)) for place, (n, sum_) in bins.items()}, outside
        )
        if not ordered:
            own.integral, own.size, own.units = integral, values[0], _load_int(values[1])
        known = [] if not ordered else [*map(stored, values)] if wide else _load_doubles(values)
        for each in (own, metric(micro, _decode(name))):
            each.extend(known, integral=integral, wide=wide and ordered)
            if each.histogram is not None:
                each.histogram.merge(histogram)
        if own.questions is not None:
            _load_questions(own.questions, *by_question)
    return group


def _dump_series(series: Series, places: Sequence[int]) -> tuple[Any, ...]:
    """Return its values as doubles, or a list if no double equals some; and of each bin, number and
    sum.

    In place of values that are not kept, it has their number and sum.
    """
    # Adding 0 turns -0.0 into 0.0, so that the order of values does not matter.
    values = [
        value + 0 for value in sorted(value for chunk in series.values.chunks for value in chunk)
    ]
    histogram = Histogram() if series.histogram is None else series.histogram
    doubles = values if series.values.wide else _dump_doubles(array("d", values))
    return (
        series.integral,
        doubles if series.ordered else (series.size, _dump_int(series.units)),
        {
            place: (count, _dump_int(units))
            for place, (count, units) in sorted(histogram.bins().items())
        },
        histogram.outside,
        _dump_questions(series.questions, places),
    )


def _dump_questions(questions: QuestionValues | None, places: Iterable[int]) -> tuple[Any, ...]:
    """Return the value of each question, or NaN; and by place, of several, their sum and number."""
    single, several = (questions or QuestionValues()).dump(places)
    return _dump_doubles(single), {
        place: (_dump_int(sum_), n) for place, (sum_, n) in several.items()
    }


def _load_questions(
    questions: QuestionValues, single: bytes, several: dict[int, tuple[bytes, int]]
) -> None:
    sums = {place: (_load_int(sum_), n) for place, (sum_, n) in several.items()}
    questions.load(_load_doubles(single), sums)


def _dump_agreement(agreement: Agreement) -> tuple[Any, ...]:
    sums, apart = sorted(agreement.sums.items()), sorted(agreement.apart.items())
    return (
        {
            _encode(judge): (n, _dump_int(total), _dump_int(squares))
            for judge, (n, total, squares) in sums
        },
        {judges: _dump_int(units) for judges, units in apart},
    )


def _load_agreement(
    sums: dict[bytes, tuple[int, bytes, bytes]], apart: dict[int, bytes]
) -> Agreement:
    agreement = Agreement()
    for judge, (count, total, squares) in sums.items():
        agreement.sums[_decode(judge)] = [count, _load_int(total), _load_int(squares)]
    agreement.apart.update({judges: _load_int(units) for judges, units in apart.items()})
    return agreement


def _dump_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _load_int(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _dump_doubles(doubles: array[float]) -> bytes:
    return _little_endian(doubles).tobytes()


def _load_doubles(data: bytes) -> array[float]:
    return _little_endian(array("d", data))


def _little_endian(doubles: array[float]) -> array[float]:
    if sys.byteorder == "big":
        doubles.byteswap()
    return doubles


# Names are bytes: they may hold a lone surrogate, which MessagePack strings cannot.
def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _encode_all(names: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(map(_encode, names))


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")


def _decode_all(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(map(_decode, names))
