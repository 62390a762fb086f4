"""Records of JSON, JSON lines and CSV, and the values at paths in them."""

from __future__ import annotations

import csv
import io
from typing import Any

import orjson

from graphrag_eval_async.records.yaml_file import read_bytes

RECOGNIZED_RECORDS = 3
"""How many records tell what a file is."""


class UnreadableRecords(ValueError):  # noqa: N818
    """A file has no records; the message says what it has instead, and in which line."""


def read_records(path: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the records of a file, each with its place.

    The file is a JSON array of objects, an object that holds such an array under one of its keys,
    JSON lines, or a table whose first line has the names, separated by commas, semicolons or tabs.
    The contents show which of these it is, not the suffix.

    Raises:
        UnreadableFile: the file cannot be read.
        UnreadableRecords: the file is none of these.
    """
    contents = read_bytes(path)
    try:
        text = contents.decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableRecords(
            "not text in UTF-8; unpack it, or save it as JSON or CSV in UTF-8"
        ) from None

    start = text.lstrip()[:1]
    if not start:
        raise UnreadableRecords("the file is empty")
    if start not in "[{":
        return _read_table(text)
    try:
        document = orjson.loads(contents)
    except orjson.JSONDecodeError as error:
        if start == "[":
            raise UnreadableRecords(f"not JSON: {error}") from None
        # Several lines of objects are not one JSON document.
        return _read_lines(text)

    records = records_of(document)
    if records is None:
        if isinstance(document, dict):
            # The file has JSON lines, but only one line.
            return [("line 1", document)]
        raise UnreadableRecords("expected a JSON array of objects, JSON lines or CSV")
    return [(f"[{index}]", record) for index, record in enumerate(records)]


def records_of(document: Any) -> list[dict[str, Any]] | None:
    """Return the objects of an array, or those of the only array of objects in an object.

    Returns:
        None if there is no array of objects, or more than one.
    """
    if isinstance(document, list):
        if document and all(isinstance(record, dict) for record in document):
            return document
        return None
    if not isinstance(document, dict):
        return None
    arrays = [
        value
        for value in document.values()
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    ]
    return arrays[0] if len(arrays) == 1 else None


def first_records(document: Any) -> list[dict[str, Any]]:
    """Return the first records of a document, by which it is recognized; [] if it has none."""
    records = records_of(document)
    if records is not None:
        return records[:RECOGNIZED_RECORDS]
    return [document] if isinstance(document, dict) else []


def value_at(record: Any, path: str) -> Any:
    """Return the value at a path such as ``question.string``; None if there is no value.

    If an object has the whole path as a key, that key counts. At a list, the rest of the path is
    followed in each item, and the list of the values is returned.
    """
    if isinstance(record, list):
        values = [value_at(item, path) for item in record]
        found = [value for value in values if value is not None]
        return found or None
    if not isinstance(record, dict):
        return None
    if path in record:
        return record[path]
    key, _, remaining_path = path.partition(".")
    if not remaining_path:
        return None
    return value_at(record.get(key), remaining_path)


def _read_lines(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects of JSON lines, each with the number of its line."""
    records = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise UnreadableRecords(f"line {number}: not JSON: {error}") from None
        if not isinstance(record, dict):
            raise UnreadableRecords(f"line {number}: expected a JSON object")
        records.append((f"line {number}", record))
    return records


def _read_table(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the rows of a table as objects, each with the line in which it ends."""
    # The character that occurs most often in the first line separates the cells.
    header = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    reader = csv.DictReader(
        io.StringIO(text.lstrip(), newline=""), delimiter=delimiter, strict=True
    )
    records = []
    try:
        for row in reader:
            # The reader stores cells beyond the last column at the key None.
            if any(row.pop(None, ())):
                raise UnreadableRecords(
                    f"line {reader.line_num}: too many cells; put texts in double quotes"
                )
            records.append((f"line {reader.line_num}", row))
    except csv.Error as error:
        raise UnreadableRecords(
            f"line {reader.line_num}: {error}; is a double quote missing?"
        ) from None
    if not records:
        raise UnreadableRecords("the table has no rows below its first line")
    return records
