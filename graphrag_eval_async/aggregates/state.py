"""Serialises running aggregates to bytes, and restores them.

The bytes begin with a header: magic, version, and CRC-32 of the rest. MessagePack follows. It has
the order of the templates, and for each template its counts, its questions and the values of its
metrics. Sums and micro statistics are computed from the values. If there are tags, the same follows
for each tag, but with the number and the sum of the values in place of the values.

The classes whose names begin with `Stored` become arrays in MessagePack, with their fields in this
order. Names are bytes, since they may hold a lone surrogate, which MessagePack strings cannot.
Integers that may exceed 64 bits are bytes, too, and so are arrays of doubles. Both are
little-endian.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from math import isfinite, isnan
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec

from graphrag_eval_async.aggregates.agreement import Agreement, JudgeSums
from graphrag_eval_async.aggregates.column import to_double_if_equal
from graphrag_eval_async.aggregates.exact import FIXED_POINT_ONE
from graphrag_eval_async.aggregates.group import Group
from graphrag_eval_async.aggregates.histogram import BINS, Bin, Histogram
from graphrag_eval_async.aggregates.pending import Pending, ResultKey
from graphrag_eval_async.aggregates.questions import QuestionValues, ValueSum
from graphrag_eval_async.aggregates.repeats import Grounds
from graphrag_eval_async.aggregates.series import Series, series_of
from graphrag_eval_async.aggregates.steps import NO_STEPS, StepCounts
from graphrag_eval_async.aggregates.tags import TagGroups
from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.errors import AggregationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

_HEADER = struct.Struct(">4sHI")
"""Magic, version and checksum."""

_MAGIC = b"GEAA"
_VERSION = 9

_NO_VALUES = b""
"""The last name of stored `Grounds` whose results have no values."""


MAX_VALUES = 1 << 53
"""Maximum number of values of a metric, so that a double holds it; more than anybody has."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

PositiveCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]

BinIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=BINS)]


@dataclass
class Contents:
    """The complete state of `Aggregates` without a window."""

    order: dict[str, int] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)
    groups: dict[str, Group] = field(default_factory=dict)
    micro: dict[str, Series] = field(default_factory=dict)
    tags: TagGroups = field(default_factory=lambda: TagGroups(RIGHT_CONDITIONS))
    pending: Pending = field(default_factory=Pending)
    fractions: set[str] = field(default_factory=set)
    agreement: defaultdict[str, Agreement] = field(default_factory=lambda: defaultdict(Agreement))


class StoredQuestions(msgspec.Struct, array_like=True):
    """The values of a metric by question, in the order of `StoredGroup.questions`.

    Attributes:
        single_values: the value of each question as a double, NaN if it has none or several.
        sums: the sum and the number of the values of each question with several, by index of the
            question.
    """

    single_values: bytes
    sums: dict[Count, tuple[bytes, PositiveCount]]


class StoredRightResults(msgspec.Struct, array_like=True):
    """Which results are right, of those with the same `Grounds`.

    Attributes:
        grounds: the missing metrics, and `_NO_VALUES` at the end if the results have no values.
        single_values: as in `StoredQuestions`, of 1 for each right result and 0 for each other.
        sums: as in `StoredQuestions`.
    """

    grounds: tuple[bytes, ...]
    single_values: bytes
    sums: dict[Count, tuple[bytes, PositiveCount]]


class StoredSeries(msgspec.Struct, array_like=True):
    """The values of a metric.

    Attributes:
        integral: whether all values are ints.
        values: an array of doubles as bytes. If no double equals some of the values, it is a list
            of numbers. If the series does not keep its values, it is their number and their sum.
        bins: the number and the sum of the values in each bin of the histogram, by index.
        outside: the number of values outside the histogram.
        questions: the values by question.
    """

    integral: bool
    values: Any
    bins: dict[BinIndex, tuple[PositiveCount, bytes]]
    outside: Count
    questions: StoredQuestions


class StoredGroup(msgspec.Struct, array_like=True):
    """A group of results: those of one template or with one tag.

    Attributes:
        errors: number of results that are errors.
        errors_by_question: for each result, 1 if it is an error, otherwise 0.
        rights: which results are right.
        successes: number of results that are not errors.
        steps: counts of steps by name.
        other_steps: counts of all other steps together.
        outcomes: the name of a metric, the cause why it has no value, and how often; or the word
            `REASON`, a reason of failure, and how often.
        questions: ids of questions, sorted.
        series: values of each metric.
    """

    errors: Count
    errors_by_question: StoredQuestions
    rights: list[StoredRightResults]
    successes: Count
    steps: dict[bytes, StepCounts]
    other_steps: StepCounts | None
    outcomes: list[tuple[bytes, bytes, Count]]
    questions: tuple[bytes, ...]
    series: dict[bytes, StoredSeries]


