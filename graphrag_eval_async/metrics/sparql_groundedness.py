"""SPARQL groundedness: which values of the answer stand in the rows that the agent's queries returned."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.judge.protocol import format_of
from graphrag_eval_async.metrics.metric import dumps, has_text, messages, metric_of_one_call, prompts_of
from graphrag_eval_async.steps.actual import ActualStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.config.model import SparqlGroundednessConfig
    from graphrag_eval_async.judge.calls import MetricCalls
    from graphrag_eval_async.metrics.metric import Call, Case, Metric
    from graphrag_eval_async.steps.formats.results import SparqlResults

NAME = "sparql_groundedness"

MAX_SHOWN = 20_000
"""Maximum characters of rows that the judge sees."""

MAX_CELLS = 100_000
"""Maximum cells that are compared with the answer."""

MIN_CHARACTERS = 3
"""Shorter texts in rows may occur in an answer by chance."""

NUMBER = re.compile(r"(?<![\w.,-])-?\d{1,15}(?:,\d{3})*(?:\.\d{1,15})?(?![\w,]|[.-]\d)")

MARKER = re.compile(r"^[ \t]*(\d{1,3})[.)](?=[ \t]+\S)", re.MULTILINE)
"""The number of an item of a list."""

INSTRUCTIONS = """\
<answer> is an answer to <question>. <rows> are what the queries behind it returned; a line such as \
"(7 more rows)" stands for rows left out. <found> lists values of <answer> that stand in the rows, and \
<missing> numbers of <answer> that do not. List the values and entities that <answer> states: numbers, \
among them each of <missing>, dates, names, identifiers. Leave out those in <found> and those that \
<question> itself mentions. For each, say whether <rows> support it: it stands in them in another form \
or unit, is rounded, or follows from them, such as a count or a sum.

Reply with JSON: "values", a list of {"value", "reason" in a few words, "grounded"}; empty if there are \
none."""


class JudgedValue(Struct, frozen=True):
    """A value or an entity in the answer."""

    value: str
    reason: Annotated[str, Meta(description="Why it is supported or not, in a few words.")]
    grounded: bool


class AnswerValues(Struct, frozen=True):
    """The values and entities in the answer that were not found in the rows."""

    values: list[JudgedValue]


FORM = format_of(AnswerValues)


def sparql_groundedness(_: SparqlGroundednessConfig) -> Metric:
    """Return the metric `sparql_groundedness`, from 0 to 1."""

    def call_for(case: Case) -> Call | None:
        answer = case.actual_answer or ""
        succeeded = (step for step in case.actual_steps or () if step.get("status") == "success")
        steps = [step for step in succeeded if step.get("name") == "sparql_query"]
        is_complete = has_text(case.question, answer) and steps
        return partial(_groundedness, case.question, answer, steps) if is_complete else None

    return metric_of_one_call(NAME, prompts_of(INSTRUCTIONS, FORM), call_for)


async def _groundedness(
    question: str, answer: str, steps: Sequence[Mapping[str, Any]], judge: MetricCalls
) -> dict[str, Any]:
    """Return the share of the answer's values and entities that the rows support."""
    rows = await asyncio.to_thread(_read, question, answer, steps)
    blocks = {
        "question": question,
        "answer": answer,
        "rows": rows.shown,
        "found": dumps(rows.found),
        "missing": dumps(rows.missing),
    }
    judged = (await judge.ask(partial(messages, INSTRUCTIONS, blocks), FORM)).values
    verdicts = _verdicts(rows, judged)
    cut = [f"({rows.hidden} rows were not shown to the judge)"] if rows.hidden else []
    if not verdicts:
        return {f"{NAME}_reason": "\n".join(["the answer states no values or entities", *cut])}
    lines = [f"{'+' if grounded else '-'} {value} ({reason})" for value, reason, grounded in verdicts]
    score = sum(grounded for *_, grounded in verdicts) / len(verdicts)
    return {NAME: score, f"{NAME}_reason": "\n".join(lines + cut)}


class _Rows(NamedTuple):
    """What the queries returned.

    Attributes:
        shown: the rows as the judge sees them.
        hidden: how many rows it does not see, or not whole.
        found: values of the answer that stand in the rows.
        missing: numbers of the answer that do not; none if any rows cannot be read.
    """

    shown: str
    hidden: int
    found: list[str]
    missing: list[str]


def _verdicts(rows: _Rows, judged: Sequence[JudgedValue]) -> list[tuple[str, str, bool]]:
    """Return each value of the answer once: itself, the reason, and whether the rows support it."""
    found = {*map(str.casefold, rows.found)}
    others: dict[str, JudgedValue] = {}
    for each in judged:
        key = each.value.strip().casefold()
        if key in found or _number_with_unit(key) in found:
            continue
        if key not in others or not each.grounded:  # If in doubt, it is not supported.
            others[key] = each
    told = {number for key in others for number in NUMBER.findall(key)}
    return [
        *((value, "in the rows", True) for value in rows.found),
        *((each.value, each.reason, each.grounded) for each in others.values()),
        *((number, "not in the rows", False) for number in rows.missing if number not in told),
    ]


def _number_with_unit(text: str) -> str | None:
    """Return the number of a text that has nothing else but a unit."""
    number = NUMBER.search(text)
    if number is None or any(map(str.isalnum, text[: number.start()])):
        return None
    unit = text[number.end() :].strip()
    return None if " " in unit or any(map(str.isdigit, unit)) else number[0]


