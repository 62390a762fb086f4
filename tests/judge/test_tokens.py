from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.judge.tokens import MESSAGE_TOKENS, estimate_prompt, estimate_reply, estimate_tokens
from tests.cases import each


@each(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("слово", 4),
        ("漢字", 2),
        ("\U0001f600", 2),
        ("\ud800", 1),
    ],
)
def test_estimates(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(st.text())
def test_estimates_follow_their_rule(text: str) -> None:
    weights = [3, 8, 12, 16]
    total = sum(weights[len(character.encode()) - 1] for character in text)
    assert estimate_tokens(text) == -(-total // 12)


def test_estimates_of_what_is_sent_and_replied() -> None:
    messages = [{"role": "system", "content": "x" * 40}, {"role": "user", "content": "y" * 8}]
    schema = {"type": "null"}
    assert estimate_prompt(messages, schema) == 10 + 2 + 2 * MESSAGE_TOKENS + estimate_tokens(
        '{"type":"null"}'
    )
    assert estimate_reply({"a": "b\u00e9"}) == estimate_tokens('{"a":"b\u00e9"}')
    assert estimate_reply({1, 2}) == estimate_reply("\ud800") == 0
