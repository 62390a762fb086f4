"""Reading and checking of templates of any kind: by `usual` if possible, otherwise by `careful`."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, time
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from msgspec import Raw

from graphrag_eval_async.records.database_values import find_json_writer
from graphrag_eval_async.reference.careful import CarefulReader
from graphrag_eval_async.reference.strict_json import STRICT_JSON
from graphrag_eval_async.reference.usual import read_usual

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records.document import Document
    from graphrag_eval_async.reference.contents import Contents
    from graphrag_eval_async.steps import Comparator


class Reading(NamedTuple):
    """What was read of templates.

    Attributes:
        contents: the valid questions.
        problems: what makes the templates invalid, as texts with places.
        doubts: what is probably a mistake, in the same form.
    """

    contents: Contents
    problems: list[str]
    doubts: list[str]


def read_templates(
    templates: Any, comparators: Mapping[str, Comparator], document: Document | None = None
) -> Reading:
    """Read and check templates.

    Args:
        templates: a list of template dicts, or the text of a JSON file as `Raw`. If it is anything
            else, there is a problem that says so.
        comparators: your own comparison of steps, by name of reference step.
        document: the file of the templates, for the lines of mistakes; None if they are from no
            file.

    Raises:
        UnreadableFile: the text is not valid JSON.
    """
    # The fast reader returns None if it finds anything unusual or wrong.
    text = templates if isinstance(templates, Raw) else _json_text(templates)
    if text is not None:
        contents = read_usual(text, comparators)
        if contents is not None:
            return Reading(contents, problems=[], doubts=[])

    # The careful reader takes Python values, and reports each problem.
    if isinstance(templates, Raw):
        # This module also imports YAML, which takes long.
        from graphrag_eval_async.records.yaml_file import read_json

        templates = read_json(bytes(templates))
    else:
        # Templates that nest too deep stay as they are: the careful reader reports them.
        with suppress(RecursionError):
            templates = _with_json_values(templates)
    reader = CarefulReader(comparators, document)
    contents = reader.read(templates)
    return Reading(contents, reader.problems.texts(document), reader.doubts.texts(document))


def _json_text(templates: Any) -> Raw | None:
    """Return templates as JSON text; None if they may hold a value that JSON cannot represent."""
    try:
        text = orjson.dumps(templates, option=STRICT_JSON)
    except TypeError:
        return None
    if b"null" in text:
        # orjson also writes numbers that are not finite as null. The careful reader refuses them.
        return None
    return Raw(text)


def _with_json_values(value: Any) -> Any:
    """Return a copy of a value in which dates, times and values of databases become JSON.

    They are replaced at any depth. Dates and times become ISO 8601 text, as when a YAML file is
    read. Nodes and other values that drivers of databases return become JSON as in responses.
    """
    write_json = find_json_writer(value)
    if write_json is not None:
        return _with_json_values(write_json(value))
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {_with_json_values(key): _with_json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_json_values(item) for item in value]
    return value
