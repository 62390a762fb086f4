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

    from graphrag_eval_async.steps.formats.results import SparqlResults

MAX_ROWS = 50
"""Maximum number of rows of a table that are shown."""

MAX_COLUMNS = 12
"""Maximum number of columns of a table that are shown."""

MAX_DOCUMENTS = 20
"""Maximum number of documents of a step that are shown."""

MAX_CELL_CHARACTERS = 400
"""Maximum number of characters of a cell that are shown."""

COMPARISON_BUDGET = 500_000
"""Budget for finding the differences of a step, in steps of a comparison: a tenth of a second."""

MAX_COMPARED_ROWS = 1000
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
    """A table with all of its columns, and the first `MAX_COMPARED_ROWS` rows.

    Attributes:
        grid: its names and rows.
        row_count: number of its rows.
    """

    grid: Grid
    row_count: int


class Marked(NamedTuple):
    """A document, or a difference between two steps; `mark` is `HIT` or as in cells, or empty."""

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
    """Return the names that the templates of a page use to show a result.

    Returns:
        `about`, which identifies the result and says why it failed; `result`, which has its texts;
        its `metrics`; and the `pairs` of its expected and actual steps.
    """
    about = []
    for name, key in SHOWN_KEYS.items():
        value = result.get(key)
        # That a result did not fail is no reason to show.
        if value is None or value == NO_FAILURE:
            continue
        text = str(value)
        if key == REASON:
            text = reason_in_words(text)
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
        return Outcome(kind="unknown", title="No verdict: nothing of it was compared", detail="")
    if reason == NO_FAILURE:
        return Outcome(kind="right", title="Right", detail="")

    detail = result.get("failure_detail")
    if detail is None and reason == AGENT_ERROR:
        detail = result.get("error")
    detail_text = ""
    if detail is not None:
        detail_text = value_text(detail)
    return Outcome(kind="wrong", title=reason_in_words(str(reason)), detail=detail_text)


def pairs_of(result: Result) -> list[Pair]:
    """Return the expected steps of a result, each beside the agent's step that fits it best.

    The steps of the agent that fit no expected step come last.
    """
    actual_steps = [_with_executed_output(step) for step in _mappings(result.get("actual_steps"))]
    reference_steps = result.get("reference_steps")
    if not isinstance(reference_steps, list):
        reference_steps = []
    groups = [_mappings(group) for group in reference_steps]
    expected_steps = [step for group in groups for step in group]
    partners = _partners(expected_steps, actual_steps)

    # Often only the last group is scored. Then no step of an earlier group matches a step.
    earlier_count = 0
    if groups:
        earlier_count = len(expected_steps) - len(groups[-1])
    if any("matches" in step for step in expected_steps[:earlier_count]):
        earlier_count = 0

    pairs = []
    for place, (expected, partner) in enumerate(zip(expected_steps, partners, strict=True)):
        is_earlier = place < earlier_count
        pairs.append(_pair(expected, partner, is_earlier=is_earlier, reason=result.get(REASON)))

    # Steps are told apart by identity, since a step may occur twice.
    partner_identities = {id(partner) for partner in partners if partner is not None}
    other_steps = [step for step in actual_steps if id(step) not in partner_identities]
    return pairs + [Pair(None, _step(step), "not expected") for step in other_steps]


def _with_executed_output(step: Result) -> Result:
    """Return a step of the agent, with the output and the error of its query if that was run.

    They replace the output and the error that the agent reported.
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
        is_earlier: whether the step is in a group before the group that was scored.
        reason: why the result failed; None if nobody knows.
    """
    differences = list(_differences(expected.get("diff")))
    verdict = _verdict(expected, actual, has_differences=bool(differences))
    if is_earlier:
        verdict = "earlier step"
    elif verdict == "different" and actual is not None and not differences:
        # The result does not say what differs: compare the steps once more.
        agreement = _compared(expected, actual)
        differences = list(_differences(agreement.differences))
        if agreement.score == 1 and reason in REASONS_OF_ORDER:
            verdict = "in another order"

    marks_cells = verdict in ("different", "partly matched")
    expected_step, actual_step = _side_by_side(expected, actual, marks_cells=marks_cells)
    return Pair(
        expected=expected_step,
        actual=actual_step,
        verdict=verdict,
        differences=differences,
        columns=_paired_columns(expected.get("paired_columns")),
    )


