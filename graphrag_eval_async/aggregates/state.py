"""Serialises running aggregates.

A header (magic, version, CRC-32 of the rest), then MessagePack: the order of the templates, and for
each template its counts, its questions and the values of its metrics. Sums and micro statistics are
computed from the values. If there are tags, the same follows for each, with numbers and sums in
place of values.

The classes whose names begin with `Stored` are arrays in MessagePack, of their fields in this
order. Names are bytes: they may hold a lone surrogate, which MessagePack strings cannot. Integers
that may exceed 64 bits are bytes, too, and so are arrays of doubles; both are little-endian.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.aggregates.agreement import Agreement, JudgeSums
from graphrag_eval_async.aggregates.column import to_double_if_equal
from graphrag_eval_async.aggregates.group import Group
from graphrag_eval_async.aggregates.histogram import Bin, Histogram
from graphrag_eval_async.aggregates.pending import Pending, ResultKey
from graphrag_eval_async.aggregates.questions import QuestionValues, ValueSum
from graphrag_eval_async.aggregates.repeats import Grounds
from graphrag_eval_async.aggregates.series import Series, series_of
from graphrag_eval_async.aggregates.steps import NO_STEPS, StepCounts
from graphrag_eval_async.aggregates.tags import TagGroups
from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.errors import AggregationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_HEADER = struct.Struct(">4sHI")
"""Magic, version and checksum."""

_MAGIC = b"GEAA"
_VERSION = 9

_NO_VALUES = b""
"""Stands after the missing metrics of `Grounds` unless the results have values."""


@dataclass
class Contents:
    """All that aggregates without a window hold; see `Aggregates`."""

    order: dict[str, int] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)
    groups: dict[str, Group] = field(default_factory=dict)
    micro: dict[str, Series] = field(default_factory=dict)
    tags: TagGroups = field(default_factory=lambda: TagGroups(RIGHT_CONDITIONS))
    pending: Pending = field(default_factory=Pending)
    fractions: set[str] = field(default_factory=set)
    agreement: defaultdict[str, Agreement] = field(default_factory=lambda: defaultdict(Agreement))


class StoredQuestions(msgspec.Struct, array_like=True):
    """The values of a metric by question, in the order of the questions of the group."""

    single: bytes  # The value of each question as a double; NaN if it has none or several.
    sums: dict[int, tuple[bytes, int]]  # By index of a question with several: sum and number.


class StoredRightResults(msgspec.Struct, array_like=True):
    """Which results are right; the last two fields are those of `StoredQuestions`."""

    grounds: tuple[bytes, ...]  # The missing metrics, and perhaps `_NO_VALUES`.
    single: bytes
    sums: dict[int, tuple[bytes, int]]


class StoredSeries(msgspec.Struct, array_like=True):
    """The values of a metric."""

    integral: bool
    # Doubles as bytes; or a list, if no double equals some; or the number and the sum of values
    # that are not kept.
    values: Any
    bins: dict[int, tuple[int, bytes]]  # By index: number of values and sum.
    outside: int
    questions: StoredQuestions


class StoredGroup(msgspec.Struct, array_like=True):
    """A group of results."""

    errors: int
    errors_by_question: StoredQuestions
    rights: list[StoredRightResults]
    successes: int
    steps: dict[bytes, StepCounts]
    other_steps: StepCounts | None
    outcomes: list[tuple[bytes, bytes, int]]  # Metric, or that it is a reason; cause; number.
    questions: tuple[bytes, ...]
    series: dict[bytes, StoredSeries]


class StoredAgreement(msgspec.Struct, array_like=True):
    """The scores that judges gave a metric."""

    sums: dict[bytes, tuple[int, bytes, bytes]]  # By judge, the fields of `JudgeSums`.
    differences: dict[int, bytes]


class StoredAggregates(msgspec.Struct, array_like=True):
    """Aggregates of results without tags."""

    counts_errors: bool  # False. Earlier versions could also count the values of errors.
    order: dict[bytes, int]
    groups: dict[bytes, StoredGroup]
    pending: list[tuple[tuple[bytes, ...], list[tuple[bytes, ...]]]]  # By key: names of metrics.
    fractions: tuple[bytes, ...]
    expected: tuple[bytes, ...]
    agreement: dict[bytes, StoredAgreement]


class StoredTaggedAggregates(StoredAggregates):
    """Aggregates of results of which some have tags; or of others, if it is read."""

    tags: list[tuple[tuple[bytes, bytes], StoredGroup]] = []
    tags_are_cut: bool = False


def dump(contents: Contents) -> bytes:
    """Serialise aggregates; the bytes do not depend on the order of results."""
    stored = StoredAggregates(
        counts_errors=False,
        order={_encode(name): place for name, place in sorted(contents.order.items())},
        groups={
            _encode(name): _store_group(group) for name, group in sorted(contents.groups.items())
        },
        pending=[
            (_encode_all(key), [_encode_all(metrics) for metrics in sorted(results)])
            for key, results in sorted(contents.pending.results.items())
        ],
        fractions=_encode_all(sorted(contents.fractions)),
        expected=_encode_all(sorted(contents.expected)),
        agreement={
            _encode(metric): _store_agreement(agreement)
            for metric, agreement in sorted(contents.agreement.items())
        },
    )
    if contents.tags.groups:
        tags = [
            ((_encode(key), _encode(value)), _store_group(group))
            for (key, value), group in sorted(contents.tags.groups.items())
        ]
        stored = StoredTaggedAggregates(
            **msgspec.structs.asdict(stored), tags=tags, tags_are_cut=contents.tags.are_cut
        )
    body = msgspec.msgpack.encode(stored)
    return _HEADER.pack(_MAGIC, _VERSION, zlib.crc32(body)) + body


def load(data: bytes) -> Contents:
    """Read the output of `dump`.

    Its checksum says whether it is, so what it holds is not checked again.

    Raises:
        AggregationError: it is something else, or of another version.
    """
    body = _checked_body(data)
    try:
        return _restore(msgspec.msgpack.decode(body, type=StoredTaggedAggregates))
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise AggregationError(f"serialised aggregates: {error}") from error


def _checked_body(data: bytes) -> memoryview:
    """Return what follows the header.

    Raises:
        AggregationError: the header is not that of `dump`, or does not fit the rest.
    """
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


def _restore(stored: StoredTaggedAggregates) -> Contents:
    """Return what was stored."""
    contents = Contents()
    contents.order = {_decode(name): place for name, place in stored.order.items()}
    contents.expected = set(_decode_all(stored.expected))
    contents.fractions = set(_decode_all(stored.fractions))
    for name, group in stored.groups.items():
        contents.groups[_decode(name)] = _restore_group(group, contents.expected, contents.micro)
    for (key, value), group in stored.tags:
        tag = _decode(key), _decode(value)
        contents.tags.groups[tag] = _restore_group(group, expected=(), micro=None)
    contents.tags.are_cut = stored.tags_are_cut
    for names, results in stored.pending:
        result_key = ResultKey(*_decode_all(names))
        contents.pending.results[result_key] = [_decode_all(metrics) for metrics in results]
    for metric, agreement in stored.agreement.items():
        contents.agreement[_decode(metric)] = _restore_agreement(agreement)
    return contents


def _store_group(group: Group) -> StoredGroup:
    """Return a group as it is stored."""
    steps = group.steps.trimmed()
    questions = sorted(group.places)
    places = [group.places[question] for question in questions]
    rights = [
        (_encode_grounds(grounds), _store_questions(values, places))
        for grounds, values in group.right_results.by_grounds.items()
    ]
    return StoredGroup(
        errors=group.errors,
        errors_by_question=_store_questions(group.errors_by_question, places),
        rights=[
            StoredRightResults(grounds, stored.single, stored.sums)
            for grounds, stored in sorted(rights, key=lambda right: right[0])
        ],
        successes=group.successes,
        steps={_encode(name): counts for name, counts in sorted(steps.by_name.items())},
        other_steps=None if steps.other == NO_STEPS else steps.other,
        outcomes=[
            (_encode(name), _encode(cause), count)
            for (name, cause), count in sorted(group.outcomes.items())
        ],
        questions=_encode_all(questions),
        series={
            _encode(name): _store_series(series, places)
            for name, series in sorted(group.series.items())
        },
    )


def _restore_group(
    stored: StoredGroup, expected: Collection[str], micro: dict[str, Series] | None
) -> Group:
    """Return a group that was stored.

    Args:
        stored: the group of a template, or of a tag.
        expected: step names that are always counted by name.
        micro: the values of each metric in all templates, to which those of this one are added;
            None for the group of a tag.
    """
    group = Group(expected, ordered=micro is not None)
    group.errors = stored.errors
    group.successes = stored.successes
    group.places = {name: place for place, name in enumerate(_decode_all(stored.questions))}
    _restore_questions(group.errors_by_question, stored.errors_by_question)
    for rights in stored.rights:
        values = QuestionValues()
        _restore_questions(values, StoredQuestions(rights.single, rights.sums))
        group.right_results.by_grounds[_decode_grounds(rights.grounds)] = values
    group.steps.by_name = {_decode(name): counts for name, counts in stored.steps.items()}
    group.steps.other = stored.other_steps or NO_STEPS
    for name, cause, count in stored.outcomes:
        group.outcomes[_decode(name), _decode(cause)] = count
    for encoded_metric, stored_series in stored.series.items():
        metric = _decode(encoded_metric)
        series = group.metric(metric)
        _restore_series(series, stored_series)
        if series.questions is not None:
            _restore_questions(series.questions, stored_series.questions)
        if micro is not None:
            _restore_series(series_of(micro, metric), stored_series)
    return group


def _store_series(series: Series, places: Sequence[int]) -> StoredSeries:
    """Return the values of a metric as they are stored, with the questions at `places`."""
    values: Any
    if not series.ordered:
        values = series.size, _dump_int(series.units)
    else:
        # Adding 0 turns -0.0 into 0.0, so that the order of values does not matter.
        values = [
            value + 0
            for value in sorted(value for chunk in series.values.chunks for value in chunk)
        ]
        if not series.values.wide:
            values = _dump_doubles(array("d", values))
    histogram = Histogram() if series.histogram is None else series.histogram
    return StoredSeries(
        integral=series.integral,
        values=values,
        bins={
            index: (size, _dump_int(units))
            for index, (size, units) in sorted(histogram.bins().items())
        },
        outside=histogram.outside,
        questions=_store_questions(series.questions, places),
    )


def _restore_series(series: Series, stored: StoredSeries) -> None:
    """Add the values of a metric that were stored, except those by question."""
    if not series.ordered:
        size, units = stored.values
        series.integral = stored.integral
        series.size = size
        series.units = _load_int(units)
    elif isinstance(stored.values, list):
        values = [to_double_if_equal(value) for value in stored.values]
        series.restore(values, integral=stored.integral, wide=True)
    else:
        doubles = _load_doubles(stored.values)
        series.restore(doubles, integral=stored.integral, wide=False)
    if series.histogram is not None:
        bins = {index: Bin(size, _load_int(units)) for index, (size, units) in stored.bins.items()}
        series.histogram.merge(Histogram(bins, stored.outside))


def _store_questions(values: QuestionValues | None, places: Sequence[int]) -> StoredQuestions:
    """Return the values of the questions at `places` as they are stored."""
    if values is None:
        values = QuestionValues()
    single, sums = values.dump(places)
    return StoredQuestions(
        single=_dump_doubles(single),
        sums={
            index: (_dump_int(value_sum.units), value_sum.count)
            for index, value_sum in sums.items()
        },
    )


def _restore_questions(values: QuestionValues, stored: StoredQuestions) -> None:
    """Set values by question to those that were stored."""
    sums = {
        place: ValueSum(_load_int(units), count) for place, (units, count) in stored.sums.items()
    }
    values.load(_load_doubles(stored.single), sums)


def _encode_grounds(grounds: Grounds) -> tuple[bytes, ...]:
    """Return `Grounds` as they are stored."""
    names = _encode_all(grounds.missing)
    return names if grounds.have_values else (*names, _NO_VALUES)


def _decode_grounds(names: tuple[bytes, ...]) -> Grounds:
    """Return `Grounds` that were stored."""
    missing = [_decode(name) for name in names if name != _NO_VALUES]
    return Grounds(missing=tuple(missing), have_values=_NO_VALUES not in names)


def _store_agreement(agreement: Agreement) -> StoredAgreement:
    """Return the scores of judges as they are stored."""
    return StoredAgreement(
        sums={
            _encode(judge): (sums.count, _dump_int(sums.units), _dump_int(sums.squares))
            for judge, sums in sorted(agreement.sums.items())
        },
        differences={
            judges: _dump_int(units) for judges, units in sorted(agreement.differences.items())
        },
    )


def _restore_agreement(stored: StoredAgreement) -> Agreement:
    """Return the scores of judges that were stored."""
    agreement = Agreement()
    for judge, (count, units, squares) in stored.sums.items():
        agreement.sums[_decode(judge)] = JudgeSums(
            count=count, units=_load_int(units), squares=_load_int(squares)
        )
    for judges, differences in stored.differences.items():
        agreement.differences[judges] = _load_int(differences)
    return agreement


def _dump_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _load_int(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _dump_doubles(doubles: array[float]) -> bytes:
    """Return the bytes of an array, whose order may be changed if this machine is big-endian."""
    return _swap_if_big_endian(doubles).tobytes()


def _load_doubles(data: bytes) -> array[float]:
    return _swap_if_big_endian(array("d", data))


def _swap_if_big_endian(doubles: array[float]) -> array[float]:
    """Return the array itself, between the byte order of this machine and that of files."""
    if sys.byteorder == "big":
        doubles.byteswap()
    return doubles


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _encode_all(names: Iterable[str]) -> tuple[bytes, ...]:
    return tuple([_encode(name) for name in names])


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")


def _decode_all(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple([_decode(name) for name in names])
