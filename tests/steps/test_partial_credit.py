"""Partial credit for tables against a slow oracle that tries every pairing of columns."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from itertools import chain, combinations, pairwise, permutations
from operator import eq
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.formats.results import results_of
from graphrag_eval_async.steps.sparql.budget import (
    EXACT_PAIRING_STEPS,
    QUICK_COMPARISONS,
    QUICK_SEARCH_STEPS,
    SEARCH_STEPS,
    Budget,
)
from graphrag_eval_async.steps.sparql.comparison import compare, prepare_reference
from graphrag_eval_async.steps.sparql.differences import Differences
from graphrag_eval_async.steps.sparql.partial import Partial, compare_in_part
from tests.cpu import affordable
from tests.steps.results import read_results
from tests.steps.test_sparql_oracle import XSD, Case, Table, Term, encode, literal, near, number, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ABC = "abcdefghijklmn"


def in_part(
    expected: Table,
    actual: Table,
    names: str = ABC,
    other: str = ABC[::-1],
    budget: Budget | None = None,
    **how: Any,
) -> Partial:
    how = {"required_columns": None, "ordered": False, "ignore_duplicates": False} | how
    width, wide = (
        len(table[0]) if table else len(given) for table, given in ((expected, names), (actual, other))
    )
    reference = prepare_reference(read_results(encode(expected, names[:width])), **how)
    return compare_in_part(reference, read_results(encode(actual, other[:wide])), budget or Budget())


def rows(*texts: str) -> Table:
    """Rows of one-letter cells; a dot is unbound."""
    return [[None if text == "." else literal(text) for text in row] for row in texts]


def linked(one: Term, other: Term) -> bool:
    """Whether terms are near, or would be if integers were compared as other numbers are."""
    numbers = [
        {**each, "datatype": f"{XSD}double"} for each in (one, other) if each and number(each) is not None
    ]
    return near(one, other) or (len(numbers) == 2 and near(*numbers))


def joined(terms: Sequence[Term], are_alike: Callable[[Term, Term], bool]) -> list[list[Term]]:
    """The transitive closure of likeness."""
    groups: list[list[Term]] = []
    for term in terms:
        alike = [group for group in groups if any(are_alike(term, other) for other in group)]
        groups = [group for group in groups if group not in alike]
        groups.append([term, *(each for group in alike for each in group)])
    return groups


class Kinds:
    """Classes of terms: integers are linked by a number of another type among them."""

    def __init__(self, terms: list[Term]) -> None:
        self._groups: list[list[Term]] = []
        for group in joined([term for index, term in enumerate(terms) if term not in terms[:index]], linked):
            are_integers = all(each and isinstance(number(each), int) for each in group)
            self._groups += joined(group, near) if are_integers else [group]

    @property
    def are_alike(self) -> bool:
        """Whether nearness is transitive, among these terms."""
        return all(near(a, b) for group in self._groups for a, b in combinations(group, 2))

    def of(self, term: Term) -> tuple[int, Any]:
        """The class of a term, in the order in which equal keys are paired."""
        group = next(group for group in self._groups if term in group)
        bound = [each for each in group if each is not None]
        if not bound:
            return 0, 0
        numbers = [value for each in bound if (value := number(each)) is not None]
        booleans = [value for each in bound if (value := truth(each)) is not None]
        if numbers:
            return 1, min(numbers)
        return (2, booleans[0]) if booleans else (3, bound[0]["value"])


Kind = tuple[int, Any]


class Rows:
    """Pairs rows step by step, as `row_pairs` says, looking at all pairs each time."""

    def __init__(
        self, left: Sequence[tuple[Kind, ...]], right: Sequence[tuple[Kind, ...]], *, ordered: bool
    ) -> None:
        self.left, self.right, self.ordered = left, right, ordered
        self.width = len(left[0]) if left else 0
        self.free, self.open = [*range(len(left))], [*range(len(right))]
        self.pairs: list[tuple[int, int, int]] = []

    def take(self, one: int, other: int) -> None:
        self.free.remove(one)
        self.open.remove(other)
        agree = sum(a == b for a, b in zip(self.left[one], self.right[other], strict=True))
        self.pairs.append((one, other, agree))

    def pair_ends(self) -> None:
        for end in (0, -1):
            while self.free and self.open and self.left[self.free[end]] == self.right[self.open[end]]:
                self.take(self.free[end], self.open[end])

    def pair_by(self, key: Sequence[int]) -> None:
        order, others = (
            sorted(free, key=None if self.ordered else rows.__getitem__)
            for free, rows in ((self.free, self.left), (self.open, self.right))
        )
        for one in order:
            wanted = [self.left[one][column] for column in key]
            for other in others:
                if other in self.open and wanted == [self.right[other][column] for column in key]:
                    self.take(one, other)
                    break

    def cells(self) -> int:
        """In how many cells the rows agree."""
        if self.ordered:
            self.pair_ends()
        self.pair_by(range(self.width))
        shared = [
            len(
                {self.left[row][column] for row in self.free} & {self.right[row][column] for row in self.open}
            )
            for column in range(self.width)
        ]
        ranked = sorted((each for each in range(self.width) if shared[each]), key=lambda each: -shared[each])
        keys = [ranked, *(ranked[:drop] + ranked[drop + 1 :] for drop in reversed(range(len(ranked))))]
        keys += [ranked[:size] for size in range(len(ranked) - 2, 1, -1)]
        for key in filter(None, [*keys, *([column] for column in ranked)]):
            self.pair_by(key)
        return self.of_best_chain() if self.ordered else sum(cells for _, _, cells in self.pairs)

    def of_best_chain(self) -> int:
        pairs = sorted(self.pairs)
        some = chain.from_iterable(combinations(pairs, size) for size in range(len(pairs) + 1))
        chains = (each for each in some if all(a[1] < b[1] for a, b in pairwise(each)))
        return max(sum(cells for _, _, cells in each) for each in chains)


class Oracle:
    """Every pairing of the required columns with as many actual columns as there are."""

    def __init__(
        self, expected: Table, required: Sequence[int], actual: Table, width: int, **how: bool
    ) -> None:
        self.kinds = Kinds([term for table in (expected, actual) for row in table for term in row])
        self.ordered = how["ordered"]
        self.as_set = how["ignore_duplicates"] and not self.ordered
        self.width = len(required)
        ours, theirs = ([[*map(self.kinds.of, row)] for row in table] for table in (expected, actual))
        rows, size = self._rows(ours, required), min(self.width, width)
        # Each once: columns may be equal.
        self.pairings = {
            (tuple(tuple(row[place] for place in places) for row in rows), self._rows(theirs, columns))
            for places in combinations(range(self.width), size)
            for columns in permutations(range(width), size)
        }

    def _rows(self, table: list[list[Kind]], columns: Sequence[int]) -> tuple[tuple[Kind, ...], ...]:
        found = [tuple(row[column] for column in columns) for row in table]
        return tuple(dict.fromkeys(found) if self.as_set else found)

    def f1(self, cells: int, left: int, right: int) -> Fraction:
        return Fraction(2 * cells, self.width * (left + right)) if left + right else Fraction(0)

    def score(self, *, exact: bool) -> Fraction:
        """The greatest F1; `exact` if rows are paired in the best way, else step by step."""
        return max(
            self.f1(
                most_cells(left, right, ordered=self.ordered)
                if exact
                else Rows(left, right, ordered=self.ordered).cells(),
                len(left),
                len(right),
            )
            for left, right in self.pairings
        )


def most_cells(left: Sequence[Sequence[Any]], right: Sequence[Sequence[Any]], *, ordered: bool) -> int:
    """In how many cells rows can agree, if each is paired once at most: of all pairings, the best."""
    agree: list[list[int]] = [[sum(map(eq, one, other)) for other in right] for one in left]
    size = min(len(left), len(right))
    choose = combinations if ordered else permutations
    return max(
        sum(agree[one][other] for one, other in zip(ours, theirs, strict=True))
        for number in range(size + 1)
        for ours in combinations(range(len(left)), number)
        for theirs in choose(range(len(right)), number)
    )


def spoil(case: Case, rng: random.Random) -> None:
    """Drop, repeat and change rows, drop a column."""
    for _ in range(rng.choice([0, 1, 2, 3])):
        kind = rng.choice(["drop", "add", "cell", "cell", "column"])
        if kind == "drop" and case.actual:
            case.actual.pop(rng.randrange(len(case.actual)))
        elif kind == "add" and len(case.actual) < 5:
            case.actual.append([rng.choice(case.palette) for _ in range(case.width)])
        elif kind == "cell" and case.actual:
            rng.choice(case.actual)[rng.randrange(case.width)] = rng.choice(case.palette)
        elif kind == "column" and case.width > 1:
            case.width -= 1
            gone = rng.randrange(case.width + 1)
            case.actual = [row[:gone] + row[gone + 1 :] for row in case.actual]


@pytest.mark.parametrize("exact", [True, False])
def test_scores_agree_with_the_oracle(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exact:
        monkeypatch.setattr("graphrag_eval_async.steps.sparql.row_pairs.EXACT_STEPS", 0)
    seen: Counter[str] = Counter()

    @settings(max_examples=1200, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.randoms(use_true_random=True))
    def check(rng: random.Random) -> None:
        case = Case(rng)
        spoil(case, rng)
        reference, actual = case.prepared()
        partial = compare_in_part(reference, actual, Budget())
        same = compare(reference, actual, Budget())
        assert (partial.f1 == 1) == (same == 1), vars(case)
        assert 0 <= partial.f1 <= 1
        oracle = Oracle(case.expected, case.required, case.actual, case.width, **case.how)
        seen[f"exact {same}"] += 1
        if same != 1 and oracle.kinds.are_alike:
            wanted = oracle.score(exact=exact)
            event(f"{case.how} {float(wanted):.1f}")
            seen["some" if wanted else "none"] += 1
            assert partial.f1 == float(wanted), (vars(case), partial)
            if not exact:
                assert wanted <= oracle.score(exact=True)

    check()
    assert seen["some"] > 100
    assert seen["exact 1.0"] > 100


def test_neither_the_order_of_rows_nor_that_of_columns_counts() -> None:
    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.randoms(use_true_random=True))
    def check(rng: random.Random) -> None:
        case = Case(rng)
        spoil(case, rng)
        case.how["ordered"] = False
        before = compare_in_part(*case.prepared(), Budget())
        rng.shuffle(case.expected)
        rng.shuffle(case.actual)
        order = rng.sample(range(case.width), case.width)
        case.actual = [[row[column] for column in order] for row in case.actual]
        after = compare_in_part(*case.prepared(), Budget())
        assert before[:3] == after[:3], vars(case)

    check()


def random_tables(
    rng: random.Random, height: int, width: int, values: int, prefixes: str = ""
) -> tuple[Table, Table]:
    """Two tables; about half of the cells in each row of the second are those of the first.

    With `prefixes`, one for each column, columns share no values.
    """

    def cell(column: int) -> Term:
        return literal(f"{prefixes[column : column + 1]}{rng.randrange(values)}")

    expected = [[*map(cell, range(width))] for _ in range(height)]
    actual = [
        [term if rng.random() < 0.5 else cell(column) for column, term in enumerate(row)] for row in expected
    ]
    return expected, rng.sample(actual, len(actual))


def test_the_order_of_rows_does_not_change_what_differs() -> None:
    rng = random.Random(2)
    for _ in range(600):
        expected, actual = random_tables(rng, 5, 3, 4, ABC)
        shown = set()
        for _ in range(5):
            rng.shuffle(expected)
            rng.shuffle(actual)
            partial = in_part(expected, actual, other=ABC)
            listed = [
                each | {"row": None} if each["kind"] == "wrong_value" else each
                for each in Differences(partial).listed()
            ]
            shown.add(tuple(sorted(map(repr, listed))))
        assert len(shown) == 1, (expected, actual)


def test_scores_on_an_event_loop_are_those_of_a_thread() -> None:
    rng = random.Random(4)
    seen: Counter[bool] = Counter()
    for _ in range(60):
        tables = random_tables(rng, rng.randint(15, 45), rng.randint(1, 3), 20)
        budget = Budget(QUICK_SEARCH_STEPS, QUICK_COMPARISONS)
        budget.quick = True
        wanted = in_part(*tables, other=ABC)
        try:
            found = in_part(*tables, other=ABC, budget=budget)
        except ComparisonBudgetExceeded:
            seen[False] += 1
        else:
            assert (found.f1, found.pairs) == (wanted.f1, wanted.pairs)
            seen[True] += 1
    assert min(seen[False], seen[True]) > 5


def test_exact_pairings_leave_the_budget_to_other_comparisons() -> None:
    rng, budget = random.Random(5), Budget()
    for _ in range(10):
        in_part(*random_tables(rng, 40, 5, 8), other=ABC, budget=budget)
        budget.free -= 1
    assert budget.exact < EXACT_PAIRING_STEPS
    assert budget.left > SEARCH_STEPS // 3


PARTS: list[tuple[Table, Table, dict[str, Any], tuple[float, float, float]]] = [
    # A missing row, an extra row, a wrong cell.
    (rows("ax", "by", "cz"), rows("ax", "by"), {}, (1.0, 2 / 3, 0.8)),
    (rows("ax", "by"), rows("ax", "by", "cz"), {}, (2 / 3, 1.0, 0.8)),
    (rows("ax", "by", "cz"), rows("ax", "by", "cy"), {}, (5 / 6, 5 / 6, 5 / 6)),
    # Columns in another order, and one too many, cost nothing; one too few costs its cells.
    (rows("ax", "by"), rows("qya", "qxb"), {}, (0.5, 0.5, 0.5)),
    (rows("ax", "by"), rows("a", "b"), {}, (0.5, 0.5, 0.5)),
    (rows("ax", "by"), rows("xqa", "yqb"), {"required_columns": ["a"]}, (1.0, 1.0, 1.0)),
    # Duplicates.
    (rows("a", "a", "b"), rows("a", "b"), {}, (1.0, 2 / 3, 0.8)),
    (rows("a", "a", "b"), rows("a", "b"), {"ignore_duplicates": True}, (1.0, 1.0, 1.0)),
    (rows("a", "b", "c"), rows("a", "a", "a", "b"), {"ignore_duplicates": True}, (1.0, 2 / 3, 0.8)),
    # Unbound agrees only with unbound.
    (rows("a.", "b."), rows("ax", "b."), {}, (0.75, 0.75, 0.75)),
    (rows("a.", "b."), rows("a", "b"), {}, (0.5, 0.5, 0.5)),
    # Nothing in common, and nothing at all.
    (rows("a"), rows("b"), {}, (0.0, 0.0, 0.0)),
    (rows("a"), [], {}, (0.0, 0.0, 0.0)),
    ([], rows("a"), {}, (0.0, 0.0, 0.0)),
    # In order.
    (rows("a", "b", "c", "d"), rows("b", "c", "d", "a"), {"ordered": True}, (0.75, 0.75, 0.75)),
    (rows("a", "b", "c", "d"), rows("q", "a", "b", "c", "d"), {"ordered": True}, (0.8, 1.0, 8 / 9)),
    (rows("a", "b", "c"), rows("c", "b", "a"), {"ordered": True}, (1 / 3, 1 / 3, 1 / 3)),
    (rows("ax", "by", "cz"), rows("ax", "bq", "cz"), {"ordered": True}, (5 / 6, 5 / 6, 5 / 6)),
]


@pytest.mark.parametrize(("expected", "actual", "how", "wanted"), PARTS)
def test_parts(expected: Table, actual: Table, how: dict[str, Any], wanted: tuple[float, ...]) -> None:
    partial = in_part(expected, actual, **how)
    assert partial[:3] == pytest.approx(wanted, abs=1e-15)


def test_ask_results_are_right_or_wrong() -> None:
    how: dict[str, Any] = {"required_columns": None, "ordered": False, "ignore_duplicates": True}
    reference = prepare_reference(results_of({"head": {}, "boolean": True}), **how)
    for value, wanted in ((True, 1.0), (False, 0.0)):
        assert compare_in_part(reference, results_of({"head": {}, "boolean": value}), Budget()).f1 == wanted
    assert compare_in_part(reference, read_results(encode(rows("a"), "a")), Budget()).f1 == 0


def test_a_nearly_right_query_is_told_from_a_wrong_one() -> None:
    rng = random.Random(5)
    table = [[str(rng.randrange(10**9)) for _ in range(6)] for _ in range(200)]
    noisy = [[cell if rng.random() < 0.95 else "?" for cell in row] for row in table]
    rng.shuffle(noisy)
    other = [[str(rng.randrange(10**9)) for _ in range(6)] for _ in range(200)]
    as_terms = [[[literal(cell) for cell in row] for row in each] for each in (table, noisy, other)]
    kept = sum(cell != "?" for row in noisy for cell in row) / 1200
    assert in_part(as_terms[0], as_terms[1]).f1 == pytest.approx(kept)
    assert in_part(as_terms[0], as_terms[2]).f1 == 0


def lookalikes(values: int, height: int, seed: int) -> list[list[str]]:
    rng = random.Random(seed)
    return [[str(rng.randrange(values)) for _ in range(14)] for _ in range(height)]


@pytest.mark.parametrize("values", [1, 2, 5, 1000])
def test_lookalike_columns_end_within_the_limit(values: int) -> None:
    """14 columns with the same few values have 87 billion pairings; columns of the same name come first."""
    table = [[literal(cell) for cell in row] for row in lookalikes(values, 1000, 1)]
    wrong = [[*row] for row in table]
    wrong[17][3] = literal("wrong")
    with affordable(2**21):
        partial = in_part(table, wrong, other=ABC)
        assert partial.f1 >= 1 - 2 / (14 * 1000)
        assert partial.f1 < 1
        shuffled = [[row[index] for index in range(13, -1, -1)] for row in wrong]
        assert 0 < in_part(table, shuffled, other=ABC).f1 < 1


def test_numbers_that_share_a_hash_end_within_the_limit() -> None:
    modulus = 2**61 - 1
    table = [[literal("1", "integer")]]
    other = [[literal(str((row + 1) * modulus), "integer")] for row in range(20_000)]
    with affordable(2**21), pytest.raises(ComparisonBudgetExceeded, match="share their hashes"):
        in_part(table, other)


def test_stopping_the_budget_ends_the_search() -> None:
    table = [[literal(cell) for cell in row] for row in lookalikes(2, 50, 3)]
    budget = Budget()
    budget.stop()
    how: dict[str, Any] = {"required_columns": None, "ordered": False, "ignore_duplicates": True}
    reference = prepare_reference(read_results(encode(table, ABC)), **how)
    with pytest.raises(ComparisonBudgetExceeded, match="stopped"):
        compare_in_part(reference, read_results(encode(table[1:], ABC)), budget)
