"""Elements of queries: against the algebra of rdflib, and of any text."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from rdflib import RDF, URIRef, Variable
from rdflib.paths import AlternativePath, InvPath, MulPath, NegatedPath, Path, SequencePath
from rdflib.plugins.sparql.algebra import translateQuery, traverse
from rdflib.plugins.sparql.parser import parseQuery

from graphrag_eval_async.steps.sparql.elements import RDF_TYPE
from graphrag_eval_async.steps.sparql.query import query_of, read_query, similarity
from graphrag_eval_async.steps.sparql.tokens import Token, form_of, mentions, tokens
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterator

EX, OTHER = "http://example.org/ns#", "urn:grid:"
PROLOGUE = f"PREFIX ex: <{EX}>\nPREFIX o: <{OTHER}>\n"

IRIS = st.sampled_from(
    ["ex:a", "ex:b.c", "ex:d-e", f"<{EX}a>", "o:x", "o:x%20y", f"<{OTHER}z>", "<http://a.b/(c)>"]
)
VARIABLES = st.sampled_from(["?x", "?y", "$z", "?long_name1"])
LITERALS = st.sampled_from(
    ["5", "1.5", '"a"', "'b'", '"c d"@en', '"""e"f"""', '"}"', '"#"', "true", '"5"^^<urn:dt>', '"\\"<"']
)
SUBJECTS = st.one_of(VARIABLES, VARIABLES, IRIS, st.just("[]"))
PRIMARY = st.one_of(IRIS, st.just("a"), IRIS.map("^{}".format))


def paths() -> st.SearchStrategy[str]:
    return st.recursive(
        PRIMARY,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}){pair[1]}"),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'/'.join(parts)})"),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        ),
        max_leaves=4,
    )


PREDICATES = st.one_of(IRIS, IRIS, st.just("a"), VARIABLES, paths())
SIMPLE = st.one_of(VARIABLES, IRIS, LITERALS)


@st.composite
def triples(draw: Any) -> str:
    def objects(nested: bool) -> str:
        found = []
        for _ in range(draw(st.integers(1, 2))):
            if nested and draw(st.booleans()):
                found.append(f"[ {predicates(nested=False)} ]")
            else:
                found.append(draw(SIMPLE))
        return " , ".join(found)

    def predicates(*, nested: bool) -> str:
        return " ; ".join(f"{draw(PREDICATES)} {objects(nested)}" for _ in range(draw(st.integers(1, 2))))

    return f"{draw(SUBJECTS)} {predicates(nested=True)} ."


FILTERS = st.sampled_from(
    [
        "FILTER(?x < 5)",
        "FILTER(?x<5&&?y>3)",
        "FILTER regex(?x, '}{', 'i')",
        "FILTER(?x IN (ex:a, 2))",
        'FILTER(!BOUND(?x) || STR(?y) = "a . b")',
    ]
)


def groups() -> st.SearchStrategy[str]:
    flat = st.lists(st.one_of(triples(), triples(), FILTERS), min_size=1, max_size=2).map(" ".join)
    return st.recursive(
        flat,
        lambda inner: st.lists(
            st.one_of(
                flat,
                inner.map("OPTIONAL {{ {} }}".format),
                inner.map("{{ {} }}".format),
                st.tuples(inner, inner).map(lambda pair: f"{{ {pair[0]} }} UNION {{ {pair[1]} }}"),
                inner.map("MINUS {{ {} }}".format),
                inner.map("GRAPH ?g {{ {} }}".format),
                inner.map(
                    "{{ SELECT ?x (COUNT(*) AS ?n) WHERE {{ {} }} GROUP BY ?x ORDER BY ?x LIMIT 5 }}".format
                ),
            ),
            min_size=1,
            max_size=2,
        ).map(" ".join),
        max_leaves=3,
    )


QUERIES = st.tuples(
    st.sampled_from(["SELECT *", "SELECT DISTINCT ?x", "SELECT (?x + 1 AS ?e)", "ASK", "DESCRIBE ?x"]),
    groups(),
).map(lambda pair: f"{PROLOGUE}{pair[0]} WHERE {{ {pair[1]} }}")


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


