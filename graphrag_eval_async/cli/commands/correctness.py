"""``answer-correctness``: the claims of the answers in a table, TSV as spreadsheets have it."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.cli.command_table import OptionValues
from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import check_distinct, make_folder_of, write_page
from graphrag_eval_async.cli.judges import (
    describe_judge,
    judge_config,
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

    from graphrag_eval_async.cli.exits import Ending
    from graphrag_eval_async.config import Config

CALLS_AHEAD = 8
"""Rows in progress per allowed call: a slow row delays the ones behind it."""

DEFAULT_MODEL = "openai/gpt-4o-mini"
"""The default LLM, if there is only an OpenAI key, as in the published library."""

INPUT_COLUMNS = ("Question", "Reference answer", "Actual answer")
"""The columns that a table of answers needs."""

OUTPUT_COLUMNS = ("#Reference", "#PTarget", "#Matching", "Reasoning", "Error")
"""The columns of the table that is written, with the names of the published library."""

COUNTS = (
    "answer_reference_claims_count",
    "answer_actual_claims_count",
    "answer_matching_claims_count",
)
"""The keys of a result with the numbers in the first three columns."""

# Answers may be longer than the 128 KiB that the module allows by default.
csv.field_size_limit(sys.maxsize)


@dataclass(frozen=True, kw_only=True)
class CorrectnessOptions(OptionValues):
    """The options of ``answer-correctness``."""

    input: str
    output: str
    config: str | None
    llm: str | None


class Row(NamedTuple):
    """A row of a table of answers.

    Attributes:
        question: the question.
        reference_answer: the right answer.
        actual_answer: the answer to judge.
        problem: why the row cannot be judged; empty if it can.
    """

    question: str
    reference_answer: str
    actual_answer: str
    problem: str


class JudgedRows:
    """Collects the cells of rows that are judged.

    Attributes:
        size: number of rows.
    """

    def __init__(self, rows: Sequence[Row], ids: Sequence[str]) -> None:
        """Start without judged rows; `ids` are the ids of `rows` in the stream."""
        self.size = len(rows)
        self._rows = rows
        self._number_by_id = {row_id: number for number, row_id in enumerate(ids)}
        self._cells_by_number: dict[int, list[str]] = {}

    @property
    def consumed(self) -> int:
        """The number of judged rows."""
        return len(self._cells_by_number)

    def add(self, result: Mapping[str, Any]) -> None:
        """Add the result of a row; a journal may also have results of rows that are gone."""
        number = self._number_by_id.get(result["question_id"])
        if number is not None:
            self._cells_by_number[number] = _cells(self._rows[number], result)

    def cells(self) -> list[list[str]]:
        """Return the cells of the judged rows, in the order of the rows."""
        return [cells for _, cells in sorted(self._cells_by_number.items())]


def run(options: CorrectnessOptions, interrupts: Interrupts) -> Exit:
    """Judge the answers in a table, and write a table with a row for each."""
    config = _read_config(options)
    assert config.llm is not None  # noqa: S101  (which the metric needs)
    journal_path = f"{options.output}.journal"
    check_distinct(
        [options.input, options.config, config.llm.cache], [options.output, journal_path]
    )
    rows = read_rows(options.input)
    if os.path.exists(options.output) and not os.path.exists(journal_path):
        raise UsageError(
            f"{options.output!r} exists, without {journal_path!r}; delete it, or write to another "
            "file"
        )
    make_folder_of(options.output)

    ids = _make_ids(rows)
    ahead = CALLS_AHEAD * config.llm.limits.max_concurrency
    stream = _make_stream(rows, ids, config, journal_path, ahead=ahead)
    judged_rows = JudgedRows(rows, ids)
    stream.tell_restored(judged_rows.add)
    with progress(countdown=judged_rows, usage=stream.usage) as advance:

        async def judge() -> None:
            async with stream:
                async for result in stream:
                    judged_rows.add(result)
                    advance()

        ending = run_to_end(judge(), interrupts)
    if not stream.is_restored:  # The journal could not be resumed.
        return end(ending)
    return _report_rows(options.output, judged_rows.cells(), len(rows), stream, ending, config)


def _report_rows(
    path: str,
    table: Sequence[Sequence[str]],
    row_count: int,
    stream: EvaluationStream,
    ending: Ending,
    config: Config,
) -> Exit:
    """Write the table of judged rows, and print how many there are and what the judge did.

    Args:
        path: the file for the table.
        table: the cells of the judged rows.
        row_count: number of rows of the input.
        stream: the stream that judged them.
        ending: how it ended.
        config: the configuration of the judge.

    Returns:
        The exit code of the command.
    """
    ending = ending.attempt(partial(write_page, path, _to_tsv(table)))

    summary = f"rows: {len(table)} of {row_count}"
    if stream.skipped:
        summary += f", {stream.skipped} of them from before"
    # An error begins with its kind.
    errors = Counter(error.partition(":")[0] for *_, error in table if error)
    if errors:
        summary += f"; not judged: {counts(errors)}"
    tell(sys.stderr, summary)

    tell(sys.stderr, "\n".join(describe_judge(judge_of(config) or "", stream.usage)))
    if ending.error is None:
        ending = ending._replace(error=nothing_judged(config, stream.usage))
    return end(ending)


def _read_config(options: CorrectnessOptions) -> Config:
    """Return a configuration that judges answer correctness only.

    Raises:
        UsageError: no LLM is named, and there is no key for the default one.
    """
    model = options.llm
    if model is None and options.config is None and os.environ.get("OPENAI_API_KEY"):
        model = DEFAULT_MODEL
    config = judge_config(options.config, model, prepare=keep_answer_correctness)
    if config is None:
        raise UsageError(
            "no LLM that judges: give --config FILE or --llm PROVIDER/MODEL, or set "
            f"OPENAI_API_KEY, so that {DEFAULT_MODEL} judges"
        )
    return config


def read_rows(path: str) -> list[Row]:
    """Return the rows of a table of answers, without blank lines.

    Args:
        path: a file of tab-separated values with a header.

    Raises:
        UsageError: it is no such table.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path!r} is not UTF-8: {error.reason} at byte {error.start}") from None

    reader = csv.reader(StringIO(text, newline=""), "excel-tab", strict=True)
    try:
        lines = [line for line in reader if line]
    except csv.Error:
        raise UsageError(
            f"{path!r}: line {reader.line_num}: a quoted field does not end where the cell does; "
            "a cell that begins with a quote ends with one, and doubles those in it, as in "
            '"""Yes"", he said"'
        ) from None
    header = lines[0] if lines else []
    for name in INPUT_COLUMNS:
        if header.count(name) != 1:
            number = "no column" if name not in header else "more than one column"
            columns = ", ".join(map(repr, header))
            raise UsageError(f"{path!r} has {number} {name!r}; its columns are {columns}")
    indexes = [header.index(name) for name in INPUT_COLUMNS]
    return [_make_row(line, indexes, len(header)) for line in lines[1:]]