class StoredAgreement(msgspec.Struct, array_like=True):
    """How well judges agree on the scores of a metric.

    Attributes:
        sums: the fields of `JudgeSums` of each judge, by name of judge.
        differences: those of `Agreement`.
    """

    sums: dict[bytes, tuple[PositiveCount, bytes, bytes]]
    differences: dict[int, bytes]


class StoredAggregates(msgspec.Struct, array_like=True):
    """The state of aggregates without tags.

    Attributes:
        counts_errors: always False. Earlier versions could also count the values of errors.
        order: position of each template in snapshots.
        groups: results of each template.
        pending: the fields of each `ResultKey`, with the names of pending metrics of each result.
        fractions: names of outputs of custom evaluations that are from 0 to 1.
        expected: names of steps that are always counted by name.
        agreement: agreement of judges on each metric.
    """

    counts_errors: bool
    order: dict[bytes, int]
    groups: dict[bytes, StoredGroup]
    pending: list[tuple[tuple[bytes, ...], list[tuple[bytes, ...]]]]
    fractions: tuple[bytes, ...]
    expected: tuple[bytes, ...]
    agreement: dict[bytes, StoredAgreement]


class StoredTaggedAggregates(StoredAggregates):
    """The state of aggregates with tags. It also reads aggregates that were stored without tags.

    Attributes:
        tags: the results with each tag.
        tags_are_cut: whether there were more tags than are counted.
        first_tag_keys: the keys that a user named, whose tags were dropped last.
        cut_tag_keys: the keys in `tags` that lack some values.
    """

    tags: list[tuple[tuple[bytes, bytes], StoredGroup]] = []
    tags_are_cut: bool = False
    first_tag_keys: tuple[bytes, ...] = ()
    cut_tag_keys: tuple[bytes, ...] = ()


def dump(contents: Contents) -> bytes:
    """Serialise the state of aggregates; the bytes do not depend on the order of results."""
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
            **msgspec.structs.asdict(stored),
            tags=tags,
            tags_are_cut=contents.tags.has_dropped_tags,
            first_tag_keys=_encode_all(sorted(contents.tags.first_keys)),
            cut_tag_keys=_encode_all(sorted(contents.tags.cut_keys)),
        )
    body = msgspec.msgpack.encode(stored)
    return _HEADER.pack(_MAGIC, _VERSION, zlib.crc32(body)) + body