def by_algebra(text: str) -> tuple[Counter[str], Counter[str]]:
    """Predicates and classes of the triple patterns, by rdflib."""
    predicates: Counter[str] = Counter()
    classes: Counter[str] = Counter()

    def visit(node: Any) -> None:
        for _, predicate, o in (
            getattr(node, "triples", None) or () if getattr(node, "name", "") == "BGP" else ()
        ):
            iris = [*of_path(predicate)]
            is_typed = str(RDF.type) in iris and isinstance(o, URIRef)
            if isinstance(predicate, URIRef | Path):
                predicates.update(iri for iri in iris if not (is_typed and iri == str(RDF.type)))
            if is_typed:
                classes[str(o)] += 1

    traverse(translateQuery(parseQuery(text)).algebra, visitPre=visit)
    return predicates, classes


@settings(deadline=None, max_examples=25)  # rdflib takes long.
@given(QUERIES)
def test_predicates_and_classes_are_those_of_the_algebra(text: str) -> None:
    query = read_query(text)
    predicates, classes = by_algebra(text)
    found: dict[str, Counter[str]] = {"predicate": Counter(), "class": Counter()}
    for (kind, iri), count in query.elements.items():
        if kind in found:
            found[kind][iri] += count
    assert (found["predicate"], found["class"]) == (predicates, classes)
    assert query.form == form_of(text)


Tree = tuple[Any, ...]
LEAVES = st.sampled_from([("?x",), ("?y",), ("1",), ("2.5",), ("ex:a",), ('"<"',)])
SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
SWAPPED |= {own: own for own in ("&&", "||", "+", "*")}
TIGHTNESS = dict.fromkeys(SWAPPED, 2) | {"||": 0, "&&": 1, "+": 3, "-": 3, "*": 4, "/": 4}


def trees() -> st.SearchStrategy[Tree]:
    return st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            *[st.tuples(st.just(operator), inner, inner) for operator in TIGHTNESS],
            st.tuples(st.sampled_from(["!", "-", "STR", "IN"]), inner),
        ),
        max_leaves=4,
    )


def swapped(tree: Tree, draw: Any) -> Tree:
    """The tree with some operands swapped."""
    if len(tree) < 2:
        return tree
    operator, *operands = (tree[0], *(swapped(each, draw) for each in tree[1:]))
    if operator in SWAPPED and draw(st.booleans()):
        return SWAPPED[operator], *reversed(operands)
    return operator, *operands


def written(tree: Tree, draw: Any, around: float = -1) -> str:
    """A tree as SPARQL, with the brackets that it needs, and some more."""
    if len(tree) == 1:
        return str(tree[0])
    operator, *operands = tree
    if operator == "STR":
        return f"STR({written(operands[0], draw)})"
    if operator == "IN":
        return f"({written(operands[0], draw, 2.5)} IN (2, ?x))"
    if operator in "!-" and len(operands) == 1:
        return f"{operator} {written(operands[0], draw, 9)}"
    own = TIGHTNESS[operator]
    left, right = (written(each, draw, own + more) for each, more in zip(operands, (0, 0.5), strict=True))
    text = f"{left} {operator} {right}"
    loose = own < around or own == around == 2
    return f"( {text} )" if loose or not draw(st.integers(0, 4)) else text


def canonical(node: Any) -> Any:
    """An expression of rdflib as nested tuples that do not depend on the order of operands."""
    name = getattr(node, "name", None)
    if name is None:
        return "term", "?" if isinstance(node, Variable) else node.n3()
    if name in {"ConditionalOrExpression", "ConditionalAndExpression"}:
        return unordered(name, [canonical(each) for each in (node.expr, *node.other)])
    if name == "RelationalExpression":
        one, other = canonical(node.expr), node.other
        if node.op == "IN":
            return "IN", one, sorted(repr(canonical(each)) for each in other)
        pair = (one, canonical(other))
        if node.op in {"=", "!="}:
            return node.op, sorted(pair, key=repr)
        return node.op.replace(">", "<"), list(pair if "<" in node.op else pair[::-1])
    if name in {"AdditiveExpression", "MultiplicativeExpression"}:
        plain = "+" if name == "AdditiveExpression" else "*"
        operands = zip([plain, *node.op], [node.expr, *node.other], strict=True)
        found: list[Any] = []
        for operator, operand in operands:
            own = canonical(operand)
            found += own[1] if operator == plain and own[0] == name else [(operator, own)]
        return name, sorted(found, key=repr)
    return name, canonical(node.expr if "expr" in node else node.arg)


