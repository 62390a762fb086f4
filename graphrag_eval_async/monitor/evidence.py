"""One result as a page shows it: expected and actual steps side by side, with the differences marked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.records.metrics import (
    BY,
    COST,
    DISAGREEMENT,
    JUDGED,
    OF_STEPS,
    RESOURCES,
    RESULT_KEYS,
)
from graphrag_eval_async.records.outcomes import EXECUTION_ERROR, REFERENCE_QUERY
from graphrag_eval_async.steps import accepted_names
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.differences import MAX_DIFFERENCES
from graphrag_eval_async.steps.retrieval import read_documents
from graphrag_eval_async.text import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.columns import Column

ROWS, COLUMNS, DOCUMENTS = 50, 12, 20
"""How much of a table or a list is shown."""

CHARACTERS, CELL = 4000, 400
"""Maximum characters of a text, and of a cell."""

COMPARED_CELLS = 100_000
"""Larger tables are shown without marks."""

MISSING, UNEXPECTED, HIT = "missing", "unexpected", "hit"
"""Marks: expected but absent; present but not expected; a document that was expected."""


class Cell(NamedTuple):
    text: str
    mark: str = ""


class Table(NamedTuple):
    """The first rows and columns of query results; `hidden` says what is not shown."""

    headings: list[Cell]
    rows: list[list[Cell]]
    hidden: str


class Document(NamedTuple):
    """A retrieved document; `mark` is `HIT` or `MISSING`, or empty."""

    id: str
    text: str
    mark: str


class Value(NamedTuple):
    """A metric of a result or step: its values, and what its judge said."""

    name: str
    values: list[tuple[str, Any]]
    reason: str
    error: str
    cost: float | None
    judges: list[tuple[str, str]]


class Step(NamedTuple):
    name: str
    args: str
    error: str
    table: Table | None
    documents: list[Document]
    text: str
    values: list[Value]


class Difference(NamedTuple):
    """A difference that the result lists; `mark` is `MISSING` or `UNEXPECTED`, or empty."""

    kind: str
    text: str
    mark: str


class Pair(NamedTuple):
    """An expected step beside the actual step that matched it, or came closest.

    Attributes:
        verdict: "matched", or "2 of 3 documents found" if some are missing; "matched in part" if the result
            lists differences; "different", "missing" or "not expected"; or "earlier step" for those before
            the last group where only the last group is scored.
        differences: what the result says that differs.
    """

    expected: Step | None
    actual: Step | None
    verdict: str
    differences: Sequence[Difference] = ()


def pairs_of(result: Mapping[str, Any]) -> list[Pair]:
    """The expected steps of a result in order, then the other steps of the agent."""
    # What a query returned when it was run comes before what the agent said.
    run = {"output": "executed_output", "error": EXECUTION_ERROR}
    actual: list[Mapping[str, Any]] = [
        {**step, **{key: step[more] for key, more in run.items() if more in step}}
        for step in _mappings(result.get("actual_steps"))
    ]
    steps = result.get("reference_steps")
    groups = [*map(_mappings, steps if isinstance(steps, list) else ())]
    expected = [step for group in groups for step in group]
    by_id = {step["id"]: step for step in actual if isinstance(step.get("id"), str)}
    found = [
        by_id.get(step["matches"]) if isinstance(step.get("matches"), str) else None for step in expected
    ]
    is_match = ["matches" in step for step in expected]  # Null if the actual step has no id.
    in_turn = sorted(range(len(expected)), key=lambda place: not is_match[place])
    taken = {id(step) for step in found if step is not None}
    # First by their own names: an IRI may have been looked up by the query that another step expects.
    for names_of in (lambda name: {name}, accepted_names):
        for place in in_turn:
            if found[place] is None:
                found[place] = _closest(names_of(str(expected[place].get("name"))), actual, taken)
                taken.add(id(found[place]))
    pairs = []
    scored = len(expected) - len(groups[-1]) if groups else 0
    scored = 0 if any(is_match[:scored]) else scored
    for place, (step, other) in enumerate(zip(expected, found, strict=True)):
        differences = [*_differences(step)]
        is_same = is_match[place] and step.get("name") != "retrieval" and not differences
        left, right = _side_by_side(step, other, alike=is_same or place < scored)
        verdict = "earlier step" if place < scored else "missing" if other is None else "different"
        if is_match[place] and other is not None:
            wanted, present = ({_key(each) for each in _documents(one)} for one in (step, other))
            verdict = "matched in part" if differences else "matched"
            if not wanted <= present:
                verdict = f"{len(wanted & present)} of {len(wanted)} documents found"
        pairs.append(Pair(left, right, verdict, differences))
    others = [step for step in actual if id(step) not in taken]
    return pairs + [Pair(None, _step(step), "not expected") for step in others]


def _mappings(items: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list: results may come from anywhere."""
    return [each for each in items if isinstance(each, Mapping)] if isinstance(items, list) else []