def load(data: bytes) -> Contents:
    """Restore the state of aggregates from the bytes that `dump` returned.

    The checksum is right even if another program has changed the values, so they are checked, too.

    Raises:
        AggregationError: `data` is something else, or from another version.
    """
    body = _checked_body(data)
    try:
        return _restore(msgspec.msgpack.decode(body, type=StoredTaggedAggregates))
    except (
        msgspec.MsgspecError,
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise AggregationError(f"serialised aggregates: corrupt: {error}") from error


def _checked_body(data: bytes) -> memoryview:
    """Check the header of serialised aggregates, and return the rest.

    Raises:
        AggregationError: there is no header, it is from another version, or its checksum is wrong.
    """
    is_bytes = isinstance(data, bytes | bytearray | memoryview)
    if not is_bytes or len(data) < _HEADER.size:
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
    """Return the state of aggregates, given its stored form."""
    contents = Contents()
    contents.order = {_decode(name): place for name, place in stored.order.items()}
    contents.expected = set(_decode_all(stored.expected))
    contents.fractions = set(_decode_all(stored.fractions))
    for name, group in stored.groups.items():
        contents.groups[_decode(name)] = _restore_group(group, contents.expected, contents.micro)
    for (key, value), group in stored.tags:
        tag = _decode(key), _decode(value)
        contents.tags.groups[tag] = _restore_group(group, expected=(), micro=None)
    contents.tags.has_dropped_tags = stored.tags_are_cut
    contents.tags.first_keys = frozenset(_decode_all(stored.first_tag_keys))
    contents.tags.cut_keys = set(_decode_all(stored.cut_tag_keys))
    for names, results in stored.pending:
        result_key = ResultKey(*_decode_all(names))
        contents.pending.results[result_key] = [_decode_all(metrics) for metrics in results]
    for metric, agreement in stored.agreement.items():
        contents.agreement[_decode(metric)] = _restore_agreement(agreement)
    return contents


def _store_group(group: Group) -> StoredGroup:
    """Return the stored form of a group of results."""
    steps = group.steps.trimmed()
    # Questions are sorted by name, since their indices depend on the order of results.
    questions = sorted(group.index_by_question)
    question_indices = [group.index_by_question[question] for question in questions]

    rights = []
    for grounds, values in group.right_results.by_grounds.items():
        stored = _store_questions(values, question_indices)
        rights.append(
            StoredRightResults(
                grounds=_encode_grounds(grounds),
                single_values=stored.single_values,
                sums=stored.sums,
            )
        )
    rights.sort(key=attrgetter("grounds"))

    return StoredGroup(
        errors=group.errors,
        errors_by_question=_store_questions(group.errors_by_question, question_indices),
        rights=rights,
        successes=group.successes,
        steps={_encode(name): counts for name, counts in sorted(steps.by_name.items())},
        other_steps=None if steps.other == NO_STEPS else steps.other,
        outcomes=[
            (_encode(name), _encode(cause), count)
            for (name, cause), count in sorted(group.outcomes.items())
        ],
        questions=_encode_all(questions),
        series={
            _encode(name): _store_series(series, question_indices)
            for name, series in sorted(group.series.items())
        },
    )


def _restore_group(
    stored: StoredGroup, expected: Collection[str], micro: dict[str, Series] | None
) -> Group:
    """Return a group of results, given its stored form.

    Args:
        stored: the stored form of the results of a template, or with a tag.
        expected: step names that are always counted by name.
        micro: the series of each metric over all templates, to which the values are added; None
            for results with a tag, which do not keep their values.
    """
    keeps_values = micro is not None
    group = Group(expected, ordered=keeps_values)
    group.errors = stored.errors
    group.successes = stored.successes
    questions = _decode_all(stored.questions)
    group.index_by_question = {question: index for index, question in enumerate(questions)}
    if len(group.index_by_question) < len(questions):
        raise ValueError("a question is listed twice")
    _restore_questions(group.errors_by_question, stored.errors_by_question, len(questions))
    _check_shares(group.errors_by_question)
    for rights in stored.rights:
        values = QuestionValues()
        _restore_questions(
            values, StoredQuestions(rights.single_values, rights.sums), len(questions)
        )
        _check_shares(values)
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
            _restore_questions(series.questions, stored_series.questions, len(questions))
        if micro is not None:
            _restore_series(series_of(micro, metric), stored_series)
    return group


def _store_series(series: Series, question_indices: Sequence[int]) -> StoredSeries:
    """Return the stored form of the values of a metric.

    Args:
        series: the values.
        question_indices: the indices of all questions, in the order in which to store their values.
    """
    values: Any
    if not series.ordered:
        values = series.size, _dump_int(series.exact_sum)
    else:
        values = sorted(value for chunk in series.values.chunks for value in chunk)
        # Adding 0 turns -0.0 into 0.0, so that the order of values does not matter.
        values = [value + 0 for value in values]
        if not series.values.holds_large_ints:
            values = _dump_doubles(array("d", values))
    histogram = Histogram() if series.histogram is None else series.histogram
    return StoredSeries(
        integral=series.integral,
        values=values,
        bins={
            index: (size, _dump_int(exact_sum))
            for index, (size, exact_sum) in sorted(histogram.bins().items())
        },
        outside=histogram.outside,
        questions=_store_questions(series.questions, question_indices),
    )


def _restore_series(series: Series, stored: StoredSeries) -> None:
    """Add stored values to a series, except the values by question."""
    if not series.ordered:
        # Only the number and the sum of the values were stored.
        size, exact_sum = stored.values
        number_of_values = _checked_count(size)
        series.integral = stored.integral
        series.size = size
        series.exact_sum = _load_int(exact_sum)
        # An int divided by an int raises OverflowError if the quotient exceeds all doubles.
        _ = series.exact_sum / (size * FIXED_POINT_ONE)
    else:
        holds_large_ints = isinstance(stored.values, list)
        if holds_large_ints:
            # Some of the values are ints that no double equals.
            values: Collection[float] = [to_double_if_equal(value) for value in stored.values]
        else:
            values = _load_doubles(stored.values)
        number_of_values = _checked_count(len(values))
        if not all(map(isfinite, values)):
            raise ValueError("a value is not finite")
        series.restore(values, integral=stored.integral, holds_large_ints=holds_large_ints)
    if series.histogram is not None:
        bins = {
            index: Bin(size, _load_int(exact_sum))
            for index, (size, exact_sum) in stored.bins.items()
        }
        _check_bins(bins, stored.outside, number_of_values)
        series.histogram.merge(Histogram(bins, stored.outside))


def _checked_count(count: Any) -> int:
    """Return the number of values of a metric, of which there is at least one.

    Raises:
        ValueError: it is not positive, or larger than `MAX_VALUES`.
    """
    if type(count) is not int or not 1 <= count <= MAX_VALUES:
        raise ValueError("the number of values of a metric is impossible")
    return count


def _check_bins(bins: Mapping[int, Bin], outside: int, number_of_values: int) -> None:
    """Check that the bins of a histogram can have their sums.

    Raises:
        ValueError: a sum is not in its bin, or there are more values than the metric has.
    """
    for index, (size, exact_sum) in bins.items():
        lowest_sum = index * size * FIXED_POINT_ONE
        highest_sum = (index + 1) * size * FIXED_POINT_ONE
        if not lowest_sum <= BINS * exact_sum <= highest_sum:
            raise ValueError("the sum of a bin is not that of values in it")
    if outside + sum(size for size, _ in bins.values()) > number_of_values:
        raise ValueError("a histogram has more values than its metric")


def _store_questions(
    values: QuestionValues | None, question_indices: Sequence[int]
) -> StoredQuestions:
    """Return the stored form of values by question.

    Args:
        values: the values; None if there are none.
        question_indices: the indices of all questions, in the order in which to store their values.
    """
    if values is None:
        values = QuestionValues()
    single_values, sums = values.dump(question_indices)
    return StoredQuestions(
        single_values=_dump_doubles(single_values),
        sums={
            index: (_dump_int(value_sum.exact_sum), value_sum.count)
            for index, value_sum in sums.items()
        },
    )


def _restore_questions(
    values: QuestionValues, stored: StoredQuestions, number_of_questions: int
) -> None:
    """Replace values by question by stored ones.

    Raises:
        ValueError: a value is of no question, or is infinite.
    """
    single_values = _load_doubles(stored.single_values)
    if max(len(single_values), max(stored.sums, default=-1) + 1) > number_of_questions:
        raise ValueError("a value is of no question")
    if not all(isfinite(value) or isnan(value) for value in single_values):
        raise ValueError("a value of a question is infinite")
    sums = {}
    for question, (exact_sum, count) in stored.sums.items():
        if question < len(single_values) and not isnan(single_values[question]):
            raise ValueError("a question has a single value and several")
        sums[question] = ValueSum(exact_sum=_load_int(exact_sum), count=count)
    values.load(single_values, sums)


def _check_shares(values: QuestionValues) -> None:
    """Check that each question has a share from 0 to 1.

    Raises:
        ValueError: one has another value.
    """
    if not all(0 <= share <= 1 for share in values.means()):
        raise ValueError("a share is not from 0 to 1")


def _encode_grounds(grounds: Grounds) -> tuple[bytes, ...]:
    """Return the stored form of `Grounds`."""
    names = _encode_all(grounds.missing)
    if grounds.have_values:
        return names
    return (*names, _NO_VALUES)


def _decode_grounds(names: tuple[bytes, ...]) -> Grounds:
    """Return `Grounds`, given their stored form."""
    missing = [_decode(name) for name in names if name != _NO_VALUES]
    return Grounds(missing=tuple(missing), have_values=_NO_VALUES not in names)


def _store_agreement(agreement: Agreement) -> StoredAgreement:
    """Return the stored form of the agreement of judges on a metric."""
    return StoredAgreement(
        sums={
            _encode(judge): (sums.count, _dump_int(sums.exact_sum), _dump_int(sums.squares))
            for judge, sums in sorted(agreement.sums.items())
        },
        differences={
            judges: _dump_int(exact_sum)
            for judges, exact_sum in sorted(agreement.differences.items())
        },
    )


def _restore_agreement(stored: StoredAgreement) -> Agreement:
    """Return the agreement of judges on a metric, given its stored form."""
    agreement = Agreement()
    for judge, (count, exact_sum, squares) in stored.sums.items():
        agreement.sums[_decode(judge)] = JudgeSums(
            count=count, exact_sum=_load_int(exact_sum), squares=_load_int(squares)
        )
    for judges, differences in stored.differences.items():
        agreement.differences[judges] = _load_int(differences)
    return agreement


def _dump_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _load_int(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _dump_doubles(doubles: array[float]) -> bytes:
    """Return an array as little-endian bytes; the array itself may change its byte order."""
    return _swap_if_big_endian(doubles).tobytes()


def _load_doubles(data: bytes) -> array[float]:
    return _swap_if_big_endian(array("d", data))


def _swap_if_big_endian(doubles: array[float]) -> array[float]:
    """Convert an array in place, from the byte order of this machine to little-endian or back."""
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