def unordered(name: str, operands: list[Any]) -> Any:
    joined = [each for own in operands for each in (own[1] if own[0] == name else [own])]
    return name, sorted(joined, key=repr)


@settings(deadline=None, max_examples=25)  # rdflib takes long.
@given(st.data())
def test_filters_are_equal_if_the_algebra_is_but_for_the_order_of_operands(data: st.DataObject) -> None:
    tree = data.draw(trees())
    other = swapped(tree, data.draw) if data.draw(st.booleans()) else data.draw(trees())
    found, algebra = [], []
    for own in (tree, other):
        text = f"{PROLOGUE}ASK {{ ?x ?p ?y FILTER ({written(own, data.draw)}) }}"
        read = read_query(text).elements
        found.append({element: count for element, count in read.items() if element[0] == "filter"})
        algebra.append(canonical(translateQuery(parseQuery(text)).algebra.p.p.expr))
    event(f"equal: {algebra[0] == algebra[1]}")
    assert (found[0] == found[1]) == (algebra[0] == algebra[1])


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
    assert one.elements == other.elements
    assert similarity(one, other) == 1


@settings(max_examples=50)
@given(st.text(), st.text(alphabet="<>{}()[]\"'\\#?$@:.;,^|&!=+-*/ \n aeSELECTFILTRBIDVU01"))
def test_any_text_has_tokens_and_elements(one: str, other: str) -> None:
    for text in (one, other, f"SELECT * {{ {other} }}", f"SELECT * {{ ?s ?p ?o FILTER({other}"):
        spelled = "".join(token.text for token in tokens(text))
        assert len(spelled) <= len(text)
        assert 0 <= similarity(read_query(text), read_query(one)) <= 1
        assert similarity(read_query(text), read_query(text)) == 1
        mentions(text, "SERVICE")


