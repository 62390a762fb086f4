"""JSON text of reference data, in which no key may be repeated."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import orjson

from graphrag_eval_async.records.copying import AmbiguousObject
from graphrag_eval_async.records.decoding import MAX_DEPTH


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


_decode_templates = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def split_questions(text: bytes) -> list[dict[str, Any]] | None:
    """Templates whose questions are still JSON text, which takes less memory; None if anything is unusual."""
    try:
        text = msgspec.json.format(text, indent=-1)
        templates = _decode_templates(text)
        # A repeated key would make the text longer than what was decoded.
        if len(text) != 1 + len(templates) + sum(map(_length, templates)):
            return None
        return [{key: _decode_member(key, raw) for key, raw in each.items()} for each in templates]
    except (ValueError, RecursionError):
        return None


def _decode_member(key: str, raw: msgspec.Raw) -> Any:
    return _decode_list(raw) if key == "questions" else msgspec.json.decode(raw)


def _length(members: dict[str, msgspec.Raw]) -> int:
    return 1 + len(members) + sum(len(orjson.dumps(key)) + 1 + len(raw) for key, raw in members.items())


def decode_question(raw: msgspec.Raw) -> tuple[Any, msgspec.Raw | None]:
    """The question in compact JSON text, and the text; None in place of that if a key is repeated in it.

    Raises:
        ValueError: it is no JSON.
    """
    question = msgspec.json.decode(raw)
    try:
        if orjson.dumps(question) == bytes(raw):  # As nearly all are; an exponent may make it differ, too.
            return question, raw
    except TypeError:  # Such as an integer of more than 64 bits.
        return json.loads(bytes(raw), object_pairs_hook=_object), None
    repeated: list[bool] = []
    json.loads(bytes(raw), object_pairs_hook=lambda pairs: repeated.append(len(dict(pairs)) < len(pairs)))
    if any(repeated):
        return json.loads(bytes(raw), object_pairs_hook=_object), None
    return question, raw
