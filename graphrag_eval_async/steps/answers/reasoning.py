"""Removal of a model's reasoning from its answer.

Models write reasoning in tags (`<think>`), in tokens of their chat templates, in blocks that a chat
client folds, under headings, or as a key of a JSON object.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

from graphrag_eval_async.helpers.patterns import lazy_pattern

_REASONING_HINT = lazy_pattern(r"[<\[{\uff1c\u25c1]|&lt;|```|assistantfinal|\.\.\.done thinking")
"""What an answer with reasoning has, unless this follows a heading."""

_NAMES = (
    # Such as internal_thoughts, think-aloud, reasoning_steps.
    r"(?:(?:inner|internal|deep|my|model|initial|step[_-]by[_-]step)[_-]?)?"
    r"(?:think|thinking|thoughts?|reason|reasoning|reflection|reflexion|monologue)"
    r"(?:[_-](?:process|content|block|steps?|trace|aloud|notes?))?"
    r"|antthinking|planning|self[_-](?:reflection|critique)|critique|brainstorm(?:ing)?"
    r"|scratch[_-]?pad|analysis|chain[_-]of[_-]thought|cot|deliberation|rationale"
    r"|step[_-]by[_-]step|思考(?:过程|過程)?|推理(?:过程)?"
)
# The lengths are limited so that a search takes linear time.
_TAG = lazy_pattern(
    r"(?<!`)(?:"
    rf"(?:<|&lt;|＜|◁)\s{{0,3}}(?P<slash>/?)\s{{0,3}}(?:[a-z]{{1,12}}:)?(?:{_NAMES})"
    r"(?:\s[^<>]{0,200})?(?P<void>/?)(?:>|&gt;|＞|▷)"
    r"|\[(?P<bracket_slash>/?)(?:THINK|THINKING|REASONING)\]"
    r"|(?P<opening_token><\|(?:begin_of_thought|start_thinking|inner_prefix|think|thinking)\|>|<unused94>)"
    r"|(?P<closing_token><\|(?:end_of_thought|end_thinking|inner_suffix|/think|/thinking)\|>|<unused95>)"
    r")(?!`)",
    re.IGNORECASE,
)

_BEGINS_SENTENCE = lazy_pattern(r"\s*[^\w\s.,;:)]{0,4}(?![a-z])\w")
"""The start of a text that does not go on with the sentence of another."""

_FOLDED_BLOCK = lazy_pattern(
    r"<details[^<>]{0,200}(?:reasoning|thinking|thought)[^<>]{0,200}>"
    r"|<details[^<>]{0,200}>\s{0,9}<summary>[^<>]{0,80}(?:reasoning|thinking|thought)",
    re.IGNORECASE,
)
_FENCED_BLOCK = lazy_pattern(
    r"```[ \t]{0,3}(?:think|thinking|thoughts?|reasoning)[ \t]{0,9}\n", re.IGNORECASE
)

_COMMENT = lazy_pattern("<!--")

_TERMINAL_START = lazy_pattern(r"\A\s{0,9}Thinking\.\.\.\s")
_TERMINAL_END = "...done thinking."
"""The lines between which Ollama's command line prints reasoning."""

_FINAL_CHANNEL = "<|channel|>final<|message|>"
_ANALYSIS_CHANNEL = "<|channel|>analysis<|message|>"
_TOKEN = lazy_pattern(
    r"<\|(?:im_start|start|start_header_id)\|>\s{0,3}assistant|<[|\uff5c][a-z_\u2581]{1,30}[|\uff5c]>",
    re.IGNORECASE,
)
"""A token of a chat template, such as <|end|>, and the role that follows the token of a start."""

_ANSWER_BLOCK = lazy_pattern(r"(?<!`)<(?P<slash>/?)(?:final[_-]?)?answer>(?!`)", re.IGNORECASE)

