"""One result as a page shows it: expected and actual steps side by side, with what differs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.catalogue.judged import JUDGED
from graphrag_eval_async.catalogue.metrics import (
    ANSWER_MATCH,
    BY,
    COST,
    DISAGREEMENT,
    RESOURCES,
    RESULT_KEYS,
    STEP_METRICS,
    VALUES_F1,
)
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, EXECUTION_ERROR, REASON
from graphrag_eval_async.catalogue.reference_steps import REFERENCE_QUERY
from graphrag_eval_async.errors import ComparatorError, ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.reports.cells import MISSING, UNEXPECTED, Grid, Marks, mark_differences
from graphrag_eval_async.reports.wording import reason_in_words
from graphrag_eval_async.steps import Budget, accepted_names, prepare_step
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.arguments import args_differences, in_words
from graphrag_eval_async.steps.differences import MAX_DIFFERENCES, Agreement
from graphrag_eval_async.steps.failure import NO_FAILURE
from graphrag_eval_async.steps.retrieval import read_documents
from graphrag_eval_async.text import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

ROWS, COLUMNS, DOCUMENTS = 50, 12, 20  # of a table or a list that are shown
CHARACTERS, CELL = 4000, 400  # of a text, and of a cell
STEPS = 500_000  # budget for finding the differences of a step: a tenth of a second

COMPARED_ROWS = 1000
"""Maximum number of rows of a table whose cells are compared; a longer one has no marks."""

HIT = "hit"
"""Mark of a retrieved document that is expected."""

REASONS_OF_ORDER = ("wrong_step_order", "wrong_steps_right_answer")
"""Reasons of failure of results whose steps may all be right, but for their order."""

Result = Mapping[str, Any]


class Table(NamedTuple):
    """The rows of a table that are shown.

    Attributes:
        headings: the names of the columns.
        rows: the texts of the cells.
        hidden: how much is not shown; empty if all is.
        marks: for each row, the marks of its cells; empty if nothing is marked.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    hidden: str
    marks: Sequence[Sequence[str]] = ()


class WholeTable(NamedTuple):
    """A table with all of its columns, and the first `COMPARED_ROWS` rows.

    Attributes:
        grid: its names and rows.
        row_count: number of its rows.
    """

    grid: Grid
    row_count: int


class Marked(NamedTuple):
    """A document, or a difference of a kind; `mark` is one of those above, or empty."""

    name: str
    text: str
    mark: str


class Value(NamedTuple):
    """A metric of a result or step: its values, and what its judges said."""

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
    documents: list[Marked]
    text: str
    values: list[Value]


class Pair(NamedTuple):
    """An expected step beside the actual step that matched it, or came closest.

    Attributes:
        expected: the expected step; None if the agent took a step that is not expected.
        actual: the actual step; None if there is none.
        verdict: how they agree, such as "matched" or "different".
        differences: what differs.
        columns: which columns were compared, if the names of some differ; otherwise empty.
    """

    expected: Step | None
    actual: Step | None
    verdict: str
    differences: Sequence[Marked] = ()
    columns: str = ""


def result_names(result: Result) -> dict[str, Any]:
    """What the page of a result shows: what identifies it and why it failed, its texts, metrics
    and steps.
    """
    about = {
        "template": "template_id",
        "sample": "sample",
        "status": "status",
        "failure": REASON,
        "failure in detail": "failure_detail",
        "response": "response_id",
    }
    texts = (
        "question_id",
        "template_id",
        "question_text",
        "reference_answer",
        "actual_answer",
        "status",
    )
    return {
        "about": [
            (name, (reason_in_words if key == REASON else str)(str(result[key])))
            for name, key in about.items()
            if result.get(key) is not None and result[key] != NO_FAILURE
        ],
        "result": {name: result.get(name) for name in (*texts, "error")},
        "metrics": [*values_of(result)],
        "pairs": pairs_of(result),
    }