@each(
    "part",
    [
        *(
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            "<",
            '"""',
            "'''a",
            '"',
            "a.",
            "a-",
            "a:",
            "ex:a.",
            "FILTER(",
            "SELECT ",
            "VALUES ",
        ),
        *(
            "<<",
            ">>",
            "{|",
            "|}",
            "?s ?p ",
            "&&",
            "BIND(",
            "SELECT * {FILTER((",
            "FILTER(1+(",
            "FILTER(1<2)",
            "FILTER(a(1,",
            "VALUES {",
            "\\u0041",
            "_:",
            "1e",
            "^^",
            "@",
        ),
        *(
            '""""',
            "'\\",
            "SELECT }",
            "GRAPH ",
            "!(",
            "a/",
            "[ a ",
            "((1)",
            "FILTER EXISTS {",
            "<a)",
            "%20",
            "ex:%2",
        ),
    ],
)
def test_time_is_linear(part: str) -> None:
    text = "SELECT * {" + part * (20_000 // len(part))
    start = time.process_time()
    read_query(text)
    mentions(text, "SERVICE")
    assert time.process_time() - start < 2  # 0.2 s at most.


SAME = [
    ("SELECT * { ?s <urn:p> 1.0 }", "SELECT ?s { ?s <urn:p> 01 . }"),
    ("SELECT * { ?s <urn:p> <urn:o> }", "SELECT * { BIND(<urn:o> AS ?o) ?s <urn:p> ?o }"),
    ("SELECT * { ?s <urn:p> <urn:o> }", "SELECT * { VALUES ?o { <urn:o> } ?s <urn:p> ?o }"),
    ("SELECT * { ?s <urn:p> '5' }", 'SELECT * { ?s <urn:p> "5"^^<http://www.w3.org/2001/XMLSchema#string> }'),
    ("SELECT * { ?s <urn:p> 5 }", 'SELECT * { ?s <urn:p> "5"^^<http://www.w3.org/2001/XMLSchema#integer> }'),
    ("SELECT * { ?s a <urn:C> }", f"SELECT * {{ ?s <{RDF_TYPE}> <urn:C> }}"),
    ("ASK { ?a ?b ?c FILTER(?a > 1 && ?b < 2) }", "ASK { ?x ?y ?z FILTER(?x>1.0) FILTER ((?y < 2)) }"),
    ("ASK { ?a ?b ?c FILTER(?a+1 = 2) }", "ASK { ?a ?b ?c FILTER(?a + 1 = 2) }"),
    ("ASK { ?a ?b ?c FILTER regex(?a, 'x') }", 'ASK { ?a ?b ?c FILTER (REGEX(?a, "x")) }'),
    ("BASE <http://e/> ASK { <s> <p> <o> }", "PREFIX e: <http://e/> ASK { e:s e:p e:o }"),
    ("ASK { ?s ?p ?o FILTER(?o > 5) }", "ASK { ?s ?p ?o FILTER(5 < ?o) }"),
    ("ASK { ?s ?p ?o FILTER(?o >= 5 && ?o != 7) }", "ASK { ?s ?p ?o FILTER(7 != ?o) FILTER((5 <= ?o)) }"),
    ("ASK { ?s ?p ?o FILTER(2 * ?o + 1 = 7 || !?o) }", "ASK { ?s ?p ?o FILTER(!?o || (7 = 1 + (?o * 2))) }"),
    ("ASK { ?s ?p ?o FILTER(?o IN (1, 2)) }", "ASK { ?s ?p ?o FILTER(?o IN (2, 1)) }"),
    ("ASK { ?s ?p ?o BIND(?o + 1 AS ?n) }", "ASK { ?s ?p ?o BIND(1 + ?o AS ?m) }"),
    ("CONSTRUCT WHERE { ?s a <urn:C> }", "CONSTRUCT { ?s a <urn:C> } WHERE { ?x a <urn:C> }"),
    ("ASK { FILTER NOT EXISTS { ?s <urn:p> 1 } }", "ASK { FILTER (not exists { ?s <urn:p> 1.0 . }) }"),
    ("ASK { ?s a 5 }", "ASK { ?s a 5.0 }"),
    ("ASK { ?s <urn:p> 'x'@EN }", 'ASK { ?s <urn:p> "\\u0078"@en }'),
]


@each(("one", "other"), SAME)
def test_the_same_elements(one: str, other: str) -> None:
    assert read_query(one).elements == read_query(other).elements
    assert similarity(read_query(one), read_query(other)) == 1


@each(
    ("one", "other"),
    [
        ("?o < 5", "5 < ?o"),
        ("?o - 1", "1 - ?o"),
        ("?o / 2", "2 / ?o"),
        ("STR(?o)", "LANG(?o)"),
        ("?o < 5", "?o <= 5"),
    ],
)
def test_filters_that_differ(one: str, other: str) -> None:
    first, second = (read_query(f"ASK {{ ?s ?p ?o FILTER({each}) }}") for each in (one, other))
    assert similarity(first, second) == 0


def test_similarity_is_the_f1_of_elements() -> None:
    one = read_query("SELECT * { ?s <urn:p> ?o ; <urn:q> ?v FILTER(?v > 5) }")
    other = read_query("SELECT * { ?s <urn:p> ?o ; <urn:r> ?v . ?v <urn:p> ?w FILTER(?v > 6) }")
    assert similarity(one, other) == pytest.approx(2 * 1 / (3 + 4))  # Only <urn:p>, once.
    nothing = read_query("SELECT * { ?s ?p ?o }")
    assert similarity(one, nothing) == 0
    assert similarity(nothing, nothing) == 1
    assert similarity(nothing, read_query("ASK { ?s ?p ?o }")) == 0
    short, table = read_query("CONSTRUCT WHERE { ?s <urn:p> ?o }"), read_query("SELECT * { ?s <urn:p> ?o }")
    assert similarity(short, table) == pytest.approx(2 * 1 / (2 + 1))


def test_prefixes_of_the_reference_are_known() -> None:
    reference = read_query("PREFIX cim: <urn:cim#> SELECT * { ?s cim:p ?o }")
    assert similarity(reference, read_query("SELECT * { ?s cim:p ?o }", reference.prefixes)) == 1
    assert similarity(reference, read_query("SELECT * { ?s cim:p ?o }")) == 0
    own = read_query("PREFIX cim: <urn:own#> SELECT * { ?s cim:p ?o }", reference.prefixes)
    assert similarity(reference, own) == 0


def test_vocabulary() -> None:
    where = "GRAPH e:g { ?s a e:C ; e:p/e:q* e:o, 'text', ?o }"
    query = read_query(f"PREFIX e: <urn:e:> CONSTRUCT {{ ?s e:made ?o }} WHERE {{ {where} }}")
    assert query.form == "CONSTRUCT"
    assert query.vocabulary() == {
        "predicates": ["urn:e:made", "urn:e:p", "urn:e:q"],
        "classes": ["urn:e:C"],
        "iris": ["urn:e:g", "urn:e:o"],
    }


@each(
    ("text", "form"),
    [
        ("SELECT * {}", "SELECT"),
        ("prefix a: <urn:b> # SELECT\n base <urn:c> ask {}", "ASK"),
        ("CONSTRUCT WHERE {}", "CONSTRUCT"),
        ("describe <urn:x>", "DESCRIBE"),
        (r"PREFIX a: <http://x/#\u0041\U00000042> ASK {}", "ASK"),
        ("INSERT DATA { <a:b> <a:b> 1 }", "UPDATE"),
        ("PREFIX a: <urn:b> DELETE WHERE { ?s ?p ?o }", "UPDATE"),
        ("LOAD <http://x/>", "UPDATE"),
        ("Bergheim", None),
        ("{", None),
        ("", None),
    ],
)
def test_form(text: str, form: str | None) -> None:
    assert form_of(text) == form
    assert read_query(text).form == form


@each(
    "text",
    [
        "SELECT * { SERVICE <http://x/> { ?s ?p ?o } }",
        "SELECT * { service silent ?x { ?s ?p ?o } }",
        r"SELECT * { S\u0045RVICE <http://x/> { ?s ?p ?o } }",
        "SELECT * { ?s ?p ?a FILTER(?a<?b)SERVICE?x#>\n{ ?s ?p ?o } }",
        "PREFIX ex: <urn:x:> SELECT * {SERVICEex:x {?s ?p ?o}}",
        "PREFIX : <urn:x:> SELECT * {SERVICE:x {?s ?p ?o}}",
        "SELECT * {?s ?p trueSERVICE<urn:x>{?s ?p ?o}}",
        "SELECT * { # \n SERVICE <http://x/> {} }",
        r'SELECT * { ?s ?p "\u0022 #" ; <http://x/\u0041#> ?o . SERVICE <http://x/> { ?a ?b ?c } }',
        "SELECT * { ?s ?p '''it's''' SERVICE <http://x/> { ?s ?p ?o } }",
    ],
)
def test_service_is_seen(text: str) -> None:
    assert mentions(text, "SERVICE")


@each(
    "text",
    [
        "SELECT * { ?service ?p 'SERVICE' # SERVICE\n }",
        'SELECT * { ?s <http://example.org/SERVICE> """SERVICE""" }',
        "SELECT * { ?s ex:service ?o }",
    ],
)
def test_service_as_data_is_none(text: str) -> None:
    assert not mentions(text, "SERVICE")


@each(
    ("step", "text"),
    [
        ({"args": {"query": "ASK {}"}}, "ASK {}"),
        ({"args": {"sparql": "ASK {}", "query": 5}}, "ASK {}"),
        ({"args": {"queryString": "ASK {}"}}, "ASK {}"),
        ({"sparql_query": "ASK {}"}, "ASK {}"),
        ({"args": "ASK {}"}, None),
        ({"args": {"query": "  "}}, None),
        ({}, None),
    ],
)
def test_query_of(step: dict[str, Any], text: str | None) -> None:
    assert query_of(step) == text


def test_odd_literals_do_not_fail() -> None:
    read_query("BASE <http://[> ASK { <a> <b> '\\uD800' , 1e999, '5'^^ }")
