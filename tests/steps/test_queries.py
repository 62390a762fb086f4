"""IRIs of queries, against the algebra of rdflib; reference queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdflib import RDF, URIRef
from rdflib.paths import AlternativePath, InvPath, MulPath, NegatedPath, Path, SequencePath
from rdflib.plugins.sparql.algebra import translateQuery, traverse
from rdflib.plugins.sparql.parser import parseQuery

from graphrag_eval_async import ReferenceDataError, load_reference, run_evaluation_sync
from graphrag_eval_async.steps.queries import RDF_TYPE, is_cypher_step, vocabulary
from graphrag_eval_async.steps.tokens import Token, form_of, mentions, tokens
from tests.steps.support import groups
from tests.support.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import Iterator

EX = "http://example.org/ns#"
PROLOGUE = f"PREFIX ex: <{EX}>\nPREFIX o: <urn:grid:>\n"

IRIS = st.sampled_from(
    ["ex:a", "ex:b.c", "ex:d-e", f"<{EX}a>", "o:x%20y", "<urn:grid:z>", "<http://a.b/(c)>"]
)
VARIABLES = st.sampled_from(["?x", "?y", "$z", "?long_name1"])
LITERALS = st.sampled_from(
    ["5", "1.5", "'b'", '"c d"@en', '"""e"f"""', '"}"', '"#"', "true", '"5"^^<urn:dt>', '"\\"<"']
)
PATHS = st.recursive(
    st.one_of(IRIS, st.just("a"), IRIS.map("^{}".format)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}){pair[1]}"),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'/'.join(parts)})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
    ),
    max_leaves=4,
)
SIMPLE = st.one_of(VARIABLES, IRIS, LITERALS)


