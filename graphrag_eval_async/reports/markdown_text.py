"""Writes text from agents, logs and judges into Markdown such that none of it is markup."""

from __future__ import annotations

import re

from graphrag_eval_async.helpers.text import NAME_CHARACTERS, SHOWN_CHARACTERS, one_line

PLAIN_WORD = re.compile(
    r"""
    [(\["']*+                           # opening brackets and quotes; possessive, for linear time
    (?: [^\W_]                          # letters and digits, but no underscore
      | [-+%$'/]
      | [.,:](?=\d)                     # in a number or a time, but not in a host or an address
    )*
    (?:[)\]"] [)\]"']*)?               # closing brackets and quotes; single quotes stand above
    [.,:;!?]*
    """,
    re.VERBOSE,
)
"""A word in which GitHub finds no markup, link, mention or reference to an issue."""

OPERATORS = frozenset({"<", "<=", ">", ">=", "=", "->"})
"""Words that are plain in the middle of a sentence."""


def code_span(text: str, *, limit: int = NAME_CHARACTERS) -> str:
    """Return text on one line as a code span, so that it has no markup, links or mentions.

    Args:
        text: the text.
        limit: the maximum number of characters; a longer text is cut.
    """
    # GitHub Actions would run what follows "##[" as a command, if a log shows it.
    shown = one_line(text, limit=limit).replace("##[", r"##\x5b")
    if not shown:
        return "(empty)"
    # A code span ends at as many backticks as it begins with: one more than there are within.
    runs_of_backticks = re.findall("`+", shown)
    longest = max(map(len, runs_of_backticks), default=0)
    fence = "`" * (longest + 1)
    # A backtick beside a fence would be a part of it.
    padding = ""
    if shown.startswith("`") or shown.endswith("`"):
        padding = " "
    return f"{fence}{padding}{shown}{padding}{fence}"


def code_cell(text: str, *, limit: int = NAME_CHARACTERS) -> str:
    """Return text as a code span for the cell of a table, where pipes must be escaped."""
    return _escape_pipes(code_span(text, limit=limit))


def sentence(text: str, *, limit: int = SHOWN_CHARACTERS) -> str:
    """Return a sentence as Markdown, with names and values from the data in it as code spans.

    Each run of words that could be markup becomes one code span.

    Args:
        text: the sentence.
        limit: the maximum number of characters; a longer sentence is cut.
    """
    parts: list[str] = []
    words_to_quote: list[str] = []

    for word in one_line(text, limit=limit).split(" "):
        # At the beginning of a line, an operator such as ">" would be markup.
        is_operator = bool(parts) and word in OPERATORS
        if is_operator or PLAIN_WORD.fullmatch(word):
            if words_to_quote:
                parts.append(_quote_words(words_to_quote))
                words_to_quote = []
            parts.append(word)
        else:
            words_to_quote.append(word)

    if words_to_quote:
        parts.append(_quote_words(words_to_quote))
    return " ".join(parts)


def _quote_words(words: list[str]) -> str:
    """Return words as a code span, followed by the punctuation at their end."""
    text = " ".join(words)
    # Words that are all punctuation are quoted whole.
    quoted = text.rstrip(".,;:!?") or text
    punctuation = text.removeprefix(quoted)
    return code_span(quoted, limit=SHOWN_CHARACTERS) + punctuation


def sentence_cell(text: str, *, limit: int = SHOWN_CHARACTERS) -> str:
    """Return what `sentence` returns, for the cell of a table, where pipes must be escaped."""
    return _escape_pipes(sentence(text, limit=limit))


def _escape_pipes(markdown: str) -> str:
    """Return Markdown with escaped pipes: a pipe would end the cell, also within a code span."""
    # A backslash before an escaped pipe would escape the escape.
    unambiguous = re.sub(r"\\(?=\|)", r"\\x5c", markdown)
    return unambiguous.replace("|", r"\|")