class Outcome(NamedTuple):
    """Whether a result is right: `kind` is "right", "wrong" or "unknown", for its colour."""

    kind: str
    title: str
    detail: str


def outcome_of(result: Result) -> Outcome:
    """Return whether a result is right and, if not, why it failed."""
    reason = result.get(REASON)
    if result.get("status") == "error":
        reason = AGENT_ERROR
    if reason is None:
        return Outcome("unknown", "No verdict: nothing of it was compared", "")
    if reason == NO_FAILURE:
        return Outcome("right", "Right", "")
    detail = result.get("failure_detail")
    if detail is None and reason == AGENT_ERROR:
        detail = result.get("error")
    return Outcome("wrong", reason_in_words(str(reason)), "" if detail is None else _text(detail))


def pairs_of(result: Result) -> list[Pair]:
    """Return the expected steps of a result in order, then the other steps of the agent."""
    actual_steps = [_as_it_ran(step) for step in _mappings(result.get("actual_steps"))]
    reference_steps = result.get("reference_steps")
    if not isinstance(reference_steps, list):
        reference_steps = []
    groups = [_mappings(group) for group in reference_steps]
    expected_steps = [step for group in groups for step in group]
    partners = _partners(expected_steps, actual_steps)

    # Of several groups, often only the last one is scored.
    earlier_count = len(expected_steps) - len(groups[-1]) if groups else 0
    if any("matches" in step for step in expected_steps[:earlier_count]):
        earlier_count = 0

    pairs = []
    for place, (expected, actual) in enumerate(zip(expected_steps, partners, strict=True)):
        pair = _pair(expected, actual, is_earlier=place < earlier_count, reason=result.get(REASON))
        pairs.append(pair)
    taken = {id(step) for step in partners if step is not None}
    others = [step for step in actual_steps if id(step) not in taken]
    return pairs + [Pair(None, _step(step), "not expected") for step in others]


def _as_it_ran(step: Result) -> Result:
    """Return a step of the agent with what its query returned when it was run, if it was.

    This comes before what the agent said.
    """
    shown = dict(step)
    if "executed_output" in step:
        shown["output"] = step["executed_output"]
    if EXECUTION_ERROR in step:
        shown["error"] = step[EXECUTION_ERROR]
    return shown


def _pair(expected: Result, actual: Result | None, *, is_earlier: bool, reason: Any) -> Pair:
    """Return an expected step beside an actual one, with what differs.

    Args:
        expected: the expected step.
        actual: the actual step that matched it or came closest; None if there is none.
        is_earlier: whether the step is in a group before those that were scored.
        reason: why the result failed.
    """
    differences = [*_differences(expected.get("diff"))]
    verdict = _verdict(expected, actual, is_partial=bool(differences))
    if is_earlier:
        verdict = "earlier step"
    elif verdict == "different" and actual is not None and not differences:
        agreement = _compared(expected, actual)
        differences = [*_differences(agreement.differences)]
        if agreement.score == 1 and reason in REASONS_OF_ORDER:
            verdict = "in another order"

    expected_step, actual_step = _side_by_side(
        expected, actual, marks_cells=verdict in ("different", "partly matched")
    )
    return Pair(
        expected=expected_step,
        actual=actual_step,
        verdict=verdict,
        differences=differences,
        columns=_paired_columns(expected.get("paired_columns")),
    )


def _verdict(expected: Result, actual: Result | None, *, is_partial: bool) -> str:
    """Return how an actual step agrees with an expected one; `is_partial` if something differs."""
    if actual is None:
        return "missing"
    if "matches" not in expected:
        return "different"
    expected_documents = {_key(document) for document in _documents(expected)}
    actual_documents = {_key(document) for document in _documents(actual)}
    if not expected_documents <= actual_documents:
        count = len(expected_documents & actual_documents)
        return f"{count} of {len(expected_documents)} documents found"
    return "partly matched" if is_partial else "matched"


