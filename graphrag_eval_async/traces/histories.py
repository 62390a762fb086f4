"""Calls that several spans tell of, each found once."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.traces.calls import Call
from graphrag_eval_async.traces.plain import text_of
from graphrag_eval_async.traces.spans import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from graphrag_eval_async.traces.span_messages import Message

_STEP = 1e-6
"""What tells the places of two turns apart that a history holds one after the other."""


@dataclass(slots=True, eq=False)
class Turn:
    """The calls of one message of the agent; `place` orders turns."""

    place: tuple[float, float]


@dataclass(slots=True, eq=False)
class Found(Call):
    """One call; its output is as a span of its own or else a message tells it.

    Attributes:
        has_span: whether a span of its own tells of it.
        made_here: whether it was made in the trace, rather than told in what was passed on.
        is_orphan: whether only its result was found.
        before, after: whether a history has it before the last message of the user, and after it.
    """

    turn: Turn = field(kw_only=True)
    index: int = 0
    has_span: bool = False
    made_here: bool = False
    before: bool = False
    after: bool = False
    is_orphan: bool = False

    @property
    def is_current(self) -> bool:
        """Whether it belongs to the last turn of the user."""
        return self.made_here or (self.after and not self.before)


class _Queues:
    """Calls by keys; those that are taken are skipped."""

    def __init__(self, is_free: Callable[[Found], bool]) -> None:
        self._is_free = is_free
        self._queues: defaultdict[Hashable, deque[Found]] = defaultdict(deque)

    def add(self, found: Found, *keys: Hashable) -> None:
        for key in keys:
            self._queues[key].append(found)

    def take(self, *keys: Hashable) -> Found | None:
        for key in keys:
            queue = self._queues.get(key)
            while queue:
                if self._is_free(queue[0]):
                    return queue[0]
                queue.popleft()
        return None


class Calls:
    """Collects calls from histories, which repeat one another, and from spans of tools."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        self.all: list[Found] = []
        self._problem = problem
        self._known: dict[Hashable, Found] = {}
        self._orphans: dict[Hashable, Found] = {}
        self._histories: list[list[Found]] = []
        self._turns = 0

    def add_history(self, messages: list[Message], time: float, *, here: bool) -> None:
        """Add what a history tells; `here` if a span of the last trace carries it.

        A call is the same as one of another history if id, name and arguments are, and if both are the first
        such call of their histories, or both the second, and so on.
        """
        last = max((at for at, message in enumerate(messages) if message.asks), default=-1)
        seen: defaultdict[Hashable, int] = defaultdict(int)
        ended: set[int] = set()
        waiting = _Queues(lambda found: id(found) not in ended)
        told: list[Found] = []
        for at, message in enumerate(messages):
            self._turns += 1
            turn = Turn((time, self._turns))
            for index, called in enumerate(message.calls):
                found = self._call(called, turn, index, seen, here=here, before=at < last)
                found.made_here |= here and message.new
                waiting.add(found, ("id", found.id), ("name", found.name), "any")
                told.append(found)
                self._place(found, here=here, before=at < last)
            for returned in message.results:
                result = self._result(returned, turn, waiting, ended, seen)
                if result.turn is turn:
                    told.append(result)
                self._place(result, here=here, before=at < last)
        self._histories.append(told)

    def _place(self, found: Found, *, here: bool, before: bool) -> None:
        found.before |= here and before
        found.after |= here and not before

    def _call(
        self,
        called: Call,
        turn: Turn,
        index: int,
        seen: defaultdict[Hashable, int],
        *,
        here: bool,
        before: bool,
    ) -> Found:
        content = (called.id, called.name, _key(called.args))
        seen[content] += 1
        elsewhere, key = (False, content, seen[content]), (here, content, seen[content])
        if before and elsewhere in self._known:  # A turn of another trace.
            return self._known[elsewhere]
        if key not in self._known:
            found = Found(called.name, called.id, called.args, turn=turn, index=index)
            self._known[key] = found
            self.all.append(found)
        return self._known[key]

    def _result(
        self,
        returned: Call,
        turn: Turn,
        waiting: _Queues,
        ended: set[int],
        seen: defaultdict[Hashable, int],
    ) -> Found:
        if returned.id is not None:
            found = waiting.take(("id", returned.id))
        else:
            found = waiting.take("any" if returned.name is None else ("name", returned.name))
        if found is not None:
            ended.add(id(found))
            if not found.ended:
                found.output, found.ended = returned.output, True
            return found
        key = ("result", returned.id, returned.name, _key(returned.output))
        seen[key] += 1
        orphan = Found(
            returned.name, returned.id, output=returned.output, ended=True, turn=turn, is_orphan=True
        )
        return self._orphans.setdefault((*key, seen[key]), orphan)

    def add_spans(self, spans: Iterable[Found], *, here: bool) -> None:
        """Add calls that spans of their own tell, in order of their starts; those of the last trace first.

        The calls of messages and of spans are matched by id; without one, by name and arguments or else by
        name, in their order.
        """
        free = _Queues(lambda found: not found.has_span)
        for found in sorted(self.all, key=lambda found: not found.is_current):
            if here or not found.made_here:
                kind = "id" if found.id is not None else "no id"
                key = _key(found.args)
                by_id: list[Hashable] = [("id", found.id, key), ("id", found.id)]
                by_name = [("name", found.name), (found.name, key)]
                free.add(found, *by_id, *by_name, (kind, "name", found.name), (kind, found.name, key))
        rest = []
        for told in spans:
            key = _key(told.args)
            if told.id is not None:
                match = free.take(("id", told.id, key), ("id", told.id), ("no id", told.name, key))
            else:
                match = free.take((told.name, key))
            if match is None:
                rest.append(told)
            else:
                self._merge(match, told, here=here)
        for told in rest:
            match = free.take(("name", told.name) if told.id is None else ("no id", "name", told.name))
            if match is None:
                match = told
                self.all.append(told)
            self._merge(match, told, here=here)

    def _merge(self, found: Found, told: Found, *, here: bool) -> None:
        found.has_span = True
        found.made_here |= here
        if found is told:
            return
        if found.name is None:
            found.name = told.name
        if told.args not in (None, "", {}) and told.args != found.args:
            if isinstance(told.args, dict) and isinstance(found.args, dict) and found.args:
                text = shown(found.args)
                self._problem(f"{found.label}: its span has other arguments, which count, than {text}")
            if isinstance(told.args, dict) or not isinstance(found.args, dict):
                found.args = told.args
        if told.ended and (told.output is not None or not found.ended):
            found.output = told.output
        found.ended |= told.ended
        found.failed = told.failed if told.failed is not None else found.failed
        found.turn.place = min(found.turn.place, (told.turn.place[0], found.turn.place[1]))

    def finish(self) -> Iterator[Found]:
        """All calls in their order; results without calls are among them."""
        for told in self._histories:
            _order(told)
        open_calls = _Queues(lambda found: not found.ended)
        texts: defaultdict[str | int | None, set[str]] = defaultdict(set)
        for found in self.all:
            if found.id is not None:
                open_calls.add(found, found.id)
                texts[found.id].add(text_of(found.output))
        for orphan in self._orphans.values():
            match = open_calls.take(orphan.id)
            if match is not None:
                match.output, match.ended = orphan.output, True
                texts[match.id].add(text_of(match.output))
            elif orphan.id not in texts:
                self._problem(f"{orphan.label}: a result without a call")
                self.all.append(orphan)
            elif text_of(orphan.output) not in texts[orphan.id]:
                self._problem(f"{orphan.id}: more than one result; the first counts")
        yield from sorted(self.all, key=lambda found: (found.turn.place, found.index))


def _order(told: list[Found]) -> None:
    """A turn is not later than the next of its history."""
    limit = (inf, inf)
    for found in reversed(told):
        turn = found.turn
        if turn.place > limit:
            turn.place = (limit[0], limit[1] - _STEP)
        limit = turn.place


def _key(value: Any) -> str:
    if not value:
        return ""
    try:
        return shown(dict(sorted(value.items())) if isinstance(value, dict) else value)
    except TypeError:
        return shown(value)
