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


HEAD_BYTES = 256

_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def split_questions(text: bytes) -> list[dict[str, Any]] | None:
    """Templates whose questions are still JSON text, which takes less memory; None where that is unusual."""
    try:
        return _split_plain(text.strip()) or [_split_template(raw) for raw in _decode_list(text)]
    except (KeyError, ValueError, RecursionError):
        return None


class _Template(msgspec.Struct, forbid_unknown_fields=True):
    template_id: msgspec.Raw
    questions: list[msgspec.Raw]


_decode_templates = msgspec.json.Decoder(list[_Template]).decode


def _split_plain(text: bytes) -> list[dict[str, Any]] | None:
    """The same of templates with no other keys, none of which is repeated, at half the cost."""
    try:
        templates = _decode_templates(text)
    except msgspec.ValidationError:
        return None
    compact, separators = 1 + len(templates), len(templates) - 1
    for template in templates:
        between = max(0, len(template.questions) - 1)
        sizes = sum(map(len, template.questions)) + len(template.template_id)
        compact += sizes + between + len('{"template_id":,"questions":[]}')
        separators += between + 3
    if len(text) != compact + _spaces(text, separators):
        return None
    return [
        {"template_id": msgspec.json.decode(each.template_id), "questions": each.questions}
        for each in templates
    ]


def _split_template(raw: msgspec.Raw) -> dict[str, Any]:
    members = _decode_object(raw)
    questions = members.pop("questions")
    sizes = [len(orjson.dumps(key)) + len(memoryview(value)) for key, value in members.items()]
    compact = sum(sizes) + len('"questions"') + len(memoryview(questions)) + 2 * len(sizes) + 3
    if len(memoryview(raw)) == compact + _spaces(raw, 2 * len(sizes) + 1):
        template = {key: msgspec.json.decode(value) for key, value in members.items()}
    else:  # A key may be repeated.
        template = json.loads(bytes(raw).replace(bytes(questions), b"null"), object_pairs_hook=_object)
    template["questions"] = _decode_list(questions)
    return template


def _spaces(raw: bytes | msgspec.Raw, separators: int) -> int:
    """How many spaces there are outside of strings, if there is one after each comma and colon, or none."""
    head = bytes(memoryview(raw)[:HEAD_BYTES])
    colon = head.find(b'":') + 1
    return separators if head[colon + 1 : colon + 2] == b" " else 0


def decode_question(raw: msgspec.Raw) -> tuple[Any, msgspec.Raw | None]:
    """The question in JSON text, and the text; None in place of that if anything is unusual.

    Raises:
        ValueError: it is no JSON.
    """
    question = msgspec.json.decode(raw)
    try:
        if _is_plain(raw, question, len(orjson.dumps(question))):
            return question, raw
    except TypeError:  # Such as an integer of more than 64 bits.
        pass
    return json.loads(bytes(raw), object_pairs_hook=_object), None


def _is_plain(raw: msgspec.Raw, value: Any, compact: int) -> bool:
    """Whether a value is not nested too deep, and no key is repeated in its text.

    If one were, the text would be longer than that of the value, which takes `compact` bytes without spaces.
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
    if len(memoryview(raw)) == compact + _spaces(raw, keys + commas):
        return True
    counted: list[int] = []
    json.loads(bytes(raw), object_pairs_hook=lambda pairs: counted.append(len(pairs)))
    return sum(counted) == keys
