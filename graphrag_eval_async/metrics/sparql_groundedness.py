"""SPARQL groundedness: which values of the answer stand in the rows that the agent's queries
returned.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from graphrag_eval_async.metrics.metric import (
    Calls,
    Case,
    Judgement,
    Metric,
    Prompt,
    has_text,
    list_judgements,
    share_of_positives,
    to_json,
)
from graphrag_eval_async.metrics.retrieved import is_query, join_results, show_results, table_of
from graphrag_eval_async.steps.answers import occurs
from graphrag_eval_async.steps.numbers import Number, numbers_in

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphrag_eval_async.catalogue.judged import SparqlGroundednessConfig
    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.numbers.number import Reading

NAME = "sparql_groundedness"

MAX_CELLS = 100_000
"""Cells of a column that are compared with the answer."""

MIN_CHARACTERS_OF_NAME = 3
"""Names in rows that are shorter may occur in an answer by chance."""

MAX_WORDS_OF_QUANTITY = 2
"""The words of a number with its unit."""

MAX_ROUNDED = 1e15
"""Numbers from here on are compared exactly. Chosen below the 2**53 of exact doubles."""

DATE = re.compile(r"(\d{4})-\d\d-\d\d(?!\d)")
"""A date, with its year as a group."""

LIST_MARKER = re.compile(r"[ \t]*(\d{1,3})[.)](?=[ \t]+\S)")
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


PROMPT = Prompt.for_struct(INSTRUCTIONS, AnswerValues)


def sparql_groundedness(_: SparqlGroundednessConfig) -> Metric:
    """Return the metric `sparql_groundedness`.

    It is the share of the values in the answer that the rows of the agent's queries support.
    """
    return Metric.of_answer(NAME, PROMPT.texts, _applies, _score)


def _applies(case: Case) -> bool:
    """Return whether a response has a question, an answer and a successful query."""
    return has_text(case.question, case.actual_answer) and bool(_query_steps(case))


def _query_steps(case: Case) -> list[Mapping[str, Any]]:
    """Return the steps of a response that are successful queries."""
    return [step for step in case.actual_steps or () if is_query(step)]


async def _score(case: Case, calls: Calls) -> dict[str, Any]:
    """Return the entries of a result: the share of supported values in the answer, and the reason.

    If the answer states no values, only the reason is returned.
    """
    question = case.question
    answer = case.actual_answer or ""
    # Reading long tables would block the event loop.
    evidence = await asyncio.to_thread(_read_evidence, question, answer, _query_steps(case))
    reply = await PROMPT.ask(
        calls,
        question=question,
        answer=answer,
        rows=evidence.rows,
        found=to_json(evidence.found),
        missing=to_json(evidence.missing),
    )
    judgements = _judge_values(evidence, reply.values)

    entries: dict[str, Any] = {}
    reason = "the answer states no values or entities"
    if judgements:
        entries[NAME] = share_of_positives(judgements)
        reason = list_judgements(judgements)
    if evidence.hidden_rows:
        reason += f"\n({evidence.hidden_rows} rows were not shown to the judge)"
    entries[f"{NAME}_reason"] = reason
    return entries


class Evidence(NamedTuple):
    """The rows behind an answer, and the values of the answer that stand in them.

    Attributes:
        rows: the rows of all queries as one text, for the judge.
        hidden_rows: the number of rows that are cut off from the text.
        found: the values of the answer that stand in the rows.
        missing: the numbers of the answer that do not stand in the rows; empty if the output of a
            query is not a table, as the numbers may be in this output.
    """

    rows: str
    hidden_rows: int
    found: list[str]
    missing: list[str]


def _judge_values(evidence: Evidence, judged_values: Sequence[JudgedValue]) -> list[Judgement]:
    """Return one judgement on each value that the answer states.

    - A value that stands in the rows is supported.
    - A number that does not, and that the judge did not list, is not supported.
    - For all other values, the verdict of the judge counts.

    Args:
        evidence: the rows, and the values of the answer that stand in them.
        judged_values: the values that the judge listed, with its verdicts.
    """
    values_by_text = _values_not_found(evidence, judged_values)
    judged_numbers = {number.text for text in values_by_text for number in numbers_in(text)}

    in_rows = [Judgement(True, value, reason="in the rows") for value in evidence.found]
    judged = [
        Judgement(value.grounded, value.value, value.reason) for value in values_by_text.values()
    ]
    left_out = [
        Judgement(False, number, reason="not in the rows")
        for number in evidence.missing
        if number not in judged_numbers
    ]
    return [*in_rows, *judged, *left_out]


def _values_not_found(
    evidence: Evidence, judged_values: Sequence[JudgedValue]
) -> dict[str, JudgedValue]:
    """Return the judged values that were not found in the rows, by their text in lower case.

    If the judge lists a value several times, a verdict that it is not supported counts.
    """
    found_texts = {value.casefold() for value in evidence.found}
    values_by_text: dict[str, JudgedValue] = {}
    for value in judged_values:
        text = value.value.strip().casefold()
        if text in found_texts or _is_found_quantity(text, found_texts):
            continue
        if text not in values_by_text or not value.grounded:
            values_by_text[text] = value
    return values_by_text


def _is_found_quantity(text: str, found_texts: Collection[str]) -> bool:
    """Return whether a text is a number in `found_texts`, alone or with a unit behind it."""
    if len(text.split()) > MAX_WORDS_OF_QUANTITY:
        return False
    for number in numbers_in(text):
        if number.text in found_texts and text.startswith(number.text):
            return True
    return False


def _read_evidence(question: str, answer: str, steps: Sequence[Mapping[str, Any]]) -> Evidence:
    """Return the rows of queries, and the values of the answer that stand in them.

    Values that the question mentions do not count as values of the answer.

    Args:
        question: the question.
        answer: the answer.
        steps: the steps with the queries.
    """
    tables = [table_of(step) for step in steps]
    readable_tables = [table for table in tables if table is not None]
    cells = _distinct_cells(readable_tables)

    # Find the names in cells that the answer mentions. Then cut these names out of the answer:
    # numbers within names are not values of their own. Longer names come first, since shorter names
    # may be parts of them.
    text = _without_list_markers(answer).casefold()
    found_names = _find_names(text, cells, question)
    for name in sorted(found_names, key=len, reverse=True):
        text = text.replace(name.casefold(), " ")

    # Look for the numbers in the rest of the answer. A number may be in an output that cannot be
    # read as a table, so numbers are only missing if all outputs are tables.
    numbers = _numbers_of_answer(text, question)
    row_numbers = _numbers_in_rows(readable_tables, cells)
    found_numbers = [number.text for number in numbers if _is_in_rows(number, row_numbers)]
    missing_numbers: list[str] = []
    if len(readable_tables) == len(tables):
        missing_numbers = [
            number.text for number in numbers if number.is_sure and number.text not in found_numbers
        ]

    # Write the rows as text for the judge.
    results = [show_results(table, step) for table, step in zip(tables, steps, strict=True)]
    rows, hidden_rows = join_results(results)
    return Evidence(
        rows=rows,
        hidden_rows=hidden_rows,
        found=found_numbers + found_names,
        missing=missing_numbers,
    )


def _distinct_cells(tables: Sequence[SparqlResults]) -> list[str]:
    """Return the texts in the cells of tables, without repetitions.

    In each column, only the first `MAX_CELLS` cells with a text are read.
    """
    # A dict keeps the order of its keys, unlike a set.
    cells: dict[str, None] = {}
    for table in tables:
        for column in table.columns:
            texts = (text for text in column.texts if text)
            cells.update(dict.fromkeys(islice(texts, MAX_CELLS)))
    return list(cells)


def _find_names(text: str, cells: Sequence[str], question: str) -> list[str]:
    """Return the names in cells that occur in a text, but not in the question.

    Names that are too short or that are numbers are left out.

    Args:
        text: the text to look in, in lower case.
        cells: the texts of the cells. The name of an IRI is its local name.
        question: the question.
    """
    lower_question = question.casefold()
    names_in_cells = dict.fromkeys(_local_name(cell) for cell in cells)
    names = []
    for name in names_in_cells:
        lower_name = name.casefold()
        if len(name) < MIN_CHARACTERS_OF_NAME or not occurs(lower_name, text):
            continue
        # Numbers are compared by value instead; see `_is_in_rows`.
        if not _is_number(name) and not occurs(lower_name, lower_question):
            names.append(name)
    return names


def _numbers_of_answer(text: str, question: str) -> list[Number]:
    """Return the numbers in a text that are not in the question, without repetitions.

    Numbers whose `is_sure` is set come first.

    Args:
        text: the answer without names.
        question: the question.
    """
    question_numbers = numbers_in(question)
    # `numbers_in` skips the digits of fractions and ranges, so look for these, too.
    question_digits = set(re.findall(r"\d+", question))

    numbers_by_readings: dict[Any, Number] = {}
    for number in sorted(numbers_in(text), key=lambda number: not number.is_sure):
        if number.text in question_digits:
            continue
        if not any(_are_equal(number, asked) for asked in question_numbers):
            # Numbers that are written differently, such as 1000 and 1e3, have equal readings. The
            # first stays.
            numbers_by_readings.setdefault(number.readings, number)
    return list(numbers_by_readings.values())


def _are_equal(number: Number, other: Number) -> bool:
    """Return whether two numbers are equal in any of their readings, such as of "1,234"."""
    return any(reading == other_reading for reading, other_reading in number.pairs(other))


def _numbers_in_rows(tables: Sequence[SparqlResults], cells: Sequence[str]) -> list[float]:
    """Return the numbers that an answer may take from the rows of tables.

    These are the numbers in cells, the years of dates in cells, and the number of rows of each
    table. The number of rows does not count if it is 1, as it would support any 1 in the answer.
    """
    counts_of_rows = [table.row_count for table in tables if table.columns]
    numbers = [float(count) for count in counts_of_rows if count != 1]
    for cell in cells:
        date = DATE.match(cell)
        text = cell if date is None else date[1]
        # Most cells are not numbers.
        with suppress(ValueError):
            numbers.append(float(text))
    return numbers


def _without_list_markers(answer: str) -> str:
    """Return the answer without the numbers of list items, such as "1." at the start of a line.

    Only numbers that count up from 1 are removed.
    """
    next_number = 1
    lines = answer.split("\n")
    for index, line in enumerate(lines):
        marker = LIST_MARKER.match(line)
        if marker is None:
            continue
        number = int(marker[1])
        # A list starts with 1, and continues with the next number.
        if number in {1, next_number}:
            next_number = number + 1
            lines[index] = line.removeprefix(marker[0])
    return "\n".join(lines)


def _local_name(cell: str) -> str:
    """Return the local name of an IRI; any other text without white space around it."""
    if cell.startswith(("http://", "https://", "urn:")):
        return re.split(r"[/#:]", cell.rstrip("/#"))[-1]
    return cell.strip()


def _is_number(text: str) -> bool:
    """Return whether a text is a number, and nothing else."""
    return [number.text for number in numbers_in(text)] == [text]


def _is_in_rows(number: Number, row_numbers: Sequence[float]) -> bool:
    """Return whether a number of the answer is one of `row_numbers`, exactly or rounded.

    `_rounds_to` says how much may be rounded.
    """
    # "12,345" may mean 12345 or 12.345, and for "1.5 million" the rows may have 1.5.
    readings = {*number.readings, *number.unscaled}
    return any(
        _rounds_to(row_number, reading) for reading in readings for row_number in row_numbers
    )


def _rounds_to(row_number: float, reading: Reading) -> bool:
    """Return whether `row_number` equals `reading`, exactly or rounded to the reading's last digit.

    Only numbers of 10 or more are rounded to whole numbers: 3 does not stand for 2.51.
    """
    if row_number == reading.value:
        return True
    # Only 0 itself may stand for 0: 0.4 is not rounded to it.
    if reading.value == 0:
        return False
    # A smaller number would lose too many digits, and a larger one is not exact as a float.
    may_be_rounded = reading.min_rounded <= abs(row_number) < MAX_ROUNDED
    return may_be_rounded and abs(row_number - reading.value) <= reading.half_unit
