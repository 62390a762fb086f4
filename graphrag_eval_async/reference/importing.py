"""Questions from tables and responses of other programs, as templates of a reference set."""

from __future__ import annotations

import csv
import os
import re
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import orjson

from graphrag_eval_async.errors import ReferenceDataError, UsageError, warn_caller
from graphrag_eval_async.reference.reading import read_templates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_KEYS_BY_SHORT_NAME = {
    "question": "question_text",
    "answer": "reference_answer",
    "query": "reference_query",
    "template": "template_id",
    "question_id": "id",
}
_KEYS = (*_KEYS_BY_SHORT_NAME.values(), "match", "tolerance", "tags", "actual_answer")

KEY_BY_COLUMN = _KEYS_BY_SHORT_NAME | {key: key for key in _KEYS}
"""The key that a column of a table, or a key of a log, stands for."""

MAX_PROBLEMS = 20
"""How many problems an error lists."""

MAX_ID_CHARACTERS = 60
"""The maximum length of an id that is made of a question's text."""

_KEYS_OF_OTHER_TYPES = ("reference_answer", "tags", "tolerance")
"""Keys whose values in a log may be something else than text."""

_KEYS_OF_QUESTIONS = ("reference_answer", "match", "tolerance", "tags")
"""Keys that a question of the reference set gets as they are."""

_PLACE_IN_TEMPLATES = re.compile(r"^\S*\]\.")
"""The beginning of a problem, such as "templates[0].questions[0]."."""


class _Record(NamedTuple):
    """A row of a table, or a response or result of a log."""

    line: int  # In which it ends.
    cells: Mapping[str, Any]  # By column or key.


class _Row(NamedTuple):
    """What a file says about one question."""

    line: int  # Of its first record.
    values: dict[str, Any]  # By the keys of `KEY_BY_COLUMN`.


def import_questions(
    path: str | os.PathLike[str],
    *,
    question: str | None = None,
    query: str | None = None,
    answer: str | None = None,
    id: str | None = None,  # noqa: A002  (as the key of a question is named)
    language: str | None = None,
    score: str | None = None,
) -> list[dict[str, Any]]:
    """Read questions from a file, and return them in templates, as `save_reference` writes them.

    Without `question`, the file is one of:

    - a table in UTF-8, separated by commas, semicolons or tabs. It has a column `question`, and
      any of `answer`, `match`, `tolerance`, `query`, `tags`, `id` and `template`.
    - a log of responses or results, with the suffix ``.jsonl``. Each different text is a question.
      A question without a reference answer gets the first answer that is not an error, with
      ``reviewed: false``.

    With `question`, the file is JSON, JSON lines or CSV of any layout, such as that of a public
    benchmark, and the arguments name its keys. A key may be a path such as ``query.sparql``.

    Args:
        path: the path of the file.
        question: key of the text.
        query: key of the query, in SPARQL or Cypher.
        answer: key of the answer, or of a list of answers.
        id: key of the id. Default: questions are numbered.
        language: with `question`: becomes the tag `language`, and chooses the text if there are
            several, by language. Default: English, without a tag.
        score: with `question`: the `score` of steps with SELECT, ASK or Cypher: "exact", "f1" or
            "values_f1".

    Raises:
        ReferenceDataError: the file cannot be read, or is wrong; each problem has its line.
        UsageError: an argument has an invalid value, or is given without `question`.
    """
    if question is not None:
        # YAML takes long to import.
        from graphrag_eval_async.reference.benchmarks.columns import Keys, read_columns

        keys = Keys(question=question, id=id, query=query, answer=answer)
        return read_columns(path, keys, language=language, score=score)
    if any(argument is not None for argument in (query, answer, id, language, score)):
        raise UsageError("question: expected the key of the questions' texts")
    source = os.fspath(path)
    problems: list[str] = []
    rows = _read_rows(source, problems)

    line_by_id: dict[str, int] = {}
    questions_by_template: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        template_id = row.values.get("template_id", "all")
        questions = questions_by_template.setdefault(template_id, [])
        try:
            question_id = _claim_id(row, line_by_id)
            questions.append(_question(question_id, row.values))
        except ValueError as error:
            problems.append(f"line {row.line}: {error}")

    if not questions_by_template and not problems:
        problems.append("no question in it")
    if problems:
        listed = problems[:MAX_PROBLEMS]
        if len(problems) > MAX_PROBLEMS:
            listed.append("...")
        raise ReferenceDataError(listed, source)
    return [
        {"template_id": template_id, "questions": questions}
        for template_id, questions in questions_by_template.items()
    ]


