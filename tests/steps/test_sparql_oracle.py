"""The comparison against one that tries every pairing of columns and of rows."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from graphrag_eval_async.steps.sparql.budget import Budget
from graphrag_eval_async.steps.sparql.comparison import compare, prepare_reference
from tests.steps.results import read_results

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.sparql.comparison import SparqlReference

XSD = "http://www.w3.org/2001/XMLSchema#"

Term = dict[str, Any] | None
Table = list[list[Term]]

INTEGERS = {f"{XSD}{name}" for name in ("integer", "int", "unsignedByte")}
FLOATS = {f"{XSD}double", f"{XSD}float"}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)


def literal(text: str, datatype: str | None = None) -> Term:
    return {"type": "literal", "value": text} | ({"datatype": XSD + datatype} if datatype else {})


def number(term: dict[str, Any]) -> int | float | Fraction | None:
    text, datatype = term["value"].strip(" \t\r\n"), term.get("datatype")
    if datatype not in FLOATS and len(text) >= 300:
        return None
    if datatype in INTEGERS and re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return int(text)
    mantissa, *exponent = re.split("[eE]", text, maxsplit=1) if datatype in FLOATS else [text]
    if datatype in FLOATS and re.fullmatch(r"[+-]?INF", text):
        return float(text)
    if datatype not in FLOATS | {f"{XSD}decimal"} or not NUMBER.fullmatch(mantissa):
        return None
    if exponent and not re.fullmatch(r"[+-]?\d+", exponent[0], re.ASCII):
        return None
    return float(text)


def truth(term: dict[str, Any]) -> bool | None:
    if term.get("datatype") != f"{XSD}boolean":
        return None
    return {"true": True, "1": True, "false": False, "0": False}.get(term["value"].strip(" \t\r\n"))


def near(one: Term, other: Term) -> bool:
    if one is None or other is None:
        return one is other
    for value in (number, truth):
        left, right = value(one), value(other)
        if left is not None and right is not None:
            if math.inf in (abs(left), abs(right)) or (isinstance(left, int) and isinstance(right, int)):
                return left == right
            left, right = Fraction(left), Fraction(right)
            return abs(left - right) <= max(Fraction(1e-8) * max(abs(left), abs(right)), Fraction(1e-8))
    return bool(one["value"] == other["value"])


def near_rows(left: Sequence[Term], right: Sequence[Term]) -> bool:
    return all(near(one, other) for one, other in zip(left, right, strict=True))


def rows_agree(left: Table, right: Table, *, ordered: bool, ignore_duplicates: bool) -> bool:
    if ordered or not ignore_duplicates:
        orders: Iterable[Any] = [right] if ordered else permutations(right)
        return len(left) == len(right) and any(
            all(near_rows(one, other) for one, other in zip(left, order, strict=True)) for order in orders
        )
    return all(any(near_rows(row, other) for other in right) for row in left) and all(
        any(near_rows(row, other) for other in left) for row in right
    )


def oracle(expected: Table, required: list[int], actual: Table, width: int, **how: bool) -> float:
    left = [[row[index] for index in required] for row in expected]
    return float(
        any(
            rows_agree(left, [[row[index] for index in chosen] for row in actual], **how)
            for chosen in permutations(range(width), len(required))
        )
    )


def encode(table: Table, names: Sequence[str]) -> str:
    bindings = [{n: term for n, term in zip(names, row, strict=True) if term is not None} for row in table]
    return json.dumps({"head": {"vars": list(names)}, "results": {"bindings": bindings}})


FAMILIES: list[list[Term]] = [
    [literal(text, "double") for text in ("0", "0.9e-8", "1.8e-8", "2.7E-8", "-0.9e-8", "-0.0")],
    [literal(text, "decimal") for text in ("1", "1.000000009", "1.000000018", "+1.", ".999999991")],
    [literal(text, "integer") for text in ("100000000", "100000001", "100000002")]
    + [literal(text, "decimal") for text in ("100000000.5", "100000001.5", "100000000", "100000001")],
    [literal(text, kind) for text in ("1", "true", "0", "false") for kind in ("boolean", "integer", None)],
    [literal(text, kind) for text in ("5", "05", "5.0", "5e0") for kind in ("int", "float", None)],
    [literal(text) for text in ("a", "b", "ab", "c", "bc", "")] + [{"type": "uri", "value": "a"}],
    [literal(text, "double") for text in ("INF", "+INF", "-INF", "NaN", "1e400", "infinity", "1_0", "1e308")]
    + [literal(text, "decimal") for text in ("INF", "1e3")]
    + [literal("1e400"), literal("-1e400", "float")],
    [
        literal(text, kind)
        for text in ("9" * 309, "9" * 308 + "8")
        for kind in ("int", "decimal", "float", None)
    ]
    + [literal("9" * 309 + ".5", "decimal"), literal("+" + "9" * 309, "decimal"), literal("INF", "double")],
    [{"type": "literal", "value": "a", "xml:lang": "en"}, literal("a", "date"), literal("b", "date")],
]


class Case:
    """An expected table and one made of it, mostly by changes that keep or nearly keep it what it is."""

    def __init__(self, rng: random.Random) -> None:
        self.palette = self._palette(rng)
        width, height = rng.randint(1, 4), rng.choice([0, 1, 2, 3, 3, 4, 4, 5])
        self.expected = [[rng.choice(self.palette) for _ in range(width)] for _ in range(height)]
        if width > 1 and rng.random() < 0.4:  # lookalike columns
            column = [row[0] for row in self.expected]
            rng.shuffle(column)
            for row, term in zip(self.expected, column, strict=True):
                row[1] = term
        if rng.random() < 0.2:
            unbound = rng.randrange(width)
            self.expected = [[*row[:unbound], None, *row[unbound + 1 :]] for row in self.expected]
        self.required = rng.sample(range(width), rng.randint(1, width))
        self.how = {"ordered": rng.random() < 0.25, "ignore_duplicates": rng.random() < 0.5}
        self._make_actual(rng)

    @staticmethod
    def _palette(rng: random.Random) -> list[Term]:
        terms = [term for family in rng.sample(FAMILIES, rng.randint(1, 2)) for term in family]
        unbound: list[Term] = [None] * rng.randint(0, 1)
        return rng.sample(terms, min(len(terms), rng.randint(1, 6))) + unbound

    def _make_actual(self, rng: random.Random) -> None:
        rows = [list(row) for row in self.expected]
        if not self.how["ordered"]:
            rng.shuffle(rows)
        if rows and self.how["ignore_duplicates"] and rng.random() < 0.3 and len(rows) < 5:
            rows.append(list(rng.choice(rows)))
        for row in rows:  # to near terms, which need not give near rows to all the others
            for index, term in enumerate(row):
                if rng.random() < 0.4:
                    row[index] = rng.choice([term, *(other for other in self.palette if near(term, other))])
        for _ in range(rng.choice([0, 1, 1, 2]) if rows else 0):
            rng.choice(rows)[rng.randrange(len(rows[0]))] = rng.choice(self.palette)
        self.width = len(self.expected[0]) if self.expected else len(self.required)
        if self.width < 4 and rng.random() < 0.5:
            self.width += 1
            for row in rows:
                row.append(rng.choice(self.palette))
        order = rng.sample(range(self.width), self.width)
        self.actual = [[row[index] for index in order] for row in rows]

    def prepared(self) -> tuple[SparqlReference, SparqlResults]:
        names = "abcd"[: max(self.required) + 1] if not self.expected else "abcd"[: len(self.expected[0])]
        reference = prepare_reference(
            read_results(encode(self.expected, names)),
            required_columns=[names[index] for index in self.required],
            **self.how,
        )
        return reference, read_results(encode(self.actual, "dcba"[: self.width]))

    def score(self) -> float:
        return compare(*self.prepared(), Budget())

    def oracle(self) -> float:
        return oracle(self.expected, self.required, self.actual, self.width, **self.how)


def test_scores_agree_with_the_oracle() -> None:
    seen: Counter[tuple[bool, bool, float]] = Counter()

    @settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.randoms(use_true_random=True))
    def check(rng: random.Random) -> None:
        case = Case(rng)
        wanted = case.oracle()
        event(f"{case.how} {wanted}")
        seen[case.how["ordered"], case.how["ignore_duplicates"], wanted] += 1
        assert case.score() == wanted, (case.expected, case.required, case.actual, case.how)

    check()
    assert len(seen) == 8
    assert min(seen.values()) >= 10
