"""Checks whether an agent discovered an IRI."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import read_output
from graphrag_eval_async.steps.json_values import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.steps.actual import ActualStep, Score
    from graphrag_eval_async.steps.formats.reading import Table

# Characters that no IRI contains: https://www.w3.org/TR/turtle/#grammar-production-IRIREF
_OUTSIDE = r'\s\x00-\x20<>"{}|\\^`'
_IRI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:[^{_OUTSIDE}]+")
_END = re.compile(rf"[{_OUTSIDE}]|\Z")
# Outside brackets and quotes, punctuation belongs to the text, and a comma may separate CSV fields.
_BARE_START = re.compile(rf"[{_OUTSIDE}(\[,;']")
_BARE_END = re.compile(rf"[.;:!?)\]']*(?:[{_OUTSIDE},]|\Z)")


def iri_discovery_comparator(step: Mapping[str, Any]) -> Score:
    """Return a comparator: 1 if the IRI is a URI binding of a search or in the output of a query."""
    iri = read_output(step, _read_iri)

    def score(actual: ActualStep) -> float:
        if actual.step.get("name") == "autocomplete_search":
            return float(iri in _discovered(actual))
        return float(_stands_in(iri, actual.output(_read_text)))

    return score


def _read_iri(output: Any) -> str:
    text = output.strip() if isinstance(output, str) else ""
    if text.startswith('"'):
        text = str(read_json(text)).strip()
    if text.startswith("<") and text.endswith(">"):
        text = text[1:-1]
    if not _IRI.fullmatch(text):
        raise MalformedStep("must be an IRI")
    return text


def _discovered(actual: ActualStep) -> frozenset[str]:
    """The IRIs in the results of a search, in whichever format; of untyped cells, the texts of all."""
    with suppress(MalformedStep):
        return actual.output(_read_uri_bindings)
    table = actual.table(strict=True)
    return actual.remember(_discovered, lambda: read_output({"output": table}, _read_cells))


def _read_uri_bindings(output: Any) -> frozenset[str]:
    return _values(read_json(output), "uri")


def _read_cells(table: Table) -> frozenset[str]:
    return _values(table.document, "uri" if table.typed else None)


def _values(document: Any, kind: str | None) -> frozenset[str]:
    """The values of all terms of this type, in SPARQL results JSON; of all terms if it is None."""
    try:
        return frozenset(
            term["value"]
            for row in document["results"]["bindings"]
            for term in row.values()
            if kind is None or term["type"] == kind
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise MalformedStep(f"not SPARQL JSON: {error!r}") from None


def _read_text(output: Any) -> str:
    """The output with JSON escapes in its strings decoded."""
    if isinstance(output, str):
        if "\\" not in output:
            return output
        try:
            output = read_json(output)
        except MalformedStep:
            return str(output)
    return '"' + '" "'.join(_strings(output)) + '"'


def _strings(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        match pending.pop():
            case str(text):
                yield text
            case dict(members):
                pending += members
                pending += members.values()
            case list(items):
                pending += items


def _stands_in(iri: str, text: str) -> bool:
    """Whether the text contains the whole IRI, not as part of another IRI."""
    start = text.find(iri)
    while start >= 0:
        before, end = text[max(0, start - 1) : start], start + len(iri)
        if before == "<":
            is_whole = text.startswith(">", end)
        elif before == '"':
            is_whole = _END.match(text, end) is not None
        else:
            is_whole = bool((not before or _BARE_START.match(before)) and _BARE_END.match(text, end))
        if is_whole:
            return True
        start = text.find(iri, start + 1)
    return False
