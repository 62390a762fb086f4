"""Graphs: reading them in all formats, what is equal in them, and steps that expect them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pyoxigraph
import pytest

from graphrag_eval_async.catalogue.media_types import GRAPHS, SPARQL_RESULTS
from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep, ReferenceDataError
from graphrag_eval_async.reference import Reference
from graphrag_eval_async.steps import Budget, prepare_step
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.graphs.comparison import agreement, isomorphic
from tests.steps.support import PREFIXES, query, read, result_of, same, score_of, texts, turtle
from tests.support.cpu import affordable
from tests.support.data import question, template

GRAPH = turtle(":a :p [ :q 5, 'x'@en ; :r true ]", "_:n :q 1.5", ":a :list (1 2)")
JSON_LD = {
    "@context": {"p": "http://example.org/p", "q": "http://example.org/q"},
    "@id": "http://example.org/a",
    "p": {"q": [5, {"@value": "x", "@language": "en"}]},
}


def written(media_type: str) -> str:
    """`GRAPH` in another format."""
    quads = pyoxigraph.parse(GRAPH, format=pyoxigraph.RdfFormat.TURTLE)
    found = pyoxigraph.RdfFormat.from_media_type(media_type)
    assert found is not None
    data = pyoxigraph.serialize(
        quads if found.supports_datasets else (quad.triple for quad in quads), format=found
    )
    assert data is not None
    return data.decode()


@pytest.mark.parametrize("media_type", GRAPHS)
def test_each_format_is_read(media_type: str) -> None:
    for declared in (media_type, None):
        found = read(written(media_type), declared)
        assert len(found.statements) == 10
        assert isomorphic(read(GRAPH), found, Budget())


def test_media_types_have_parameters_or_are_not_of_rdf() -> None:
    for media_type in (
        "text/turtle; charset=utf-8",
        "Text/Turtle",
        "application/json",
        "text/plain",
    ):
        assert isomorphic(read(GRAPH), read(GRAPH, media_type), Budget())
    fenced = read("```turtle\n[ <http://example.org/p> 5 ] .\n```")
    assert isomorphic(fenced, read("[ <http://example.org/p> 5 ] ."), Budget())
    with pytest.raises(MalformedStep, match="not N-Triples: line 1"):
        read(GRAPH, "application/n-triples")
    expected = read(turtle(":a :p [ :q 5, 'x'@EN ]"))
    for output in (JSON_LD, [JSON_LD], json.dumps(JSON_LD)):
        assert isomorphic(expected, read(output), Budget())
    empty: list[Any] = ["", "{}", "[]", " \n", "# nothing", {}, []]
    assert not any(read(output).statements for output in empty)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        pytest.param(
            "The answer is 5.", "not RDF in any known format: not TriG: line 1", id="prose"
        ),
        pytest.param('{"error": "timeout"}', "JSON without any statement", id="JSON"),
        pytest.param(5, "expected text, got int", id="number"),
        pytest.param('{"a": ', "not JSON", id="open JSON"),
        pytest.param(
            {"@context": "http://127.0.0.1:9/context", "@id": "http://example.org/a"},
            "is never fetched",
            id="remote context",
        ),
    ],
)
def test_what_is_not_rdf_is_said(output: Any, problem: str) -> None:
    with pytest.raises(MalformedStep, match=problem):
        read(output)


RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://example.org/"'
DEEP = 100_000
CRASHING = {
    "triple terms": PREFIXES + ":a :b " + "<<( :a :b " * DEEP + "5" + " )>>" * DEEP + " .",
    "JSON-LD objects": '{"http://example.org/p":' * DEEP + "5" + "}" * DEEP,
    "terms of a context": json.dumps(
        {"@context": {f"a{index}": f"a{index + 1}:x" for index in range(20_000)}, "a0": "v"}
    ),
    "contexts in a large document": json.dumps(
        [{"@context": {"p": f"http://example.org/{index}"}, "p": index} for index in range(2000)]
    ),
    "XML elements": f"<rdf:RDF {RDF}>{'<e:a/>' * 3 * DEEP}"
    f"{'<e:a><e:p>' * DEEP}{'</e:p></e:a>' * DEEP}</rdf:RDF>",
    "XML attributes": f"<rdf:RDF {RDF}><rdf:Description "
    + " ".join(f'e:p{index}="5"' for index in range(20_000))
    + "/></rdf:RDF>",
    "XML entities": '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{index} "{f"&a{index - 1};" * 10}">' for index in range(1, 9))
    + f"]><rdf:RDF {RDF}><rdf:Description><e:p>&a8;</e:p></rdf:Description></rdf:RDF>",
    "external XML entity": '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    f"<rdf:RDF {RDF}><rdf:Description><e:p>&a;</e:p></rdf:Description></rdf:RDF>",
    "beyond the parser's buffer": PREFIXES + ":a :p '" + "x" * (2**24 + 100) + "' .",
}


@pytest.mark.parametrize("name", CRASHING)
def test_what_would_crash_or_hang_the_parser_is_refused(name: str) -> None:
    with affordable(2**24), pytest.raises(MalformedStep):
        read(CRASHING[name])


def test_what_is_only_long_is_read() -> None:
    terms = PREFIXES + " ".join(f":a :b <<( _:n{index} :b 5 )>> ." for index in range(1000))
    entity = (
        '<!DOCTYPE x [<!ENTITY u "http://e.org/">]><rdf:RDF '
        f"{RDF}><e:a><e:p>&u;</e:p></e:a></rdf:RDF>"
    )
    context = {
        "@context": {f"p{index}": f"urn:{index}" for index in range(200)},
        "p5": [*range(5000)],
    }
    flat = f"<rdf:RDF {RDF}>{'<e:a><e:p>5</e:p></e:a>' * 2000}</rdf:RDF>"
    assert [len(read(text).statements) for text in (terms, entity, context, flat)] == [
        1000,
        2,
        5000,
        4000,
    ]
    budget = Budget()
    budget.stop()
    with pytest.raises(ComparisonBudgetExceeded, match="stopped"):
        prepare_step(reference()).compare(ActualStep({"output": terms}, budget))


def test_graph_names_count_unless_ignored() -> None:
    named = "<urn:g> { <urn:a> <urn:p> _:x } _:h { _:x <urn:p> 5 }"
    other = "<urn:g> { <urn:a> <urn:p> _:y } _:y { _:y <urn:p> 5 }"
    plain, trig = "<urn:a> <urn:p> _:y . _:y <urn:p> 5 .", "application/trig"
    assert isomorphic(read(named, trig), read(named.replace("_:h", "_:k"), trig), Budget())
    for each_other in (other, plain):
        assert not isomorphic(read(named, trig), read(each_other, trig), Budget())
        assert isomorphic(
            read(named, trig, union=True), read(each_other, trig, union=True), Budget()
        )


BIG = 10**12
EQUAL = [
    ("5", "5.0"),
    ("1e3", "'1000'^^xsd:short"),
    ("true", "'1'^^xsd:boolean"),
    ("'x'@en-GB", "'x'@EN-gb"),
]
EQUAL += [("'x'", "'x'^^xsd:string"), ("0.1", "0.10000000000000001e0"), (f"{BIG}", f"{BIG + 1}.0")]
EQUAL += [("1.0, 1.000000005", "1e0, 1.0000000050"), ("1.000000005", "1")]
EQUAL += [("1234567890123456789012", "'+1234567890123456789012'^^xsd:long")]
EQUAL += [("'2026-01-01'^^xsd:date", "'2026-01-01Z'^^xsd:date")]
EQUAL += [
    ("'2020'^^xsd:gYear", "'2020Z'^^xsd:gYear"),
    ("'2020-05+00:00'^^xsd:gYearMonth", "'2020-05'^^xsd:gYearMonth"),
    ("'--05'^^xsd:gMonth", "'--05Z'^^xsd:gMonth"),
    ("'--05-01Z'^^xsd:gMonthDay", "'--05-01-00:00'^^xsd:gMonthDay"),
    ("'---01'^^xsd:gDay", "'---01Z'^^xsd:gDay"),
]
UNEQUAL = [("5", "'5'"), ("5", "6"), ("5", "5.000001"), ("'x'@en", "'x'@en-GB"), ("'x'@en", "'x'")]
UNEQUAL += [("'2026-01-01'^^xsd:date", "'2026-01-02Z'^^xsd:date"), (f"{BIG}", f"{BIG + 1}")]
UNEQUAL += [("2026", "'2026'^^xsd:gYear"), ("'five'^^xsd:integer", "'six'^^xsd:integer")]
UNEQUAL += [
    ("'2020'^^xsd:gYear", "'2021Z'^^xsd:gYear"),
    ("'2020'^^xsd:gYear", "'2020+05:00'^^xsd:gYear"),
    ("'2020'^^xsd:gYear", "'2020Z'^^xsd:gYearMonth"),
    ("'2020'^^xsd:string", "'2020Z'^^xsd:string"),
]
UNEQUAL += [("1.0, 1.000000005", "1.0, 1.000000012")]
UNEQUAL += [("1234567890123456789012", "1234567890123456789013")]


def test_terms_are_compared_by_value_or_spelling() -> None:
    for one, other in EQUAL:
        assert same([f":a :p {one}"], [f":a :p {other}"]), (one, other)
    for one, other in UNEQUAL:
        assert not same([f":a :p {one}"], [f":a :p {other}"]), (one, other)


def test_triple_terms_have_blank_nodes_and_numbers() -> None:
    one = [":s :says <<( _:a :p 5 )>>", "_:a :q 1", ":t :says <<( _:b :p _:a )>>"]
    assert same(one, [":t :says <<( _:y :p _:x )>>", ":s :says <<( _:x :p 5.0 )>>", "_:x :q 1"])
    assert not same(one, [":t :says <<( _:x :p _:y )>>", ":s :says <<( _:x :p 5.0 )>>", "_:x :q 1"])
    assert not same(one, [":t :says <<( _:y :p _:x )>>", ":s :says <<( _:y :p 5.0 )>>", "_:x :q 1"])
    assert same([r':a :p "see _:x \" _:y"', "_:n :q 1"], [r':a :p "see _:x \" _:y"', "_:m :q 1"])
    assert not same([":a :p 'see _:x'"], [":a :p 'see _:y'"])


EXPECTED = turtle(":a :p [ :q 1 ; :r 'x' ]", ":b :p [ :q 2 ; :r 'x' ]")


def reference(output: Any = EXPECTED, **more: Any) -> dict[str, Any]:
    return query(output, **{"output_media_type": "text/turtle", **more})


def test_a_reference_graph_with_an_error_is_refused_with_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = r"templates\[0\].questions\[0\].reference_steps\[0\]\[0\].output: "
    for output, media_type, problem in (
        (turtle(":a :p 5", ":a :p 'x"), "text/turtle", f"{place}not Turtle: line 4 "),
        (GRAPH, "application/n-quads", "not N-Quads: line 1"),
        ({}, "text/turtle", "text/turtle must be text"),
        (None, "text/turtle", "output: missing"),
    ):
        with pytest.raises(ReferenceDataError, match=problem):
            Reference(template(question(reference(output, output_media_type=media_type))))
    Reference(template(question(reference(JSON_LD, output_media_type="application/ld+json"))))
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(ReferenceDataError, match="needs the extra rdf; "):
        Reference(template(question(reference())))


def test_one_change_of_many_leaves_the_rest() -> None:
    """Also where blank nodes are linked, so that the surroundings of all differ."""
    values = [f"'{index}'" for index in range(100)]
    other = [*values[:50], "'other'", *values[51:]]
    chains = [f"_:a{index} :p _:b{index}" for index in range(30)]
    records = [f":s{i % 9} :has [ a :Record ; :unit 'mm' ; :value {i} ]" for i in range(60)]
    for ours, theirs, f1 in (
        ([f":a :p ({' '.join(values)})"], [f":a :p ({' '.join(other)})"], 200 / 201),
        (chains, [*chains[::-1], ":extra :p 5"], 60 / 61),
        (records, [*records[:30], records[30].replace("30", "99"), *records[31:]], 239 / 240),
        ([":a :p 1, 2.5, 7"], [":a :p 1.0, 2.5e0, 8"], 2 / 3),
    ):
        found = agreement(read(turtle(*ours)), read(turtle(*theirs)), Budget())
        assert found.score == pytest.approx(f1)


def test_differences_name_nodes_of_the_reference() -> None:
    nearly = turtle(":b :p _:own", "_:own :q 3 ; :r 'x'", ":a :p [ :q 1 ; :r 'x' ]")
    found = [agreement(read(EXPECTED), read(nearly), Budget()) for _ in range(3)]
    # Although the parser gives anonymous nodes random labels.
    assert found[0] == found[1] == found[2]
    missing, extra = found[0].differences
    label = missing["triple"].split()[0]
    integer = "<http://www.w3.org/2001/XMLSchema#integer>"
    assert label.startswith("_:b")
    assert extra == {
        "kind": "extra_triple",
        "triple": f'{label} <http://example.org/q> "3"^^{integer} .',
    }
    assert missing["kind"] == "missing_triple"


def test_results_list_what_differs() -> None:
    found = {}
    for more in ("", ":b :p 2", ":c :p 3"):
        output = turtle(":a :p 1", *filter(None, [more]))
        result = result_of(reference(turtle(":a :p 1", ":b :p 2"), score="f1"), output)
        kinds = [each["kind"] for each in result["reference_steps"][0][0].get("diff", [])]
        found[more] = (result["steps_score"], result["failure"], kinds)
    assert found == {
        "": (pytest.approx(2 / 3), "missing_triples", ["missing_triple"]),
        ":b :p 2": (1, "none", []),
        ":c :p 3": (0.5, "missing_triples", ["missing_triple", "extra_triple"]),
    }


def test_large_graphs_are_compared() -> None:
    lines = [f"_:n{index} :p _:n{(index + 1) % 20_000}" for index in range(20_000)]
    assert score_of(reference(turtle(*lines)), turtle(*lines[::-1])) == 1


TABLE = texts(("x",), names="s")
ASK = '{"head": {}, "boolean": true}'


@pytest.mark.parametrize(
    ("media_type", "expected", "text", "found", "outputs"),
    [
        pytest.param(
            "text/turtle",
            "a graph",
            EXPECTED,
            "a table",
            [TABLE, "s\nx\n", [{"s": "x"}]],
            id="table for a graph",
        ),
        pytest.param(
            "text/turtle",
            "a graph",
            EXPECTED,
            "the boolean of ASK",
            [ASK, "true"],
            id="boolean for a graph",
        ),
        pytest.param(
            SPARQL_RESULTS,
            "a table",
            TABLE,
            "a graph",
            [EXPECTED, '<urn:a> <urn:b> "c" .\n', JSON_LD],
            id="graph for a table",
        ),
        pytest.param(
            SPARQL_RESULTS,
            "the boolean of ASK",
            ASK,
            "a graph",
            [EXPECTED],
            id="graph for a boolean",
        ),
    ],
)
def test_results_of_another_kind_are_named(
    media_type: str, expected: str, text: str, found: str, outputs: list[Any]
) -> None:
    for output in outputs:
        for keys in ({}, {"score": "f1"}):
            result = result_of(reference(text, output_media_type=media_type, **keys), output)
            assert (result["steps_score"], result["failure"]) == (0, "wrong_query_result")
            assert result["steps_score_error"].endswith(f"output: expected {expected}, got {found}")
