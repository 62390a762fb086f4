"""Python objects as lines of JSON."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy
import pytest
from pydantic import BaseModel

from graphrag_eval_async.records import Line, Unwritable, write_line


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


ITSELF: dict[str, Any] = {"question_id": "q"}
ITSELF["self"] = [ITSELF]


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@dataclass
class Usage:
    input_tokens: Any


class Message(BaseModel):
    role: Any
    at: datetime | None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(
            MappingProxyType({"b": UserDict({"c": (1, (2,))})}),
            '{"b":{"c":[1,[2]]}}',
            id="mappings",
        ),
        pytest.param(
            [2**64 - 1, -(2**63)],
            "[18446744073709551615,-9223372036854775808]",
            id="limits of integers",
        ),
        pytest.param([Usage(3)], '[{"input_tokens":3}]', id="struct"),
        # Integers whose bytes look like NaN, and texts that have its bytes as characters.
        pytest.param(
            [0xCB7FF8, None, 1.5, "\xcb\x7f\xf8\u2028"],
            '[13336568,null,1.5,"\xcb\x7f\xf8\u2028"]',
            id="scalars",
        ),
        pytest.param([Decimal("0.25"), Decimal("1E+3")], "[0.25,1000]", id="decimals"),
        pytest.param(
            [datetime(2026, 1, 2, 3, tzinfo=UTC), date(2026, 1, 2)],
            '["2026-01-02T03:00:00+00:00","2026-01-02"]',
            id="dates",
        ),
        pytest.param(UUID(int=1), '"00000000-0000-0000-0000-000000000001"', id="UUID"),
        pytest.param(
            [numpy.float32(0.5), numpy.bool_(True), numpy.array([[1], [3]])],
            "[0.5,true,[[1],[3]]]",
            id="NumPy",
        ),
        pytest.param(
            Message(role="tool", at=datetime(2026, 1, 2)),
            '{"role":"tool","at":"2026-01-02T00:00:00"}',
            id="Pydantic",
        ),
    ],
)
def test_objects_converted_to_json(value: Any, text: str) -> None:
    assert write_line({"a": value}, 3, 7) == Line(3, 7, f'{{"a":{text}}}'.encode())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"b": [1, {2}]}, "a.b[1]: no JSON form for set", id="set"),
        pytest.param(
            {"b": Usage(object())},
            "a.b.input_tokens: no JSON form for object",
            id="object in a struct",
        ),
        pytest.param({"b": Broken()}, "a.b: no JSON form for Broken", id="unknown class"),
        pytest.param({"b": {1: 2}}, "a.b: Dict key must be str", id="key that is a number"),
        pytest.param([10**10_000], "a[0]: Integer exceeds 64-bit range", id="integer too large"),
        pytest.param("\ud800", "a: str is not valid UTF-8: surrogates not allowed", id="surrogate"),
        pytest.param(
            [{"args": {"k": float("nan")}}],
            "a[0].args.k: nan is not a finite number; write None",
            id="NaN in a dict",
        ),
        pytest.param(
            MappingProxyType({"b": (1, [Usage(float("-inf"))])}),
            "a.b[1][0].input_tokens: -inf is not a",
            id="infinity in a struct",
        ),
        pytest.param(
            Decimal("NaN"), "a: NaN is not a finite number; write None", id="NaN as a decimal"
        ),
        pytest.param(
            numpy.array([1.0, float("nan")]),
            "a[1]: nan is not a finite number; write None",
            id="NaN in an array",
        ),
        pytest.param(
            Message.model_construct(role=float("nan"), at=None),
            "a.role: nan is not a finite number; write None",
            id="NaN in a model",
        ),
    ],
)
def test_the_field_that_cannot_be_written_is_named(value: Any, message: str) -> None:
    line = write_line({"a": value}, 3, 7)
    assert isinstance(line, Unwritable)
    assert (line.number, line.offset, line.reason) == (3, 7, "invalid_field")
    assert line.data
    assert line.message.startswith(message)


def test_other_objects_that_cannot_be_written() -> None:
    deep: list[Any] = [nested(255), nested(1_000_000), ITSELF, MappingProxyType(ITSELF)]
    for item in deep:
        line = write_line(item, 3, 7)
        assert isinstance(line, Unwritable)
        assert line.reason == "too_deep"
        assert line.data
    odd: list[Any] = [object(), Broken(), {10**10_000: float("nan")}, {None: 1}]
    for item in odd:
        assert isinstance(write_line(item, 1, 0), Unwritable)
