"""SPARQL groundedness: which values of the answer stand in the rows that the agent's queries
returned.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.metrics.metric import (
    Calls,
    Case,
    Keys,
    Metric,
    Prompt,
    dumps,
    has_text,
    lines_of,
)
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.answers import occurs
from graphrag_eval_async.steps.numbers import Number, numbers_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.catalogue.judged import SparqlGroundednessConfig
    from graphrag_eval_async.steps.formats.results import SparqlResults

NAME = "sparql_groundedness"

MAX_SHOWN = 20_000  # Characters of rows that the judge sees.
MAX_CELLS = 100_000  # Cells of a column that are compared with the answer.
MIN_CHARACTERS = 3  # Shorter texts in rows may occur in an answer by chance.

DATE = re.compile(r"(\d{4})-\d\d-\d\d(?!\d)")
MARKER = re.compile(r"[ \t]*(\d{1,3})[.)](?=[ \t]+\S)")
"""The number of an item of a list, at the start of a line."""

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


PROMPT = Prompt.of(INSTRUCTIONS, AnswerValues)


def sparql_groundedness(_: SparqlGroundednessConfig) -> Metric:
    """Return the metric `sparql_groundedness`: the share of the answer's values that the rows
    support.
    """

    def applies(case: Case) -> bool:
        return has_text(case.question, case.actual_answer) and bool(_queries(case))

    return Metric.of_answer(NAME, PROMPT.texts, applies, _score)


def _queries(case: Case) -> list[Mapping[str, Any]]:
    steps = case.actual_steps or ()
    return [
        step
        for step in steps
        if (step.get("name"), step.get("status")) == ("sparql_query", "success")
    ]


async def _score(case: Case, calls: Calls) -> Keys:
    question, answer = case.question, case.actual_answer or ""
    rows, hidden, found, missing = await asyncio.to_thread(_read, question, answer, _queries(case))
    values = {"found": dumps(found), "missing": dumps(missing)}
    judged = await PROMPT.ask(calls, question=question, answer=answer, rows=rows, **values)
    verdicts = _verdicts(found, missing, judged.values)
    reason = lines_of(verdicts) or "the answer states no values or entities"
    if hidden:
        reason += f"\n({hidden} rows were not shown to the judge)"
    score = {NAME: sum(grounded for grounded, *_ in verdicts) / len(verdicts)} if verdicts else {}
    return score | {f"{NAME}_reason": reason}


def _verdicts(
    found: Sequence[str], missing: Sequence[str], judged: Sequence[JudgedValue]
) -> list[tuple[bool, str, str]]:
    """Return each value of the answer once: whether the rows support it, itself, and the reason."""
    known = {*map(str.casefold, found)}
    others: dict[str, JudgedValue] = {}
    for each in judged:
        key = each.value.strip().casefold()
        is_number = len(key.split()) <= 2 and any(  # A unit may follow.
            number.text in known and key.startswith(number.text) for number in numbers_in(key)
        )
        if key not in known and not is_number and (key not in others or not each.grounded):
            others[key] = each  # If in doubt, it is not supported.
    told = {number.text for key in others for number in numbers_in(key)}
    return [
        *((True, value, "in the rows") for value in found),
        *((each.grounded, each.value, each.reason) for each in others.values()),
        *((False, number, "not in the rows") for number in missing if number not in told),
    ]


def _read(
    question: str, answer: str, steps: Sequence[Mapping[str, Any]]
) -> tuple[str, int, list[str], list[str]]:
    """Return the rows of all queries for the judge, how many of them are cut off, which values of
    the answer stand in them, and which numbers of it do not; none of these if any output is no
    table.
    """
    tables = [*map(_table, steps)]
    columns = [column for table in tables if table for column in table.columns]
    cells = [
        *{text: None for each in columns for text in islice(filter(None, each.texts), MAX_CELLS)}
    ]
    rest, asked_text, names = _without_markers(answer).casefold(), question.casefold(), []
    for name in dict.fromkeys(map(_name, cells)):
        is_value = len(name) >= MIN_CHARACTERS and occurs(name.casefold(), rest)
        if is_value and not _is_number(name) and not occurs(name.casefold(), asked_text):
            names.append(name)
    # Numbers in names are no values of their own.
    for name in sorted(names, key=len, reverse=True):
        rest = rest.replace(name.casefold(), " ")
    asked = numbers_in(question)
    digits = {*re.findall(r"\d+", question)}  # Also those of fractions and ranges.
    numbers: dict[Any, Number] = {}
    for number in sorted(numbers_in(rest), key=lambda number: not number.is_sure):
        if number.text not in digits and not any(
            a == b for each in asked for a, b in number.pairs(each)
        ):
            numbers.setdefault(number.readings, number)
    known = [
        float(table.row_count)
        for table in tables
        if table and table.columns and table.row_count != 1
    ]
    for cell in cells:
        with suppress(ValueError):
            known.append(float(date[1] if (date := DATE.match(cell)) else cell))
    found = [number.text for number in numbers.values() if _stands_in(number, known)]
    others = [
        number.text for number in numbers.values() if number.is_sure and number.text not in found
    ]
    missing = others if all(tables) else []
    return *_shown([*map(_text, tables, steps)]), found + names, missing


def _without_markers(answer: str) -> str:
    """Return the answer without the numbers of its lists' items: 1, 2, 3, each at the start of a
    line.
    """
    expected, lines = 1, answer.split("\n")
    for index, line in enumerate(lines):
        marker = MARKER.match(line)
        if marker and int(marker[1]) in {1, expected}:
            expected, lines[index] = int(marker[1]) + 1, line[marker.end() :]
    return "\n".join(lines)


def _table(step: Mapping[str, Any]) -> SparqlResults | None:
    with suppress(MalformedStep, ComparisonBudgetExceeded):
        return ActualStep(step).results()
    return None


def _name(cell: str) -> str:
    """Return the local name of an IRI; any other text as it is."""
    if cell.startswith(("http://", "https://", "urn:")):
        return re.split(r"[/#:]", cell.rstrip("/#"))[-1]
    return cell.strip()


def _is_number(text: str) -> bool:
    return [number.text for number in numbers_in(text)] == [text]


def _stands_in(number: Number, known: Sequence[float]) -> bool:
    """Whether a number equals one in the rows, or that one rounded to the decimals that it is
    written with.

    Rounding leaves at least two digits of a whole number: 3 is not 2.51, and 0 is not 0.4.
    """
    return any(
        other == value or (value and least <= abs(other) < 1e15 and abs(other - value) <= half)
        for value, half, least in {*number.readings, *number.unscaled}
        for other in known
    )


def _text(table: SparqlResults | None, step: Mapping[str, Any]) -> tuple[str, int]:
    """Return results as text, and how many lines it has besides the first; what is no table as
    it is.
    """
    if table is None:
        output = step.get("output")
        text = output.strip() if isinstance(output, str) else dumps(output)
        return text, text.count("\n")
    if table.boolean is not None:
        return str(table.boolean).lower(), 0
    rows = zip(*(column.texts for column in table.columns), strict=True)
    lines = ["\t".join(column.name for column in table.columns)]
    lines += ("\t".join(text or "" for text in row) for row in islice(rows, MAX_SHOWN))
    return "\n".join(lines), table.row_count if table.columns else 0


def _shown(results: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Return all results, and how many rows are cut off, so that all have `MAX_SHOWN`
    characters.
    """
    parts, left, hidden = [text for text, _ in results], MAX_SHOWN, 0
    for rank, index in enumerate(sorted(range(len(parts)), key=lambda index: len(parts[index]))):
        limit = left // (len(parts) - rank)
        if len(parts[index]) > limit:
            shown = parts[index][:limit]
            cut = results[index][1] - max(shown.count("\n") - 1, 0)
            parts[index] = f"{shown}...\n({cut} more rows)"
            hidden += cut
        left -= min(left, len(parts[index]))
    return "\n\n".join(parts), hidden
