"""Questions from the records of any file, by the names of the keys that hold their parts."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct

from graphrag_eval_async.errors import ReferenceDataError, UsageError, warn_caller
from graphrag_eval_async.records.aliases import BENCHMARK_STEP, CYPHER_STEP
from graphrag_eval_async.records.yaml_file import UnreadableFile
from graphrag_eval_async.reference.benchmarks.recognition import describe_benchmark
from graphrag_eval_async.reference.benchmarks.records import (
    UnreadableRecords,
    read_records,
    value_at,
)
from graphrag_eval_async.reference.benchmarks.templates import check_questions, check_score, scored
from graphrag_eval_async.steps.tokens import FORMS, form_of

MAX_LISTED_IDS = 20
"""How many ids of questions a warning lists."""

CYPHER_KEYWORDS = frozenset(
    {
        *("MATCH", "OPTIONAL", "CALL", "UNWIND", "WITH", "RETURN", "SHOW", "USE", "CYPHER"),
        *("CREATE", "MERGE", "DELETE", "DETACH", "SET", "REMOVE", "FOREACH", "LOAD"),
        *("EXPLAIN", "PROFILE"),
    }
)
"""Words with which a statement in Cypher begins."""

_first_word = re.compile(r"(?>(?:\s|//[^\n]*|/\*(?>(?:[^*]|\*(?!/))*)\*/)*)([A-Za-z]+)").match
"""Finds the first word of a statement in Cypher after white space and comments."""


class Keys(Struct, frozen=True, kw_only=True):
    """Where the parts of a question stand in a record: keys, or paths such as ``query.sparql``.

    Attributes:
        question: the text.
        id: None to number the questions.
        query: None if there is none.
        answer: None if there is none.
    """

    question: str
    id: str | None = None
    query: str | None = None
    answer: str | None = None


class _UnusableRecord(ValueError):  # noqa: N818
    """A record is no question; the message says why."""


def read_columns(
    path: str | os.PathLike[str],
    keys: Keys,
    *,
    language: str | None = None,
    score: str | None = None,
) -> list[dict[str, Any]]:
    """Return the records of a JSON, JSON lines or CSV file as questions of one template.

    A query that begins as Cypher does becomes a step `cypher_query`, other queries a step `sparql`.
    Warns of records that are skipped, with their ids.

    Args:
        path: the path of the file.
        keys: the keys of the parts of a question.
        language: the language of the texts, which becomes the tag `language`. It also chooses the
            text if a record has texts in several languages, as a dict by language or as a list of
            objects with `language` and `string`. Default: English, without a tag.
        score: the `score` of steps with SELECT, ASK or Cypher; None to leave it out.

    Raises:
        ReferenceDataError: the file cannot be read, no record has one of the keys, or a question
            is invalid.
        UsageError: `keys` names no question, or neither a query nor an answer.
    """
    source = os.fspath(path)
    if keys.query is None and keys.answer is None:
        raise UsageError("query: expected the key of the queries, or answer: that of the answers")
    if score is not None:
        check_score(score)
    try:
        records = read_records(source)
    except (UnreadableFile, UnreadableRecords) as error:
        raise ReferenceDataError([str(error)], source) from error
    _check_keys(keys, records, source)

    questions = []
    skipped = _SkippedRecords()
    for number, (place, record) in enumerate(records, start=1):
        question_id = _id_of(record, keys, number=number, place=place)
        try:
            questions.append(_question(record, question_id, keys, language, score))
        except _UnusableRecord as error:
            skipped.add(question_id, reason=str(error))

    templates = [{"template_id": Path(source).stem, "questions": questions}]
    problems = check_questions(templates)
    if not questions:
        problems = [f"no question can be read: {skipped.reasons()}"]
    if problems:
        raise ReferenceDataError(problems, source)
    skipped.warn(source)
    return templates


class _SkippedRecords:
    """The ids of records that are no questions, by reason."""

    def __init__(self) -> None:
        self._ids_by_reason: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, question_id: str, *, reason: str) -> None:
        self._ids_by_reason[reason].append(question_id)

    def reasons(self) -> str:
        return "; ".join(self._ids_by_reason)

    def warn(self, source: str) -> None:
        """Warn the caller of the library of skipped records: for each reason, the first ids."""
        for reason, ids in self._ids_by_reason.items():
            listed = ", ".join(ids[:MAX_LISTED_IDS])
            if len(ids) > MAX_LISTED_IDS:
                listed += f" and {len(ids) - MAX_LISTED_IDS} more"
            warn_caller(f"{source}: skipped, {reason}: {listed}")


def _id_of(record: dict[str, Any], keys: Keys, *, number: int, place: str) -> str:
    """Return the id of a record.

    Args:
        record: the record.
        keys: the keys of the parts of a question.
        number: the number of the record, which is its id if there is no key of ids.
        place: the place of the record, which is its id if the record has no value at that key.
    """
    if keys.id is None:
        return str(number)
    value = value_at(record, keys.id)
    return place if value is None else _text(value)


def _check_keys(keys: Keys, records: list[tuple[str, dict[str, Any]]], source: str) -> None:
    """Check that each key has a value in at least one record.

    Raises:
        ReferenceDataError: no record has one of the keys. The message lists the keys of the records
            and, if the file looks like that of a benchmark, says how to read it.
    """
    known_keys = dict.fromkeys(key for _, record in records for key in record)
    problems = []
    for role in ("question", "id", "query", "answer"):
        path = getattr(keys, role)
        if path is None or any(value_at(record, path) is not None for _, record in records):
            continue
        similar = get_close_matches(path, known_keys, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        problems.append(f"{role}: no record has {path!r}; they have {', '.join(known_keys)}{hint}")
    if not problems:
        return
    recognized = describe_benchmark([record for _, record in records], source)
    if recognized is not None:
        problems.append(recognized.message)
    raise ReferenceDataError(problems, source)


def _question(
    record: dict[str, Any], question_id: str, keys: Keys, language: str | None, score: str | None
) -> dict[str, Any]:
    """Return the question of a record.

    Raises:
        _UnusableRecord: the record has no text, neither a query nor an answer, or a query that
            cannot be read.
    """
    text = _text_in(value_at(record, keys.question), language or "en")
    if not text:
        raise _UnusableRecord("no text" if language is None else f"no text in {language}")
    question: dict[str, Any] = {"id": question_id, "question_text": text}
    if language is not None:
        question["tags"] = {"language": language}

    answer = _answer(record, keys)
    if answer:
        question["reference_answer"] = answer
    query = value_at(record, keys.query) if keys.query is not None else None
    if isinstance(query, str) and query.strip():
        question["reference_steps"] = [[_step(query, score)]]
    elif not answer:
        raise _UnusableRecord("no query and no answer")
    return question


def _answer(record: dict[str, Any], keys: Keys) -> str | None:
    """Return the answer of a record as text; None if the record has no answer.

    Several answers become a line each.
    """
    if keys.answer is None:
        return None
    answer = value_at(record, keys.answer)
    if answer is None:
        return None
    if isinstance(answer, list):
        return "\n".join(_text(item) for item in answer if item is not None)
    return _text(answer).strip()


def _step(query: str, score: str | None) -> dict[str, Any]:
    """Return the reference step for a query in SPARQL or in Cypher.

    Raises:
        _UnusableRecord: the query is neither SPARQL nor Cypher.
    """
    if form_of(query) in FORMS:
        return scored({"name": BENCHMARK_STEP, "reference_query": query}, score)
    first_word = _first_word(query)
    if first_word is None or first_word[1].upper() not in CYPHER_KEYWORDS:
        raise _UnusableRecord("the query is neither SPARQL nor Cypher")
    step = {"name": CYPHER_STEP, "reference_query": query}
    return step if score is None else {**step, "score": score}


def _text_in(value: Any, language: str) -> str | None:
    """Return the text of a value.

    Args:
        value: a text, or texts in several languages: as a dict by language, or as a list of objects
            with `language` and `string`.
        language: the language to choose among several.

    Returns:
        None if there is no text, or no text in this language.
    """
    if isinstance(value, dict):
        value = value.get(language)
    elif isinstance(value, list):
        texts = [item for item in value if isinstance(item, dict) and "string" in item]
        value = next((item["string"] for item in texts if item.get("language") == language), None)
    if isinstance(value, str):
        return value.strip()
    return None


def _text(value: Any) -> str:
    """Return a value of JSON as text; text as it is."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