def _mappings(items: Any) -> list[Result]:
    """The mappings in a list: results may come from anywhere."""
    return [each for each in items if isinstance(each, Mapping)] if isinstance(items, list) else []


def _partners(expected: Sequence[Result], actual: Sequence[Result]) -> list[Result | None]:
    """The actual step beside each expected one: that which it matches, or else one of its name."""
    by_id = {step["id"]: step for step in actual if isinstance(step.get("id"), str)}
    matches = [step.get("matches") for step in expected]  # Null if the actual step has no id.
    found = [by_id.get(each) if isinstance(each, str) else None for each in matches]
    taken = {id(step) for step in found if step is not None}
    in_turn = sorted(range(len(expected)), key=lambda place: "matches" not in expected[place])
    # First by their own names: an IRI may have been looked up by the query that another step
    # expects.
    for names_of in (lambda name: {name}, accepted_names):
        for place in in_turn:
            if found[place] is None:
                names = names_of(str(expected[place].get("name")))
                found[place] = _closest(expected[place], names, actual, taken)
                taken.add(id(found[place]))
    return found


def _closest(
    expected: Result, names: Collection[str], actual: Sequence[Result], taken: set[int]
) -> Result | None:
    """The agent's last step with one of the names that is free; one that worked as asked, if any
    did.
    """
    attempts = [step for step in actual if str(step.get("name")) in names and id(step) not in taken]
    worked = [step for step in attempts if step.get("status") != "error"]
    asked = [step for step in worked if not args_differences(expected, step)]
    return next(reversed(asked or worked or attempts), None)


def _compared(expected: Result, actual: Result) -> Agreement:
    """How the steps agree, with the differences of arguments, tables and graphs."""
    found = Agreement(0, None, args_differences(expected, actual))
    with suppress(MalformedStep, ComparisonBudgetExceeded, ComparatorError):
        in_part = {**expected, "score": VALUES_F1 if expected.get("score") == VALUES_F1 else "f1"}
        for asked in () if found.differences else (expected, in_part):
            found = prepare_step(asked).compare(ActualStep(actual, Budget(STEPS)))
    return found


def _differences(diff: Any) -> Iterator[Marked]:
    """Differences, each on one line; rows are counted from 1."""
    for each in _mappings(diff)[:MAX_DIFFERENCES]:
        if not isinstance(kind := each.get("kind"), str):
            continue
        what = next((each[key] for key in ("row", "triple", "column", "value") if key in each), "")
        if kind == "wrong_arg":
            text = _cut(in_words(dict(each)), CELL)
        elif kind == "wrong_value":
            row = what + 1 if isinstance(what, int) else what
            column, expected, actual = (
                _cell(each.get(key)) for key in ("column", "expected", "actual")
            )
            text = f"row {_cell(row)}, {column}: expected {expected}, got {actual}"
        elif isinstance(what, Mapping):
            text = ", ".join(
                f"{_cell(name)} = {_cell(value)}" for name, value in [*what.items()][:COLUMNS]
            )
            text += f", {len(what) - COLUMNS} more columns" if len(what) > COLUMNS else ""
        else:
            text = _cell(what)
        mark = {"missing": MISSING, "extra": UNEXPECTED}.get(kind.partition("_")[0], "")
        yield Marked(_cut(kind.replace("_", " "), CELL), text, mark)


def _paired_columns(paired_columns: Any) -> str:
    """Return which columns of two tables were compared, in words.

    Args:
        paired_columns: the names of the agent's columns by those of the expected ones. Results may
            come from anywhere, so this may be anything else.
    """
    if not isinstance(paired_columns, Mapping):
        return ""
    pairs = list(paired_columns.items())[:COLUMNS]
    return ", ".join(f"{_cell(name)} with {_cell(partner)}" for name, partner in pairs)


def _cell(value: Any) -> str:
    return "nothing" if value is None else _cut(str(value), CELL)


