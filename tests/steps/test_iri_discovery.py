from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.iri_discovery import iri_discovery_comparator
from tests.support.cases import each

IRI = "urn:x:1"


def bindings(*terms: tuple[str, str]) -> dict[str, Any]:
    rows = [{"iri": {"type": kind, "value": value}} for kind, value in terms]
    return {"head": {"vars": ["iri"]}, "results": {"bindings": rows}}


def score(name: str, output: Any, iri: Any = IRI) -> float:
    return iri_discovery_comparator({"output": iri})(ActualStep({"name": name, "output": output})).score


@pytest.mark.parametrize(
    "written", [IRI, f"<{IRI}>", f'"{IRI}"', f'"<{IRI}>"', f"  {IRI}\n", '"urn:x\\u003a1"']
)
def test_ways_to_write_the_iri(written: str) -> None:
    assert score("sparql_query", f"<{IRI}>", written) == 1.0
    assert score("sparql_query", "<urn:x:2>", written) == 0.0


@each("written", [None, "", "<>", "no scheme", "/path", "urn:x y", "<urn:x", 1, [IRI]])
def test_a_reference_without_an_iri(written: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^output: "):
        iri_discovery_comparator({"output": written})


def test_strict_types_refuse_a_search_without_types() -> None:
    budget = Budget()
    budget.strict_types = True
    for output, expected in [(f"?iri\n<{IRI}>\n", 1), (f"iri\n{IRI}\n", None)]:
        actual = ActualStep({"name": "autocomplete_search", "output": output}, budget)
        with nullcontext() if expected else pytest.raises(MalformedStep, match="the cells have no types"):
            assert iri_discovery_comparator({"output": IRI})(actual).score == expected


@each("output", [IRI, '"{}"', '{"results": {"bindings": [1]}}', {"head": {}, "boolean": True}])
def test_a_search_that_cannot_be_read(output: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^output: "):
        score("autocomplete_search", output)


WHOLE = [
    json.dumps(bindings(("uri", IRI))),
    bindings(("uri", IRI)),
    [{"@id": IRI}],
    f"<{IRI}> a <urn:c> .",
    f"iri,name\n{IRI},one\n",
    IRI,
    f"See {IRI}.",
    f"[link]({IRI})",
    f"['{IRI}','b']",
    f"a\\b <{IRI}>",
]  # fmt: skip


@each("output", WHOLE)
def test_a_query_that_finds_it(output: Any) -> None:
    assert score("sparql_query", output) == 1.0


PARTS = [
    json.dumps(bindings(("uri", "urn:x:12"))),
    json.dumps(bindings(("uri", "xurn:x:1"))),
    "<urn:x:12> a <urn:c> .",
    "urn:x:1.5",
    "urn:x:1é",
    "urn:x:12,urn:x:13",
]


@each("output", PARTS)
def test_a_query_that_does_not_find_it(output: Any) -> None:
    assert score("sparql_query", output) == 0.0


iris = st.from_regex(r"(urn:x|http:/)[/:#.,ab12é-]{1,4}", fullmatch=True)


@given(iris, st.lists(iris, max_size=4), st.sampled_from(["json", "escaped", "decoded", "turtle"]))
def test_agrees_with_membership(iri: str, others: list[str], form: str) -> None:
    value = bindings(*[("uri", other) for other in others])
    output: Any = {
        "json": json.dumps(value, ensure_ascii=False),
        "escaped": json.dumps(value).replace("/", "\\/"),
        "decoded": value,
        "turtle": "\n".join(f"<{other}> a <urn:class> ." for other in others),
    }[form]
    assert score("sparql_query", output, iri) == (iri in others)
    if form != "turtle":
        assert score("autocomplete_search", output, iri) == (iri in others)