def _differences(step: Mapping[str, Any]) -> Iterator[Difference]:
    for each in _mappings(step.get("diff"))[:MAX_DIFFERENCES]:
        if isinstance(kind := each.get("kind"), str):
            mark = {"missing": MISSING, "extra": UNEXPECTED}.get(kind.partition("_")[0], "")
            yield Difference(_cut(kind.replace("_", " "), CELL), _in_words(each), mark)


def _in_words(difference: Mapping[str, Any]) -> str:
    """A difference on one line; rows are counted from 1."""
    if difference["kind"] == "wrong_value":
        row = difference.get("row")
        number = row + 1 if isinstance(row, int) else row
        expected, actual = (_cell_text(difference.get(key)) for key in ("expected", "actual"))
        return f"row {number}, {_cell_text(difference.get('column'))}: expected {expected}, got {actual}"
    cells = next((difference[key] for key in ("row", "triple", "column") if key in difference), "")
    if isinstance(cells, Mapping):
        shown = [f"{_cut(str(name), CELL)} = {_cell_text(text)}" for name, text in cells.items()]
        more = f", {len(shown) - COLUMNS} more columns" if len(shown) > COLUMNS else ""
        return ", ".join(shown[:COLUMNS]) + more
    return _cell_text(cells)


def _cell_text(text: Any) -> str:
    return "nothing" if text is None else _cut(str(text), CELL)


def _closest(
    names: Collection[str], actual: Sequence[Mapping[str, Any]], taken: set[int]
) -> Mapping[str, Any] | None:
    """The agent's last step with one of the names that is free; one that worked, if any did."""
    attempts = [step for step in actual if str(step.get("name")) in names and id(step) not in taken]
    worked = [step for step in attempts if step.get("status") != "error"]
    return next(reversed(worked or attempts), None)


def _side_by_side(
    expected: Mapping[str, Any], actual: Mapping[str, Any] | None, *, alike: bool
) -> tuple[Step, Step | None]:
    """Both steps; nothing is marked if they are `alike`."""
    wanted = _documents(expected)
    if actual is None:
        return _step(expected, None, [_document(each, MISSING) for each in wanted]), None
    left = right = None
    if not alike and (own := _results(expected)) is not None and (other := _results(actual)) is not None:
        left, right = _marked(own, other, required=expected.get("required_columns"))
    found = _documents(actual)
    ids, present = ({_key(each) for each in some} for some in (wanted, found))
    shown = [_document(each, HIT if _key(each) in ids else "") for each in found]
    lacking = [_document(each, "" if _key(each) in present else MISSING) for each in wanted]
    return _step(expected, left, lacking), _step(actual, right, shown)


