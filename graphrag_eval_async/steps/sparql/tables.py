"""Converts tables that tools return instead of SPARQL results JSON to its object form.

Cells of XML and TSV have types. Cells of CSV, Markdown and lists of objects are untyped. They equal any term
of the same text: an IRI in full or in angle brackets, a blank node with or without `_:`, a literal by its
lexical form. A text that is a number also compares as a number with cells of numeric types and with other
untyped numbers; `true` and `false` also compare as booleans. JSON booleans are booleans. Empty cells of CSV
and Markdown equal unbound cells and empty texts.
"""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.decoding import LARGE_BYTES
from graphrag_eval_async.records.outputs import unwrapped
from graphrag_eval_async.records.shapes import CSV, TSV, XML
from graphrag_eval_async.steps.sparql.results import results_of
from graphrag_eval_async.steps.sparql.tsv import XSD, is_iri, is_variable, number_type, read_tsv
from graphrag_eval_async.steps.sparql.xml_results import read_xml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.steps.sparql.results import SparqlResults

_STEPS_PER_VALUE = 8
_ANY_COLUMNS = 50


class Table(NamedTuple):
    """A table that was read.

    Attributes:
        document: an equivalent SPARQL results JSON object.
        typed: whether its terms have types.
        has_blanks: whether unbound cells may be empty texts, which its format cannot tell from them.
    """

    document: dict[str, Any]
    typed: bool
    has_blanks: bool = False


def results_of_table(table: Table) -> SparqlResults:
    """Return the results in a table; raises what `results_of` raises."""
    results = results_of(table.document)
    results.has_blanks = table.has_blanks
    return results


def read_table(output: Any) -> Table:
    """The table in an output that is not a JSON object.

    The first character decides which format is tried: `<` XML, `?` or `$` TSV unless the header has commas,
    `|` Markdown, `[` a list of objects, `{` results as Python shows a dict, any other CSV. Any of them may
    be wrapped, as `unwrapped` says. The whole output must be the table, in a code fence or not; each
    reader's docstring says what it requires. A boolean is the result of ASK.
    """
    if isinstance(output, bool):
        return Table(_answer(output), typed=True)
    if isinstance(output, list):
        return Table(_read_objects(output), typed=False)
    text = without_fence(output.lstrip("\ufeff \t\r\n")) if isinstance(output, str) else ""
    first = text[:1]
    inner = unwrapped(output) if first in ("{", '"') or isinstance(output, dict) else output
    if not isinstance(inner, dict) and inner != output:
        return read_table(inner)
    if first == "<":
        return Table(read_xml(text), typed=True)
    if first in ("?", "$") and "," not in text.partition("\n")[0]:
        return Table(read_tsv(text), typed=True)
    if first == "|":
        return Table(_read_markdown(text), typed=False, has_blanks=True)
    if first == "[":
        return Table(_read_objects(_decoded(text)), typed=False)
    if first == "{" and isinstance(document := _decoded(text), dict):
        return Table(document, typed=True)
    if not first:
        raise MalformedStep("neither SPARQL results nor a table")
    return Table(_read_csv(text), typed=False, has_blanks=True)


def read_csv(output: Any) -> Table:
    """The table in an output that is said to be CSV, of which a header alone is a table without rows.

    What is, or begins like, another format is read as `read_table` does.
    """
    text = output.lstrip("\ufeff") if isinstance(output, str) else ""
    if text[:1] in ("?", "$"):
        with suppress(MalformedStep):
            return Table(read_tsv(text), typed=True)
    elif text[:1] in ("", *"<|[{`"):
        return read_table(output)
    return Table(_read_csv(text, alone=True), typed=False, has_blanks=True)


def read_strictly(output: Any, media_type: str) -> dict[str, Any]:
    """The results in a text of `media_type`, XML, CSV or TSV, which must be that; of a reference step.

    Raises:
        MalformedStep: it is not SPARQL XML, SPARQL TSV, or CSV whose first line is a header of variables.
    """
    name, read = _STRICT[media_type]
    if not isinstance(output, str):
        raise MalformedStep(f"expected the text of SPARQL {name}, got {type(output).__name__}")
    return read(output.lstrip("\ufeff"))


def steps_to_read(output: Any) -> int:
    """Approximate number of steps of a `Budget` that reading an output as a table takes."""
    if isinstance(output, dict):
        output = next(iter(output.values()), None)
    if isinstance(output, list):
        return sum(1 + len(row) if isinstance(row, dict) else 1 for row in output) * _STEPS_PER_VALUE
    return len(output) if isinstance(output, str) else 0


def without_fence(text: str) -> str:
    """The contents of a Markdown code fence, if it encloses the whole text."""
    end = text.rstrip()
    if not end.startswith("```") or not end.endswith("```") or end.count("```") != 2:
        return text
    return end[3:-3].partition("\n")[2].lstrip()


