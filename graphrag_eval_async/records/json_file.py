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
        return [_split_template(raw) for raw in _decode_list(text)]
    except (KeyError, ValueError, RecursionError):
        return None


def _split_template(raw: msgspec.Raw) -> dict[str, Any]:
    text = bytes(raw)
    members = _decode_object(text)
    questions = members.pop("questions")
    sizes = [len(orjson.dumps(key)) + len(memoryview(value)) for key, value in members.items()]
    compact = sum(sizes) + len('"questions"') + len(memoryview(questions)) + 2 * len(sizes) + 3
    if len(text) == compact + _spaces(text, 2 * len(sizes) + 1):
        template = {key: msgspec.json.decode(value) for key, value in members.items()}
    else:  # A key may be repeated.
        template = json.loads(text.replace(bytes(questions), b"null"), object_pairs_hook=_object)
    template["questions"] = _decode_list(questions)
    return template


def _spaces(text: bytes, separators: int) -> int:
    """How many spaces there are outside of strings, if there is one after each comma and colon, or none."""
    colon = text.find(b'":') + 1
    return separators if text[colon + 1 : colon + 2] == b" " else 0


def decode_question(raw: msgspec.Raw) -> tuple[Any, bytes | None]:
    """The question in JSON text, and compact text of it; None in place of that if anything is unusual.

    Raises:
        ValueError: it is no JSON.
    """
    question = msgspec.json.decode(raw)
    try:
        data = orjson.dumps(question)
        if _is_plain(raw, question, data):
            return question, data
    except TypeError:  # Such as an integer of more than 64 bits.
        pass
    return json.loads(bytes(raw), object_pairs_hook=_object), None


def _is_plain(raw: msgspec.Raw, value: Any, compact: bytes) -> bool:
    """Whether a value is not nested too deep, and no key is repeated in its text.

    If one were, the text would be longer than that of the value.
    """
    keys = commas = depth = 0
    level = [value] if type(value) in CONTAINERS else []
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            return False
        below: list[Any] = []
        for node in level:
            children = node
            if type(node) is dict:
                keys += len(node)
                children = node.values()
            commas += len(node) - 1 if node else 0
            below += [child for child in children if type(child) in CONTAINERS]
        level = below
    text = bytes(raw)
    if len(text) == len(compact) + _spaces(text, keys + commas):
        return True
    return text.count(b'":') - text.count(b'\\":') == keys
