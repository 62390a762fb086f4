"""Reading of the file of a reference set, and all mistakes in a file that cannot be parsed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.records.document import Document
from graphrag_eval_async.reference.layout import LAYOUT_IN_JSON
from graphrag_eval_async.reference.reading import read_templates
from graphrag_eval_async.reference.reference_set import Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records.yaml_file import UnreadableFile
    from graphrag_eval_async.steps import Comparator

MAX_REPAIRS = 20
"""How many lines that are not YAML are repaired in a file. Chosen."""

MAX_REPAIRED_BYTES = 1 << 18
"""Size of the largest file that is repaired, since it is parsed after each repair. Chosen."""

_FIRST_LINES = "begin with `- template_id: NAME` and `  questions:`"


def read_reference_file(source: str, comparators: Mapping[str, Comparator] | None) -> Reference:
    """Read a reference set from a file: JSON if the suffix is ``.json``, otherwise YAML.

    Raises:
        ReferenceDataError: the set cannot be read, or is invalid.
    """
    # This module also imports YAML, which takes long.
    from graphrag_eval_async.records.yaml_file import UnreadableFile, read_bytes

    if os.path.isdir(source):
        problem = "is a directory; name the file of the reference set in it"
        raise ReferenceDataError([problem], source)
    try:
        text = read_bytes(source)
    except UnreadableFile as error:
        raise ReferenceDataError([str(error)], source) from error

    is_json = source.endswith(".json")
    try:
        templates = _decode(text, is_json=is_json)
        return Reference(templates, source=source, comparators=comparators)
    except UnreadableFile as error:
        raise _list_mistakes(error, text, source, comparators or {}, is_json=is_json) from error


def _decode(text: bytes, *, is_json: bool) -> Any:
    """Decode the templates in a text, without checking them; JSON stays text, as `Raw`.

    Raises:
        UnreadableFile: the text is empty, is not YAML, or has a key twice.
    """
    from graphrag_eval_async.records.yaml_file import UnreadableFile, check_keys, read_yaml

    if not text.strip():
        first_lines = f"begin with {LAYOUT_IN_JSON}" if is_json else _FIRST_LINES
        raise UnreadableFile(f"the file is empty; {first_lines}")
    if is_json:
        check_keys(text)
        return Raw(text)

    templates = read_yaml(text)
    if templates is None:
        lines = [line.strip() for line in text.split(b"\n")]
        has_only_comments = all(line == b"" or line.startswith(b"#") for line in lines)
        content = "nothing but comments" if has_only_comments else "only null"
        raise UnreadableFile(f"the file has {content}; {_FIRST_LINES}")
    return templates


def _list_mistakes(
    error: UnreadableFile,
    text: bytes,
    source: str,
    comparators: Mapping[str, Comparator],
    *,
    is_json: bool,
) -> ReferenceDataError:
    """Return an error that lists all mistakes in a file that cannot be parsed.

    Lines that are not YAML are repaired in a copy, so that the lines below are checked, too.

    Args:
        error: what is wrong first.
        text: contents of the file.
        source: path of the file.
        comparators: the user's comparison of steps, by name of reference step.
        is_json: whether the file should be JSON.
    """
    from graphrag_eval_async.records.yaml_file import UnreadableFile, read_yaml

    problems = [str(error)]
    repaired: bytes | None = text
    if not is_json:
        repaired = _repair(text, error, problems)
    if repaired is None:
        return ReferenceDataError(problems, source)

    try:
        # The parser of YAML accepts much that is not quite JSON, such as a comma at the end.
        templates = read_yaml(repaired)
    except UnreadableFile:
        return ReferenceDataError(problems, source)
    if not isinstance(templates, list):
        # What is left of a text that is no YAML at all says nothing.
        return ReferenceDataError(problems, source)
    reading = read_templates(templates, comparators, Document(repaired, is_json=is_json))
    return ReferenceDataError([*problems, *reading.problems], source, reading.doubts)


def _repair(text: bytes, error: UnreadableFile, problems: list[str]) -> bytes | None:
    """Return a copy of a text in which lines that are not YAML are repaired.

    The copy has the same number of lines, so that the numbers of lines in messages stay right.

    Args:
        text: the text.
        error: the first error of the parser.
        problems: the list to which further errors of the parser are added.

    Returns:
        None if a line cannot be repaired, or if the text is too long.
    """
    # Text in UTF-16, for example, cannot be split into lines at single bytes.
    is_wide_text = b"\0" in text
    if len(text) > MAX_REPAIRED_BYTES or is_wide_text:
        return None
    lines = text.decode(errors="replace").split("\n")
    for _ in range(MAX_REPAIRS):
        next_error = _repair_one_line(lines, error)
        if next_error is None:
            return "\n".join(lines).encode()
        if next_error is error:
            return None
        error = next_error
        problems.append(str(error))
    return None


def _repair_one_line(lines: list[str], error: UnreadableFile) -> UnreadableFile | None:
    """Repair the line of an error in `lines`, if it can be repaired.

    Returns:
        The next error of the parser: it is in a line below, or the same error if the line cannot be
        repaired. None if there is no error any more.
    """
    from graphrag_eval_async.records.yaml_errors import align_line, possible_repairs

    if error.line is None:
        return error
    index = error.line - 1
    line = lines[index]
    previous_line = lines[index - 1] if index else ""

    # A repair worked if the next error is below the line.
    for repaired_line in possible_repairs(line, previous_line):
        lines[index] = repaired_line
        next_error = _first_error(lines)
        if next_error is None or (next_error.line or 0) > error.line:
            return next_error

    # Otherwise, the indentation may be wrong. If that of the next line is wrong, too, the parser
    # stops there, whether the repair is right or not; so the next error must be further below.
    lines[index] = align_line(line, previous_line)
    next_error = _first_error(lines)
    if next_error is None or (next_error.line or 0) > error.line + 1:
        return next_error
    lines[index] = line
    return error


def _first_error(lines: list[str]) -> UnreadableFile | None:
    """Return the first error in lines of YAML; None if there is none."""
    from graphrag_eval_async.records.yaml_file import UnreadableFile, read_yaml

    try:
        read_yaml("\n".join(lines).encode())
    except UnreadableFile as error:
        return error
    return None
