"""One result as a page shows it: expected and actual steps side by side, with what differs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.metrics import (
    VALUES_F1,
)
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, EXECUTION_ERROR, REASON
from graphrag_eval_async.catalogue.reference_steps import REFERENCE_QUERY
from graphrag_eval_async.errors import ComparatorError, ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.helpers.text import plural
from graphrag_eval_async.reports.cells import MISSING, UNEXPECTED, Grid, Marks, mark_differences
from graphrag_eval_async.reports.values import Value, cut, value_text, values_of
from graphrag_eval_async.reports.wording import reason_in_words
from graphrag_eval_async.steps import Budget, accepted_names, prepare_step
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.arguments import args_differences, in_words
from graphrag_eval_async.steps.differences import MAX_DIFFERENCES, Agreement
from graphrag_eval_async.steps.failure import NO_FAILURE
from graphrag_eval_async.steps.retrieval import read_documents

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

ROWS = 50
"""Maximum number of rows of a table that are shown."""

COLUMNS = 12
"""Maximum number of columns of a table that are shown."""

DOCUMENTS = 20
"""Maximum number of documents of a step that are shown."""

CELL = 400
"""Maximum number of characters of a cell that are shown."""

STEPS = 500_000
"""Budget for finding the differences of a step: a tenth of a second."""

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


class Step(NamedTuple):
    """A step as it is shown: texts are cut, and empty where there is nothing."""

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


SHOWN_KEYS = {
    "template": "template_id",
    "sample": "sample",
    "status": "status",
    "failure": REASON,
    "failure in detail": "failure_detail",
    "response": "response_id",
}
"""The keys that identify a result or say why it failed, by the names that a page gives them."""

TEXT_KEYS = (
    "question_id",
    "template_id",
    "question_text",
    "reference_answer",
    "actual_answer",
    "status",
    "error",
)
"""The keys of a result that its page shows as text; None if it has no such key."""


def result_names(result: Result) -> dict[str, Any]:
    """Return the names that the templates of a result use: `about`, which identifies it and says
    why it failed, `result` with its texts, and its `metrics` and `pairs` of steps.
    """
    about = []
    for name, key in SHOWN_KEYS.items():
        value = result.get(key)
        if value is not None and value != NO_FAILURE:
            text = reason_in_words(str(value)) if key == REASON else str(value)
            about.append((name, text))
    return {
        "about": about,
        "result": {key: result.get(key) for key in TEXT_KEYS},
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
    return Outcome(
        "wrong", reason_in_words(str(reason)), "" if detail is None else value_text(detail)
    )


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
    """Return the mappings in a list; none if `items` is no list. Results may come from anywhere."""
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, Mapping)]


def _partners(
    expected_steps: Sequence[Result], actual_steps: Sequence[Result]
) -> list[Result | None]:
    """Return the actual step to show beside each expected one; None where there is none.

    It is the step that the expected one matches or else, of those of its name that are left, the
    closest one.
    """
    by_id = {step["id"]: step for step in actual_steps if isinstance(step.get("id"), str)}
    partners: list[Result | None] = []
    for expected in expected_steps:
        # It is null if the actual step has no id.
        matched_id = expected.get("matches")
        partners.append(by_id.get(matched_id) if isinstance(matched_id, str) else None)
    taken = {id(step) for step in partners if step is not None}

    # Expected steps that match a step without an id choose before those that match none.
    places = sorted(
        range(len(expected_steps)), key=lambda place: "matches" not in expected_steps[place]
    )
    # First by their own names: an IRI may have been looked up by the query that another step
    # expects.
    for names_of in (lambda name: {name}, accepted_names):
        for place in places:
            if partners[place] is None:
                names = names_of(str(expected_steps[place].get("name")))
                partner = _closest(expected_steps[place], names, actual_steps, taken)
                partners[place] = partner
                taken.add(id(partner))
    return partners


def _closest(
    expected: Result, names: Collection[str], actual_steps: Sequence[Result], taken: set[int]
) -> Result | None:
    """Return the actual step that comes closest to an expected one; None if none has its name.

    It is the last one that worked and has the expected arguments, or else the last that worked, or
    else the last.

    Args:
        expected: the expected step.
        names: the names that the actual step may have.
        actual_steps: the steps of the agent.
        taken: the identities (`id`) of those that stand beside another expected step.
    """
    attempts = [
        step for step in actual_steps if str(step.get("name")) in names and id(step) not in taken
    ]
    without_error = [step for step in attempts if step.get("status") != "error"]
    as_asked = [step for step in without_error if not args_differences(expected, step)]
    for steps in (as_asked, without_error, attempts):
        if steps:
            return steps[-1]
    return None


def _compared(expected: Result, actual: Result) -> Agreement:
    """Return how two steps agree, with the differences of their arguments or of their outputs.

    Steps that cannot be compared agree in nothing, without a difference.
    """
    agreement = Agreement(0, None, args_differences(expected, actual))
    if agreement.differences:
        return agreement
    # Only a comparison with partial credit lists differences.
    partial = VALUES_F1 if expected.get("score") == VALUES_F1 else "f1"
    with suppress(MalformedStep, ComparisonBudgetExceeded, ComparatorError):
        for asked in (expected, {**expected, "score": partial}):
            agreement = prepare_step(asked).compare(ActualStep(actual, Budget(STEPS)))
    return agreement


def _differences(diff: Any) -> Iterator[Marked]:
    """Yield differences as they are shown, each on one line.

    Args:
        diff: the `diff` of a step of a result, which may be anything.
    """
    for difference in _mappings(diff)[:MAX_DIFFERENCES]:
        kind = difference.get("kind")
        if not isinstance(kind, str):
            continue
        mark = ""
        if kind.startswith("missing_"):
            mark = MISSING
        elif kind.startswith("extra_"):
            mark = UNEXPECTED
        name = cut(kind.replace("_", " "), CELL)
        yield Marked(name, _difference_in_words(kind, difference), mark)


def _difference_in_words(kind: str, difference: Result) -> str:
    """Return what differs, without the kind of the difference; rows are counted from 1."""
    if kind == "wrong_arg":
        return cut(in_words(dict(difference)), CELL)

    subject: Any = ""
    for key in ("row", "triple", "column", "value"):
        if key in difference:
            subject = difference[key]
            break
    if kind == "wrong_value":
        row = subject + 1 if isinstance(subject, int) else subject
        column = _cell(difference.get("column"))
        expected = _cell(difference.get("expected"))
        actual = _cell(difference.get("actual"))
        return f"row {_cell(row)}, {column}: expected {expected}, got {actual}"
    if not isinstance(subject, Mapping):
        return _cell(subject)

    # A row: the values of its columns, by name.
    cells = [f"{_cell(name)} = {_cell(value)}" for name, value in subject.items()]
    text = ", ".join(cells[:COLUMNS])
    if len(cells) > COLUMNS:
        text += f", {len(cells) - COLUMNS} more columns"
    return text


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
    """Return a value as a short text; "nothing" for None."""
    if value is None:
        return "nothing"
    return cut(str(value), CELL)


def _side_by_side(
    expected: Result, actual: Result | None, *, marks_cells: bool
) -> tuple[Step, Step | None]:
    """Return both steps as they are shown: with marked documents and, if so asked, marked cells."""
    expected_table = _whole_table(expected)
    if actual is None:
        missing = [_document(document, MISSING) for document in _documents(expected)]
        return _step(expected, missing, _table(expected_table)), None

    actual_table = _whole_table(actual)
    expected_marks: Marks | None = None
    actual_marks: Marks | None = None
    if (
        marks_cells
        and expected_table is not None
        and actual_table is not None
        and max(expected_table.row_count, actual_table.row_count) <= COMPARED_ROWS
    ):
        expected_marks, actual_marks = mark_differences(expected_table.grid, actual_table.grid)

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
        _step(expected, shown_expected, _table(expected_table, expected_marks)),
        _step(actual, shown_actual, _table(actual_table, actual_marks)),
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
        table = _table(_whole_table(step))

    output = step.get("output")
    error = step.get("error")
    text = ""
    if table is None and not documents and output is not None:
        text = value_text(output)
    return Step(
        name=str(step.get("name")),
        args=_args_in_words(step),
        error="" if error is None else value_text(error),
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
        return cut("\n".join(f"{name}: {value_text(value)}" for name, value in args.items()))
    return value_text(args)


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


def _table(whole: WholeTable | None, marks: Marks | None = None) -> Table | None:
    """Return what is shown of a table: if it is long, rows with marks first; None without one."""
    if whole is None:
        return None
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
        [cut(cell or "", CELL) for cell in whole.grid.rows[place][:COLUMNS]] for place in places
    ]
    return Table(
        headings=whole.grid.names[:COLUMNS],
        rows=rows,
        hidden=", ".join(hidden),
        marks=[] if marks is None else [marks[place][:COLUMNS] for place in places],
    )


def _documents(step: Result) -> list[Mapping[str, Any]]:
    """Return the documents of a retrieval step; none of another step, or if they are malformed."""
    if step.get("name") != "retrieval":
        return []
    with suppress(MalformedStep):
        return [*read_documents(step.get("output"))]
    return []


def _document(document: Mapping[str, Any], mark: str) -> Marked:
    """Return a document as it is shown: its id and its text or, without one, all that it has."""
    text = document.get("text")
    if text is None:
        text = document
    return Marked(cut(str(document.get("id", "")), CELL), value_text(text), mark)


def _key(document: Mapping[str, Any]) -> Hashable:
    """Return the id of a document, by which it is found among others; None if it is no id."""
    document_id = document.get("id")
    return document_id if isinstance(document_id, Hashable) else None