_REASONING_LABEL = lazy_pattern(
    r"\W{0,6}"
    r"(?:question:[^\n]{1,500}\n\s{0,9})?"  # Which ReAct repeats.
    r"(?:thoughts?|thinking|reasoning|analysis|rationale|chain[ -]of[ -]thought|"
    r"(?:thinking|thought|reasoning) process|step[ -]by[ -]step (?:thinking|reasoning)|"
    r"let['’]s think step by step|let me think|"
    r"here(?:['’]s| is) my (?:thought process|thinking|reasoning)|"
    r"überlegung(?:en)?|gedankengang|raisonnement|réflexion|razonamiento|pensamiento|"
    r"ragionamento|raciocínio|redenering|rozumowanie|рассуждени[ея]|размышлени[ея]|"
    r"思考(?:过程|過程)?|推理(?:过程)?|推論|생각|추론)"
    r"[^\w\n]{0,6}(?:[:：.】]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWER_LABEL = lazy_pattern(
    r"^[^\w\n]{0,6}(?:(?:the )?(?:final |short )?(?:answer|response)|conclusion|"
    r"here(?:['’]s| is) my (?:final )?(?:answer|response)|"
    r"(?:endgültige )?antwort|réponse(?: finale)?|respuesta(?: final)?|risposta(?: finale)?|"
    r"resposta(?: final)?|antwoord|odpowiedź|(?:окончательный )?ответ|(?:最终|最終)?(?:答案|回答)|"
    r"(?:最終的な)?答え|(?:최종 )?(?:답변|답|정답))"
    r"[^\w\n:：]{0,6}(?:[:：][*_]{0,3}|】|$)",
    re.IGNORECASE | re.MULTILINE,
)

_REASONING_KEYS = frozenset(
    {
        *("think", "thinking", "thought", "thoughts", "thought_process", "reasoning"),
        *("reasoning_content", "rationale", "analysis", "chain_of_thought", "cot", "scratchpad"),
        "reflection",
    }
)
_ANSWER_KEYS = ("final_answer", "answer", "response", "output", "result", "content", "text")
_JSON_FENCE = lazy_pattern(
    r"```(?:json)?[ \t]{0,9}\n(?P<json>.*)\n[ \t]{0,9}```", re.DOTALL | re.IGNORECASE
)
_REASONING_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
"""Types of the content blocks of messages that hold reasoning."""


class _Tag(NamedTuple):
    """A tag that opens or closes reasoning."""

    start: int
    end: int
    closes: bool


def without_reasoning(answer: str) -> str:
    """Return an answer without the reasoning of the model; "" if it is nothing but reasoning."""
    if _REASONING_HINT.search(answer) is None and _REASONING_LABEL.match(answer) is None:
        return answer
    text = _last_channel(answer)
    text = _without_blocks(text, _FOLDED_BLOCK, closing="</details>")
    text = _without_blocks(text, _FENCED_BLOCK, closing="\n```")
    text = _without_blocks(text, _COMMENT, closing="-->")
    if _TERMINAL_END in text:
        text = _without_blocks(text, _TERMINAL_START, closing=_TERMINAL_END)
    text = _without_tagged(text)
    text = _answer_in_tags(text)
    text = _answer_after_label(text)
    text = _answer_of_json(text)
    if text is not answer:
        text = _TOKEN.sub("", text)
    return text


def _last_channel(text: str) -> str:
    """Return the last message to the user in a text in the format of gpt-oss.

    A text in another format is returned as it is.
    """
    if _FINAL_CHANNEL in text:
        return text.rpartition(_FINAL_CHANNEL)[2]
    if text.startswith("analysis") and "assistantfinal" in text:
        # A tokenizer that drops the special tokens leaves only the words between them.
        return text.rpartition("assistantfinal")[2]
    if text.lstrip().startswith(_ANALYSIS_CHANNEL):
        # Without a final message, the answer is what follows the analysis, if it ends at all.
        _, end_token, after = text.rpartition("<|end|>")
        return after if end_token else ""
    return text


def _without_blocks(text: str, opening: re.Pattern[str], *, closing: str) -> str:
    """Return a text without the blocks between two marks.

    A block that is not closed goes on to the end.

    Args:
        text: the text.
        opening: a pattern for the mark that opens a block.
        closing: the mark that closes it.
    """
    kept: list[str] = []
    position = 0
    for match in opening.finditer(text):
        if match.start() < position:
            continue  # It stands inside a block.
        kept.append(text[position : match.start()])
        end = text.find(closing, match.end())
        if end == -1:
            return "".join(kept)
        position = end + len(closing)
    if not kept:
        return text
    return "".join([*kept, text[position:]])