def _decoded(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError as error:
        is_small = len(text) < LARGE_BYTES and text.count("[") + text.count("{") < 10_000
        if text.startswith(("{'", "[{'")) and is_small:
            return _literal(text)
        raise MalformedStep(f"neither SPARQL results nor a table; as JSON: {error}") from None


def _literal(text: str) -> Any:
    """A dict or list from its Python `repr`: some frameworks pass on `str` of a tool's return value."""
    import ast  # Takes a millisecond to import, and few need it.

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise MalformedStep("neither SPARQL results nor a table; as Python: not a literal") from None


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
    bindings = [{name: _json_term(value) for name, value in row.items() if value is not None} for row in rows]
    return _document(list(names), bindings)


def _json_term(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return _untyped(value)
    if isinstance(value, bool):
        return {"value": "true" if value else "false", "datatype": f"{XSD}boolean"}
    if not isinstance(value, int | float):
        raise MalformedStep("a list of objects that are not flat")
    try:
        return _untyped(str(value))
    except ValueError:  # Too many digits for Python.
        raise MalformedStep("a number is too long") from None


def _read_csv(text: str, *, alone: bool = False) -> dict[str, Any]:
    """From a header of variables, with question marks or without, and rows that are as wide.

    A header alone must have several columns and end with a line break, as in results of SPARQL, unless it
    may be `alone`: otherwise it may be a sentence with a comma. Empty cells are unbound. Empty lines at the
    end are ignored; others are rows of a table with one column. `true` or `false` alone, or below the
    `_askResult` of Jena, is the result of ASK.
    """
    words = text.lower().split() if len(text) < 100 else []
    if words and words[-1] in ("true", "false") and words[:-1] in ([], ["_askresult"]):
        return _answer(words[-1] == "true")
    if not text.strip():
        raise MalformedStep("neither SPARQL results nor a table; as CSV: empty, a header is missing")
    try:
        header, *rows = csv.reader(io.StringIO(text.rstrip("\r\n"), newline=""), strict=True)
    except (csv.Error, ValueError) as error:
        raise MalformedStep(f"neither SPARQL results nor a table; as CSV: {error}") from None
    if all(name[:1] in ("?", "$") for name in header):
        header = [name[1:] for name in header]
    is_alone = not alone and not rows and (len(header) == 1 or not text.endswith("\n"))
    if is_alone or not all(map(is_variable, header)):
        raise MalformedStep(
            "neither SPARQL results nor a table: not JSON, XML, TSV, Markdown or a list of objects; as "
            "CSV, the first line is not a header or is the only line"
        )
    if len(header) == 1:
        rows = [row or [""] for row in rows]
    return _untyped_table(header, rows)


def _read_markdown(text: str) -> dict[str, Any]:
    """From a header, a line of dashes and rows that are as wide; every line begins and ends with a pipe.

    Empty cells are unbound. A pipe in a cell has a backslash before it.
    """
    lines = [line.strip() for line in text.strip().split("\n")]
    if len(lines) < 2 or "\0" in text or not all(map(_is_in_pipes, lines)):
        raise MalformedStep("not one Markdown table: a line does not begin and end with a pipe")
    header, dashes, *rows = map(_markdown_cells, lines)
    if len(dashes) != len(header) or not all(map(_is_rule, dashes)):
        raise MalformedStep("not one Markdown table: the second line must be dashes")
    return _untyped_table([name.removeprefix("?") for name in header], rows)


def _is_in_pipes(line: str) -> bool:
    return len(line) > 1 and line[0] == line[-1] == "|" and line[-2] != "\\"


def _markdown_cells(line: str) -> list[str]:
    # "\0", which is not in the text, replaces a pipe inside a cell.
    cells = line[1:-1].replace("\\|", "\0").split("|")
    return [cell.strip().replace("\0", "|") for cell in cells]


def _is_rule(cell: str) -> bool:
    dashes = cell.removeprefix(":").removesuffix(":")
    return bool(dashes) and not dashes.strip("-")


def _untyped_table(names: list[str], rows: list[list[str]]) -> dict[str, Any]:
    if len(set(names)) < len(names):
        raise MalformedStep("a column is repeated")
    for index, row in enumerate(rows):
        if len(row) != len(names):
            raise MalformedStep(f"row {index}: expected {len(names)} cells, got {len(row)}")
    bindings = [{name: _untyped(cell) for name, cell in zip(names, row, strict=True) if cell} for row in rows]
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


_STRICT: Mapping[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    XML: ("XML", read_xml),
    CSV: ("CSV", partial(_read_csv, alone=True)),
    TSV: ("TSV", read_tsv),
}
