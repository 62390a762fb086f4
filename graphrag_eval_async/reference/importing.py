"""Questions from tables and responses of other programs, as templates of a reference set."""

from __future__ import annotations

import csv
import os
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import MalformedStep, ReferenceDataError, warn_caller
from graphrag_eval_async.records.tags import read_tags
from graphrag_eval_async.steps import check_step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COLUMNS = {
    "question": "question_text",
    "answer": "reference_answer",
    "query": "reference_query",
    "template": "template_id",
    "question_id": "id",
}
COLUMNS |= {name: name for name in (*COLUMNS.values(), "tags", "actual_answer")}


def import_questions(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read questions from a file; return templates, as `save_reference` writes them.

    Args:
        path: a table in UTF-8, separated by commas, semicolons or tabs, with a column `question`, and any of
            `answer`, `query`, `tags`, `id` and `template`; or, with suffix ``.jsonl``, responses or results:
            each different text is a question, and its first answer the reference, with ``reviewed: false``.

    Raises:
        ReferenceDataError: the file cannot be read, or is wrong; each problem has its line.
    """
    source, line, problems = os.fspath(path), 0, []
    is_log = source.lower().endswith((".jsonl", ".ndjson"))
    rows: dict[str, dict[str, Any]] = {}  # By question.
    ids: dict[str, int] = {}
    templates: dict[str, list[dict[str, Any]]] = {}
    try:
        for line, cells in (_responses if is_log else _rows)(source):
            texts = {name: text.strip() for name, text in cells.items() if isinstance(text, str)}
            row = {COLUMNS[name]: text for name, text in texts.items() if text and name in COLUMNS}
            if (question := row.get("question_text")) is None:
                problems += [f"line {line}: no question; add its text"] if row else []
            elif question not in rows or is_log:
                rows[question] = {"line": line, **row, **rows.get(question, {})}
            else:
                problems.append(f"line {line}: the question of line {rows[question]['line']}; remove one")
    except UnicodeDecodeError:
        problems.append("not UTF-8; in Excel, save it as CSV UTF-8")
    except csv.Error as error:
        problems.append(f"line {line + 1} or later: {error}; is a double quote missing?")
    except (OSError, ValueError) as error:
        problems.append(getattr(error, "strerror", None) or str(error))
    for row in rows.values():
        try:
            templates.setdefault(row.get("template_id", "all"), []).append(_question(row, ids))
        except (MalformedStep, ValueError) as error:
            problems.append(f"line {row['line']}: {error}")
    if problems or not rows:
        more = ["..."] if len(problems) > 20 else []
        raise ReferenceDataError([*problems[:20], *more] or ["no question in it"], source)
    return [{"template_id": name, "questions": questions} for name, questions in templates.items()]


def _question(row: dict[str, Any], ids: dict[str, int]) -> dict[str, Any]:
    text = row["question_text"]
    name = row.get("id") or re.sub(r"[\W_]+", "-", text.casefold())[:60].strip("-") or "question"
    if name in ids and "id" in row:
        raise ValueError(f"the id {name!r} is already that of line {ids[name]}; choose another")
    name += f"-{sha256(text.encode()).hexdigest()[:8]}" if name in ids else ""
    ids[name] = row["line"]
    question: dict[str, Any] = {"id": name, "question_text": text}
    if "reference_answer" in row:
        question["reference_answer"] = row["reference_answer"]
    elif "actual_answer" in row:
        question |= {"reference_answer": row["actual_answer"], "reviewed": False}
    if "tags" in row:
        tags = (part.partition("=") for part in re.split("[;,]", row["tags"]) if part.strip())
        question["tags"] = {key.strip(): value.strip() if equals else True for key, equals, value in tags}
        read_tags(question["tags"])
    if "reference_query" in row:
        step = {"name": "sparql_query", "reference_query": row["reference_query"]}
        check_step(step)
        question["reference_steps"] = [[step]]
    return question


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
                f"line 1: expected a column question, and none twice, got {', '.join(names) or 'nothing'}"
            )
        if unknown := [name for name in names if name and name not in COLUMNS]:
            warn_caller(f"{path}: ignored columns: {', '.join(unknown)}; known: {', '.join(COLUMNS)}")
        for row in reader:
            if any(row.pop(None, ())):
                raise ValueError(f"line {reader.line_num}: too many cells; put texts in double quotes")
            yield reader.line_num, row


def _responses(path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with open(path, "rb") as file:
        for line, text in enumerate(file, 1):
            try:  # The key `id` is that of the response.
                yield line, orjson.loads(text.strip() or b"{}") | {"id": None}
            except (TypeError, orjson.JSONDecodeError):
                raise ValueError(f"line {line}: expected a JSON object") from None