def _step(step: Mapping[str, Any], table: Table | None = None, documents: Sequence[Document] = ()) -> Step:
    if table is None and not documents:
        results = _results(step)
        table = None if results is None else _table(results)
        documents = [_document(each, "") for each in _documents(step)]
    text = "" if table is not None or documents or step.get("output") is None else _text(step["output"])
    return Step(
        name=str(step.get("name")),
        args=_arguments(step.get("args", step.get(REFERENCE_QUERY))),
        error="" if step.get("error") is None else _text(step["error"]),
        table=table,
        documents=[*documents[:DOCUMENTS]],
        text=text,
        values=[*values_of(step, of_steps=True)],
    )


def _arguments(args: Any) -> str:
    """Arguments as lines; queries keep their line breaks."""
    if not isinstance(args, Mapping):
        return "" if args is None else _text(args)
    return _cut("\n".join(f"{key}: {_text(value)}" for key, value in args.items()))


def _text(value: Any) -> str:
    """A value as text, pretty-printed if it is JSON."""
    if isinstance(value, str):
        if not value.lstrip().startswith(("{", "[")):
            return _cut(value)
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return _cut(value)
    try:
        return _cut(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode())
    except TypeError:
        return _cut(str(value))


def _cut(text: str, limit: int = CHARACTERS) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def _results(step: Mapping[str, Any]) -> SparqlResults | None:
    """The output of a query; None if it is not a table."""
    if not isinstance(step.get("output"), str | Mapping | list) or step.get("name") == "retrieval":
        return None
    with suppress(MalformedStep, ComparisonBudgetExceeded):
        return ActualStep(step).results()
    return None


def _table(
    results: SparqlResults,
    marks: Mapping[str, Sequence[str]] | None = None,
    headings: Mapping[str, str] | None = None,
) -> Table:
    """The first rows of results, with a mark for each cell by column, and for the headings."""
    if results.boolean is not None:
        return Table([Cell("answer")], [[Cell(str(results.boolean).lower())]], "")
    names = [*results.variables][:COLUMNS]
    known = {column.name: column.texts for column in results.named(names)}
    marks, headings = marks or {}, headings or {}
    shown = range(min(ROWS, results.row_count))
    unbound, unmarked = [None] * len(shown), [""] * len(shown)
    cells = [(known.get(name, unbound), marks.get(name, unmarked)) for name in names]
    rows = [[Cell(_cut(texts[row] or "", CELL), mark[row]) for texts, mark in cells] for row in shown]
    hidden = [(results.row_count - ROWS, "row"), (len(results.variables) - COLUMNS, "column")]
    more = [plural(count, f"more {what}") for count, what in hidden if count > 0]
    return Table([Cell(name, headings.get(name, "")) for name in names], rows, ", ".join(more))


def _marked(expected: SparqlResults, actual: SparqlResults, *, required: Any) -> tuple[Table, Table]:
    """Both tables, with the cells marked that the other does not have in the same column.

    A column's partner has its name, or else shares most values with it. A row of known values that the other
    table does not have in this combination is marked as a whole.
    """
    if expected.boolean is not None or actual.boolean is not None:
        left = _table(expected)
        if expected.boolean not in (None, actual.boolean):
            left.rows[0][0] = left.rows[0][0]._replace(mark=MISSING)
        return left, _table(actual)
    if sum(each.row_count * len(each.columns) for each in (expected, actual)) > COMPARED_CELLS:
        return _table(expected), _table(actual)
    wanted = expected.columns if not isinstance(required, list) else expected.named(required)
    partners = _partners(wanted, actual.columns)
    ours = [column for column in wanted if column.name in partners]
    theirs = [partners[column.name] for column in ours]
    lost = {column.name: MISSING for column in wanted if column.name not in partners}
    return (
        _table(expected, _marks(expected, ours, theirs, MISSING), lost),
        _table(actual, _marks(actual, theirs, ours, UNEXPECTED)),
    )