def predicates(objects: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(objects, min_size=1, max_size=2).map(" , ".join)
    pairs = st.tuples(st.one_of(IRIS, st.just("a"), VARIABLES, PATHS), some).map(" ".join)
    return st.lists(pairs, min_size=1, max_size=2).map(" ; ".join)


TRIPLES = st.tuples(
    st.one_of(VARIABLES, IRIS, st.just("[]")),
    predicates(SIMPLE | predicates(SIMPLE).map("[ {} ]".format)),
).map(lambda pair: f"{pair[0]} {pair[1]} .")
FILTERS = st.sampled_from(
    ["FILTER(?x<5&&?y>3)", "FILTER regex(?x, '}{', 'i')", 'FILTER(!BOUND(?x) || STR(?y) = "a . b")']
)
FLAT = st.lists(TRIPLES | FILTERS, min_size=1, max_size=2).map(" ".join)
SELECT = "{{ SELECT ?x (COUNT(*) AS ?n) WHERE {{ {} }} GROUP BY ?x ORDER BY ?x LIMIT 5 }}"
GROUPS = st.recursive(
    FLAT,
    lambda inner: st.tuples(
        FLAT,
        st.sampled_from(["OPTIONAL {{ {} }}", "MINUS {{ {} }}", "GRAPH ?g {{ {} }}", SELECT]),
        inner,
        inner,
    ).map(
        lambda each: f"{each[0]} {each[1].format(each[2])} {{ {each[3]} }} UNION {{ {each[0]} }}"
    ),
    max_leaves=3,
)
FORMS = st.sampled_from(
    ["SELECT *", "SELECT DISTINCT ?x", "SELECT (?x + 1 AS ?e)", "ASK", "DESCRIBE ?x"]
)
QUERIES = st.tuples(FORMS, GROUPS).map(lambda pair: f"{PROLOGUE}{pair[0]} WHERE {{ {pair[1]} }}")


def of_path(path: Any) -> Iterator[str]:
    """The IRIs of a property path."""
    if isinstance(path, URIRef):
        yield str(path)
    elif isinstance(path, SequencePath | AlternativePath | NegatedPath):
        for part in path.args:
            yield from of_path(part)
    elif isinstance(path, InvPath):
        yield from of_path(path.arg)
    elif isinstance(path, MulPath):
        yield from of_path(path.path)


def by_algebra(text: str) -> dict[str, set[str]]:
    """Predicates and classes of the triple patterns, by rdflib."""
    found: dict[str, set[str]] = {"predicates": set(), "classes": set()}

    def visit(node: Any) -> None:
        for _, predicate, o in node.triples if getattr(node, "name", "") == "BGP" else ():
            iris = [*of_path(predicate)]
            is_typed = str(RDF.type) in iris and isinstance(o, URIRef)
            if isinstance(predicate, URIRef | Path):
                found["predicates"].update(
                    iri for iri in iris if not (is_typed and iri == str(RDF.type))
                )
            found["classes"].update([str(o)] if is_typed else [])

    traverse(translateQuery(parseQuery(text)).algebra, visitPre=visit)
    return found


@settings(max_examples=25)  # rdflib takes long.
@given(QUERIES)
def test_predicates_and_classes_are_those_of_the_algebra(text: str) -> None:
    found = vocabulary(text)
    assert {kind: {*found.get(kind, ())} for kind in ("predicates", "classes")} == by_algebra(text)


def respelled(token: Token) -> str:
    """A token with another name of its variable or prefix."""
    text = token.text
    if token.kind == "variable":
        return f"?of{text[1:]}"
    if token.kind == "word" and text != "a":
        return text.swapcase()
    return text.replace("ex:", "e-2:", 1) if token.kind == "name" else text


@given(QUERIES, st.sampled_from([" ", "\n\t", " # } <x' \r\n"]))
def test_spelling_makes_no_difference(text: str, space: str) -> None:
    other = space.join(map(respelled, tokens(text)))
    assert (vocabulary(text), form_of(text)) == (vocabulary(other), form_of(other))


@settings(max_examples=50)
@given(st.text() | st.text(alphabet="<>{}()[]\"'\\#?$@:.;,^|&!=+-*/ \n aeSELECTFILTRBIDVU01"))
def test_any_text_has_tokens_and_a_vocabulary(other: str) -> None:
    for text in (other, f"SELECT * {{ {other} }}", f"SELECT * {{ ?s ?p ?o FILTER({other}"):
        assert {*vocabulary(text)} <= {"predicates", "classes", "iris"}
        assert sum(len(token.text) for token in tokens(text)) <= len(text)


def test_time_is_linear() -> None:
    for part in ("FILTER(", '"a ', "{ ?s ex:%2 <a) "):
        text = "SELECT * {" + part * (20_000 // len(part))
        with affordable(2**18):
            vocabulary(text)
            mentions(text, "SERVICE")


SAME = [
    ("BIND", "{ ?s <urn:p> <urn:o> }", "{ BIND(<urn:o> AS ?o) ?s <urn:p> ?o }"),
    ("VALUES", "{ ?s <urn:p> <urn:o> }", "{ VALUES ?o { <urn:o> } ?s <urn:p> ?o }"),
    ("literals", "{ ?s <urn:p> 'x'@en }", '{ ?s <urn:p> "5"^^<urn:dt> }'),
    ("type", "{ ?s a <urn:C> }", f"{{ ?s <{RDF_TYPE}> <urn:C> }}"),
    (
        "filter and function",
        "{ ?s <urn:p> ?o }",
        "{ ?s <urn:p> ?o FILTER(?o != <urn:x>) BIND(<urn:f>(?o) AS ?y) }",
    ),
    ("FILTER NOT EXISTS", "{ ?s <urn:p> ?o }", "{ FILTER NOT EXISTS { ?s <urn:p> 1 } }"),
]
FULL = [
    ("BASE", "BASE <http://e/> ASK { <s> <p> <o> }", "PREFIX e: <http://e/> ASK { e:s e:p e:o }"),
    (
        "CONSTRUCT",
        "CONSTRUCT WHERE { ?s a <urn:C> }",
        "CONSTRUCT { ?s a <urn:C> } WHERE { ?x a <urn:C> }",
    ),
    ("DESCRIBE", "DESCRIBE <urn:x> LIMIT 5", "DESCRIBE * { VALUES ?x { <urn:x> } } LIMIT 6"),
    (
        "subquery",
        "ASK { ?s a <urn:C> }",
        "SELECT ?s { { SELECT * { ?s a <urn:C> } LIMIT 1 } } ORDER BY ?s LIMIT 5",
    ),
]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(pytest.param(f"ASK {one}", f"SELECT * {other}", id=name) for name, one, other in SAME),
        *(pytest.param(one, other, id=name) for name, one, other in FULL),
    ],
)
def test_the_same_iris(one: str, other: str) -> None:
    assert vocabulary(one) == vocabulary(other) != {}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("SELECT * { service silent ?x { ?s ?p ?o } }", id="lower case"),
        pytest.param(r"SELECT * { S\u0045RVICE <http://x/> { ?s ?p ?o } }", id="escaped letter"),
        pytest.param(
            "SELECT * { ?s ?p ?a FILTER(?a<?b)SERVICE?x#>\n{ ?s ?p ?o } }", id="no spaces"
        ),
        pytest.param("SELECT * {?s ?p trueSERVICE<urn:x>{?s ?p ?o}}", id="after a boolean"),
        pytest.param(
            r'SELECT * { ?s ?p "\u0022 #" ; <http://x/\u0041#> ?o . '
            r"SERVICE <http://x/> { ?a ?b ?c } }",
            id="after escapes",
        ),
        pytest.param(
            "SELECT * { ?s ?p '''it's''' SERVICE <http://x/> { ?s ?p ?o } }", id="after long quotes"
        ),
    ],
)
def test_service_is_seen(text: str) -> None:
    assert mentions(text, "SERVICE")


