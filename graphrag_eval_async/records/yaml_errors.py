"""What to do about text that is not YAML or JSON: the line of the cause, and the cure.

The messages never quote the file, whose text may be secret.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_INDENTATION = re.compile(r"\s*(?:- +)*")
_KEY_AND_VALUE = re.compile(r"(?P<start>\s*(?:- +)*[\w-]+:[ \t]+)(?P<value>\S.*)")
_DASH_WITHOUT_SPACE = re.compile(r"(?P<start>\s*(?:- +)*)-(?P<rest>[A-Za-z_].*)")
_COLON_WITHOUT_SPACE = re.compile(r"(?P<start>\s*(?:- +)*[\w-]+:)(?P<value>[^\s:/].*)")

_NO_COLON = "could not find expected ':'"
_ALIGN = "the line is not aligned with those above; indent the keys of one mapping equally"
_BRACKET = "a text that begins with { or [ needs quotes; a list or mapping must be closed"
_QUOTE = "a text that begins with a quote must end with it; in it, write '' for ' or \\\" for \""

_CURES_BY_PROBLEM = (
    ("undefined alias", "a text that begins with * needs quotes"),
    ("anchor", "a text that begins with & needs quotes"),
    ("constructor for the tag", "a text that begins with ! needs quotes"),
    ("tag", "a text that begins with ! needs quotes"),
    ("cannot start any token", "a text that begins with @, ` or % needs quotes"),
    ("sequence entries are not allowed", "a text that begins with - and a space needs quotes"),
    ("escape", "in double quotes, write \\\\ for a backslash, or use single quotes"),
    ("duplicate key", "remove one of them, or begin the next item of the list with -"),
    (
        "document start",
        "a file has one list of templates; put several JSON values in one list: [..., ...]",
    ),
    ("another document", "a file has one document; remove the line ---"),
    ("end of stream", _QUOTE),
    ("comment or line break", "a text that begins with | or > needs quotes"),
    ("alias", "an alias cannot be used there; put the text in quotes"),
)
"""Cures for errors of the parser, by a part of its message; the first that fits counts."""

_CURES_OF_JSON = (
    ("trailing comma", "remove the comma before the closing bracket"),
    ("expected a string key", "put keys in double quotes, and remove comments"),
    ("escape", "write \\\\ for a backslash"),
    ("control character", "write \\n for a line break in a text, and \\t for a tab"),
    ("end of data", "the file is cut off, or a bracket or quote is not closed"),
    ("expected ','", "a comma or a double quote is missing before this place"),
    ("expected a JSON value", "texts need double quotes; write true, false or null in lower case"),
)
"""Cures for errors of the parser of JSON, in the same form."""


class SyntaxMistake(NamedTuple):
    """Where a text is not YAML, and what to do."""

    line: int  # From 1.
    cure: str  # "" if none is known.


def explain_yaml(error: Any, text: str) -> SyntaxMistake:
    """Return the line that causes an error of the parser of YAML, and the cure.

    Args:
        error: an error with a place, `yaml.MarkedYAMLError`.
        text: the whole text.
    """
    lines = text.split("\n")
    problem = str(error.problem)
    mark = error.problem_mark
    is_in_brackets = "flow" in str(error.context)
    if error.context_mark is not None and (_NO_COLON in problem or is_in_brackets):
        # The parser notices only in a later line that this one has no colon or closing bracket.
        mark = error.context_mark
    # At the end of the text, the parser is in the line after the last one.
    number = min(mark.line, len(lines) - 1)
    line = lines[number]

    if number and _DASH_WITHOUT_SPACE.fullmatch(lines[number - 1]):
        # The parser reads that line as text, and stops at the next one.
        number -= 1
        line = lines[number]
    cure = _cure_for_start(line) or _cure_by_problem(problem)
    if cure is not None:
        return SyntaxMistake(number + 1, cure)
    if "mapping values are not allowed" in problem:
        return SyntaxMistake(number + 1, _cure_for_colon(line[: error.problem_mark.column]))
    if is_in_brackets:
        return SyntaxMistake(number + 1, _BRACKET)
    if _NO_COLON in problem:
        return SyntaxMistake(number + 1, _cure_for_missing_colon(line))

    line_with_quote = _line_with_open_quote(lines, number)
    if line_with_quote is not None:
        return SyntaxMistake(line_with_quote + 1, _QUOTE)
    value = _KEY_AND_VALUE.fullmatch(line)
    if value is not None and value["value"][0] in "{[":
        return SyntaxMistake(number + 1, _BRACKET)
    return SyntaxMistake(number + 1, _ALIGN)


def _cure_for_start(line: str) -> str | None:
    """Return what to do about the first characters of a line; None if they are right."""
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" in indentation:
        return "indent with spaces, not with tabs"
    if indentation.strip(" "):
        return "the indentation has special spaces; write plain ones"
    if _DASH_WITHOUT_SPACE.fullmatch(line):
        return "write a space after the -"
    return None


def _cure_by_problem(problem: str) -> str | None:
    """Return the cure for an error whose message alone tells it; None if it does not."""
    for part, cure in _CURES_BY_PROBLEM:
        if part in problem:
            return cure
    return None


def _cure_for_colon(text_before: str) -> str:
    """Return what to do about a colon that cannot be there.

    Args:
        text_before: the text of its line that is before the colon.
    """
    is_in_value = _KEY_AND_VALUE.fullmatch(text_before) is not None
    return "a text with a colon and a space needs quotes" if is_in_value else _ALIGN


def _cure_for_missing_colon(line: str) -> str:
    """Return what to do about a line that should have a key and a value."""
    if _COLON_WITHOUT_SPACE.fullmatch(line):
        return (
            "write a space after the colon of a key; indent the line further if it belongs to the "
            "text above"
        )
    return "the line is no `key: value`; indent it further if it belongs to the text above"


def _line_with_open_quote(lines: list[str], number: int) -> int | None:
    """Return the index of the line whose quoted text does not end in the same line.

    Args:
        lines: the lines of the file.
        number: index of the line in which the parser stopped. An open quote ends at the next quote,
            so the line above counts only if this line has the same quote.

    Returns:
        None if there is no such line.
    """
    for index in range(number, -1, -1):
        match = _KEY_AND_VALUE.fullmatch(lines[index].rstrip())
        if match is None:
            continue
        value = match["value"]
        quote = value[0]
        if quote not in "\"'":
            continue
        if quote not in lines[number]:
            continue
        # Quotes that are part of the text are doubled, or have a backslash before them.
        escaped_quote = "''" if quote == "'" else '\\"'
        inner = value[1:-1].replace(escaped_quote, "")
        is_closed = len(value) > 1 and value.endswith(quote) and quote not in inner
        if not is_closed:
            return index
    return None


def possible_repairs(line: str, previous_line: str) -> list[str]:
    """Return ways to write a line of YAML so that it can perhaps be parsed, the likeliest first.

    They are only used to find further mistakes in the lines below.

    Args:
        line: the line in which the parser stopped.
        previous_line: the line above.
    """
    repairs = []
    indentation = line[: len(line) - len(line.lstrip())]
    if indentation.strip(" "):
        repairs.append(align_line(line, previous_line))
    match = _DASH_WITHOUT_SPACE.fullmatch(line)
    if match is not None:
        repairs.append(f"{match['start']}- {match['rest']}")
    match = _COLON_WITHOUT_SPACE.fullmatch(line)
    if match is not None:
        repairs.append(f"{match['start']} {match['value']}")
    match = _KEY_AND_VALUE.fullmatch(line.rstrip())
    if match is not None:
        quoted = match["value"].replace("'", "''")
        repairs.append(f"{match['start']}'{quoted}'")
    return repairs


def align_line(line: str, previous_line: str) -> str:
    """Return a line that begins below the key of the previous line, which may follow a dash."""
    previous_start = _INDENTATION.match(previous_line)
    width = previous_start.end() if previous_start is not None else 0
    return " " * width + line.strip()


def explain_json(problem: str, text: str, position: int) -> str:
    """Return what to do about text that is not JSON, as the end of a message; "" if unknown.

    Args:
        problem: the message of the parser.
        text: the whole text.
        position: index of the character at which the parser stopped.
    """
    start = text.lstrip()
    looks_like_yaml = start.startswith(("- ", "---")) or re.match(r"[\w-]+:", start)
    if looks_like_yaml:
        return "; it looks like YAML, so name the file .yaml"
    character = text[position : position + 1]
    if character in ("\u201c", "\u201d", "\u2018", "\u2019"):
        return "; write straight double quotes in place of curly ones"
    if character in ("/", "#"):
        return "; JSON has no comments, so remove it"
    if character == "'":
        return "; write double quotes in place of single ones"
    if "content after document" in problem:
        return "; put several JSON values in one list: [..., ...]"
    for part, cure in _CURES_OF_JSON:
        if part in problem:
            return f"; {cure}"
    return ""