def _without_tagged(text: str) -> str:
    """Return a text without reasoning in tags such as `<think>`.

    A closing tag without an opening one ends reasoning that began with the text, since some chat
    templates put the opening tag into the prompt. An opening tag without a closing one counts only
    at the start of a line: elsewhere it may be what the answer is about. What stands between two
    blocks goes on weighing, unless the sentence goes on after the second one.
    """
    tags = [_tag(match) for match in _TAG.finditer(text) if not match["void"]]
    if not tags:
        return text
    closing_tags = sum(tag.closes for tag in tags)
    # Reasoning may mention a tag. Blocks are taken for nested only if each one is closed.
    nests = 2 * closing_tags == len(tags)

    kept: list[str] = []  # The texts outside of blocks.
    position = 0  # The end of the last block.
    depth = 0  # How many blocks are open.
    opened_at = 0  # The start of the outermost open block.
    for tag in tags:
        if tag.closes and depth == 0:
            kept.clear()
            position = tag.end
        elif tag.closes:
            depth -= 1
            position = tag.end
        elif depth == 0:
            kept.append(text[position : tag.start])
            opened_at = tag.start
            depth = 1
        elif nests:
            depth += 1

    is_open = depth > 0
    if not is_open:
        last_text = text[position:]
        if _BEGINS_SENTENCE.match(last_text):
            # The first text stands before all blocks.
            del kept[1:]
        kept.append(last_text)
    elif not _begins_line(text, opened_at):
        kept.append(text[opened_at:])
    return "".join(kept)


def _tag(match: re.Match[str]) -> _Tag:
    """Return where the tag of a match of `_TAG` stands, and whether it opens or closes a block."""
    closes = bool(match["slash"] or match["bracket_slash"] or match["closing_token"])
    return _Tag(match.start(), match.end(), closes)


def _begins_line(text: str, position: int) -> bool:
    """Return whether only white space stands before a position in its line."""
    line_start = text.rfind("\n", 0, position) + 1
    return not text[line_start:position].strip()


def _answer_in_tags(text: str) -> str:
    """Return the content of the last `<answer>` of a text, or the text itself if it has none."""
    opened_at: int | None = None  # Where the content of an open tag begins.
    content: str | None = None
    for tag in _ANSWER_BLOCK.finditer(text):
        is_closing = tag["slash"] != ""
        if not is_closing:
            opened_at = tag.end()
        elif opened_at is not None:
            content = text[opened_at : tag.start()]
            opened_at = None
    if content is not None:
        return content
    if opened_at is not None and text.lstrip().startswith("<"):
        # The closing tag may be a stop sequence, which is not written.
        return text[opened_at:]
    return text


def _answer_after_label(text: str) -> str:
    """Return what follows the last heading such as "Answer:" in a text that begins with "Thought:".

    Other texts are returned as they are.
    """
    if _REASONING_LABEL.match(text) is None:
        return text
    labels = [*_ANSWER_LABEL.finditer(text)]
    if not labels:
        return text
    return text[labels[-1].end() :]


def _answer_of_json(text: str) -> str:
    """Return a text in which reasoning is removed from its JSON, alone or in a fence.

    Text without JSON, and JSON without reasoning, stay as they are.
    """
    fenced = _JSON_FENCE.search(text)
    if fenced is None:
        answer = _answer_of_document(text)
        return text if answer is None else answer
    answer = _answer_of_document(fenced["json"])
    if answer is None:
        return text
    return text[: fenced.start()] + answer + text[fenced.end() :]


def _answer_of_document(source: str) -> str | None:
    """Return the answer in a JSON document with reasoning; None if the text is no such document."""
    if not source.lstrip().startswith(("{", "[")):
        return None
    try:
        document = orjson.loads(source)
    except orjson.JSONDecodeError:
        return None
    if isinstance(document, dict):
        return _answer_of_object(document)
    return _answer_of_blocks(document)


def _answer_of_object(fields: dict[str, Any]) -> str | None:
    """Return the answer in a JSON object that has a key for reasoning; None if it has no such key.

    If no key is one for answers, the answer consists of all values but the reasoning.
    """
    statements = {
        key: value for key, value in fields.items() if key.casefold() not in _REASONING_KEYS
    }
    if len(statements) == len(fields):
        return None
    for key in _ANSWER_KEYS:
        if key in statements:
            return _as_text(statements[key])
    return "\n".join(_as_text(value) for value in statements.values())


def _answer_of_blocks(blocks: list[Any]) -> str | None:
    """Return the texts of content blocks of a message, such as ``{"type": "text", "text": ...}``.

    Returns:
        None if no block is reasoning, or if an item of the list is no block.
    """
    if not all(isinstance(block, dict) and "type" in block for block in blocks):
        return None
    statements = [block for block in blocks if block["type"] not in _REASONING_BLOCKS]
    if len(statements) == len(blocks):
        return None
    return "\n".join(_as_text(block.get("text", "")) for block in statements)


def _as_text(value: object) -> str:
    """Return a value of a JSON object as text, with each item of a list on a line."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_as_text(item) for item in value)
    return orjson.dumps(value).decode()