def _partners(wanted: Sequence[Column], offered: Sequence[Column]) -> dict[str, Column]:
    """The column of the other table for each of ours that has one."""
    by_name = {column.name: column for column in offered}
    partners = {column.name: by_name[column.name] for column in wanted if column.name in by_name}
    free = [column for column in offered if column.name not in partners]
    for column in wanted:
        if column.name not in partners and free:
            values = {*column.values}
            best = max(free, key=lambda other, values=values: len(values.intersection(other.values)))  # type: ignore[misc]
            if not values.isdisjoint(best.values):
                partners[column.name] = best
                free.remove(best)
    return partners


def _marks(
    results: SparqlResults, columns: Sequence[Column], others: Sequence[Column], mark: str
) -> dict[str, list[str]]:
    """The mark of each cell, by column, for the rows that the other table does not have."""
    rows = {*zip(*(other.values for other in others), strict=True)}
    known = [{*other.values} for other in others]
    marks = {column.name: [""] * results.row_count for column in columns}
    for row, values in enumerate(zip(*(column.values for column in columns), strict=True)):
        if values not in rows:
            cells = zip(columns, values, known, strict=True)
            strange = [column.name for column, value, other in cells if value not in other]
            for name in strange or marks:
                marks[name][row] = mark
    return marks


def _documents(step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if step.get("name") != "retrieval":
        return []
    with suppress(MalformedStep):
        return [*read_documents(step.get("output"))]
    return []


def _document(document: Mapping[str, Any], mark: str) -> Document:
    known = document.get("text")
    text = _text(document if known is None else known)
    return Document(_cut(str(document.get("id", "")), CELL), text, mark)


def _key(document: Mapping[str, Any]) -> Hashable:
    key = document.get("id")
    return key if isinstance(key, Hashable) else None


def values_of(item: Mapping[str, Any], *, of_steps: bool = False) -> Iterator[Value]:
    """The metrics of a result, or those of one of its retrieval steps."""
    known: set[str] = set()
    for metric in JUDGED:
        if metric.of_step == of_steps:
            keys = {*metric.errors, f"{metric.name}_error"}
            value = _value(item, metric.name, metric.values, keys, known)
            if value.values or value.error or value.reason:
                yield value
    if of_steps:
        return
    for name in OF_STEPS:
        errors = [f"{name}_error", *([EXECUTION_ERROR] if name == "steps_score" else [])]
        value = _value(item, name, [name], errors, known)
        if value.values or value.error:
            yield value
    if used := [key for key in RESOURCES if key in item]:
        yield _value(item, "used", used, [], known)
    # A journal adds a checksum.
    more = [key for key in item if key not in {*RESULT_KEYS, "crc32"} and key not in known]
    # Outputs first, to which keys with these suffixes belong.
    suffixes = ("_reason", "_error", COST, BY, DISAGREEMENT)
    for key in sorted(more, key=lambda key: key.endswith(suffixes)):
        if key not in known:
            yield _value(item, key, [key], [f"{key}_error"], known)


def _value(
    item: Mapping[str, Any], name: str, values: Iterable[str], errors: Iterable[str], known: set[str]
) -> Value:
    """The metric `name`; adds the keys that belong to it to `known`."""
    prefixes = (name, *values)
    reasons = [key for prefix in prefixes if (key := f"{prefix}_reason") in item]
    problems = [key for key in errors if item.get(key) is not None]
    costs = [cost for prefix in prefixes if isinstance(cost := item.get(f"{prefix}{COST}"), int | float)]
    judges = item.get(f"{name}{BY}")
    known.update(values, reasons, problems, (f"{prefix}{COST}" for prefix in prefixes))
    known.update((f"{name}{BY}", f"{name}{DISAGREEMENT}"))
    own = [(judge, _text(said)) for judge, said in judges.items()] if isinstance(judges, Mapping) else []
    return Value(
        name=name,
        values=[(key, item[key]) for key in values if item.get(key) is not None],
        reason="\n".join(_text(item[key]) for key in dict.fromkeys(reasons)),
        error="\n".join(_text(item[key]) for key in problems),
        cost=sum(costs) if costs else None,
        judges=own,
    )
