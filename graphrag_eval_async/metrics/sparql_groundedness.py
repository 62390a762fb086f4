"""SPARQL groundedness: which values of the answer stand in the rows that the agent's queries returned."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.metrics.metric import Calls, Case, Keys, Metric, Prompt, dumps, has_text, lines_of
from graphrag_eval_async.steps.actual import ActualStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.config.model import SparqlGroundednessConfig
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


PROMPT = Prompt.of(INSTRUCTIONS, AnswerValues)


WITH_UNIT = re.compile(rf"[\W_]*({NUMBER.pattern})\s*[^\s\d]*\s*")
"""A number with nothing else but a unit."""


def sparql_groundedness(_: SparqlGroundednessConfig) -> Metric:
    """Return the metric `sparql_groundedness`: the share of the answer's values that the rows support."""

    def applies(case: Case) -> bool:
        return has_text(case.question, case.actual_answer) and bool(_queries(case))

    return Metric.of_answer(NAME, PROMPT.texts, applies, _score)


def _queries(case: Case) -> list[Mapping[str, Any]]:
    steps = case.actual_steps or ()
    return [step for step in steps if (step.get("name"), step.get("status")) == ("sparql_query", "success")]


async def _score(case: Case, calls: Calls) -> Keys:
    answer = case.actual_answer or ""
    read = await asyncio.to_thread(_read, case.question, answer, _queries(case))
    values = {"found": dumps(read.found), "missing": dumps(read.missing)}
    judged = await PROMPT.ask(calls, question=case.question, answer=answer, rows=read.rows, **values)
    verdicts = _verdicts(read, judged.values)
    reason = lines_of(verdicts) or "the answer states no values or entities"
    if read.hidden:
        reason += f"\n({read.hidden} rows were not shown to the judge)"
    score = {NAME: sum(grounded for grounded, *_ in verdicts) / len(verdicts)} if verdicts else {}
    return score | {f"{NAME}_reason": reason}


class _Read(NamedTuple):
    rows: str  # As the judge sees them.
    hidden: int  # How many rows it does not see, or not whole.
    found: list[str]  # Values of the answer that stand in the rows.
    missing: list[str]  # Numbers of the answer that do not; none if any rows cannot be read.


def _verdicts(read: _Read, judged: Sequence[JudgedValue]) -> list[tuple[bool, str, str]]:
    """Return each value of the answer once: whether the rows support it, itself, and the reason."""
    found = {*map(str.casefold, read.found)}
    others: dict[str, JudgedValue] = {}
    for each in judged:
        key = each.value.strip().casefold()
        number = WITH_UNIT.fullmatch(key)
        is_found = key in found or (number is not None and number[1] in found)
        if not is_found and (key not in others or not each.grounded):  # If in doubt, it is not supported.
            others[key] = each
    told = {number for key in others for number in NUMBER.findall(key)}
    return [
        *((True, value, "in the rows") for value in read.found),
        *((each.grounded, each.value, each.reason) for each in others.values()),
        *((False, number, "not in the rows") for number in read.missing if number not in told),
    ]


def _read(question: str, answer: str, steps: Sequence[Mapping[str, Any]]) -> _Read:
    """Look for the values of the answer in the results of all queries."""
    tables = [*map(_table, steps)]
    columns = [column for table in tables if table for column in table.columns]
    cells = [*{text: None for each in columns for text in islice(filter(None, each.texts), MAX_CELLS)}]
    rest, asked_text = _without_markers(answer).casefold(), question.casefold()
    is_name = {name: len(name) >= MIN_CHARACTERS and not NUMBER.fullmatch(name) for name in map(_name, cells)}
    names = [
        name
        for name, is_one in is_name.items()
        if is_one and _occurs(name.casefold(), rest) and not _occurs(name.casefold(), asked_text)
    ]
    for name in sorted(names, key=len, reverse=True):  # Numbers in names are no values of their own.
        rest = rest.replace(name.casefold(), " ")
    asked = {*map(_value, NUMBER.findall(question))}
    numbers = {_value(text): text for text in reversed(NUMBER.findall(rest))}
    texts = [text for value, text in reversed(numbers.items()) if value not in asked]
    known = [*_numbers(cells)]
    found = [text for text in texts if _stands_in(text, known)]
    missing = [text for text in texts if text not in found] if all(tables) else []
    return _Read(*_shown([*map(_text, tables, steps)]), found + names, missing)


def _without_markers(answer: str) -> str:
    """Return the answer without the numbers of its lists' items: 1, 2, 3, each at the start of a line."""
    expected = 1

    def removed(marker: re.Match[str]) -> str:
        nonlocal expected
        if int(marker[1]) not in {1, expected}:
            return marker[0]
        expected = int(marker[1]) + 1
        return ""

    return MARKER.sub(removed, answer)


def _table(step: Mapping[str, Any]) -> SparqlResults | None:
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
    if name not in text:
        return False
    before, after = (
        ("(?<![^\\W_])" if name[0].isalnum() else ""),
        ("(?![^\\W_])" if name[-1].isalnum() else ""),
    )
    return re.search(f"{before}{re.escape(name)}{after}", text) is not None


def _numbers(cells: Iterable[str]) -> Iterator[float]:
    for cell in cells:
        with suppress(ValueError):
            yield float(cell)


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


def _text(table: SparqlResults | None, step: Mapping[str, Any]) -> tuple[str, int]:
    """Return results as text, and how many lines it has besides the first; what is no table as it is."""
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
    """Return all results, and how many rows are cut off; each has a share of `MAX_SHOWN` characters.

    What a short one leaves of its share goes to longer ones.
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
