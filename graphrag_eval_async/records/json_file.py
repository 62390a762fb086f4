"""JSON text of reference data, in which no key may be repeated."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import orjson

from graphrag_eval_async.records.copying import AmbiguousObject
from graphrag_eval_async.records.decoding import CONTAINERS, MAX_DEPTH


def read_json(text: bytes) -> Any:
    """The value with integers of any length, and with an `AmbiguousObject` for each with repeated keys."""
    orjson.loads(text)  # Is the stricter of the two, but makes floats of integers beyond 64 bits.
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


_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def split_questions(text: bytes) -> list[dict[str, Any]] | None:
    """Templates whose questions are still JSON text, which takes less memory; None where that is unusual."""
    try:
        return [_split_template(bytes(raw)) for raw in _decode_list(text)]
    except (KeyError, ValueError, RecursionError):
        return None


def _split_template(raw: bytes) -> dict[str, Any]:
    questions = bytes(_decode_object(raw)["questions"])
    rest = raw.replace(questions, b"null") if b'"' in questions else raw
    template: dict[str, Any] = json.loads(rest, object_pairs_hook=_object)
    template["questions"] = _decode_list(questions)
    return template


def decode_question(raw: msgspec.Raw) -> tuple[Any, bytes | None]:
    """The question in JSON text, and compact text of it; None in place of that if anything is unusual.

    Raises:
        ValueError: it is no JSON.
    """
    question = msgspec.json.decode(raw)
    try:
        data = orjson.dumps(question)
        if not _repeats_keys(raw, question, data):
            return question, data
    except TypeError:  # Such as an integer of more than 64 bits.
        pass
    return json.loads(bytes(raw), object_pairs_hook=_object), None


def _repeats_keys(raw: msgspec.Raw, value: Any, compact: bytes) -> bool:
    """Whether keys of an object are, or may be, repeated in the text: then it is longer than the value's."""
    text = memoryview(raw)
    if len(text) == len(compact):
        return False
    keys = commas = 0
    containers = [value] if type(value) in CONTAINERS else []
    for node in containers:  # Grows meanwhile.
        children = node
        if type(node) is dict:
            keys += len(node)
            children = node.values()
        commas += max(0, len(node) - 1)
        containers += [child for child in children if type(child) in CONTAINERS]
    if len(text) == len(compact) + keys + commas:  # With a space after each comma and colon.
        return False
    quoted = bytes(text)
    return quoted.count(b'":') - quoted.count(b'\\":') != keys
