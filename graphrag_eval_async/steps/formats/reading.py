"""Reads tables in whichever format as objects of SPARQL results JSON.

Cells of XML and TSV have types. Cells of CSV, Markdown and lists of objects are untyped. They equal
any term of the same text: an IRI in full or in angle brackets, a blank node with or without `_:`, a
literal by its lexical form. A text that is a number also compares as a number with cells of numeric
types and with other untyped numbers; `true` and `false` also compare as booleans. JSON booleans are
booleans. Empty cells of CSV and Markdown equal unbound cells and empty texts.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any, NamedTuple

import msgspec
import orjson

from graphrag_eval_async.catalogue.media_types import CSV, TSV, XML
from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.decoding import LARGE_BYTES
from graphrag_eval_async.steps.formats.terms import XSD, is_iri, is_variable, number_type, read_tsv
from graphrag_eval_async.steps.formats.xml_results import read_xml

_STEPS_PER_VALUE = 8
_ANY_COLUMNS = 50

_pipes = re.compile(r"(?<!\\)\|").split
_is_rule = re.compile(r":?-+:?").fullmatch


class Table(NamedTuple):
    """A table that was read."""

    document: dict[str, Any]  # An equivalent SPARQL results JSON object.
    typed: bool
    has_blanks: bool = False  # Its format cannot tell unbound cells from empty texts.


def read_document(output: Any) -> dict[str, Any]:
    """The object of SPARQL results JSON. Its contents are not checked."""
    document = _value(output)
    if not isinstance(document, dict):
        raise MalformedStep(
            "not SPARQL JSON: it is no JSON object with head, and with results or boolean"
        )
    return document


def results_in(output: Any) -> dict[str, Any] | None:
    """The object of an output that is JSON with the keys of SPARQL results; None if it is
    something else.
    """
    if isinstance(output, str) and '"bindings"' not in output and '"boolean"' not in output:
        return None
    try:
        document = read_document(output)
    except MalformedStep:
        return None
    results = document.get("results")
    is_table = isinstance(results, dict) and isinstance(results.get("bindings"), list)
    is_answer = isinstance(document.get("boolean"), bool)
    return document if isinstance(document.get("head"), dict) and (is_table or is_answer) else None


def read_reference(output: Any, media_type: str) -> Table:
    """The table in the output of a reference step, which must be of this media type."""
    if media_type not in (XML, CSV, TSV):
        return Table(read_document(output), typed=True)
    if not isinstance(output, str):
        raise MalformedStep(f"expected the text of {media_type}, got {type(output).__name__}")
    text = output.lstrip("\ufeff")
    if media_type == CSV:
        return Table(_read_csv(text, alone=True), typed=False, has_blanks=True)
    return Table(read_xml(text) if media_type == XML else read_tsv(text), typed=True)


def read_table(output: Any, *, as_csv: bool = False) -> Table:
    """The table in an output.

    A value of JSON is the object of SPARQL results, a list of objects, or the boolean of ASK.
    Otherwise, the
    first character decides which format is tried: `<` XML, `?` or `$` TSV unless the header has
    commas, `|` Markdown, any other CSV. The whole output must be the table, in a code fence or not;
    each reader's docstring says what it requires. `as_csv`: it is said to be CSV; then a header
    alone is a table, too.
    """
    value = _value(output)
    if isinstance(value, dict):
        return Table(value, typed=True)
    if isinstance(value, bool):
        return Table(_answer(value), typed=True)
    if isinstance(value, list):
        return Table(_read_objects(value), typed=False)
    if not isinstance(value, str) or not value:
        raise _neither()
    if value[0] == "<":
        return Table(read_xml(value), typed=True)
    if value[0] == "|":
        return Table(_read_markdown(value), typed=False, has_blanks=True)
    if value[0] in "?$" and "," not in value.partition("\n")[0]:
        try:
            return Table(read_tsv(value), typed=True)
        except MalformedStep:
            if not as_csv:
                raise
    return Table(_read_csv(value, alone=as_csv), typed=False, has_blanks=True)


def _value(output: Any, *, may_wrap: bool = True) -> Any:
    """The value of JSON or of Python's repr, also as text in JSON or under an only key; else the
    text.
    """
    if isinstance(output, str):
        text = output if output[:1] == "{" else without_fence(output.lstrip("\ufeff \t\r\n"))
        output = _decoded(text)
        if isinstance(output, str) and output is not text:
            return _value(output, may_wrap=may_wrap)
    if (
        may_wrap
        and isinstance(output, dict)
        and len(output) == 1
        and not {"head", "boolean"} & output.keys()
    ):
        inner = _value(next(iter(output.values())), may_wrap=False)
        return inner if not isinstance(inner, dict) or "head" in inner else output
    return output


def steps_to_read(output: Any) -> int:
    """Approximate number of steps of a `Budget` that reading a table takes; JSON objects are
    quick.
    """
    if isinstance(output, dict):
        output = next(iter(output.values()), None)
    if isinstance(output, list):
        return (
            sum(1 + len(row) if isinstance(row, dict) else 1 for row in output) * _STEPS_PER_VALUE
        )
    return len(output) if isinstance(output, str) and output.lstrip()[:1] != "{" else 0


def without_fence(text: str) -> str:
    """The contents of a Markdown code fence, if it encloses the whole text."""
    end = text.rstrip()
    if not end.startswith("```") or not end.endswith("```") or end.count("```") != 2:
        return text
    return end[3:-3].partition("\n")[2].lstrip()


def _neither(problem: str = "") -> MalformedStep:
    return MalformedStep("neither SPARQL results nor a table" + (problem and f"; {problem}"))


def _decoded(text: str) -> Any:
    """The value of text that looks like JSON, or like a dict or list as Python shows it; else
    the text.
    """
    if text[:1] not in ("{", "[", '"'):
        return text
    try:
        # In SPARQL results, numbers are texts; elsewhere, integers keep all their digits.
        is_results = text[0] == "{" and '"head"' in text[:200]
        return orjson.loads(text) if is_results else msgspec.json.decode(text)
    except RecursionError:
        raise MalformedStep("not JSON: nested too deep") from None
    except ValueError as error:
        if text[0] == '"':  # A cell of CSV.
            return text
        is_small = len(text) < LARGE_BYTES and text.count("[") + text.count("{") < 10_000
        if not text.startswith(("{'", "[{'")) or not is_small:
            raise MalformedStep(f"not JSON: {error}") from None
    import ast  # Takes a millisecond to import, and few need it.

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise MalformedStep("neither JSON nor a literal of Python") from None


def _read_objects(rows: Any) -> dict[str, Any]:
    """From a list of objects whose values are texts, numbers, booleans, or null, which is unbound.

    An empty list is an empty table with whatever columns are wanted.
    """
    if rows == []:
        return _document([f"column_{number}" for number in range(_ANY_COLUMNS)], [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise MalformedStep("not a list of objects")
    names = dict.fromkeys(name for row in rows for name in row)
    if not names or not all(isinstance(name, str) for name in names):
        raise MalformedStep("a list of objects without keys")
    if any(name.startswith("@") for name in names):
        raise MalformedStep("JSON-LD, not a list of rows")
    bindings = [
        {name: _json_term(value) for name, value in row.items() if value is not None}
        for row in rows
    ]
    return _document(list(names), bindings)


def _json_term(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"value": "true" if value else "false", "datatype": f"{XSD}boolean"}
    if not isinstance(value, str | int | float):
        raise MalformedStep("a list of objects that are not flat")
    try:
        return _untyped(str(value))
    except ValueError:  # Too many digits for Python.
        raise MalformedStep("a number is too long") from None


def _read_csv(text: str, *, alone: bool = False) -> dict[str, Any]:
    """From a header of variables, with question marks or without, and rows that are as wide.

    A header alone must have several columns and end with a line break, as in results of SPARQL,
    unless it may be `alone`: otherwise it may be a sentence with a comma. Empty cells are unbound.
    Empty lines at the end are ignored; others are rows of a table with one column. `true` or
    `false` alone, or below the `_askResult` of Jena, is the result of ASK.
    """
    words = text.lower().split() if len(text) < 100 else []
    if words and words[-1] in ("true", "false") and words[:-1] in ([], ["_askresult"]):
        return _answer(words[-1] == "true")
    if not text.strip():
        raise _neither("as CSV: empty, a header is missing")
    try:
        header, *rows = csv.reader(io.StringIO(text.rstrip("\r\n"), newline=""), strict=True)
    except (csv.Error, ValueError) as error:
        raise _neither(f"as CSV: {error}") from None
    if all(name[:1] in ("?", "$") for name in header):
        header = [name[1:] for name in header]
    is_alone = not alone and not rows and (len(header) == 1 or not text.endswith("\n"))
    is_header = all(map(is_variable, header))
    if is_alone or not is_header:
        what = "the first line is not a header"
        if is_header:
            what = (
                "there is only a header; output_media_type: text/csv in the step makes that an "
                "empty table"
            )
        raise _neither(f"not JSON, XML, TSV, Markdown or a list of objects; as CSV, {what}")
    if len(header) == 1:
        rows = [row or [""] for row in rows]
    return _untyped_table(header, rows)


def _read_markdown(text: str) -> dict[str, Any]:
    """From a header, a line of dashes and rows that are as wide; every line begins and ends with a
    pipe.

    Empty cells are unbound. A pipe in a cell has a backslash before it.
    """
    lines = [_pipes(line.strip()) for line in text.strip().split("\n")]
    if len(lines) < 2 or any(len(cells) < 3 or cells[0] or cells[-1] for cells in lines):
        raise MalformedStep("not one Markdown table: a line does not begin and end with a pipe")
    header, dashes, *rows = [
        [cell.strip().replace("\\|", "|") for cell in cells[1:-1]] for cells in lines
    ]
    if len(dashes) != len(header) or not all(map(_is_rule, dashes)):
        raise MalformedStep("not one Markdown table: the second line must be dashes")
    return _untyped_table([name.removeprefix("?") for name in header], rows)


def _untyped_table(names: list[str], rows: list[list[str]]) -> dict[str, Any]:
    if len(set(names)) < len(names):
        raise MalformedStep("a column is repeated")
    for index, row in enumerate(rows):
        if len(row) != len(names):
            raise MalformedStep(f"row {index}: expected {len(names)} cells, got {len(row)}")
    bindings = [
        {name: _untyped(cell) for name, cell in zip(names, row, strict=True) if cell}
        for row in rows
    ]
    return _document(names, bindings)


def _answer(boolean: bool) -> dict[str, Any]:
    return {"head": {}, "boolean": boolean}


def _document(names: list[str], bindings: list[dict[str, Any]]) -> dict[str, Any]:
    return {"head": {"vars": names}, "results": {"bindings": bindings}}


def _untyped(text: str) -> dict[str, Any]:
    """A term with only its text known. The type of a number does not affect comparison as text."""
    if is_iri(text):
        return {"value": text[1:-1]}
    if text.startswith("_:"):
        return {"value": text[2:]}
    if text in ("true", "false"):
        return {"value": text, "datatype": f"{XSD}boolean"}
    datatype = number_type(text.strip(" \t\r\n"))
    return {"value": text, "datatype": datatype} if datatype else {"value": text}
