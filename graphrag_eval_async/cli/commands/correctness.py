"""``answer-correctness``: the claims of the answers in a table, TSV as spreadsheets have it."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections import Counter
from functools import partial
from hashlib import sha256
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import check_distinct, make_folder_of, write_page
from graphrag_eval_async.cli.judges import (
    judge_config,
    judging,
    keep_answer_correctness,
    nothing_judged,
)
from graphrag_eval_async.cli.reading import progress
from graphrag_eval_async.cli.run_summary import end
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import counts, tell
from graphrag_eval_async.records.tabular import escape_formula
from graphrag_eval_async.sinks.journal import Journal
from graphrag_eval_async.stream import MAX_IN_FLIGHT, EvaluationStream, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.config import Config

CALLS_AHEAD = 8
"""Rows in progress per allowed call: a slow row delays the ones behind it."""

MODEL = "openai/gpt-4o-mini"
"""The default LLM, if there is only an OpenAI key, as in the published library."""

IN = ("Question", "Reference answer", "Actual answer")
OUT = ("#Reference", "#PTarget", "#Matching", "Reasoning", "Error")
COUNTS = (
    "answer_reference_claims_count",
    "answer_actual_claims_count",
    "answer_matching_claims_count",
)

csv.field_size_limit(sys.maxsize)


def _config(given: Given) -> Config:
    llm = given.llm
    if llm is None and given.config is None and os.environ.get("OPENAI_API_KEY"):
        llm = MODEL
    config = judge_config(given.config, llm, prepare=keep_answer_correctness)
    if config is None:
        raise UsageError(
            "no LLM that judges: give --config FILE or --llm PROVIDER/MODEL, or set "
            f"OPENAI_API_KEY, so that {MODEL} judges"
        )
    return config


def run(given: Given, interrupts: Interrupts) -> Exit:
    config = _config(given)
    assert config.llm is not None  # noqa: S101  (which the metric needs)
    journal = f"{given.output}.journal"
    check_distinct([given.input, given.config, config.llm.cache], [given.output, journal])
    rows = read_rows(given.input)
    if os.path.exists(given.output) and not os.path.exists(journal):
        raise UsageError(
            f"{given.output!r} exists, without {journal!r}; delete it, or write to another file"
        )
    make_folder_of(given.output)
    ids = _ids(rows)
    stream = _stream(
        rows, ids, config, journal, ahead=CALLS_AHEAD * config.llm.limits.max_concurrency
    )
    numbers = {id_: number for number, id_ in enumerate(ids)}
    cells: dict[int, list[str]] = {}
    position = SimpleNamespace(size=len(rows), consumed=0)

    def add(result: Mapping[str, Any]) -> None:
        number = numbers.get(result["question_id"])
        if number is not None:  # The journal may have other rows.
            cells[number] = _cells(rows[number], result)
            position.consumed = len(cells)

    stream.tell_restored(add)
    with progress(countdown=position, usage=stream.usage) as advance:

        async def judge() -> None:
            async with stream:
                async for result in stream:
                    add(result)
                    advance()

        ending = run_to_end(judge(), interrupts)
    if not stream.is_restored:  # The journal could not be resumed.
        return end(ending)
    done = [cells[number] for number in sorted(cells)]
    text = StringIO(newline="")
    table = csv.writer(text, "excel-tab", lineterminator="\n")
    table.writerows([OUT, *([*map(escape_formula, row)] for row in done)])
    written = text.getvalue().encode(errors="backslashreplace").decode()
    ending = ending.attempt(partial(write_page, given.output, written))
    before = f", {stream.skipped} of them from before" if stream.skipped else ""
    errors = Counter(row[-1].partition(":")[0] for row in done if row[-1])
    without = f"; not judged: {counts(errors)}" if errors else ""
    tell(sys.stderr, f"rows: {len(done)} of {len(rows)}{before}{without}")
    tell(sys.stderr, "\n".join(judging(judge_of(config) or "", stream.usage)))
    if ending.error is None:
        ending = ending._replace(error=nothing_judged(config, stream.usage))
    return end(ending)


def read_rows(path: str) -> list[list[str]]:
    """The questions and answers in a table, without blank lines, and why each cannot be judged, if
    so.

    Raises a `UsageError` if it is no such table.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path!r} is not UTF-8: {error.reason} at byte {error.start}") from None
    lines = csv.reader(StringIO(text, newline=""), "excel-tab", strict=True)
    try:
        header, *rows = [row for row in lines if row] or [[]]
    except csv.Error:
        raise UsageError(
            f"{path!r}: line {lines.line_num}: a quoted field does not end where the cell does; a "
            "cell that "
            'begins with a quote ends with one, and doubles those in it, as in """Yes"", he said"'
        ) from None
    for name in IN:
        if header.count(name) != 1:
            what = "no column" if name not in header else "more than one column"
            raise UsageError(
                f"{path!r} has {what} {name!r}; its columns are {', '.join(map(repr, header))}"
            )
    indexes = [header.index(name) for name in IN]
    return [_row(row, indexes, len(header)) for row in rows]


def _row(row: Sequence[str], indexes: Sequence[int], columns: int) -> list[str]:
    cells = [row[index] if index < len(row) else "" for index in indexes]
    missing = [
        f"no {name.lower()}" for name, text in zip(IN, cells, strict=True) if not text.strip()
    ]
    problem = " and ".join(missing)
    if "".join(row[columns:]).strip():
        problem = f"the row has {len(row)} cells, but there are {columns} columns"
    return [*cells, problem]


def _ids(rows: Sequence[Sequence[str]]) -> list[str]:
    """An id for each row, which is the same wherever the row is; equal rows are counted."""
    seen: Counter[str] = Counter()
    ids = []
    for row in rows:
        digest = sha256(json.dumps(row).encode()).hexdigest()
        ids.append(f"{digest}-{seen[digest]}")
        seen[digest] += 1
    return ids


def _stream(
    rows: Sequence[Sequence[str]], ids: Sequence[str], config: Config, journal: str, *, ahead: int
) -> EvaluationStream:
    """Yield a result for each row, which is a question of its own; rows that were changed are
    new.
    """
    questions, responses = [], []
    for id_, row in zip(ids, rows, strict=True):
        question, reference_answer, actual_answer, problem = row
        # A row without a question is skipped, but an empty question would be a warning.
        question_text = question if question.strip() else "no question"
        questions.append(
            {"id": id_, "question_text": question_text, "reference_answer": reference_answer}
        )
        answer = {} if problem else {"actual_answer": actual_answer}
        responses.append({"question_id": id_, **answer})
    return evaluate_stream(
        [{"template_id": "answers", "questions": questions}],
        responses,
        config=config,
        journal=Journal(journal, force=True),
        ordered=True,
        max_in_flight=max(MAX_IN_FLIGHT, ahead),
        on_reject="raise",
    )


def _cells(row: Sequence[str], result: Mapping[str, Any]) -> list[str]:
    if row[-1]:
        return ["", "", "", "", f"skipped: {row[-1]}"]
    if "answer_eval_error" in result:
        return ["", "", "", "", result["answer_eval_error"]]
    return [*(str(result[key]) for key in COUNTS), result["answer_correctness_reason"], ""]