def _side_by_side(
    expected: Result, actual: Result | None, *, marks_cells: bool
) -> tuple[Step, Step | None]:
    """Return both steps as they are shown: with marked documents and, if so asked, marked cells."""
    expected_table = _whole_table(expected)
    if actual is None:
        missing = [_document(document, MISSING) for document in _documents(expected)]
        table = None if expected_table is None else _table(expected_table)
        return _step(expected, missing, table), None

    actual_table = _whole_table(actual)
    shown_tables = [
        None if whole is None else _table(whole) for whole in (expected_table, actual_table)
    ]
    if (
        marks_cells
        and expected_table is not None
        and actual_table is not None
        and max(expected_table.row_count, actual_table.row_count) <= COMPARED_ROWS
    ):
        expected_marks, actual_marks = mark_differences(expected_table.grid, actual_table.grid)
        shown_tables = [_table(expected_table, expected_marks), _table(actual_table, actual_marks)]

    expected_documents = _documents(expected)
    actual_documents = _documents(actual)
    expected_keys = {_key(document) for document in expected_documents}
    actual_keys = {_key(document) for document in actual_documents}
    shown_expected = [
        _document(document, "" if _key(document) in actual_keys else MISSING)
        for document in expected_documents
    ]
    shown_actual = [
        _document(document, HIT if _key(document) in expected_keys else "")
        for document in actual_documents
    ]
    return (
        _step(expected, shown_expected, shown_tables[0]),
        _step(actual, shown_actual, shown_tables[1]),
    )


def _step(
    step: Result, documents: Sequence[Marked] | None = None, table: Table | None = None
) -> Step:
    """Return a step as it is shown.

    Args:
        step: the step.
        documents: its documents with marks; None to show them without.
        table: its table with marks; None to show its table without, if it has one.
    """
    if documents is None:
        documents = [_document(document, "") for document in _documents(step)]
    if table is None:
        whole = _whole_table(step)
        table = None if whole is None else _table(whole)

    output = step.get("output")
    error = step.get("error")
    text = ""
    if table is None and not documents and output is not None:
        text = _text(output)
    return Step(
        name=str(step.get("name")),
        args=_args_in_words(step),
        error="" if error is None else _text(error),
        table=table,
        documents=[*documents[:DOCUMENTS]],
        text=text,
        values=[*values_of(step, of_steps=True)],
    )


def _args_in_words(step: Result) -> str:
    """Return the arguments of a step, a line each; queries keep their line breaks.

    A query of the reference set is shown like the query of an agent.
    """
    args = step.get("args")
    if args is None and step.get(REFERENCE_QUERY) is not None:
        args = {"query": step[REFERENCE_QUERY]}
    if args is None:
        return ""
    if isinstance(args, Mapping):
        return _cut("\n".join(f"{name}: {_text(value)}" for name, value in args.items()))
    return _text(args)


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


def _whole_table(step: Result) -> WholeTable | None:
    """Return the output of a query; None if it is not a table."""
    if not isinstance(step.get("output"), str | Mapping | list) or step.get("name") == "retrieval":
        return None
    with suppress(MalformedStep, ComparisonBudgetExceeded):
        results = ActualStep(step).results()
        if results.boolean is not None:
            return WholeTable(Grid(["answer"], [[str(results.boolean).lower()]]), 1)
        names = [*results.variables]
        row_count = min(COMPARED_ROWS, results.row_count)
        texts_by_name = {column.name: column.texts for column in results.named(names)}
        columns = []
        for name in names:
            texts = texts_by_name.get(name) or [None] * row_count
            columns.append(texts[:row_count])
        return WholeTable(Grid(names, [*zip(*columns, strict=True)]), results.row_count)
    return None


