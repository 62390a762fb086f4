"""Reading of reference data in JSON, with detection of repeated keys."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import orjson

from graphrag_eval_async.records.copying import AmbiguousObject
from graphrag_eval_async.records.decoding import MAX_DEPTH


def read_json(text: bytes) -> Any:
    """The value, with integers of any length, and an `AmbiguousObject` for each object with repeated keys.

    Raises:
        ValueError: the text is not JSON or nests too deep.
    """
    orjson.loads(text)  # Stricter than json, but reads integers beyond 64 bits as floats.
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError(f"nests more than {MAX_DEPTH} deep") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    times = Counter(key for key, _ in pairs)
    return AmbiguousObject(members, [key for key in members if times[key] > 1])


class _Template(msgspec.Struct, gc=False):
    template_id: msgspec.Raw
    questions: list[msgspec.Raw]


_decode_template = msgspec.json.Decoder(_Template).decode

split_templates = msgspec.json.Decoder(list[msgspec.Raw]).decode
"""Splits a reference set into templates, each still JSON text for `decode_template`."""


def decode_template(raw: msgspec.Raw) -> Any:
    """One template. To save memory, its questions may still be JSON text for `decode_question`.

    Raises:
        ValueError: the template is not JSON.
    """
    try:
        text = msgspec.json.format(bytes(raw), indent=-1)
        template = _decode_template(text)
    except (ValueError, RecursionError):
        return read_json(bytes(raw))
    if len(text) != _length(template):  # The template has an unknown or repeated key.
        return read_json(bytes(raw))
    return {"template_id": msgspec.json.decode(template.template_id), "questions": template.questions}


def _length(template: _Template) -> int:
    members = len(b'{"template_id":') + len(template.template_id) + len(b',"questions":[]}')
    return members + sum(map(len, template.questions)) + max(0, len(template.questions) - 1)


def decode_question(raw: msgspec.Raw) -> tuple[Any, bool]:
    """A question decoded from compact JSON, and whether it is exact: no repeated keys or oversized integers.

    Raises:
        ValueError: the question is not JSON.
    """
    text = bytes(raw)
    question = orjson.loads(text)
    try:
        if orjson.dumps(question) == text:  # Nearly always; escapes and exponents may also differ.
            return question, True
    except TypeError:  # The question nests too deep.
        pass
    ambiguous: list[AmbiguousObject] = []

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = _object(pairs)
        if isinstance(members, AmbiguousObject):
            ambiguous.append(members)
        return members

    exact = json.loads(text, object_pairs_hook=object_of)
    return exact, exact == question and not ambiguous
