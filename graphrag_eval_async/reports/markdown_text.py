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
    """Return `text` on one line as a code span: nothing in it is markup, a link or a mention."""
    # GitHub Actions would run what follows "##[" as a command, if a log shows it.
    shown = one_line(text, limit=limit).replace("##[", r"##\x5b")
    if not shown:
        return "(empty)"
    # A code span ends at as many backticks as it begins with.
    runs_of_backticks = re.findall("`+", shown)
    longest = max(map(len, runs_of_backticks), default=0)
    fence = "`" * (longest + 1)
    padding = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{padding}{shown}{padding}{fence}"


def code_cell(text: str, *, limit: int = NAME_CHARACTERS) -> str:
    """Return `text` as a code span for a table, whose rows are split at pipes before all else."""
    return _escape_pipes(code_span(text, limit=limit))


def sentence(text: str, *, limit: int = SHOWN_CHARACTERS) -> str:
    """Return a sentence of ours as Markdown, with names and values from data as code spans.

    Each run of words that could be markup becomes one code span.
    """
    parts: list[str] = []
    to_quote: list[str] = []

    for word in one_line(text, limit=limit).split(" "):
        is_operator = bool(parts) and word in OPERATORS
        if is_operator or PLAIN_WORD.fullmatch(word):
            if to_quote:
                parts.append(_quote_words(to_quote))
                to_quote = []
            parts.append(word)
        else:
            to_quote.append(word)

    if to_quote:
        parts.append(_quote_words(to_quote))
    return " ".join(parts)


def _quote_words(words: list[str]) -> str:
    """Return words as a code span, with the punctuation that follows them outside of it."""
    text = " ".join(words)
    quoted = text.rstrip(".,;:!?") or text
    return code_span(quoted, limit=SHOWN_CHARACTERS) + text[len(quoted) :]


def sentence_cell(text: str, *, limit: int = SHOWN_CHARACTERS) -> str:
    """Return `sentence` for a table, whose rows are split at pipes before all else."""
    return _escape_pipes(sentence(text, limit=limit))


def _escape_pipes(markdown: str) -> str:
    """Return Markdown for a cell of a table: a pipe would end it, also within a code span."""
    # A backslash before an escaped pipe would be ambiguous.
    unambiguous = re.sub(r"\\(?=\|)", r"\\x5c", markdown)
    return unambiguous.replace("|", r"\|")
