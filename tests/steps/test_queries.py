"""Elements of queries, against the algebra of rdflib; their similarity, from responses to results."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdflib import RDF, URIRef
from rdflib.paths import AlternativePath, InvPath, MulPath, NegatedPath, Path, SequencePath
from rdflib.plugins.sparql.algebra import translateQuery, traverse
from rdflib.plugins.sparql.parser import parseQuery

from graphrag_eval_async import (
    ReferenceDataError,
    compute_aggregates,
    load_reference,
    run_evaluation_sync,
)
from graphrag_eval_async.steps.queries import RDF_TYPE, read_query
from graphrag_eval_async.steps.similarity import TOO_LONG, similarity
from graphrag_eval_async.steps.tokens import Token, form_of, mentions, tokens
from tests.steps.support import XSD, groups
from tests.support.cases import each
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
    st.one_of(VARIABLES, IRIS, st.just("[]")), predicates(SIMPLE | predicates(SIMPLE).map("[ {} ]".format))
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
    ).map(lambda each: f"{each[0]} {each[1].format(each[2])} {{ {each[3]} }} UNION {{ {each[0]} }}"),
    max_leaves=3,
)
FORMS = st.sampled_from(["SELECT *", "SELECT DISTINCT ?x", "SELECT (?x + 1 AS ?e)", "ASK", "DESCRIBE ?x"])
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


def by_algebra(text: str) -> Counter[tuple[str, str]]:
    """Predicates and classes of the triple patterns, by rdflib."""
    found: Counter[tuple[str, str]] = Counter()

    def visit(node: Any) -> None:
        for _, predicate, o in node.triples if getattr(node, "name", "") == "BGP" else ():
            iris = [*of_path(predicate)]
            is_typed = str(RDF.type) in iris and isinstance(o, URIRef)
            if isinstance(predicate, URIRef | Path):
                found.update(("predicate", iri) for iri in iris if not (is_typed and iri == str(RDF.type)))
            found.update([("class", str(o))] if is_typed else [])

    traverse(translateQuery(parseQuery(text)).algebra, visitPre=visit)
    return found


@settings(max_examples=25)  # rdflib takes long.
@given(QUERIES)
def test_predicates_and_classes_are_those_of_the_algebra(text: str) -> None:
    found = read_query(text).elements
    ours = {key: count for key, count in found.items() if key[0] in {"predicate", "class"}}
    assert ours == by_algebra(text)


SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="} | {own: own for own in ("=", "!=", "&&", "||", "+")}
LEAVES = st.sampled_from(["?x", "1", "2.5", "ex:a", '"<"', "STR(?x)", "?x IN (1, 2)", "!BOUND(?x)"])
TERMS = LEAVES | st.tuples(st.just("+"), LEAVES, LEAVES)
OPERATORS = st.sampled_from([*SWAPPED][:-1])
CONDITIONS = st.recursive(TERMS, lambda inner: st.tuples(OPERATORS, inner, inner), max_leaves=5)


def written(tree: Any, *, swap: bool) -> str:
    if isinstance(tree, str):
        return tree
    one, other = (f"({written(operand, swap=swap)})" for operand in tree[1:])
    return f"{other} {SWAPPED[tree[0]]} {one}" if swap else f"{one} {tree[0]} {other}"


@given(CONDITIONS)
def test_operands_may_be_swapped(tree: Any) -> None:
    one, other = (read_query(f"ASK {{ FILTER({written(tree, swap=swap)}) }}") for swap in (False, True))
    assert one.elements == other.elements


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
    one, other = read_query(text), read_query(space.join(map(respelled, tokens(text))))
    assert (one.elements, one.form) == (other.elements, form_of(text))
    assert similarity(one, other) == 1


@settings(max_examples=50)
@given(st.text() | st.text(alphabet="<>{}()[]\"'\\#?$@:.;,^|&!=+-*/ \n aeSELECTFILTRBIDVU01"))
def test_any_text_has_elements(other: str) -> None:
    for text in (other, f"SELECT * {{ {other} }}", f"SELECT * {{ ?s ?p ?o FILTER({other}"):
        assert similarity(read_query(text), read_query(text)) == 1
        assert sum(len(token.text) for token in tokens(text)) <= len(text)


def test_time_is_linear() -> None:
    for part in ("FILTER(", '"a ', "{ ?s ex:%2 <a) "):
        text = "SELECT * {" + part * (20_000 // len(part))
        with affordable(2**18):
            read_query(text)
            mentions(text, "SERVICE")


SAME = [
    ("{ ?s <urn:p> <urn:o> }", "{ BIND(<urn:o> AS ?o) ?s <urn:p> ?o }"),
    ("{ ?s <urn:p> <urn:o> }", "{ VALUES ?o { <urn:o> } ?s <urn:p> ?o }"),
    ("{ ?s <urn:p> '5' }", f'{{ ?s <urn:p> "5"^^<{XSD}string> }}'),
    ("{ ?s <urn:p> 5 }", f'{{ ?s <urn:p> "5"^^<{XSD}integer> }}'),
    ("{ ?s <urn:p> 'x'@EN }", '{ ?s <urn:p> "\\u0078"@en }'),
    ("{ ?s a <urn:C> }", f"{{ ?s <{RDF_TYPE}> <urn:C> }}"),
    ("{ ?a ?b ?c FILTER(?a > 1 && ?b < 2) }", "{ ?x ?y ?z FILTER(?x>1.0) FILTER ((?y < 2)) }"),
    ("{ ?a ?b ?c FILTER regex(?a, 'x') }", '{ ?a ?b ?c FILTER (REGEX(?a, "x")) }'),
    ("{ FILTER NOT EXISTS { ?s <urn:p> 1 } }", "{ FILTER (not exists { ?s <urn:p> 1.0 . }) }"),
]
FULL = [
    ("BASE <http://e/> ASK { <s> <p> <o> }", "PREFIX e: <http://e/> ASK { e:s e:p e:o }"),
    ("CONSTRUCT WHERE { ?s a <urn:C> }", "CONSTRUCT { ?s a <urn:C> } WHERE { ?x a <urn:C> }"),
    ("DESCRIBE <urn:x> LIMIT 5", "DESCRIBE * { VALUES ?x { <urn:x> } } LIMIT 6"),
    ("ASK { ?s a <urn:C> }", "SELECT ?s { { SELECT * { ?s a <urn:C> } LIMIT 1 } } ORDER BY ?s LIMIT 5"),
]


@each(("one", "other"), [*((f"ASK {one}", f"SELECT * {other}") for one, other in SAME), *FULL])
def test_the_same_elements(one: str, other: str) -> None:
    assert read_query(one).elements == read_query(other).elements


def test_similarity_is_the_f1_of_elements() -> None:
    one = read_query("SELECT * { ?s <urn:p> ?o ; <urn:q> ?v FILTER(?v > 5) }")
    other = read_query("SELECT * { ?s <urn:p> ?o ; <urn:r> ?v . ?v <urn:p> ?w FILTER(?v > 6) }")
    assert similarity(one, other) == pytest.approx(2 * 1 / (3 + 4))  # Only <urn:p>, once.
    nothing = read_query("SELECT * { ?s ?p ?o }")
    assert (similarity(one, nothing), similarity(nothing, nothing)) == (0, 1)
    filters = [read_query(f"ASK {{ ?s ?p ?o FILTER({each}) }}") for each in ("?o - 1", "1 - ?o")]
    assert similarity(*filters) == 0
    assert similarity(nothing, read_query("ASK { ?s ?p ?o }")) == 0
    short, table = read_query("CONSTRUCT WHERE { ?s <urn:p> ?o }"), read_query("SELECT * { ?s <urn:p> ?o }")
    assert similarity(short, table) == pytest.approx(2 * 1 / (2 + 1))


def test_prefixes_of_the_reference_are_known() -> None:
    reference = read_query("PREFIX cim: <urn:cim#> SELECT * { ?s cim:p ?o }")
    for prologue, known, expected in (
        ("", reference.prefixes, 1),
        ("", {}, 0),
        ("PREFIX cim: <urn:own#>", reference.prefixes, 0),
    ):
        other = read_query(f"{prologue} SELECT * {{ ?s cim:p ?o }}", known)
        assert similarity(reference, other) == expected


@each(
    "text",
    [
        "SELECT * { service silent ?x { ?s ?p ?o } }",
        r"SELECT * { S\u0045RVICE <http://x/> { ?s ?p ?o } }",
        "SELECT * { ?s ?p ?a FILTER(?a<?b)SERVICE?x#>\n{ ?s ?p ?o } }",
        "SELECT * {?s ?p trueSERVICE<urn:x>{?s ?p ?o}}",
        r'SELECT * { ?s ?p "\u0022 #" ; <http://x/\u0041#> ?o . SERVICE <http://x/> { ?a ?b ?c } }',
        "SELECT * { ?s ?p '''it's''' SERVICE <http://x/> { ?s ?p ?o } }",
    ],
)
def test_service_is_seen(text: str) -> None:
    assert mentions(text, "SERVICE")


def test_service_as_data_is_none() -> None:
    for text in ("?service ?p 'SERVICE' # SERVICE\n", "?s <http://e.org/SERVICE> ?o", "?s ex:service ?o"):
        assert not mentions(f"SELECT * {{ {text} }}", "SERVICE")


REFERENCE_QUERY = (
    "PREFIX cim: <urn:cim#> SELECT * { ?t a cim:Transformer ; cim:name ?name ; cim:in <urn:oslo> }"
)
STEP: dict[str, Any] = {"name": "sparql_query", "output": "T1", "reference_query": REFERENCE_QUERY}
SAME_QUERY = "SELECT ?t ?n { ?t a cim:Transformer . ?t cim:in <urn:oslo> . ?t cim:name ?n }"
HALF = "SELECT ?t { ?t a cim:Transformer ; cim:name ?n ; cim:at <urn:bergen> }"


def ran(query: str, output: str = "T1", **keys: Any) -> dict[str, Any]:
    step = {"name": "sparql_query", "status": "success", "output": output}
    return {**step, "args": {"query": query}, **keys}


def evaluate(
    reference: list[list[dict[str, Any]]], steps: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    [result] = run_evaluation_sync(groups(*reference), [{"question_id": "q", "actual_steps": steps}], **more)
    return result


# The elements are a class, two predicates, and a constant.
CASES: list[tuple[float, list[dict[str, Any]]]] = [
    (1, [ran(SAME_QUERY)]),
    (0.5, [ran(HALF)]),
    (0.5, [ran(SAME_QUERY, output="T2"), ran(HALF)]),  # The step that was matched counts,
    (1, [ran(SAME_QUERY, output="T2"), ran(HALF, output="T3")]),  # or else the most similar one,
    (1, [ran(SAME_QUERY, status="error")]),  # even if it failed.
    (1, [ran(SAME_QUERY + " " * 90_000)]),
    (0, [ran("no query at all")]),
    (0, [ran(SAME_QUERY, name="other")]),
    (0, [ran(SAME_QUERY, args={})]),
    (0, []),
]


def test_similarity_of_a_response() -> None:
    for expected, steps in CASES:
        result = evaluate([[STEP]], steps)
        assert result["query_similarity"] == expected, steps
        assert result["reference_steps"][0][0]["query_similarity"] == expected
        assert result["steps_score"] == any(
            step["output"] == "T1" and step["status"] == "success" and step["name"] == "sparql_query"
            for step in steps
        )


def test_a_result_has_the_mean_over_all_groups() -> None:
    other = {**STEP, "name": "sparql_count", "output": "5"}
    plain = {"name": "grid_api", "output": "1"}
    result = evaluate([[other], [plain, STEP]], [ran(HALF, name="sparql_count"), ran(SAME_QUERY)])
    assert result["query_similarity"] == 0.75
    [[one], [none, two]] = result["reference_steps"]
    assert (one["query_similarity"], two["query_similarity"]) == (0.5, 1)
    assert "query_similarity" not in none
    without = evaluate([[plain]], [ran(SAME_QUERY)])
    assert "query_similarity" not in without
    assert "query_similarity" not in compute_aggregates([without])["micro"]


def test_queries_in_arguments_are_compared_on_demand() -> None:
    step = {"name": "sparql_query", "output": "T1", "args": {"query": REFERENCE_QUERY}}
    for on in (False, True):
        result = evaluate([[step]], [ran(SAME_QUERY)], config={"steps": {"query_similarity": on}})
        assert result.get("query_similarity") == (1 if on else None)


def test_a_query_that_is_too_long_scores_0_and_says_so() -> None:
    result = evaluate([[STEP]], [ran(SAME_QUERY + " " * 200_000)])
    assert (result["query_similarity"], result["steps_score_error"]) == (0, TOO_LONG)


@each("query", [5, "", "hello", "DELETE WHERE { ?s ?p ?o }"])
def test_a_reference_query_that_is_none_is_refused(query: Any) -> None:
    with pytest.raises(ReferenceDataError, match=r"reference_query: [Ee]xpected (a SPARQL query|`str)"):
        load_reference(groups([{**STEP, "reference_query": query}]))
