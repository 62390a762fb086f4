from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy
import orjson
import pytest
from pydantic import BaseModel

from graphrag_eval_async.records import Line, Unwritable, write_line
from tests.cases import each


def nested_dict(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def containing_itself() -> dict[str, Any]:
    value: dict[str, Any] = {"question_id": "q"}
    value["self"] = [value]
    return value


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class RecursionLimit:
    pass


@dataclass
class Usage:
    input_tokens: int


@each(
    ("item", "text"),
    [
        ({"a": 1, "b": "\u2028\u0085é"}, '{"a":1,"b":"\u2028\u0085é"}'),
        ({"a": (1, (2,))}, '{"a":[1,[2]]}'),
        (MappingProxyType({"a": MappingProxyType({"b": 1})}), '{"a":{"b":1}}'),
        (UserDict({"a": 1}), '{"a":1}'),
        ({"a": 2**64 - 1, "b": -(2**63)}, '{"a":18446744073709551615,"b":-9223372036854775808}'),
        ({"usage": Usage(3)}, '{"usage":{"input_tokens":3}}'),
        ([], "[]"),
        (None, "null"),
        (1.5, "1.5"),
    ],
)
def test_writable_objects(item: Any, text: str) -> None:
    line = write_line(item, 3, 7)
    assert isinstance(line, Line)
    assert line == Line(3, 7, text.encode())


@each(
    ("item", "reason"),
    [
        ({"a": {1, 2}}, "invalid_field"),
        ({1: "a"}, "invalid_field"),
        ({"a": {2.5: "a"}}, "invalid_field"),
        ({None: 1}, "invalid_field"),
        ({"a": b"bytes"}, "invalid_field"),
        ({"a": 1j}, "invalid_field"),
        ({"a": 10**24}, "invalid_field"),
        ({"a": 2**64}, "invalid_field"),
        ({"a": -(10**24)}, "invalid_field"),
        ({"a": 10**10_000}, "invalid_field"),
        ({10**10_000: 1}, "invalid_field"),
        ({10**10_000: float("nan")}, "invalid_field"),
        ({"a": [10**10_000]}, "invalid_field"),
        (10**10_000, "invalid_field"),
        ({"a": "\ud800"}, "invalid_field"),
        ({"\ud800": 1}, "invalid_field"),
        ({"a": float("nan")}, "invalid_field"),
        ({"a": float("inf")}, "invalid_field"),
        ({"recursion": float("nan")}, "invalid_field"),
        ({"a": [None, {"b": (1.5, float("nan"))}]}, "invalid_field"),
        (MappingProxyType({"a": float("-inf")}), "invalid_field"),
        ({"a": RecursionLimit()}, "invalid_field"),
        ({"a": Broken()}, "invalid_field"),
        (Broken(), "invalid_field"),
        (object(), "invalid_field"),
        (containing_itself(), "too_deep"),
        (MappingProxyType(containing_itself()), "too_deep"),
    ],
)
def test_unwritable_objects(item: Any, reason: str) -> None:
    line = write_line(item, 3, 7)
    assert isinstance(line, Unwritable)
    assert (line.number, line.offset, line.reason) == (3, 7, reason)
    assert line.data
    assert line.message


@pytest.mark.parametrize("depth", [255, 900, 1_000_000])
def test_too_deep_objects(depth: int) -> None:
    line = write_line(nested_dict(depth), 3, 7)
    assert isinstance(line, Unwritable)
    assert line.reason == "too_deep"
    assert line.data


def test_unwritable_objects_are_shown_key_by_key() -> None:
    line = write_line({"question_id": "q\ud800", "a": 10**10_000, "b": Broken()}, 1, 0)
    assert line.data == rb"{'question_id': 'q\ud800', 'a': <int>, 'b': <Broken>}"


def test_a_line_is_a_copy() -> None:
    item = {"question_id": "q", "actual_steps": [{"output": [1]}]}
    line = write_line(item, 1, 0)
    item["actual_steps"][0]["output"] = []  # type: ignore[index]
    assert orjson.loads(line.data)["actual_steps"][0]["output"] == [1]


def test_only_finite_numbers_pass() -> None:
    numbers = [float("nan"), -float("nan"), float("inf"), -float("inf")]
    for number in numbers:
        nested = MappingProxyType({"b": (1, [Usage(number)])})  # type: ignore[arg-type]
        for item in ({"a": number}, {"a": nested}, [{1.5: 1}, number]):
            assert isinstance(write_line(item, 1, 0), Unwritable)
    # Integers whose bytes look like such a number, and texts that have its bytes as characters.
    harmless = {"a": [0xCB7FF8, 0xCB7FF0 << 40, None, 1.5], "b": "\xcb\x7f\xf8"}
    line = write_line(harmless, 1, 0)
    assert isinstance(line, Line)
    assert orjson.loads(line.data) == harmless


def test_the_place_of_a_non_finite_number_is_reported() -> None:
    found = write_line({"actual_steps": [{"args": {"k": float("nan")}}]}, 1, 0)
    assert isinstance(found, Unwritable)
    assert found.message == "actual_steps[0].args.k: nan is not a finite number"


class Message(BaseModel):
    role: Any
    at: datetime | None


@each(
    ("value", "text"),
    [
        (Decimal("0.25"), "0.25"),
        (Decimal("1E+3"), "1000"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), '"2026-01-02T03:04:00+00:00"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (numpy.float32(0.5), "0.5"),
        (numpy.float64(0.5), "0.5"),
        (numpy.int64(3), "3"),
        (numpy.bool_(True), "true"),
        (numpy.array([[1, 2], [3, 4]]), "[[1,2],[3,4]]"),
        (Message(role="tool", at=datetime(2026, 1, 2)), '{"role":"tool","at":"2026-01-02T00:00:00"}'),
        ([Usage(3)], '[{"input_tokens":3}]'),
    ],
)
def test_objects_converted_to_json(value: Any, text: str) -> None:
    line = write_line({"a": value}, 1, 0)
    assert isinstance(line, Line), line
    assert line.data.decode() == f'{{"a":{text}}}'


@each(
    ("value", "message"),
    [
        ({"b": [1, {2}]}, "a.b[1]: no JSON form for set"),
        ({"b": Usage(object())}, "a.b.input_tokens: no JSON form for object"),  # type: ignore[arg-type]
        ({"b": {1: 2}}, "a.b: Dict key must be str"),
        ({"b": 2**70}, "a.b: Integer exceeds 64-bit range"),
        (Decimal("NaN"), "a: NaN is not a finite number"),
        (numpy.array([1.0, float("nan")]), "a[1]: nan is not a finite number"),
        (numpy.float32("inf"), "a: inf is not a finite number"),
        (Message.model_construct(role=float("nan"), at=None), "a.role: nan is not a finite number"),
    ],
)
def test_the_field_that_cannot_be_written_is_named(value: Any, message: str) -> None:
    line = write_line({"a": value}, 1, 0)
    assert isinstance(line, Unwritable)
    assert line.message == message
