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
from graphrag_eval_async.catalogue.outcomes import EXECUTION_ERROR, REASON
from graphrag_eval_async.catalogue.reference_steps import REFERENCE_QUERY
from graphrag_eval_async.errors import ComparatorError, ComparisonBudgetExceeded, MalformedStep
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

MISSING, UNEXPECTED, HIT = "missing", "unexpected", "hit"
"""Marks: expected but absent; present but not expected; a document that was expected."""

Result = Mapping[str, Any]


class Table(NamedTuple):
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    hidden: str  # What is not shown.


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
    """An expected step beside the actual step that matched it, or came closest; see `_verdict`."""

    expected: Step | None
    actual: Step | None
    verdict: str
    differences: Sequence[Marked] = ()
    columns: str = ""
    """Which columns were compared, if the names of some differ."""


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


def pairs_of(result: Result) -> list[Pair]:
    """The expected steps of a result in order, then the other steps of the agent."""
    # What a query returned when it was run comes before what the agent said.
    run = {"output": "executed_output", "error": EXECUTION_ERROR}
    actual: list[Result] = [
        {**step, **{key: step[more] for key, more in run.items() if more in step}}
        for step in _mappings(result.get("actual_steps"))
    ]
    steps = result.get("reference_steps")
    groups = [*map(_mappings, steps if isinstance(steps, list) else ())]
    expected = [step for group in groups for step in group]
    found = _partners(expected, actual)
    taken = {id(step) for step in found if step is not None}
    # Of several groups, often only the last one is scored.
    scored = len(expected) - len(groups[-1]) if groups else 0
    scored = 0 if any("matches" in step for step in expected[:scored]) else scored
    pairs = []
    for place, (step, other) in enumerate(zip(expected, found, strict=True)):
        differences = [*_differences(step.get("diff"))]
        verdict = (
            "earlier step"
            if place < scored
            else _verdict(step, other, is_partial=bool(differences))
        )
        if verdict == "different" and other is not None and not differences:
            agreement = _compared(step, other)
            differences = [*_differences(agreement.differences)]
            if agreement.score == 1 and result.get(REASON) in (
                "wrong_step_order",
                "wrong_steps_right_answer",
            ):
                verdict = "in another order"
        columns = _paired_columns(step.get("paired_columns"))
        pairs.append(Pair(*_side_by_side(step, other), verdict, differences, columns))
    return pairs + [
        Pair(None, _step(step), "not expected") for step in actual if id(step) not in taken
    ]


def _verdict(step: Result, other: Result | None, *, is_partial: bool) -> str:
    if other is None or "matches" not in step:
        return "missing" if other is None else "different"
    wanted, present = ({_key(each) for each in _documents(one)} for one in (step, other))
    if not wanted <= present:
        return f"{len(wanted & present)} of {len(wanted)} documents found"
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


def _side_by_side(expected: Result, actual: Result | None) -> tuple[Step, Step | None]:
    """Both steps; documents are marked as found or missing."""
    wanted, found = _documents(expected), [] if actual is None else _documents(actual)
    ids, present = ({_key(each) for each in some} for some in (wanted, found))
    lacking = [_document(each, "" if _key(each) in present else MISSING) for each in wanted]
    shown = [_document(each, HIT if _key(each) in ids else "") for each in found]
    return _step(expected, lacking), None if actual is None else _step(actual, shown)


def _step(step: Result, documents: Sequence[Marked] | None = None) -> Step:
    if documents is None:
        documents = [_document(each, "") for each in _documents(step)]
    output, error, query = step.get("output"), step.get("error"), step.get(REFERENCE_QUERY)
    args = step.get("args", None if query is None else {"query": query})  # As agents have it.
    if isinstance(args, Mapping):  # As lines; queries keep their line breaks.
        args = _cut("\n".join(f"{key}: {_text(value)}" for key, value in args.items()))
    table = _table(step)
    return Step(
        name=str(step.get("name")),
        args="" if args is None else _text(args),
        error="" if error is None else _text(error),
        table=table,
        documents=[*documents[:DOCUMENTS]],
        text="" if table is not None or documents or output is None else _text(output),
        values=[*values_of(step, of_steps=True)],
    )


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


def _table(step: Result) -> Table | None:
    """The output of a query; None if it is not a table."""
    if not isinstance(step.get("output"), str | Mapping | list) or step.get("name") == "retrieval":
        return None
    with suppress(MalformedStep, ComparisonBudgetExceeded):
        results = ActualStep(step).results()
        if results.boolean is not None:
            return Table(["answer"], [[str(results.boolean).lower()]], "")
        names, shown = [*results.variables][:COLUMNS], min(ROWS, results.row_count)
        known = {column.name: column.texts for column in results.named(names)}
        columns = [(known.get(name) or [None] * shown)[:shown] for name in names]
        rows = [[_cut(text or "", CELL) for text in row] for row in zip(*columns, strict=True)]
        hidden = [(results.row_count - ROWS, "row"), (len(results.variables) - COLUMNS, "column")]
        more = [plural(count, f"more {what}") for count, what in hidden if count > 0]
        return Table(names, rows, ", ".join(more))
    return None


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
