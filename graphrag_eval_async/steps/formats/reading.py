"""Reads tables in whichever format as objects of SPARQL results JSON.

Cells of XML, of TSV in Turtle's syntax, and of SPARQL results have types. All others are untyped.
They equal any term of the same text: an IRI in full or in angle brackets, a literal by its lexical
form. A text that is a number also compares as a number with cells of numeric types and with other
untyped numbers; `true` and `false` also compare as booleans. JSON booleans are booleans. Empty
cells of CSV and Markdown equal unbound cells and empty texts.
"""

from __future__ import annotations

from typing import Any

from graphrag_eval_async.catalogue.media_types import CSV, TSV, XML
from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.formats.aligned import read_aligned, seems_aligned
from graphrag_eval_async.steps.formats.completeness import shortening_in, shortening_in_note
from graphrag_eval_async.steps.formats.delimited import is_tsv, read_csv, read_tsv
from graphrag_eval_async.steps.formats.empty_tables import read_empty_table
from graphrag_eval_async.steps.formats.envelopes import Payload, open_envelopes
from graphrag_eval_async.steps.formats.html_tables import has_html_table, read_html_table
from graphrag_eval_async.steps.formats.json_tables import is_table, read_json_table
from graphrag_eval_async.steps.formats.pipes import has_pipes, read_pipes
from graphrag_eval_async.steps.formats.prose import split_after_xml
from graphrag_eval_async.steps.formats.table import AmbiguousStep, Document, Table, answer
from graphrag_eval_async.steps.formats.xml_results import read_xml

STEPS_PER_VALUE = 8
"""Steps of a `Budget` for each value that is read from a list."""


def read_document(output: Any) -> Document:
    """Return the object of SPARQL results JSON in an output. Its contents are not checked.

    Args:
        output: the object, its text, or a boolean as the answer to ASK; maybe in envelopes.

    Raises:
        MalformedStep: the output is something else.
    """
    value = open_envelopes(output).value
    if isinstance(value, bool):
        return answer(value)
    if isinstance(value, str) and value.strip() in ("true", "false"):
        return answer(value.strip() == "true")
    if not isinstance(value, dict):
        raise MalformedStep(
            "not SPARQL JSON: it is no JSON object with head, and with results or boolean"
        )
    return value


def results_in(output: Any) -> Document | None:
    """Return the object of SPARQL results JSON in an output; None if it is something else."""
    if isinstance(output, bool) or output in ("true", "false"):
        return read_document(output)
    if isinstance(output, str) and '"bindings"' not in output and '"boolean"' not in output:
        return None
    try:
        document = read_document(output)
    except MalformedStep:
        return None

    head = document.get("head")
    if isinstance(document.get("boolean"), bool) and isinstance(head, dict | None):
        return document | {"head": head or {}}
    results = document.get("results")
    has_rows = isinstance(results, dict) and isinstance(results.get("bindings"), list)
    if isinstance(head, dict) and has_rows:
        return document
    return None


def read_reference(output: Any, media_type: str) -> Table:
    """Return the table in the output of a reference step, which must be of this media type.

    Raises:
        MalformedStep: the output is of another type, or is no table.
    """
    if media_type not in (XML, CSV, TSV):
        document = read_document(output)
        if "boolean" not in document and ("head" in document or not is_table(document)):
            # When it is checked later, the error says what is wrong with it.
            return Table(document, typed=True)
        return read_json_table(document)
    if not isinstance(output, str):
        raise MalformedStep(f"expected the text of {media_type}, got {type(output).__name__}")
    text = output.lstrip("\ufeff")
    if media_type == CSV:
        return read_csv(text, is_declared=True)
    if media_type == TSV:
        return read_tsv(text)
    return Table(read_xml(text), typed=True)