def _verdict(expected: Result, actual: Result | None, *, has_differences: bool) -> str:
    """Return in words how an actual step agrees with an expected one.

    Args:
        expected: the expected step. It has `matches` if it matched the actual step.
        actual: the actual step; None if there is none.
        has_differences: whether the result lists differences of the two steps.
    """
    if actual is None:
        return "missing"
    if "matches" not in expected:
        return "different"
    expected_ids = {_document_id(document) for document in _documents(expected)}
    actual_ids = {_document_id(document) for document in _documents(actual)}
    if not expected_ids.issubset(actual_ids):
        count = len(expected_ids & actual_ids)
        return f"{count} of {len(expected_ids)} documents found"
    return "partly matched" if has_differences else "matched"


def _mappings(items: Any) -> list[Result]:
    """Return the mappings in a list; [] if `items` is no list.

    Results of other programs may have anything in place of a list.
    """
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, Mapping)]


def _partners(
    expected_steps: Sequence[Result], actual_steps: Sequence[Result]
) -> list[Result | None]:
    """Return for each expected step the actual step that stands beside it; None for no step.

    It is the step that the expected step matched. If it matched none, it is the closest step with
    its name or, without one, the closest step with another accepted name. An actual step stands
    beside one expected step only.
    """
    by_id = {step["id"]: step for step in actual_steps if isinstance(step.get("id"), str)}
    partners: list[Result | None] = []
    for expected in expected_steps:
        # `matches` is null if the actual step has no id.
        matched_id = expected.get("matches")
        partner = None
        if isinstance(matched_id, str):
            partner = by_id.get(matched_id)
        partners.append(partner)
    # Steps are told apart by identity, since a step may occur twice.
    taken = {id(step) for step in partners if step is not None}

    matched = [place for place, step in enumerate(expected_steps) if "matches" in step]
    unmatched = [place for place, step in enumerate(expected_steps) if "matches" not in step]
    # A query that another step expects may be accepted as the look-up of an IRI, too. So steps with
    # the very name of an expected step are chosen first.
    for accepts_other_names in (False, True):
        # Expected steps that matched choose first: the step that they matched is among those left.
        for place in (*matched, *unmatched):
            if partners[place] is not None:
                continue
            name = str(expected_steps[place].get("name"))
            names = accepted_names(name) if accepts_other_names else {name}
            partner = _closest(expected_steps[place], names, actual_steps, taken)
            if partner is not None:
                partners[place] = partner
                taken.add(id(partner))
    return partners


def _closest(
    expected: Result, names: Collection[str], actual_steps: Sequence[Result], taken: set[int]
) -> Result | None:
    """Return the actual step that comes closest to an expected one; None if none has its name.

    It is the last step that worked and has the expected arguments. If there is none, it is the last
    step that worked, or else the last step.

    Args:
        expected: the expected step.
        names: the names that the actual step may have.
        actual_steps: the steps of the agent.
        taken: the identities (`id`) of steps that stand beside another expected step already.
    """
    attempts = [
        step for step in actual_steps if str(step.get("name")) in names and id(step) not in taken
    ]
    without_error = [step for step in attempts if step.get("status") != "error"]
    with_expected_args = [step for step in without_error if not args_differences(expected, step)]
    for steps in (with_expected_args, without_error, attempts):
        if steps:
            return steps[-1]
    return None


