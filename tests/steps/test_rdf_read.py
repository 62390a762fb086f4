"""Reading graphs in all formats, and saying what is wrong with them."""

from __future__ import annotations

import sys
from typing import Any

import pyoxigraph
import pytest

from graphrag_eval_async.errors import MalformedStep, ReferenceDataError
from graphrag_eval_async.records.shapes import GRAPHS
from graphrag_eval_async.reference import Reference
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.graphs.comparison import isomorphic
from tests.steps.graphs import PREFIXES, read, same, turtle

GRAPH = turtle(":a :p [ :q 5, 'x'@en ; :r true ]", "_:n :q 1.5", ":a :list (1 2)")
JSON_LD = {
    "@context": {"p": "http://example.org/p", "q": "http://example.org/q"},
    "@id": "http://example.org/a",
    "p": {"q": [5, {"@value": "x", "@language": "en"}]},
}


def written(media_type: str, text: str = GRAPH) -> str:
    """The graph in another format."""
    quads = pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.TURTLE)
    found = pyoxigraph.RdfFormat.from_media_type(media_type)
    assert found is not None
    if found in (pyoxigraph.RdfFormat.N_QUADS, pyoxigraph.RdfFormat.TRIG, pyoxigraph.RdfFormat.JSON_LD):
        data = pyoxigraph.serialize(quads, format=found)
    else:
        data = pyoxigraph.serialize((quad.triple for quad in quads), format=found)
    assert data is not None
    return data.decode()


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "tried"])
@pytest.mark.parametrize("media_type", GRAPHS)
def test_each_format_is_read(media_type: str, declared: bool) -> None:
    expected, found = read(GRAPH), read(written(media_type), media_type if declared else None)
    assert len(found.statements) == 10
    assert isomorphic(expected, found, Budget())


@pytest.mark.parametrize(
    "media_type", ["text/turtle; charset=utf-8", "Text/Turtle", "application/json", "text/plain"]
)
def test_media_types_have_parameters_or_are_not_of_rdf(media_type: str) -> None:
    assert isomorphic(read(GRAPH), read(GRAPH, media_type), Budget())


def test_a_declared_format_is_the_only_one_tried() -> None:
    with pytest.raises(MalformedStep, match="not N-Triples: line 1"):
        read(GRAPH, "application/n-triples")


def test_json_ld_is_read_as_an_object_or_as_text() -> None:
    expected = read(turtle(":a :p [ :q 5, 'x'@EN ]"))
    assert isomorphic(expected, read(JSON_LD), Budget())
    assert isomorphic(expected, read([JSON_LD], "application/ld+json"), Budget())


def test_turtle_may_begin_with_a_bracket_or_stand_in_a_fence() -> None:
    plain = read("[ <http://example.org/p> 5 ] .")
    assert len(plain.statements) == 1
    assert isomorphic(plain, read("```turtle\n[ <http://example.org/p> 5 ] .\n```"), Budget())


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("The answer is 5.", "not RDF in any known format: not TriG: line 1"),
        ('{"error": "timeout"}', "JSON without any statement"),
        ({"head": {"vars": ["x"]}, "results": {"bindings": []}}, "JSON without any statement"),
        (5, "expected text, got int"),
        ('{"a": ', "not JSON"),
        (PREFIXES + ":a :p 'x", "not TriG: line 3"),
    ],
)
def test_what_is_not_rdf_is_said(output: Any, problem: str) -> None:
    with pytest.raises(MalformedStep, match=problem):
        read(output)


def test_an_object_is_not_text_of_another_format() -> None:
    with pytest.raises(MalformedStep, match="text/turtle must be text"):
        read({}, "text/turtle")


@pytest.mark.parametrize("output", ["", "{}", "[]", " \n", "# nothing", {}, []])
def test_an_empty_graph(output: Any) -> None:
    assert not read(output).statements


def test_remote_contexts_are_never_fetched() -> None:
    with pytest.raises(MalformedStep, match="a remote @context, which is never fetched"):
        read({"@context": "http://127.0.0.1:9/context", "@id": "http://example.org/a"})