def read_table(output: Any, *, media_type: str | None = None) -> Table:
    """Return the table in an output, in any format and envelope.

    Args:
        output: a value of JSON, or text.
        media_type: what the step says of its output. A header alone is a table only if that is CSV.

    Raises:
        MalformedStep: the output holds no table.
    """
    payload = open_envelopes(output)
    if isinstance(payload.value, str):
        table = read_empty_table(payload.value) or _read_text(payload.value, media_type)
    else:
        table = read_json_table(payload.value)
    unread = "\n".join(text for text in (payload.unread, table.unread) if text)
    _check_whole(table, payload, unread)
    return table._replace(unread=unread)


def _check_whole(table: Table, payload: Payload, unread: str) -> None:
    """Check that neither the envelopes of a table nor the text around it say that rows are missing.

    Args:
        table: the table, or the answer to ASK.
        payload: the table in JSON or text, and what its envelopes say.
        unread: the text around the table.

    Raises:
        AmbiguousStep: rows are missing.
    """
    if "boolean" in table.document:
        return
    shortening = payload.shortening
    if isinstance(payload.value, dict) and is_table(payload.value):
        shortening = shortening.or_else(shortening_in(payload.value))
    rows = table.document.get("results", {})
    bindings = rows.get("bindings") if isinstance(rows, dict) else None
    row_count = len(bindings) if isinstance(bindings, list) else 0
    problem = shortening.explain(row_count) or shortening_in_note(unread)
    if problem is not None:
        raise AmbiguousStep(problem)


def _read_text(text: str, media_type: str | None) -> Table:
    """Read a table in text that is no JSON. Its first lines decide which formats are tried.

    Args:
        text: the text without envelopes.
        media_type: what the step says of its output; None if it says nothing.

    Raises:
        MalformedStep: the text is no table in any format.
        AmbiguousStep: the text is a table that cannot be read for sure.
    """
    if not text:
        raise MalformedStep("neither SPARQL results nor a table")
    if text.lstrip()[:1] == "<" and not is_tsv(text):
        return _read_markup(text)
    if has_pipes(text):
        return read_pipes(text)
    if media_type != CSV and seems_aligned(text):
        try:
            return read_aligned(text)
        except AmbiguousStep:
            raise
        except MalformedStep:
            pass  # It may be CSV with one column.
    if media_type == TSV or is_tsv(text):
        try:
            return read_tsv(text)
        except MalformedStep:
            if media_type != CSV:
                raise
            # Text that is declared to be CSV may look like TSV.
    return read_csv(text, is_declared=media_type == CSV)


def _read_markup(text: str) -> Table:
    """Read a table of HTML, or SPARQL results in XML above a note.

    Raises:
        MalformedStep: the text is neither.
        AmbiguousStep: there are several tables of HTML.
    """
    if has_html_table(text):
        return read_html_table(text)
    xml, note = split_after_xml(text)
    return Table(read_xml(xml), typed=True, unread=note)


def describe_ambiguity(output: Any, media_type: str | None) -> str | None:
    """Return why the table in an output cannot be read for sure.

    None if it can be read for sure, or if the output holds no table.

    Args:
        output: a value of JSON, or text.
        media_type: what the step says of its output.
    """
    try:
        read_table(output, media_type=media_type)
    except AmbiguousStep as error:
        return str(error)
    except MalformedStep:
        return None
    return None


def steps_to_read(output: Any) -> int:
    """Return about how many steps of a `Budget` it takes to read a table.

    Text of a JSON object is read so fast that it costs nothing. In a decoded object, the longest
    list or object is taken for the rows.
    """
    rows = output
    if isinstance(output, dict):
        rows = max(output.values(), key=_length, default=None)
    if isinstance(rows, list):
        return sum(1 + _length(row) for row in rows) * STEPS_PER_VALUE
    if isinstance(rows, str) and rows.lstrip()[:1] != "{":
        return len(rows)
    return 0


def _length(value: Any) -> int:
    """Return the length of a list or an object; 0 of anything else."""
    return len(value) if isinstance(value, list | dict) else 0