def _table(whole: WholeTable, marks: Marks | None = None) -> Table:
    """Return what is shown of a table: if it is long, rows with marks first."""
    places = [*range(len(whole.grid.rows))]
    hidden_note = ""
    if marks is not None and len(places) > ROWS:
        # False comes before True.
        places = sorted(places, key=lambda place: not any(marks[place]))
        hidden_note = "rows that differ come first"
    places = places[:ROWS]

    hidden_rows = whole.row_count - len(places)
    hidden_columns = len(whole.grid.names) - COLUMNS
    hidden = [
        plural(count, f"more {what}")
        for count, what in ((hidden_rows, "row"), (hidden_columns, "column"))
        if count > 0
    ]
    if hidden_note:
        hidden.append(hidden_note)
    rows = [
        [_cut(cell or "", CELL) for cell in whole.grid.rows[place][:COLUMNS]] for place in places
    ]
    return Table(
        headings=whole.grid.names[:COLUMNS],
        rows=rows,
        hidden=", ".join(hidden),
        marks=[] if marks is None else [marks[place][:COLUMNS] for place in places],
    )


def _documents(step: Result) -> list[Mapping[str, Any]]:
    with suppress(MalformedStep):
        return [*read_documents(step.get("output"))] if step.get("name") == "retrieval" else []
    return []


def _document(document: Mapping[str, Any], mark: str) -> Marked:
    text = document.get("text")
    return Marked(
        _cut(str(document.get("id", "")), CELL), _text(document if text is None else text), mark
    )


def _key(document: Mapping[str, Any]) -> Hashable:
    key = document.get("id")
    return key if isinstance(key, Hashable) else None


def values_of(item: Result, *, of_steps: bool = False) -> Iterator[Value]:
    """The metrics of a result, or those of one of its retrieval steps."""
    known: set[str] = set()
    for metric in JUDGED:
        if metric.of_step == of_steps:
            keys_of_errors = {*metric.missing_by_error, f"{metric.name}_error"}
            value = _value(item, metric.name, metric.values, keys_of_errors, known)
            if value.values or value.error or value.reason:
                yield value
    if of_steps:
        return
    for name in (*STEP_METRICS, ANSWER_MATCH):
        errors = [f"{name}_error", *([EXECUTION_ERROR] if name == "steps_score" else [])]
        value = _value(item, name, [name], errors, known)
        if value.values or value.error:
            yield value
    if used := [key for key in RESOURCES if key in item]:
        yield _value(item, "used", used, [], known)
    # A journal adds a checksum. Outputs first, to which keys with these suffixes belong.
    suffixes = ("_reason", "_error", COST, BY, DISAGREEMENT)
    more = [key for key in item if key not in {*RESULT_KEYS, "crc32"}]
    for key in sorted(more, key=lambda key: key.endswith(suffixes)):
        if key not in known:
            yield _value(item, key, [key], [f"{key}_error"], known)


def _value(
    item: Result, name: str, values: Iterable[str], errors: Iterable[str], known: set[str]
) -> Value:
    """The metric `name`; adds the keys that belong to it to `known`."""
    prefixes = dict.fromkeys((name, *values))
    reasons = [key for prefix in prefixes if (key := f"{prefix}_reason") in item]
    problems = [key for key in errors if item.get(key) is not None]
    costs = [
        cost
        for prefix in (name, *values)
        if isinstance(cost := item.get(f"{prefix}{COST}"), int | float)
    ]
    judges = item.get(f"{name}{BY}")
    known.update(values, reasons, problems, (f"{prefix}{COST}" for prefix in prefixes))
    known.update((f"{name}{BY}", f"{name}{DISAGREEMENT}"))
    return Value(
        name=name,
        values=[(key, item[key]) for key in values if item.get(key) is not None],
        reason="\n".join(_text(item[key]) for key in reasons),
        error="\n".join(_text(item[key]) for key in problems),
        cost=sum(costs) if costs else None,
        judges=[(judge, _text(said)) for judge, said in judges.items()]
        if isinstance(judges, Mapping)
        else [],
    )