def _make_row(line: Sequence[str], indexes: Sequence[int], column_count: int) -> Row:
    """Return the row of a line of a table.

    Args:
        line: the cells of the line; missing ones are empty.
        indexes: where the cells of `INPUT_COLUMNS` are.
        column_count: number of cells of the header.
    """
    texts = [line[index] if index < len(line) else "" for index in indexes]
    missing = [
        f"no {name.lower()}"
        for name, text in zip(INPUT_COLUMNS, texts, strict=True)
        if not text.strip()
    ]
    problem = " and ".join(missing)
    extra_cells = line[column_count:]
    if "".join(extra_cells).strip():
        problem = f"the row has {len(line)} cells, but there are {column_count} columns"
    question, reference_answer, actual_answer = texts
    return Row(question, reference_answer, actual_answer, problem)


def _make_ids(rows: Sequence[Row]) -> list[str]:
    """Return an id for each row, which does not depend on its place: equal rows are numbered."""
    count_by_digest: Counter[str] = Counter()
    ids = []
    for row in rows:
        digest = sha256(json.dumps(row).encode()).hexdigest()
        ids.append(f"{digest}-{count_by_digest[digest]}")
        count_by_digest[digest] += 1
    return ids


def _make_stream(
    rows: Sequence[Row], ids: Sequence[str], config: Config, journal_path: str, *, ahead: int
) -> EvaluationStream:
    """Return a stream that judges each row as a question of its own.

    Since the id of a row follows from its cells, a changed row is a new question for the journal.

    Args:
        rows: the rows.
        ids: their ids.
        config: the configuration of the judge.
        journal_path: the journal, which is resumed.
        ahead: how many rows may be in progress, if that is more than the default.
    """
    questions = []
    responses = []
    for row_id, row in zip(ids, rows, strict=True):
        # A row without a question is skipped, but an empty question would be a warning.
        question_text = row.question if row.question.strip() else "no question"
        question = {
            "id": row_id,
            "question_text": question_text,
            "reference_answer": row.reference_answer,
        }
        response = {"question_id": row_id}
        if not row.problem:
            response["actual_answer"] = row.actual_answer
        questions.append(question)
        responses.append(response)
    return evaluate_stream(
        [{"template_id": "answers", "questions": questions}],
        responses,
        config=config,
        journal=Journal(journal_path, force=True),
        ordered=True,
        max_in_flight=max(MAX_IN_FLIGHT, ahead),
        on_reject="raise",
    )


def _cells(row: Row, result: Mapping[str, Any]) -> list[str]:
    """Return the cells of a judged row in the order of `OUTPUT_COLUMNS`."""
    if row.problem:
        return ["", "", "", "", f"skipped: {row.problem}"]
    if "answer_eval_error" in result:
        return ["", "", "", "", result["answer_eval_error"]]
    numbers = [str(result[key]) for key in COUNTS]
    return [*numbers, result["answer_correctness_reason"], ""]


def _to_tsv(table: Sequence[Sequence[str]]) -> str:
    """Return a table with `OUTPUT_COLUMNS` as tab-separated values, safe to open in a spreadsheet.

    Halves of surrogate pairs, which UTF-8 cannot encode, are escaped.
    """
    text = StringIO(newline="")
    writer = csv.writer(text, "excel-tab", lineterminator="\n")
    writer.writerow(OUTPUT_COLUMNS)
    for cells in table:
        writer.writerow([escape_formula(cell) for cell in cells])
    return text.getvalue().encode(errors="backslashreplace").decode()
