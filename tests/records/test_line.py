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
from tests.support.cases import each


def nested(depth: int) -> dict[str, Any]:
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


@dataclass
class Usage:
    input_tokens: Any


class Message(BaseModel):
    role: Any
    at: datetime | None


@each(
    ("value", "text"),
    [
        ("\u2028\u0085é", '"\u2028\u0085é"'),
        ((1, (2,)), "[1,[2]]"),
        (MappingProxyType({"b": UserDict({"c": 1})}), '{"b":{"c":1}}'),
        ([2**64 - 1, -(2**63)], "[18446744073709551615,-9223372036854775808]"),
        ([Usage(3)], '[{"input_tokens":3}]'),
        # Integers whose bytes look like NaN, and texts that have its bytes as characters.
        ([0xCB7FF8, None, 1.5, "\xcb\x7f\xf8"], '[13336568,null,1.5,"\xcb\x7f\xf8"]'),
        (Decimal("0.25"), "0.25"),
        (Decimal("1E+3"), "1000"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), '"2026-01-02T03:04:00+00:00"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (numpy.float32(0.5), "0.5"),
        (numpy.bool_(True), "true"),
        (numpy.array([[1, 2], [3, 4]]), "[[1,2],[3,4]]"),
        (Message(role="tool", at=datetime(2026, 1, 2)), '{"role":"tool","at":"2026-01-02T00:00:00"}'),
    ],
)
def test_objects_converted_to_json(value: Any, text: str) -> None:
    assert write_line({"a": value}, 3, 7) == Line(3, 7, f'{{"a":{text}}}'.encode())


@each(
    ("value", "message"),
    [
        ({"b": [1, {2}]}, "a.b[1]: no JSON form for set"),
        ({"b": Usage(object())}, "a.b.input_tokens: no JSON form for object"),
        ({"b": Broken()}, "a.b: no JSON form for Broken"),
        ({"b": {1: 2}}, "a.b: Dict key must be str"),
        ({"b": 2**70}, "a.b: Integer exceeds 64-bit range"),
        ([10**10_000], "a[0]: Integer exceeds 64-bit range"),
        ("\ud800", "a: str is not valid UTF-8: surrogates not allowed"),
        ([{"args": {"k": float("nan")}}], "a[0].args.k: nan is not a finite number"),
        (MappingProxyType({"b": (1, [Usage(float("-inf"))])}), "a.b[1][0].input_tokens: -inf is not a"),
        (Decimal("NaN"), "a: NaN is not a finite number"),
        (numpy.array([1.0, float("nan")]), "a[1]: nan is not a finite number"),
        (numpy.float32("inf"), "a: inf is not a finite number"),
        (Message.model_construct(role=float("nan"), at=None), "a.role: nan is not a finite number"),
    ],
)
def test_the_field_that_cannot_be_written_is_named(value: Any, message: str) -> None:
    line = write_line({"a": value}, 3, 7)
    assert isinstance(line, Unwritable)
    assert (line.number, line.offset, line.reason) == (3, 7, "invalid_field")
    assert line.data
    assert line.message.startswith(message)


@each("item", [nested(255), nested(1_000_000), containing_itself(), MappingProxyType(containing_itself())])
def test_too_deep_objects(item: Any) -> None:
    line = write_line(item, 3, 7)
    assert isinstance(line, Unwritable)
    assert line.reason == "too_deep"
    assert line.data


@pytest.mark.parametrize("item", [object(), Broken(), {10**10_000: float("nan")}, {None: 1}])
def test_unwritable_objects(item: Any) -> None:
    assert isinstance(write_line(item, 1, 0), Unwritable)


def test_a_line_is_a_copy() -> None:
    item = {"question_id": "q", "actual_steps": [{"output": [1]}]}
    line = write_line(item, 1, 0)
    item["actual_steps"][0]["output"] = []  # type: ignore[index]
    assert orjson.loads(line.data)["actual_steps"][0]["output"] == [1]