def _read_rows(source: str, problems: list[str]) -> list[_Row]:
    """Return one row for each question in a file; add the problems in the file to `problems`."""
    row_by_question: dict[str, _Row] = {}
    is_log = source.lower().endswith((".jsonl", ".ndjson"))
    records = _records_of_log(source) if is_log else _records_of_table(source)
    # The line in which the last record ends, for messages.
    line = 0
    try:
        for record in records:
            line = record.line
            values = _values(record.cells)
            question = values.get("question_text")
            if question is None:
                is_blank_row = not values and not is_log
                if not is_blank_row:
                    problems.append(f"line {line}: no question; add it; `convert` traces")
            elif question not in row_by_question:
                row_by_question[question] = _Row(line, values)
            elif is_log:
                # A log has many records of a question. Values of earlier records take precedence.
                row = row_by_question[question]
                row_by_question[question] = _Row(row.line, values | row.values)
            else:
                first_line = row_by_question[question].line
                problems.append(f"line {line}: the question of line {first_line}; remove one")
    except UnicodeDecodeError:
        problems.append("not text in UTF-8; unpack it, or save it as such: in Excel, CSV UTF-8")
    except csv.Error as error:
        problems.append(f"line {line + 1} or later: {error}; is a double quote missing?")
    except OSError as error:
        problems.append(error.strerror or str(error))
    except ValueError as error:
        problems.append(str(error))
    return [*row_by_question.values()]