def test_graph_names_count_unless_ignored() -> None:
    named = "<urn:g> { <urn:a> <urn:p> _:x } _:h { _:x <urn:p> 5 }"
    other = "<urn:g> { <urn:a> <urn:p> _:y } _:y { _:y <urn:p> 5 }"
    plain = "<urn:a> <urn:p> _:y . _:y <urn:p> 5 ."
    trig = "application/trig"
    assert isomorphic(read(named, trig), read(named.replace("_:h", "_:k"), trig), Budget())
    assert not isomorphic(read(named, trig), read(other, trig), Budget())
    assert not isomorphic(read(named, trig), read(plain, trig), Budget())
    assert isomorphic(read(named, trig, union=True), read(plain, trig, union=True), Budget())
    assert isomorphic(read(named, trig, union=True), read(other, trig, union=True), Budget())


def test_terms_are_compared_by_value_or_spelling() -> None:
    assert same([":a :p 5"], [":a :p 5.0"])
    assert same([":a :p 1e3"], [":a :p '1000'^^xsd:short"])
    assert same([":a :p true"], [":a :p '1'^^xsd:boolean"])
    assert same([":a :p 'x'@en-GB"], [":a :p 'x'@EN-gb"])
    assert same([":a :p 'x'"], [":a :p 'x'^^xsd:string"])
    assert same([":a :p 0.1"], [":a :p 0.10000000000000001e0"])
    assert not same([":a :p 5"], [":a :p '5'"])
    assert not same([":a :p 5"], [":a :p 6"])
    assert not same([":a :p 5"], [":a :p 5.000001"])
    assert not same([":a :p 'x'@en"], [":a :p 'x'@en-GB"])
    assert not same([":a :p 'x'@en"], [":a :p 'x'"])
    assert not same([":a :p '2026-01-01'^^xsd:date"], [":a :p '2026-01-01Z'^^xsd:date"])
    assert not same([":a :p 'five'^^xsd:integer"], [":a :p 'six'^^xsd:integer"])


def test_integers_are_equal_or_not() -> None:
    big = 10**12
    assert not same([f":a :p {big}"], [f":a :p {big + 1}"])
    assert same([f":a :p {big}"], [f":a :p {big + 1}.0"])


def test_numbers_agree_with_the_least_number_near_them() -> None:
    assert same([":a :p 1.0, 1.000000005"], [":a :p 1e0, 1.0000000050"])
    assert same(["_:n :p 1.000000005"], ["_:n :p 1"])
    assert not same([":a :p 1.0, 1.000000005"], [":a :p 1.0, 1.000000012"])
    assert not same([":a :p 1000000001"], [":a :p 1000000002"])


def test_triple_terms_have_blank_nodes_and_numbers() -> None:
    one = [":s :says <<( _:a :p 5 )>>", "_:a :q 1", ":t :says <<( _:b :p _:a )>>"]
    assert same(one, [":t :says <<( _:y :p _:x )>>", ":s :says <<( _:x :p 5.0 )>>", "_:x :q 1"])
    assert not same(one, [":t :says <<( _:x :p _:y )>>", ":s :says <<( _:x :p 5.0 )>>", "_:x :q 1"])
    assert not same(one, [":t :says <<( _:y :p _:x )>>", ":s :says <<( _:y :p 5.0 )>>", "_:x :q 1"])


def test_blank_nodes_in_a_literal_are_text() -> None:
    assert same([r':a :p "see _:x \" _:y"', "_:n :q 1"], [r':a :p "see _:x \" _:y"', "_:m :q 1"])
    assert not same([":a :p 'see _:x'"], [":a :p 'see _:y'"])
    assert same([":a :p 'see _:x'", "_:x :p 'a _:b'"], [":a :p 'see _:x'", "_:z :p 'a _:b'"])


def reference(output: Any, media_type: str = "text/turtle", **more: Any) -> Reference:
    step = {"name": "query", "output": output, "output_media_type": media_type, **more}
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    return Reference([{"template_id": "t", "questions": [question]}])


def test_a_reference_graph_with_an_error_is_refused_with_its_place() -> None:
    with pytest.raises(ReferenceDataError) as caught:
        reference(turtle(":a :p 5", ":a :p 'x"))
    [problem] = caught.value.problems
    assert problem.startswith("templates[0].questions[0].reference_steps[0][0].output: not Turtle: line 4 ")


def test_a_reference_graph_must_be_of_its_media_type() -> None:
    reference(JSON_LD, "application/ld+json")
    with pytest.raises(ReferenceDataError, match="not N-Quads: line 1"):
        reference(GRAPH, "application/n-quads")
    with pytest.raises(ReferenceDataError, match=r"output: missing"):
        reference(None)


def test_without_pyoxigraph_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(ReferenceDataError, match=r"pip install 'graphrag-eval-async\[rdf\]'"):
        reference(GRAPH)