def _read(question: str, answer: str, steps: Sequence[Mapping[str, Any]]) -> _Rows:
    """Read the results of all queries."""
    tables = [*map(_results, steps)]
    columns = [column for table in tables if table for column in table.columns]
    cells = [*{text: None for each in columns for text in islice(filter(None, each.texts), MAX_CELLS)}]
    lowered, lowered_question = _without_markers(answer).casefold(), question.casefold()
    names = []
    for name in dict.fromkeys(map(_name, cells)):
        plain = name.casefold()
        is_name = len(name) >= MIN_CHARACTERS and not NUMBER.fullmatch(name)
        if is_name and _occurs(plain, lowered) and not _occurs(plain, lowered_question):
            names.append(name)
    rest = lowered
    for name in sorted(names, key=len, reverse=True):  # Numbers in names are no values of their own.
        rest = rest.replace(name.casefold(), " ")
    asked, known = {*map(_value, NUMBER.findall(question))}, _numbers(cells)
    numbers = {_value(text): text for text in reversed(NUMBER.findall(rest))}
    texts = [text for value, text in reversed(numbers.items()) if value not in asked]
    found = [text for text in texts if _stands_in(text, known)]
    shown, hidden = _shown(tables, [*map(_text, steps)])
    missing = [text for text in texts if text not in found] if all(tables) else []
    return _Rows(shown, hidden, found + names, missing)


def _without_markers(answer: str) -> str:
    """Return the answer without the numbers of its lists' items: 1, 2, 3, each at the start of a line."""
    expected = 1

    def removed(marker: re.Match[str]) -> str:
        nonlocal expected
        number = int(marker[1])
        if number not in {1, expected}:
            return marker[0]
        expected = number + 1
        return ""

    return MARKER.sub(removed, answer)


def _results(step: Mapping[str, Any]) -> SparqlResults | None:
    with suppress(MalformedStep, ComparisonBudgetExceeded):
        return ActualStep(step).results()
    return None


def _name(cell: str) -> str:
    """Return the local name of an IRI; any other text as it is."""
    if cell.startswith(("http://", "https://", "urn:")):
        return re.split(r"[/#:]", cell.rstrip("/#"))[-1]
    return cell.strip()


def _occurs(name: str, text: str) -> bool:
    """Whether a name stands in a text as whole words."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() and name[0].isalnum()) and not (after.isalnum() and name[-1].isalnum()):
            return True
        start = text.find(name, start + 1)
    return False


def _numbers(cells: Sequence[str]) -> list[float]:
    found = []
    for cell in cells:
        with suppress(ValueError):
            found.append(float(cell))
    return found


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _stands_in(text: str, numbers: Sequence[float]) -> bool:
    """Whether a number equals one in the rows, or that one rounded to the decimals that it is written with.

    Rounding leaves at least two digits of a whole number: 3 is not 2.51, and 0 is not 0.4.
    """
    value, decimals = _value(text), len(text.partition(".")[2])
    least = 10.0 if not decimals else 0.0
    half = 0.5 / 10**decimals * (1 + 1e-9)
    return any(
        number == value or (value and least <= abs(number) < 1e15 and abs(number - value) <= half)
        for number in numbers
    )


def _text(step: Mapping[str, Any]) -> str:
    output = step.get("output")
    return output.strip() if isinstance(output, str) else dumps(output)


def _shown(tables: Sequence[SparqlResults | None], texts: Sequence[str]) -> tuple[str, int]:
    """Return all tables, and how many rows are cut off; each table has a share of `MAX_SHOWN` characters.

    What is no table, such as a graph, is shown as its text. What a short table leaves of its share goes to
    longer ones.
    """
    lines = [*map(_lines, tables, texts)]
    sizes = [sum(len(line) + 1 for line in each) for each in lines]
    parts, left, hidden = [""] * len(tables), MAX_SHOWN, 0
    for rank, index in enumerate(sorted(range(len(tables)), key=sizes.__getitem__)):
        table = tables[index]
        rows = texts[index].count("\n") if table is None else table.row_count if table.columns else 0
        parts[index], cut = _cut(lines[index], rows, left // (len(tables) - rank))
        left -= min(left, len(parts[index]))
        hidden += cut
    return "\n\n".join(parts), hidden


def _lines(table: SparqlResults | None, text: str) -> list[str]:
    """Return the head and the rows of a table, up to `MAX_SHOWN` characters and the row that exceeds them."""
    if table is None:
        return text[: MAX_SHOWN + 1].split("\n")
    if table.boolean is not None:
        return [str(table.boolean).lower()]
    lines = ["\t".join(column.name for column in table.columns)]
    size = len(lines[0])
    for row in zip(*(column.texts for column in table.columns), strict=True):
        lines.append("\t".join(text or "" for text in row))
        size += len(lines[-1]) + 1
        if size > MAX_SHOWN:
            break
    return lines


def _cut(lines: Sequence[str], rows: int, limit: int) -> tuple[str, int]:
    """Return at most `limit` characters of a table with so many rows, and how many rows that cuts off."""
    size, shown = 0, 0
    for line in lines:
        size += len(line) + 1
        if size > limit:
            break
        shown += 1
    else:
        return "\n".join(lines), 0
    hidden = rows + 1 - max(shown, 1)
    room = limit - (size - len(lines[shown]) - 1)
    return "\n".join([*lines[:shown], f"{lines[shown][:room]}...", f"({hidden} more rows)"]), hidden