def _values(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a record that are not empty, by the keys that their columns stand for.

    The short name of a key is ignored if the key itself has a value. In a response, for example,
    `answer` is what the agent answered, and `reference_answer` is the expected answer.
    """
    values: dict[str, Any] = {}
    for column, cell in cells.items():
        key = KEY_BY_COLUMN.get(column)
        may_have_type = isinstance(cell, str) or column in _KEYS_OF_OTHER_TYPES
        if key is None or not may_have_type:
            continue
        value = cell.strip() if isinstance(cell, str) else cell
        is_short_name = column != key
        if value and not (is_short_name and key in values):
            values[key] = value
    return values


def _claim_id(row: _Row, line_by_id: dict[str, int]) -> str:
    """Return the id of a row's question, and add it to `line_by_id`.

    If the row has no id, the id is made of the first words of the question.

    Raises:
        ValueError: another row has the id already.
    """
    text = row.values["question_text"]
    question_id = row.values.get("id")
    if question_id is None:
        words = re.sub(r"[\W_]+", "-", text.casefold())
        question_id = words[:MAX_ID_CHARACTERS].strip("-") or "question"
        if question_id in line_by_id:
            # Another question begins with the same words.
            question_id += f"-{sha256(text.encode()).hexdigest()[:8]}"
    elif question_id in line_by_id:
        raise ValueError(
            f"the id {question_id!r} is already that of line {line_by_id[question_id]}; "
            "choose another"
        )
    line_by_id[question_id] = row.line
    return str(question_id)


def _question(question_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question of a reference set.

    Args:
        question_id: id of the question.
        values: what the file says about the question, by the keys of `KEY_BY_COLUMN`.

    Raises:
        ValueError: the question is invalid; the message begins with its key.
    """
    question: dict[str, Any] = {"id": question_id, "question_text": values["question_text"]}
    for key in _KEYS_OF_QUESTIONS:
        if key in values:
            question[key] = values[key]

    answer = values.get("reference_answer")
    if answer is None and "actual_answer" in values:
        # What an agent answered stands in for a reference answer until a person reviews it.
        question["reference_answer"] = values["actual_answer"]
        question["reviewed"] = False
    elif isinstance(answer, list) and "match" not in values:
        # A reference answer can only be a list if the question has a `match`.
        question["reference_answer"] = "\n".join(map(str, answer))

    if isinstance(values.get("tolerance"), str):
        # Text that is no number stays as it is: `read_templates` below reports it.
        with suppress(ValueError):
            question["tolerance"] = float(values["tolerance"])
    if isinstance(values.get("tags"), str):
        question["tags"] = _tags_in_cell(values["tags"])
    if "reference_query" in values:
        step = {"name": "sparql_query", "reference_query": values["reference_query"]}
        question["reference_steps"] = [[step]]

    # Check the question as if it stood in a reference set. The place of a problem in that set says
    # nothing to the user, and is removed.
    reading = read_templates([{"template_id": "all", "questions": [question]}], comparators={})
    if reading.problems:
        raise ValueError(_PLACE_IN_TEMPLATES.sub("", reading.problems[0]))
    return question


def _tags_in_cell(cell: str) -> dict[str, Any]:
    """Return the tags in a cell, written as ``hops=2; hard``, ``{hops: 2}`` or ``[hard]``.

    A tag without a value has the value True.
    """
    tags: dict[str, Any] = {}
    for part in re.split("[;,]", cell.strip("{[]}")):
        if not part.strip():
            continue
        key_and_value = re.split(r"=|:\s", part, maxsplit=1)
        key = key_and_value[0].strip(" '\"")
        if len(key_and_value) == 2:
            tags[key] = key_and_value[1].strip(" '\"")
        else:
            tags[key] = True
    return tags


def _records_of_table(path: str) -> Iterator[_Record]:
    """Yield the rows of a table, whose columns are separated by commas, semicolons or tabs.

    Raises:
        ValueError: a column is missing or named twice, or a row has too many cells.
        csv.Error: a row cannot be read.
        OSError: the file cannot be read.
    """
    with open(path, encoding="utf-8-sig") as file:
        delimiter = _delimiter(file)
        reader = csv.DictReader(file, delimiter=delimiter, strict=True)
        columns = [name.strip().lower() for name in reader.fieldnames or ()]
        _check_columns(columns, path)
        reader.fieldnames = columns
        for row in reader:
            # The reader stores cells beyond the last column at the key None.
            surplus_cells = row.pop(None, ())
            if any(surplus_cells):
                raise ValueError(
                    f"line {reader.line_num}: too many cells; put texts in double quotes"
                )
            yield _Record(reader.line_num, row)


def _delimiter(file: TextIO) -> str:
    """Return the delimiter that is most frequent in the first line of a table; rewind the file."""
    first_line = file.readline()
    file.seek(0)
    return max(",;\t", key=first_line.count)


def _check_columns(columns: Sequence[str], path: str) -> None:
    """Check the names of the columns of a table, and warn of unknown columns, which are ignored.

    Raises:
        ValueError: no column has the question, or two columns stand for the same key.
    """
    keys = [KEY_BY_COLUMN[column] for column in columns if column in KEY_BY_COLUMN]
    has_duplicates = len(set(keys)) < len(keys)
    if "question_text" not in keys or has_duplicates:
        listed_columns = ", ".join(columns) or "nothing"
        raise ValueError(
            f"line 1: expected a column question, and none twice, got {listed_columns}"
        )
    unknown = [column for column in columns if column and column not in KEY_BY_COLUMN]
    if unknown:
        warn_caller(
            f"{path}: ignored columns: {', '.join(unknown)}; known: {', '.join(KEY_BY_COLUMN)}"
        )


def _records_of_log(path: str) -> Iterator[_Record]:
    """Yield the responses or results of a log, with only what they say about their questions.

    Raises:
        ValueError: a line is not a JSON object.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        for line, encoded in enumerate(file, start=1):
            text = encoded.decode("utf-8-sig").strip()
            if not text:
                continue
            try:
                record = orjson.loads(text)
            except orjson.JSONDecodeError:
                record = None
            if not isinstance(record, dict):
                raise ValueError(f"line {line}: expected a JSON object")
            yield _Record(line, _about_question(record))


def _about_question(record: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a response or result without values that are not about the question.

    These values become None. `match` may be added: if the configuration says how to match answers,
    a result has this rule only at the beginning of its `answer_match_reason`, such as "number" in
    "number: has 5".
    """
    # The `id` is that of the response, and not of the question.
    about_question = record | {"id": None}
    # What a failed run answered is no answer to the question.
    if record.get("status") == "error" or record.get("error") is not None:
        about_question["actual_answer"] = None
    if record.get("reference_answer") is None:
        about_question["match"] = None
        about_question["tolerance"] = None
    else:
        reason = record.get("answer_match_reason")
        if isinstance(reason, str) and "match" not in record:
            about_question["match"] = reason.partition(":")[0]
    return about_question