def _compared(expected: Result, actual: Result) -> Agreement:
    """Return how two steps agree, with the differences of their arguments or of their outputs.

    The score is 0, and there are no differences, if the steps cannot be compared.
    """
    agreement = Agreement(0, None, args_differences(expected, actual))
    if agreement.differences:
        return agreement
    # Only a comparison with partial credit lists differences.
    partial_score = VALUES_F1 if expected.get("score") == VALUES_F1 else "f1"
    with_partial_credit = {**expected, "score": partial_score}
    with suppress(MalformedStep, ComparisonBudgetExceeded, ComparatorError):
        # The first agreement remains if the second comparison exceeds its budget.
        agreement = prepare_step(expected).compare(ActualStep(actual, Budget(COMPARISON_BUDGET)))
        agreement = prepare_step(with_partial_credit).compare(
            ActualStep(actual, Budget(COMPARISON_BUDGET))
        )
    return agreement


def _differences(diff: Any) -> Iterator[Marked]:
    """Yield differences between two steps as a page shows them, each on one line.

    Args:
        diff: the `diff` of a step in a result. In results of other programs it may be anything:
            what is no list of differences is skipped.
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
        name = cut(kind.replace("_", " "), MAX_CELL_CHARACTERS)
        yield Marked(name, _difference_in_words(kind, difference), mark)


def _difference_in_words(kind: str, difference: Result) -> str:
    """Return what differs between two steps, in words.

    Args:
        kind: the kind of the difference, such as "wrong_arg", which the words do not repeat.
        difference: the difference, as the `diff` of a step in a result has it.
    """
    if kind == "wrong_arg":
        return cut(in_words(dict(difference)), MAX_CELL_CHARACTERS)

    subject: Any = ""
    for key in ("row", "triple", "column", "value"):
        if key in difference:
            subject = difference[key]
            break
    if kind == "wrong_value":
        row = subject
        if isinstance(row, int):
            # People count rows from 1.
            row += 1
        column = _cell(difference.get("column"))
        expected = _cell(difference.get("expected"))
        actual = _cell(difference.get("actual"))
        return f"row {_cell(row)}, {column}: expected {expected}, got {actual}"
    if isinstance(subject, Mapping):
        return _row_in_words(subject)
    return _cell(subject)


def _row_in_words(row: Mapping[str, Any]) -> str:
    """Return a row of a table in words, such as "name = Ada, born = 1815".

    Args:
        row: the values of the row by the names of their columns.
    """
    cells = [f"{_cell(name)} = {_cell(value)}" for name, value in row.items()]
    text = ", ".join(cells[:MAX_COLUMNS])
    if len(cells) > MAX_COLUMNS:
        text += f", {len(cells) - MAX_COLUMNS} more columns"
    return text


def _paired_columns(paired_columns: Any) -> str:
    """Return which columns of two tables were compared, in words.

    Args:
        paired_columns: the names of the agent's columns, by the names of the expected columns. In
            results of other programs it may be anything.

    Returns:
        "" if `paired_columns` is no mapping.
    """
    if not isinstance(paired_columns, Mapping):
        return ""
    pairs = list(paired_columns.items())[:MAX_COLUMNS]
    return ", ".join(f"{_cell(name)} with {_cell(partner)}" for name, partner in pairs)


def _cell(value: Any) -> str:
    """Return a value as a text that is cut at `MAX_CELL_CHARACTERS`; "nothing" for None."""
    if value is None:
        return "nothing"
    return cut(str(value), MAX_CELL_CHARACTERS)


def _side_by_side(
    expected: Result, actual: Result | None, *, marks_cells: bool
) -> tuple[Step, Step | None]:
    """Return an expected and an actual step as a page shows them, with marks where they differ.

    Args:
        expected: the expected step.
        actual: the actual step; None if there is none.
        marks_cells: whether cells of tables are marked. Documents are always marked.
    """
    expected_table = _whole_table(expected)
    if actual is None:
        missing_documents = [_document(document, MISSING) for document in _documents(expected)]
        return _step(expected, missing_documents, _table(expected_table)), None

    actual_table = _whole_table(actual)
    expected_marks: Marks | None = None
    actual_marks: Marks | None = None
    if marks_cells:
        expected_marks, actual_marks = _marks_of_cells(
            expected_table, actual_table, _partners_of_columns(expected)
        )
    expected_documents, actual_documents = _marked_documents(expected, actual)
    return (
        _step(expected, expected_documents, _table(expected_table, expected_marks)),
        _step(actual, actual_documents, _table(actual_table, actual_marks)),
    )


def _partners_of_columns(step: Result) -> dict[str, str]:
    """Return the names of the actual columns by those of the expected columns of a step.

    They are the `paired_columns` of the step; {} if it has none. Results may come from anywhere.
    """
    paired_columns = step.get("paired_columns")
    if not isinstance(paired_columns, Mapping):
        return {}
    return {str(name): str(partner) for name, partner in paired_columns.items()}


def _marks_of_cells(
    expected: WholeTable | None,
    actual: WholeTable | None,
    actual_by_expected: Mapping[str, str],
) -> tuple[Marks | None, Marks | None]:
    """Return the marks of the cells in which two tables differ.

    Both are None if one of the steps has no table, or if a table is too long to be compared.

    Args:
        expected: the expected table.
        actual: the table of the agent.
        actual_by_expected: the names of the columns that were compared, as far as they are known.
    """
    if expected is None or actual is None:
        return None, None
    if max(expected.row_count, actual.row_count) > MAX_COMPARED_ROWS:
        return None, None
    return mark_differences(expected.grid, actual.grid, actual_by_expected)


def _marked_documents(expected: Result, actual: Result) -> tuple[list[Marked], list[Marked]]:
    """Return the documents of two retrieval steps.

    Those of the expected step are marked if they are missing in the actual step, and those of the
    actual step if they are expected.
    """
    expected_ids = {_document_id(document) for document in _documents(expected)}
    actual_ids = {_document_id(document) for document in _documents(actual)}
    expected_documents = []
    for document in _documents(expected):
        mark = "" if _document_id(document) in actual_ids else MISSING
        expected_documents.append(_document(document, mark))
    actual_documents = []
    for document in _documents(actual):
        mark = HIT if _document_id(document) in expected_ids else ""
        actual_documents.append(_document(document, mark))
    return expected_documents, actual_documents


def _step(
    step: Result, documents: Sequence[Marked] | None = None, table: Table | None = None
) -> Step:
    """Return a step as a page shows it.

    Args:
        step: the step.
        documents: its documents with marks; None to show them without marks.
        table: its table with marks; None to show its table without marks, if it has a table.
    """
    if documents is None:
        documents = [_document(document, "") for document in _documents(step)]
    if table is None:
        table = _table(_whole_table(step))

    # An output that is neither a table nor documents is shown as text.
    output = step.get("output")
    text = ""
    if table is None and not documents and output is not None:
        text = value_text(output)
    error = step.get("error")
    return Step(
        name=str(step.get("name")),
        args=_args_in_words(step),
        error="" if error is None else value_text(error),
        table=table,
        documents=list(documents[:MAX_DOCUMENTS]),
        text=text,
        values=list(values_of(step, of_steps=True)),
    )


def _args_in_words(step: Result) -> str:
    """Return the arguments of a step, each on a line; queries keep their line breaks.

    A query of the reference set is shown like the query of an agent.

    Returns:
        "" if the step has neither arguments nor a query.
    """
    args = step.get("args")
    if args is None and step.get(REFERENCE_QUERY) is not None:
        args = {"query": step[REFERENCE_QUERY]}
    if args is None:
        return ""
    if not isinstance(args, Mapping):
        return value_text(args)
    lines = [f"{name}: {value_text(value)}" for name, value in args.items()]
    return cut("\n".join(lines))


def _whole_table(step: Result) -> WholeTable | None:
    """Return the output of a step as a table; None if it is not a table.

    The answer of an ASK query is a table with one cell, "true" or "false".
    """
    is_retrieval = step.get("name") == "retrieval"
    if is_retrieval or not isinstance(step.get("output"), str | Mapping | list):
        return None
    try:
        results = ActualStep(step).results()
        if results.boolean is not None:
            answer = str(results.boolean).lower()
            return WholeTable(Grid(["answer"], [[answer]]), row_count=1)
        return WholeTable(_first_rows(results), results.row_count)
    except (MalformedStep, ComparisonBudgetExceeded):
        return None


def _first_rows(results: SparqlResults) -> Grid:
    """Return the first `MAX_COMPARED_ROWS` rows of the results of a query as texts."""
    names = list(results.variables)
    row_count = min(MAX_COMPARED_ROWS, results.row_count)
    # A variable that no row binds has no column.
    texts_by_name = {column.name: column.texts for column in results.named(names)}
    columns = []
    for name in names:
        texts = texts_by_name.get(name) or [None] * row_count
        columns.append(texts[:row_count])
    # Each row takes one text of each column.
    rows = list(zip(*columns, strict=True))
    return Grid(names, rows)


def _table(whole: WholeTable | None, marks: Marks | None = None) -> Table | None:
    """Return the rows and columns of a table that a page shows.

    These are the first ones. If some rows are hidden, rows with marks come before others.

    Args:
        whole: the table; None if there is none: then there is nothing to show.
        marks: for each row, the marks of its cells; None if nothing was compared.
    """
    if whole is None:
        return None
    places = list(range(len(whole.grid.rows)))
    has_marked_rows_first = marks is not None and len(places) > MAX_ROWS
    if marks is not None and has_marked_rows_first:
        marked = [place for place in places if any(marks[place])]
        unmarked = [place for place in places if not any(marks[place])]
        places = [*marked, *unmarked]
    places = places[:MAX_ROWS]

    hidden = []
    hidden_rows = whole.row_count - len(places)
    if hidden_rows > 0:
        hidden.append(plural(hidden_rows, "more row"))
    hidden_columns = len(whole.grid.names) - MAX_COLUMNS
    if hidden_columns > 0:
        hidden.append(plural(hidden_columns, "more column"))
    if has_marked_rows_first:
        hidden.append("rows that differ come first")

    shown_rows = [whole.grid.rows[place][:MAX_COLUMNS] for place in places]
    shown_marks: Marks = []
    if marks is not None:
        shown_marks = [marks[place][:MAX_COLUMNS] for place in places]
    return Table(
        headings=whole.grid.names[:MAX_COLUMNS],
        rows=[[cut(cell or "", MAX_CELL_CHARACTERS) for cell in row] for row in shown_rows],
        hidden=", ".join(hidden),
        marks=shown_marks,
    )


def _documents(step: Result) -> list[Mapping[str, Any]]:
    """Return the documents of a retrieval step.

    Returns:
        [] if the step is no retrieval, or if its output is malformed.
    """
    if step.get("name") != "retrieval":
        return []
    try:
        return list(read_documents(step.get("output")))
    except MalformedStep:
        return []


def _document(document: Mapping[str, Any], mark: str) -> Marked:
    """Return a document as a page shows it: its id, and its text.

    A document without a text is shown whole.
    """
    text = document.get("text")
    if text is None:
        text = document
    shown_id = cut(str(document.get("id", "")), MAX_CELL_CHARACTERS)
    return Marked(shown_id, value_text(text), mark)


def _document_id(document: Mapping[str, Any]) -> Hashable:
    """Return the id of a document, which sets can hold; None if the document has no such id."""
    document_id = document.get("id")
    return document_id if isinstance(document_id, Hashable) else None
