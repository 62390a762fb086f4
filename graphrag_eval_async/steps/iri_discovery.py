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

# Characters that no IRI contains: https://www.w3.org/TR/turtle/#grammar-production-IRIREF
_OUTSIDE = r'\s\x00-\x20<>"{}|\\^`'
_is_iri = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:[^{_OUTSIDE}]+").fullmatch


def iri_discovery_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a comparator: 1 if the IRI is a URI binding of a search or in the output of a
    query.
    """
    iri = read_output(step, _read_iri)

    def compare(actual: ActualStep) -> Agreement:
        if actual.step.get("name") == "autocomplete_search":
            found = iri in actual.remember(_discovered, lambda: _discovered(actual))
        else:
            found = _stands_in(iri, actual.output(_read_text))
        return Agreement(float(found))

    return compare


def _read_iri(output: Any) -> str:
    text = output.strip() if isinstance(output, str) else ""
    if text.startswith('"'):
        text = str(read_json(text)).strip()
    if text.startswith("<") and text.endswith(">"):
        text = text[1:-1]
    if not _is_iri(text):
        raise MalformedStep("must be an IRI")
    return text


def _discovered(actual: ActualStep) -> frozenset[str]:
    """The IRIs in the results of a search, in whichever format; of untyped cells, the texts of
    all.
    """
    table = actual.table(strict=True)
    try:
        return frozenset(
            term["value"]
            for row in table.document["results"]["bindings"]
            for term in row.values()
            if not table.typed or term["type"] == "uri"
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise MalformedStep(f"output: not SPARQL JSON: {error!r}") from None


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
    if iri not in text:
        return False
    own, out = re.escape(iri), _OUTSIDE
    # Bare, punctuation around it belongs to the text, and a comma may separate fields of CSV.
    bare = rf"(?<![^{out}(\[,;'])(?<![<\"]){own}(?=[.;:!?)\]']*(?:[{out},]|\Z))"
    return re.search(rf"(?<=<){own}(?=>)|(?<=\"){own}(?=[{out}]|\Z)|{bare}", text) is not None
