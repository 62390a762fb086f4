"""Checks whether an agent discovered an IRI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import read_output
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.json_values import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.steps.actual import ActualStep, Compare

_OUTSIDE = r'\s\x00-\x20<>"{}|\\^`'
"""Characters that no IRI contains: https://www.w3.org/TR/turtle/#grammar-production-IRIREF."""

_is_iri = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:[^{_OUTSIDE}]+").fullmatch


def iri_discovery_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a function that scores an actual step 1 if its output has the expected IRI, else 0.

    In the results of a search, a cell must be the IRI. In other outputs, the IRI may stand
    anywhere.

    Raises:
        MalformedStep: the output of the reference step is no IRI.
    """
    iri = read_output(step, _read_iri)

    def compare(actual: ActualStep) -> Agreement:
        """Return 1 if the output of an actual step has `iri`, else 0."""
        if actual.step.get("name") == "autocomplete_search":
            discovered = actual.remember(_discovered_iris, lambda: _discovered_iris(actual))
            return Agreement(float(iri in discovered))
        text = actual.output(_read_text)
        return Agreement(float(_contains_iri(text, iri)))

    return compare


def _read_iri(output: Any) -> str:
    """Return the IRI in an output, which may be in angle brackets, or JSON text.

    Raises:
        MalformedStep: the output is no IRI.
    """
    text = output.strip() if isinstance(output, str) else ""
    if text.startswith('"'):
        text = str(read_json(text)).strip()
    if text.startswith("<") and text.endswith(">"):
        text = text[1:-1]
    if not _is_iri(text):
        raise MalformedStep("must be an IRI")
    return text


def _discovered_iris(actual: ActualStep) -> frozenset[str]:
    """Return the IRIs in the results of a search, whatever their format.

    If the format does not tell IRIs from other values, as in CSV, all cells are returned.

    Raises:
        MalformedStep: the output is no table.
    """
    table = actual.table(strict=True)
    try:
        cells = [cell for row in table.document["results"]["bindings"] for cell in row.values()]
        if table.typed:
            cells = [cell for cell in cells if cell["type"] == "uri"]
        return frozenset(cell["value"] for cell in cells)
    except (AttributeError, KeyError, TypeError) as error:
        raise MalformedStep(f"output: not SPARQL JSON: {error!r}") from None


def _read_text(output: Any) -> str:
    r"""Return an output as text in which IRIs are not escaped.

    JSON may write an IRI with escapes, such as ``http:\/\/``. So if the output has a backslash, or
    is JSON already, its strings are decoded, and each stands in quotes.
    """
    if isinstance(output, str):
        if "\\" not in output:
            return output
        try:
            document = read_json(output)
        except MalformedStep:
            return output
    else:
        document = output
    return '"' + '" "'.join(_strings_in(document)) + '"'


def _strings_in(document: Any) -> Iterator[str]:
    """Yield all strings and keys in a decoded JSON document, in no particular order."""
    pending = [document]
    while pending:
        match pending.pop():
            case str(text):
                yield text
            case dict(members):
                pending += members.keys()
                pending += members.values()
            case list(items):
                pending += items


def _contains_iri(text: str, iri: str) -> bool:
    """Return whether a text has an IRI as a whole, and not as a part of another IRI.

    The IRI may stand in angle brackets, in quotes, or bare.
    """
    if iri not in text:
        return False
    escaped = re.escape(iri)
    bracketed = rf"(?<=<){escaped}(?=>)"
    quoted = rf"(?<=\"){escaped}(?=[{_OUTSIDE}]|\Z)"
    # The punctuation around a bare IRI belongs to the text. A comma may separate cells of CSV.
    before = rf"(?<![^{_OUTSIDE}(\[,;'])(?<![<\"])"
    after = rf"(?=[.;:!?)\]']*(?:[{_OUTSIDE},]|\Z))"
    return re.search(f"{bracketed}|{quoted}|{before}{escaped}{after}", text) is not None
