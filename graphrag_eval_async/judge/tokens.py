"""About how many tokens a request has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.judge.protocol import Message

MESSAGE_TOKENS = 4
"""What marks the beginning and the end of each message."""

ASCII = bytes(range(128))


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: one for 4 ASCII characters, and one for 3 bytes of others in UTF-8.

    So an accented or a Cyrillic letter counts 2/3, a Chinese character 1, an emoji 4/3. Rounded up.
    """
    return _estimate(text.encode("utf-8", "surrogatepass"))


def estimate_prompt(messages: Sequence[Message], schema: Mapping[str, Any]) -> int:
    """About how many tokens a conversation has, with the schema of the reply."""
    texts = sum(estimate_tokens(message["content"]) + MESSAGE_TOKENS for message in messages)
    return texts + _estimate(orjson.dumps(schema))


def estimate_reply(reply: Any) -> int:
    """About how many tokens a reply has; 0 if it is not JSON."""
    try:
        return _estimate(orjson.dumps(reply))
    except TypeError:
        return 0


def _estimate(data: bytes) -> int:
    other = len(data.translate(None, ASCII))
    return -(-(3 * (len(data) - other) + 4 * other) // 12)
