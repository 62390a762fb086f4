"""Questions from tables and responses of other programs, as templates of a reference set."""

from __future__ import annotations

import csv
import os
import re
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import ReferenceDataError, UsageError, warn_caller
from graphrag_eval_async.reference.reading import read_templates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COLUMNS = {
    "question": "question_text",
    "answer": "reference_answer",
    "query": "reference_query",
    "template": "template_id",
    "question_id": "id",
}
COLUMNS |= {
    name: name for name in (*COLUMNS.values(), "match", "tolerance", "tags", "actual_answer")
}

_MORE = ("reference_answer", "tags", "tolerance")
"""What may be something else than text in a log."""


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
    """Read questions from a file; return templates, as `save_reference` writes them.

    Without `question`, the file is a table in UTF-8, separated by commas, semicolons or tabs, with
    a column `question`, and any of `answer`, `match`, `tolerance`, `query`, `tags`, `id` and
    `template`; or, with suffix ``.jsonl``, it has responses or results: each different text is a
    question. A question without a reference answer gets the first answer that is not an error, with
    ``reviewed: false``.

    With `question`, the file is JSON, JSON lines or CSV of any layout, such as that of a public
    benchmark, and the arguments name its keys. A key may be a path such as ``query.sparql``.

    Args:
        path: of the file.
        question: key of the text.
        query: key of the query, in SPARQL or Cypher.
        answer: key of the answer, or of a list of answers.
        id: key of the id. Default: questions are numbered.
        language: with `question`: becomes the tag `language`, and chooses the text if there are
            several, by language. Default: English, without a tag.
        score: with `question`: the `score` of steps with SELECT or ASK: "exact", "f1" or
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
    ids: dict[str, int] = {}
    templates: dict[str, list[dict[str, Any]]] = {}
    for row in _questions(source, problems):
        try:
            templates.setdefault(row.get("template_id", "all"), []).append(_question(row, ids))
        except ValueError as error:
            problems.append(f"line {row['line']}: {error}")
    if problems or not templates:
        more = ["..."] if len(problems) > 20 else []
        raise ReferenceDataError([*problems[:20], *more] or ["no question in it"], source)
    return [{"template_id": name, "questions": questions} for name, questions in templates.items()]


def _questions(source: str, problems: list[str]) -> list[dict[str, Any]]:
    """The different questions of a file as rows, each with its first line; adds to the problems."""
    line, is_log = 0, source.lower().endswith((".jsonl", ".ndjson"))
    rows: dict[str, dict[str, Any]] = {}  # By question.
    try:
        for line, cells in (_responses if is_log else _rows)(source):
            texts = {name: each.strip() for name, each in cells.items() if isinstance(each, str)}
            texts |= {name: cells[name] for name in _MORE if name in cells and name not in texts}
            row = {COLUMNS[name]: each for name, each in texts.items() if each and name in COLUMNS}
            if (question := row.get("question_text")) is None:
                problems += (
                    [f"line {line}: no question; add it; `convert` traces"] if row or is_log else []
                )
            elif question not in rows or is_log:
                rows[question] = {"line": line, **row, **rows.get(question, {})}
            else:
                problems.append(
                    f"line {line}: the question of line {rows[question]['line']}; remove one"
                )
    except UnicodeDecodeError:
        problems.append("not text in UTF-8; unpack it, or save it as such: in Excel, CSV UTF-8")
    except csv.Error as error:
        problems.append(f"line {line + 1} or later: {error}; is a double quote missing?")
    except (OSError, ValueError) as error:
        problems.append(getattr(error, "strerror", None) or str(error))
    return [*rows.values()]


def _question(row: dict[str, Any], ids: dict[str, int]) -> dict[str, Any]:
    text = row["question_text"]
    name = row.get("id") or re.sub(r"[\W_]+", "-", text.casefold())[:60].strip("-") or "question"
    if name in ids and "id" in row:
        raise ValueError(f"the id {name!r} is already that of line {ids[name]}; choose another")
    name += f"-{sha256(text.encode()).hexdigest()[:8]}" if name in ids else ""
    ids[name] = row["line"]
    question: dict[str, Any] = {"id": name, "question_text": text}
    question |= {
        key: row[key] for key in ("reference_answer", "match", "tolerance", "tags") if key in row
    }
    if "reference_answer" not in row and "actual_answer" in row:
        question |= {"reference_answer": row["actual_answer"], "reviewed": False}
    elif isinstance(answer := row.get("reference_answer"), list) and "match" not in row:
        question["reference_answer"] = "\n".join(map(str, answer))
    if isinstance(tolerance := row.get("tolerance"), str):
        with suppress(ValueError):
            question["tolerance"] = float(tolerance)
    if isinstance(tags := row.get("tags"), str):
        question["tags"] = _tags(tags)
    if "reference_query" in row:
        step = {"name": "sparql_query", "reference_query": row["reference_query"]}
        question["reference_steps"] = [[step]]
    for problem in read_templates([{"template_id": "all", "questions": [question]}], {}).problems:
        raise ValueError(re.sub(r"^\S*\]\.", "", problem))
    return question


def _tags(cell: str) -> dict[str, Any]:
    """The tags in a cell: ``hops=2; hard``, ``{hops: 2}`` or ``[hard]``."""
    parts = [part for part in re.split("[;,]", cell.strip("{[]}")) if part.strip()]
    pairs = [re.split(r"=|:\s", part, maxsplit=1) for part in parts]
    return {key.strip(" '\""): value[0].strip(" '\"") if value else True for key, *value in pairs}


def _rows(path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a table, each with the line in which it ends."""
    with open(path, encoding="utf-8-sig") as file:
        by = max(",;\t", key=file.readline().count)
        file.seek(0)
        reader = csv.DictReader(file, delimiter=by, strict=True)
        reader.fieldnames = names = [name.strip().lower() for name in reader.fieldnames or ()]
        known = [COLUMNS[name] for name in names if name in COLUMNS]
        if "question_text" not in known or len({*known}) < len(known):
            raise ValueError(
                "line 1: expected a column question, and none twice, got "
                f"{', '.join(names) or 'nothing'}"
            )
        if unknown := [name for name in names if name and name not in COLUMNS]:
            warn_caller(
                f"{path}: ignored columns: {', '.join(unknown)}; known: {', '.join(COLUMNS)}"
            )
        for row in reader:
            if any(row.pop(None, ())):
                raise ValueError(
                    f"line {reader.line_num}: too many cells; put texts in double quotes"
                )
            yield reader.line_num, row


def _responses(path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The responses or results of a log with their lines, without what is not about their
    questions.
    """
    with open(path, "rb") as file:
        for line, text in enumerate(file, 1):
            try:  # The key `id` is that of the response.
                cells = orjson.loads(text.decode("utf-8-sig").strip() or "{}") | {"id": None}
            except (TypeError, orjson.JSONDecodeError):
                raise ValueError(f"line {line}: expected a JSON object") from None
            if cells.get("status") == "error" or cells.get("error") is not None:
                cells["actual_answer"] = None
            if cells.get("reference_answer") is None:
                cells |= {"match": None, "tolerance": None}
            elif isinstance(reason := cells.get("answer_match_reason"), str):
                cells = {"match": reason.partition(":")[0]} | cells
            if text.strip():
                yield line, cells
