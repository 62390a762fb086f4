"""Exact agreement of rows when nearness of their cells is not transitive."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from itertools import chain, pairwise, repeat, zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from graphrag_eval_async.steps.sparql.budget import STEPS_PER_LOOKUP, STEPS_PER_PAIR
from graphrag_eval_async.steps.sparql.columns import NUMERIC, close, near

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any

    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.columns import Cell, Number

T = TypeVar("T")
# A number for the classes of its cells, which near rows share, followed by its loose cells.
Row: TypeAlias = "tuple[Any, ...]"

_WORTH_SORTING = 16


class NearRows:
    """Finds the rows near a given row."""

    def __init__(self, rows: Iterable[Row], budget: Budget) -> None:
        grouped = defaultdict(list)
        for row in rows:
            grouped[row[0]].append(row)
        self._rows = grouped
        self._windows: dict[Any, _Windows] = {}
        self._budget = budget

    def __call__(self, row: Row) -> Iterator[Row]:
        self._budget.spend(STEPS_PER_LOOKUP)
        for other in self._candidates(row):
            self._budget.spend(STEPS_PER_PAIR + len(row))
            if all(map(near, row[1:], other[1:])):
                yield other

    def _candidates(self, row: Row) -> Iterable[Row]:
        group = row[0]
        if len(self._rows[group]) < _WORTH_SORTING:
            return self._rows[group]
        if group not in self._windows:
            self._budget.spend(len(self._rows[group]) * len(row))
            self._windows[group] = _Windows(self._rows[group])
        return self._windows[group].candidates(row)


class _Windows:
    """Rows sorted by their most varied column, so that only a window of them must be checked."""

    def __init__(self, rows: list[Row]) -> None:
        self._column = max(range(1, len(rows[0])), key=lambda column: len({row[column] for row in rows}))
        numbered = [(number, row) for row in rows if (number := self._number(row)) is not None]
        numbered.sort(key=itemgetter(0))
        self._numbers = [number for number, _ in numbered]
        self._rows = [row for _, row in numbered]
        self._others = [row for row in rows if self._number(row) is None]

    def candidates(self, row: Row) -> Iterator[Row]:
        """Candidates: all rows near this one, and possibly others."""
        yield from self._others
        number = self._number(row)
        if number is None:  # near the numbers that are written alike
            yield from self._rows
            return
        middle = bisect_left(self._numbers, number)
        above = self._while_close(number, range(middle, len(self._rows)))
        below = self._while_close(number, range(middle - 1, -1, -1))
        for pair in zip_longest(above, below):  # the closest first, as the most likely
            yield from filter(None, pair)

    def _while_close(self, number: Number, indices: Iterable[int]) -> Iterator[Row]:
        for index in indices:
            if not close(self._numbers[index], number):
                break
            yield self._rows[index]

    def _number(self, row: Row) -> Number | None:
        value = row[self._column][1]
        return value if isinstance(value, int | float) else None


def rows_cover(left: Iterable[Row], right: Iterable[Row], budget: Budget) -> bool:
    """Whether each row has a near row on the other side."""
    left, right = frozenset(left), frozenset(right)
    for rows, others in ((left, right), (right, left)):
        near_rows = NearRows(others, budget)
        if any(next(near_rows(row), None) is None for row in rows - others):
            return False
    return True


def rows_pair_off(left: Mapping[Row, int], right: Mapping[Row, int], budget: Budget) -> bool:
    """Whether two multisets of rows, of equal size, can be paired so that the rows of each pair are near."""
    ours, theirs = _by_number(left), _by_number(right)
    return ours.keys() == theirs.keys() and all(
        _group_pairs_off(rows, theirs[number], budget) for number, rows in ours.items()
    )


def _by_number(rows: Mapping[Row, int]) -> dict[Any, dict[Row, int]]:
    grouped: dict[Any, dict[Row, int]] = defaultdict(dict)
    for row, times in rows.items():
        grouped[row[0]][row] = times
    return grouped


def _group_pairs_off(left: Mapping[Row, int], right: Mapping[Row, int], budget: Budget) -> bool:
    size, width = sum(left.values()), len(next(iter(left)))
    if size != sum(right.values()):
        return False
    budget.spend((len(left) + len(right)) * width)
    telling = [
        column for column in range(1, width) if not _all_near({row[column] for row in chain(left, right)})
    ]
    if not telling:
        return True
    if len(telling) == 1 and _is_interval(telling[0], left, right):
        budget.spend(size)
        return all(map(close, _numbers(telling[0], left), _numbers(telling[0], right)))
    return Matching(left, right, NearRows(right, budget), budget).saturates()


def _all_near(cells: Collection[Cell]) -> bool:
    """Whether all cells are near each other; not seen of texts, nor of booleans."""
    kinds = {kind for kind, _, _ in cells}
    if len(cells) == 1 or not kinds <= NUMERIC:
        return len(cells) == 1
    numbers = [number for _, number, _ in cells]
    return close(min(numbers), max(numbers)) and len({cell[1] for cell in cells if cell[0] is int}) < 2


def _is_interval(column: int, left: Iterable[Row], right: Iterable[Row]) -> bool:
    """Whether those near a cell are all that lie between two numbers, which grow with its own.

    Then rows that can be paired off can be paired in numerical order. Pairs of integers, which are near only
    if equal, break that.
    """
    ours, theirs = ({row[column][0] for row in rows} for rows in (left, right))
    return ours | theirs <= NUMERIC and int not in ours & theirs


def _numbers(column: int, rows: Mapping[Row, int]) -> list[Number]:
    """The numbers in a column, in numerical order."""
    return sorted(chain.from_iterable(repeat(row[column][1], times) for row, times in rows.items()))


class Matching(Generic[T]):
    """A maximum matching of items that occur several times, found along augmenting paths.

    Args:
        left: how often each item occurs on the side to be matched in full.
        right: the same of the other side.
        partners: the right items that a left item can be matched with. An item that occurs on both sides
            must be among its own partners.
        budget: pays for every pair looked at.
    """

    def __init__(
        self,
        left: Mapping[T, int],
        right: Mapping[T, int],
        partners: Callable[[T], Iterable[T]],
        budget: Budget,
    ) -> None:
        self._need = dict(left)
        self._free = dict(right)
        self._flow: dict[T, dict[T, int]] = {item: {} for item in right}
        self._find_partners = partners
        self._known: dict[T, tuple[list[T], Iterator[T]]] = {}
        self._budget = budget

    def saturates(self) -> bool:
        """Whether all left items can be matched at once. Call it only once."""
        self._match_equal()
        return not any(self._unmatched(item, need) for item, need in self._need.items())

    def maximum(self) -> dict[T, dict[T, int]]:
        """The matching: how often each right item is matched with which left items. Call it only once."""
        self._match_equal()
        for item, need in self._need.items():
            self._unmatched(item, need)
        return self._flow

    def _match_equal(self) -> None:
        """Match equal items first; augmenting paths correct wrong matches."""
        for item, count in self._need.items():
            if twins := min(count, self._free.get(item, 0)):
                self._flow[item][item] = twins
                self._free[item] -= twins
                self._need[item] -= twins

    def _unmatched(self, item: T, need: int) -> int:
        """Match an item, and return how often it cannot be matched."""
        while need > 0:
            self._budget.spend(STEPS_PER_LOOKUP)
            path = self._augmenting_path(item)
            if not path:
                break
            need -= self._augment(path, need)
        return need

    def _augmenting_path(self, start: T) -> list[tuple[T, T]]:
        """An augmenting path, as pairs to match more often, with pairs to match less between; or nothing."""
        reached_from: dict[T, T] = {}  # right item -> left
        moved_from: dict[T, T | None] = {start: None}  # left item -> right
        queue = deque([start])
        while queue:
            item = queue.popleft()
            for partner in self._partners(item):
                self._budget.spend(1 + len(self._flow[partner]))
                if partner in reached_from:
                    continue
                reached_from[partner] = item
                if self._free[partner]:
                    return _walk_back(partner, reached_from, moved_from)
                for other in self._flow[partner]:
                    if other not in moved_from:
                        moved_from[other] = partner
                        queue.append(other)
        return []

    def _partners(self, item: T) -> Iterator[T]:
        """The partners, each searched for once, when it is needed."""
        if item not in self._known:
            self._known[item] = [], iter(self._find_partners(item))
        known, unknown = self._known[item]
        yield from known
        for partner in unknown:
            known.append(partner)
            yield partner

    def _augment(self, path: list[tuple[T, T]], most: int) -> int:
        last = path[-1][1]
        released = [(later[0], earlier[1]) for earlier, later in pairwise(path)]
        count = min(most, self._free[last], *(self._flow[partner][item] for item, partner in released))
        self._free[last] -= count
        for item, partner in path:
            self._flow[partner][item] = self._flow[partner].get(item, 0) + count
        for item, partner in released:
            self._flow[partner][item] -= count
            if not self._flow[partner][item]:
                del self._flow[partner][item]
        return count


def _walk_back(
    partner: T, reached_from: Mapping[T, T], moved_from: Mapping[T, T | None]
) -> list[tuple[T, T]]:
    path = []
    step: T | None = partner
    while step is not None:
        item = reached_from[step]
        path.append((item, step))
        step = moved_from[item]
    return path[::-1]
