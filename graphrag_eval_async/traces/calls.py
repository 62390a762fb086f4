"""Calls of tools; those that wait for their results are found in constant time by id or by name."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Call:
    """One call of a tool.

    Attributes:
        name: of the tool; None if only its result is there.
        id: None if it has none.
        args: JSON, or text that is no JSON object.
        output: text, or of a span any JSON; None as long as there is none.
        failed: None if the trace does not say.
        ended: whether its result is there.
    """

    name: str | None
    id: str | int | None = None
    args: Any = None
    output: Any = None
    failed: bool | None = None
    ended: bool = False

    @property
    def label(self) -> str:
        """Its name and id, for a problem."""
        return " ".join(str(each) for each in (self.name, self.id) if each not in (None, "")) or "a call"


class Pending:
    """The calls of a trace, of which the first that has not ended is found.

    Calls that have ended are dropped when a search reaches them, so that all searches together take time
    that is linear in the number of calls.
    """

    def __init__(self) -> None:
        self._all: deque[Call] = deque()
        self._by_id: defaultdict[str | int, deque[Call]] = defaultdict(deque)
        self._by_name: defaultdict[str, deque[Call]] = defaultdict(deque)

    def add(self, call: Call) -> None:
        self._all.append(call)
        if call.name is not None:
            self._by_name[call.name].append(call)
        if call.id is not None:
            self._by_id[call.id].append(call)

    def identify(self, call: Call, key: str | int | None) -> None:
        """Give a call its id, which became known later."""
        call.id = key
        if key is not None:
            self._by_id[key].append(call)

    def knows(self, key: str | int | None) -> bool:
        """Whether a call has this id, also if it has ended."""
        return key in self._by_id

    def first(self, key: str | int | None, name: str | None = None) -> Call | None:
        """The first call without a result that has this id or, without an id, this name if there is one."""
        if key is not None:
            calls = self._by_id.get(key)
        else:
            calls = self._all if name is None else self._by_name.get(name)
        while calls and calls[0].ended:
            calls.popleft()
        return calls[0] if calls else None


class Early:
    """Results that came before their calls, in their order."""

    def __init__(self) -> None:
        self._results: dict[int, Call] = {}
        self._by_id: defaultdict[str | int, deque[int]] = defaultdict(deque)
        self._count = 0

    def add(self, result: Call) -> None:
        self._results[self._count] = result
        if result.id is not None:
            self._by_id[result.id].append(self._count)
        self._count += 1

    def take(self, key: str | int | None) -> Call | None:
        """The first result that has this id, which is kept no longer."""
        numbers = self._by_id.get(key) if key is not None else None
        return self._results.pop(numbers.popleft()) if numbers else None

    def take_all(self) -> list[Call]:
        """All results that are left, which are kept no longer."""
        results = list(self._results.values())
        self._results.clear()
        self._by_id.clear()
        return results
