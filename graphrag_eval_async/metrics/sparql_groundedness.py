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
    Keys,
    Metric,
    Prompt,
    dumps,
    has_text,
    reason_of,
    share_of,
)
from graphrag_eval_async.metrics.retrieved import cut_off, is_query, show_results, table_of
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

MIN_CHARACTERS = 3
"""Shorter texts in rows may occur in an answer by chance."""

MAX_WORDS_OF_QUANTITY = 2
"""The words of a number with its unit."""

MAX_ROUNDED = 1e15
"""From here on, numbers are compared exactly. Chosen below the 2**53 of exact doubles."""

DATE = re.compile(r"(\d{4})-\d\d-\d\d(?!\d)")
"""The year of a date."""

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
    return Metric.of_answer(NAME, PROMPT.texts, _applies, _score)


def _applies(case: Case) -> bool:
    """Return whether there are a question, an answer and a successful query."""
    return has_text(case.question, case.actual_answer) and bool(_queries(case))


def _queries(case: Case) -> list[Mapping[str, Any]]:
    """Return the steps that are successful queries."""
    return [step for step in case.actual_steps or () if is_query(step)]


async def _score(case: Case, calls: Calls) -> Keys:
    """Return the share of supported values, if the answer states any, and a reason."""
    question = case.question
    answer = case.actual_answer or ""
    evidence = await asyncio.to_thread(_read_evidence, question, answer, _queries(case))
    reply = await PROMPT.ask(
        calls,
        question=question,
        answer=answer,
        rows=evidence.rows,
        found=dumps(evidence.found),
        missing=dumps(evidence.missing),
    )
    judgements = _judgements(evidence, reply.values)

    reason = reason_of(judgements) or "the answer states no values or entities"
    if evidence.hidden_rows:
        reason += f"\n({evidence.hidden_rows} rows were not shown to the judge)"
    keys: Keys = {}
    if judgements:
        keys[NAME] = share_of(judgements)
    keys[f"{NAME}_reason"] = reason
    return keys


class Evidence(NamedTuple):
    """What the queries behind an answer returned, compared with its values.

    Attributes:
        rows: the rows of all queries, for the judge.
        hidden_rows: how many rows are cut off.
        found: the values of the answer that stand in the rows.
        missing: the numbers of the answer that do not; none if any output is no table.
    """

    rows: str
    hidden_rows: int
    found: list[str]
    missing: list[str]


def _judgements(evidence: Evidence, judged_values: Sequence[JudgedValue]) -> list[Judgement]:
    """Return a judgement on each value of the answer, which has one only.

    What stands in the rows needs no judge. Numbers that do not, and that the judge left out, are
    not supported.
    """
    others = _values_not_found(evidence, judged_values)
    judged_numbers = {number.text for text in others for number in numbers_in(text)}

    in_rows = [Judgement(True, value, reason="in the rows") for value in evidence.found]
    judged = [Judgement(value.grounded, value.value, value.reason) for value in others.values()]
    left_out = [
        Judgement(False, number, reason="not in the rows")
        for number in evidence.missing
        if number not in judged_numbers
    ]
    return [*in_rows, *judged, *left_out]


def _values_not_found(
    evidence: Evidence, judged_values: Sequence[JudgedValue]
) -> dict[str, JudgedValue]:
    """Return what the judge said of values that were not found in the rows, by text in lower case.

    Of a value that the judge lists twice, one that is not supported counts.
    """
    found = {value.casefold() for value in evidence.found}
    others: dict[str, JudgedValue] = {}
    for value in judged_values:
        text = value.value.strip().casefold()
        if text in found or _is_number_with_unit(text, found):
            continue
        if text not in others or not value.grounded:
            others[text] = value
    return others


def _is_number_with_unit(text: str, found: Collection[str]) -> bool:
    """Return whether a text is a number that was found, perhaps with a unit behind it."""
    if len(text.split()) > MAX_WORDS_OF_QUANTITY:
        return False
    return any(number.text in found and text.startswith(number.text) for number in numbers_in(text))