def test_service_as_data_is_none() -> None:
    for text in (
        "?service ?p 'SERVICE' # SERVICE\n",
        "?s <http://e.org/SERVICE> ?o",
        "?s ex:service ?o",
    ):
        assert not mentions(f"SELECT * {{ {text} }}", "SERVICE")


STEP: dict[str, Any] = {"name": "sparql_query", "output": "T1"}


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(5, id="number"),
        pytest.param("", id="empty"),
        pytest.param("hello", id="prose"),
        pytest.param("DELETE WHERE { ?s ?p ?o }", id="update"),
    ],
)
def test_a_reference_query_that_is_none_is_refused(query: Any) -> None:
    with pytest.raises(
        ReferenceDataError, match=r"reference_query: expected (a SPARQL query|text)"
    ):
        load_reference(groups([{**STEP, "reference_query": query}]))


def test_a_query_similarity_of_an_earlier_evaluation_is_ignored() -> None:
    similar = groups([{**STEP, "query_similarity": 0.5}])
    [result] = run_evaluation_sync(similar, [{"question_id": "q", "actual_steps": [STEP]}])
    assert result["steps_score"] == 1
    assert "query_similarity" not in result["reference_steps"][0][0]


MATCH = "MATCH (n) RETURN n"
SELECT = "PREFIX : <urn:a#> SELECT ?n { ?n a :N }"


@pytest.mark.parametrize(
    ("step", "is_cypher"),
    [
        pytest.param({"name": "cypher_query", "reference_query": MATCH}, True, id="reference"),
        pytest.param({"name": "Read-Neo4j-Cypher", "args": {"query": MATCH}}, True, id="arguments"),
        pytest.param({"name": "cypher_query", "args": {"cypher": MATCH}}, True, id="key"),
        pytest.param({"name": "cypher_query", "output": "[]"}, True, id="no query"),
        pytest.param({"name": "query_graph", "args": {"query": SELECT}}, False, id="SPARQL"),
        pytest.param({"name": "query_graph", "reference_query": SELECT}, False, id="SPARQL too"),
        pytest.param({"name": "sparql_query", "args": {"query": MATCH}}, False, id="other name"),
        pytest.param({"args": {"query": MATCH}}, False, id="no name"),
        pytest.param(
            {"name": "run", "output_media_type": "application/vnd.neo4j.query"},
            True,
            id="media type",
        ),
    ],
)
def test_steps_with_cypher_are_known_by_name_or_output(
    step: dict[str, Any], is_cypher: bool
) -> None:
    assert is_cypher_step(step) == is_cypher


@pytest.mark.parametrize(
    ("name", "query", "problem"),
    [
        pytest.param("cypher_query", MATCH, None, id="Cypher"),
        pytest.param("query_graph", SELECT, None, id="SPARQL"),
        pytest.param("sparql_query", MATCH, "expected a SPARQL query", id="Cypher for SPARQL"),
    ],
)
def test_reference_queries_are_in_the_language_of_their_step(
    name: str, query: str, problem: str | None
) -> None:
    step = {"name": name, "reference_query": query}
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    templates = [{"template_id": "t", "questions": [question]}]
    if problem is None:
        load_reference(templates)
        return
    with pytest.raises(ReferenceDataError, match=problem):
        load_reference(templates)
