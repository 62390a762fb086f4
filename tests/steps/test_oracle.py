"""The comparison of tables against one that tries every pairing of columns and of rows."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations
from operator import eq
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.tables.comparison import agree
from graphrag_eval_async.steps.tables.partial import compare_in_part
from graphrag_eval_async.steps.tables.rules import TableRules, prepare_reference
from tests.steps.support import encode, literal, read_results
from tests.steps.table_oracle import (
    oracle,
    readings,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.rules import Reference
    from tests.steps.support import Table, Term


MANY = settings(max_examples=500, suppress_health_check=list(HealthCheck))


def most_cells(left: Sequence[Any], right: Sequence[Any], *, ordered: bool) -> int:
    """In how many cells rows can agree, if each is paired once at most: of all pairings, the
    best.
    """
    cells: list[list[int]] = [[sum(map(eq, one, other)) for other in right] for one in left]
    size = min(len(left), len(right))
    choose = combinations if ordered else permutations
    return max(
        sum(cells[one][other] for one, other in zip(ours, theirs, strict=True))
        for amount in ([*range(size + 1)] if ordered else [size])
        for ours in combinations(range(len(left)), amount)
        for theirs in choose(range(len(right)), amount)
    )


def best_f1(
    expected: Table,
    required: list[int],
    actual: Table,
    width: int,
    *,
    ordered: bool,
    ignore_duplicates: bool,
) -> Fraction:
    """The greatest F1 of all pairings of columns and rows."""
    size, as_set = min(len(required), width), ignore_duplicates and not ordered
    pairings = set()  # Columns may be equal.
    for kinds, expected_read, actual_read in readings(expected, required, actual):
        for places in combinations(range(len(required)), size):
            for chosen in permutations(range(width), size):
                ours = kinds.rows(expected_read, required)
                theirs = kinds.rows(actual_read, chosen, 1)
                if as_set:
                    ours, theirs = [*dict.fromkeys(ours)], [*dict.fromkeys(theirs)]
                pairings.add(
                    (tuple(tuple(row[place] for place in places) for row in ours), tuple(theirs))
                )
    return max(
        Fraction(2 * most_cells(*each, ordered=ordered), len(required) * (sum(map(len, each)) or 1))
        for each in pairings
    )


FAMILIES: list[list[Term]] = [
    [literal(text, "double") for text in ("0", "0.9e-8", "1.8e-8", "2.7E-8", "-0.9e-8", "-0.0")],
    [literal(text, "decimal") for text in ("1", "1.000000009", "1.000000018", "+1.", ".999999991")],
    [literal(text, "integer") for text in ("100000000", "100000001", "100000002")]
    + [
        literal(text, "decimal")
        for text in ("100000000.5", "100000001.5", "100000000", "100000001")
    ],
    [
        literal(text, kind)
        for text in ("1", "true", "0", "false")
        for kind in ("boolean", "integer", None)
    ],
    [literal(text, kind) for text in ("5", "05", "5.0", "5e0") for kind in ("int", "float", None)],
    [literal(text) for text in ("a", "b", "ab", "c", "bc", "")] + [{"type": "uri", "value": "a"}],
    [
        literal(text, "double")
        for text in ("INF", "+INF", "-INF", "NaN", "1e400", "infinity", "1_0", "1e308")
    ]
    + [literal("INF", "decimal"), literal("1e400"), literal("-1e400", "float")],
    [
        literal(text, kind)
        for text in ("9" * 18, "9" * 19, "9" * 309)
        for kind in ("int", "decimal", "float", None)
    ],
    [
        {"type": "literal", "value": "a", "xml:lang": "en"},
        literal("a", "date"),
        literal("b", "date"),
    ],
]


class Case:
    """An expected table and one made of it, mostly by changes that keep or nearly keep it what
    it is.
    """

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
        for _ in range(rng.choice([0, 1, 1, 2]) if rows else 0):
            rng.choice(rows)[rng.randrange(len(rows[0]))] = rng.choice(self.palette)
        self.width = len(self.expected[0]) if self.expected else len(self.required)
        if self.width < 4 and rng.random() < 0.5:
            self.width += 1
            for row in rows:
                row.append(rng.choice(self.palette))
        order = rng.sample(range(self.width), self.width)
        self.actual = [[row[index] for index in order] for row in rows]

    def spoil(self, rng: random.Random) -> None:
        """Drop, repeat and change rows, drop a column."""
        for _ in range(rng.choice([0, 1, 2, 3])):
            kind = rng.choice(["drop", "add", "cell", "cell", "column"])
            if kind == "drop" and self.actual:
                self.actual.pop(rng.randrange(len(self.actual)))
            elif kind == "add" and len(self.actual) < 5:
                self.actual.append([rng.choice(self.palette) for _ in range(self.width)])
            elif kind == "cell" and self.actual:
                rng.choice(self.actual)[rng.randrange(self.width)] = rng.choice(self.palette)
            elif kind == "column" and self.width > 1:
                self.width -= 1
                gone = rng.randrange(self.width + 1)
                self.actual = [row[:gone] + row[gone + 1 :] for row in self.actual]

    def prepared(self) -> tuple[Reference, SparqlResults]:
        names = (
            "abcd"[: max(self.required) + 1]
            if not self.expected
            else "abcd"[: len(self.expected[0])]
        )
        required = [names[index] for index in self.required]
        rules = TableRules.of_step({"required_columns": required, **self.how})
        reference = prepare_reference(read_results(encode(self.expected, names)), rules)
        return reference, read_results(encode(self.actual, "dcba"[: self.width]))

    def oracle(self) -> float:
        return oracle(self.expected, self.required, self.actual, self.width, **self.how)


def test_tables_agree_if_the_oracle_says_so() -> None:
    seen: Counter[tuple[bool, bool, float]] = Counter()

    @MANY
    @given(st.randoms(use_true_random=True))
    def check(rng: random.Random) -> None:
        case = Case(rng)
        wanted = case.oracle()
        event(f"{case.how} {wanted}")
        seen[case.how["ordered"], case.how["ignore_duplicates"], wanted] += 1
        assert agree(*case.prepared(), Budget()) == wanted, vars(case)

    check()
    assert len(seen) == 8
    assert min(seen.values()) >= 3


def test_partial_credit_is_the_best_f1() -> None:
    seen: Counter[str] = Counter()

    @MANY
    @given(st.randoms(use_true_random=True))
    def check(rng: random.Random) -> None:
        case = Case(rng)
        case.spoil(rng)
        found, same = compare_in_part(*case.prepared(), Budget()).score, case.oracle()
        assert (found == 1) == (same == 1), vars(case)
        if same != 1:
            wanted = best_f1(case.expected, case.required, case.actual, case.width, **case.how)
            assert found == float(wanted), vars(case)
            seen["some" if wanted else "none"] += 1

    check()
    assert min(seen["some"], seen["none"]) > 20