def _read_evidence(question: str, answer: str, steps: Sequence[Mapping[str, Any]]) -> Evidence:
    """Return what the queries of these steps returned, compared with the values of the answer."""
    tables = [table_of(step) for step in steps]
    readable_tables = [table for table in tables if table is not None]
    cells = _cells(readable_tables)

    text = _without_markers(answer).casefold()
    names = _names_in(text, cells, question)
    # Numbers in names are no values of their own.
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name.casefold(), " ")
    numbers = _numbers_of_answer(text, question)

    known_numbers = _known_numbers(readable_tables, cells)
    found_numbers = [number.text for number in numbers if _is_in_rows(number, known_numbers)]
    missing_numbers: list[str] = []
    if len(readable_tables) == len(tables):
        missing_numbers = [
            number.text for number in numbers if number.is_sure and number.text not in found_numbers
        ]
    results = [show_results(table, step) for table, step in zip(tables, steps, strict=True)]
    rows, hidden_rows = cut_off(results)
    return Evidence(
        rows=rows,
        hidden_rows=hidden_rows,
        found=found_numbers + names,
        missing=missing_numbers,
    )


def _cells(tables: Sequence[SparqlResults]) -> list[str]:
    """Return the texts of the cells of tables, each once; of a column, the first `MAX_CELLS`."""
    cells: dict[str, None] = {}
    for table in tables:
        for column in table.columns:
            texts = (text for text in column.texts if text)
            cells |= dict.fromkeys(islice(texts, MAX_CELLS))
    return [*cells]


def _names_in(text: str, cells: Sequence[str], question: str) -> list[str]:
    """Return the names in cells that occur in a text in lower case, but not in the question."""
    question = question.casefold()
    names = []
    for name in dict.fromkeys(map(_local_name, cells)):
        folded = name.casefold()
        if len(name) < MIN_CHARACTERS or not occurs(folded, text):
            continue
        if not _is_number(name) and not occurs(folded, question):
            names.append(name)
    return names


def _numbers_of_answer(text: str, question: str) -> list[Number]:
    """Return the numbers in a text of the answer, each once, without those of the question.

    Those that are surely numbers come first.
    """
    asked_numbers = numbers_in(question)
    # Also those of fractions and ranges, which are no numbers.
    asked_digits = set(re.findall(r"\d+", question))

    numbers: dict[Any, Number] = {}
    for number in sorted(numbers_in(text), key=lambda number: not number.is_sure):
        if number.text in asked_digits:
            continue
        is_asked = any(
            first == second for asked in asked_numbers for first, second in number.pairs(asked)
        )
        if not is_asked:
            numbers.setdefault(number.readings, number)
    return [*numbers.values()]


def _known_numbers(tables: Sequence[SparqlResults], cells: Sequence[str]) -> list[float]:
    """Return the numbers in cells, the years of dates, and how many rows each table has.

    That a table has one row does not make the number 1 known.
    """
    numbers = [float(table.row_count) for table in tables if table.columns and table.row_count != 1]
    for cell in cells:
        date = DATE.match(cell)
        text = cell if date is None else date[1]
        with suppress(ValueError):
            numbers.append(float(text))
    return numbers


def _without_markers(answer: str) -> str:
    """Return the answer without the numbers of its lists' items: 1, 2, 3, each at the start of a
    line.
    """
    next_number = 1
    lines = answer.split("\n")
    for index, line in enumerate(lines):
        marker = MARKER.match(line)
        if marker is None:
            continue
        number = int(marker[1])
        if number in {1, next_number}:
            next_number = number + 1
            lines[index] = line[marker.end() :]
    return "\n".join(lines)


def _local_name(cell: str) -> str:
    """Return the local name of an IRI; any other text as it is."""
    if cell.startswith(("http://", "https://", "urn:")):
        return re.split(r"[/#:]", cell.rstrip("/#"))[-1]
    return cell.strip()


def _is_number(text: str) -> bool:
    """Return whether a text is a number, and nothing else."""
    return [number.text for number in numbers_in(text)] == [text]


def _is_in_rows(number: Number, known_numbers: Sequence[float]) -> bool:
    """Return whether a number equals one in the rows, or that one rounded to its own decimals.

    Rounding leaves at least two digits of a whole number: 3 is not 2.51, and 0 is not 0.4.
    """
    readings = {*number.readings, *number.unscaled}
    return any(
        _rounds_to(known_number, reading) for reading in readings for known_number in known_numbers
    )


def _rounds_to(known_number: float, reading: Reading) -> bool:
    """Return whether a number in the rows equals a reading, or is rounded to it."""
    if known_number == reading.value:
        return True
    if not reading.value:
        return False
    may_be_rounded = reading.min_rounded <= abs(known_number) < MAX_ROUNDED
    return may_be_rounded and abs(known_number - reading.value) <= reading.half_unit
