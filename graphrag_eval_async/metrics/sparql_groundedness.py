"""SPARQL groundedness: which values of the answer stand in the rows that the agent's queries returned."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.judge.protocol import format_of
from graphrag_eval_async.metrics.metric import dumps, has_text, messages, metric_of_one_call, prompts_of
from graphrag_eval_async.steps.actual import ActualStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.config.model import SparqlGroundednessConfig
    from graphrag_eval_async.judge.protocol import MetricJudge
    from graphrag_eval_async.metrics.metric import Call, Case, Metric
    from graphrag_eval_async.steps.sparql.results import SparqlResults

NAME = "sparql_groundedness"

MAX_SHOWN = 20_000
"""Maximum characters of rows that the judge sees."""

MAX_CELLS = 100_000
"""Maximum cells that are compared with the answer."""

MIN_CHARACTERS = 3
"""Shorter texts in rows may occur in an answer by chance."""

NUMBER = re.compile(r"(?<![\w.,-])-?\d{1,15}(?:,\d{3})*(?:\.\d{1,15})?(?![\w,]|[.-]\d)")

INSTRUCTIONS = """\
<answer> is an answer to <question>. <rows> are all that the queries behind it returned, and <found> \
lists values of <answer> that stand in them. List the other values and entities that <answer> states: \
numbers, dates, names, identifiers. Leave out those that <question> itself mentions. For each, say \
whether <rows> support it: it stands in them in another form or unit, is rounded, or follows from them, \
such as a count or a sum.

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
        steps = [step for step in case.actual_steps or () if _is_query(step)]
        is_complete = has_text(case.question, answer) and steps
        return partial(_groundedness, case.question, answer, steps) if is_complete else None

    return metric_of_one_call(NAME, prompts_of(INSTRUCTIONS, FORM), call_for)


def _is_query(step: Mapping[str, Any]) -> bool:
    return step.get("name") == "sparql_query" and step.get("status") == "success"


async def _groundedness(
    question: str, answer: str, steps: Sequence[Mapping[str, Any]], judge: MetricJudge
) -> dict[str, Any]:
    """Return the share of the answer's values and entities that the rows support."""
    rows = await asyncio.to_thread(_read, question, answer, steps)
    blocks = {"question": question, "answer": answer, "rows": rows.shown, "found": dumps(rows.found)}
    judged = (await judge.ask(partial(messages, INSTRUCTIONS, blocks), FORM)).values
    known = {*map(str.casefold, rows.found)}
    others = [each for each in judged if each.value.casefold() not in known]
    lines = [f"+ {value} (in the rows)" for value in rows.found]
    lines += [f"{'+' if each.grounded else '-'} {each.value} ({each.reason})" for each in others]
    total = len(rows.found) + len(others)
    if not total:
        return {f"{NAME}_reason": "the answer states no values or entities"}
    grounded = len(rows.found) + sum(each.grounded for each in others)
    return {NAME: grounded / total, f"{NAME}_reason": "\n".join(lines)}


class _Rows(NamedTuple):
    """The rows as the judge sees them, and the values of the answer that stand in them."""

    shown: str
    found: list[str]


def _read(question: str, answer: str, steps: Sequence[Mapping[str, Any]]) -> _Rows:
    """Read the results of all queries."""
    tables = [*map(_results, steps)]
    cells = {text: None for table in tables if table for text in _texts(table)}
    asked = {*NUMBER.findall(question)}
    numbers = [text for text in dict.fromkeys(NUMBER.findall(answer)) if text not in asked]
    found = [text for text in numbers if _stands_in(text, _numbers(cells))]
    lowered, lowered_question = answer.casefold(), question.casefold()
    for cell in cells:
        name = _name(cell)
        is_name = len(name) >= MIN_CHARACTERS and not NUMBER.fullmatch(name) and name not in found
        if is_name and _occurs(name.casefold(), lowered) and not _occurs(name.casefold(), lowered_question):
            found.append(name)
    return _Rows("\n\n".join(map(_shown, tables))[:MAX_SHOWN], found)


def _results(step: Mapping[str, Any]) -> SparqlResults | None:
    actual = ActualStep(step)
    for read in (actual.results, actual.table):
        try:
            return read()
        except (MalformedStep, ComparisonBudgetExceeded):
            continue
    return None


def _texts(table: SparqlResults) -> Iterator[str]:
    for column in table.columns:
        yield from islice((text for text in column.texts if text), MAX_CELLS)


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


def _numbers(cells: Mapping[str, None]) -> list[float]:
    found = []
    for cell in cells:
        try:
            found.append(float(cell))
        except ValueError:
            continue
    return found


def _stands_in(text: str, numbers: Sequence[float]) -> bool:
    """Whether a number equals one in the rows, rounded to as many decimals as it is written with."""
    plain = text.replace(",", "")
    value, decimals = float(plain), len(plain.partition(".")[2])
    return any(abs(number) < 1e15 and round(number, decimals) == value for number in numbers)


def _shown(table: SparqlResults | None) -> str:
    if table is None:
        return "(not readable)"
    if table.boolean is not None:
        return str(table.boolean).lower()
    lines = ["\t".join(column.name for column in table.columns)]
    size = len(lines[0])
    for row in zip(*(column.texts for column in table.columns), strict=True):
        lines.append("\t".join(text or "" for text in row))
        size += len(lines[-1]) + 1
        if size > MAX_SHOWN:
            break
    return "\n".join(lines)
