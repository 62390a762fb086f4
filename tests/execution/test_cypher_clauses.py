"""Which Cypher queries are sent to a database: one statement that only reads."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.execution.cypher_clauses import OTHER_CLAUSES, check_cypher
from graphrag_eval_async.execution.outcomes import QueryFailed

READING = {
    "match": "MATCH (n:Person {name: 'x'})-[r:KNOWS|LIKES*1..3 {since: 1}]->(m) RETURN n, m;",
    "where": "MATCH (n) WHERE n.age > 3 AND NOT n.x IS NOT NULL OR n.y XOR n.z RETURN n",
    "lower case": "match (n) where not n.x return n order by n.x desc skip 1 limit 2",
    "optional": "OPTIONAL MATCH (a)-->(b)<--(c)--(d) WITH *, a AS x WHERE x:Foo&!Bar RETURN *",
    "unwind": "UNWIND $rows AS row MATCH (n {id: row.id}) RETURN n[0], n['a'], row[1..], row[..2]",
    "text": "MATCH (n) WHERE n.a STARTS WITH 'a' OR n.a ENDS WITH 'b' OR n.a =~ 'c' RETURN n",
    "union": "MATCH (n) RETURN n.x AS x UNION ALL MATCH (m) RETURN m.x AS x UNION RETURN 1 AS x",
    "projection": "MATCH (n) RETURN n { .name, .*, key: 1, other: n.x }",
    "exists": "MATCH (n) WHERE EXISTS { (n)-[:R]->(m) WHERE m.x = 1 } RETURN n",
    "not exists": "MATCH (n) WHERE NOT EXISTS { MATCH (n)-->(m) } RETURN n",
    "count": "MATCH (n) RETURN COUNT {(n)--()}, COLLECT { MATCH (n)-->(k) RETURN k.name } AS l",
    "call subquery": "MATCH (n) CALL { WITH n MATCH (n)-->(m) RETURN m } WITH m RETURN m",
    "call with variables": "MATCH (n) CALL (n, *) { MATCH (n)-->(m) RETURN m } RETURN m",
    "procedure": "CALL db.labels() YIELD label AS l WHERE l <> 'x' RETURN l",
    "procedure alone": "CALL db.labels",
    "procedure of Ladybug": "CALL show_tables() RETURN *",
    "paths": "MATCH p = shortestPath((a)-[*]-(b)) RETURN [x IN nodes(p) WHERE x.a > 1 | x.b]",
    "any shortest": "MATCH p = ANY SHORTEST (a)-[:R]->+(b) RETURN p",
    "all shortest": "MATCH ALL SHORTEST (a)-[:R]-{1,3}(b) RETURN a",
    "shortest 2": "MATCH SHORTEST 2 (a)-->(b) RETURN a",
    "shortest of Ladybug": "MATCH (a)-[* ALL SHORTEST 1..3 (r, n | WHERE r.x)]->(b) RETURN a",
    "quantified path": "MATCH (a) ((x)-[:R]->(y))+ (b) WHERE a.x + 1 * 2 = 3 RETURN a",
    "case": "RETURN CASE WHEN 1 = 2 THEN a ELSE b END, count(DISTINCT CASE 1 WHEN 2 THEN 3 END)",
    "functions": "RETURN date.truncate('day', date()), point.distance(a, b), apoc.text.join(l, '')",
    "predicates": "RETURN all(x IN [1] WHERE x > 0), reduce(s = 0, x IN l | s + x)",
    "pattern as predicate": "MATCH (n) WHERE (n.x IS NULL OR n.y) AND NOT (n)-->(:A) RETURN n",
    "pattern comprehension": "MATCH (n) WHERE size([(n)-->(m) WHERE m.x | m.y]) > 2 RETURN n",
    "types": "MATCH (n) WHERE n.x IS :: INTEGER NOT NULL AND n.y IS NOT TYPED STRING RETURN n",
    "nulls last": "MATCH (n) RETURN DISTINCT n.x AS x ORDER BY n.x ASC NULLS LAST",
    "numbers": "RETURN 0x1F, 0o17, 1.5e-3, .5, 1e5, -1, 2^3, 'caf\\u00e9'",
    "odd variables": "MATCH (start:Station), (load:Load {use: 1}) RETURN start.x, load.show",
    "aliases": "MATCH (n) WITH n, n.x AS not, n.as AS case RETURN n.x AS set, 1 AS create",
    "odd properties": "MATCH (n) WHERE n.x < n.ends WITH n WHERE n.y = n.as RETURN n.order AS o",
    "final semicolons": "RETURN 1 ;; ",
}


@pytest.mark.parametrize("query", READING.values(), ids=READING)
def test_reading_queries_are_sent(query: str) -> None:
    check_cypher(query)


NOT_SENT = {
    "create": ("CREATE (n)", "refused: CREATE is not run"),
    "set": ("MATCH (n) SET n.x = 1", "refused: SET is not run"),
    "detach": ("MATCH (n) DETACH DELETE n", "refused: DETACH is not run"),
    "foreach": ("FOREACH (x IN [1] | CREATE (n))", "refused: FOREACH is not run"),
    "load csv": ("LOAD CSV FROM 'file:///etc/passwd' AS r RETURN r", "refused: LOAD is not run"),
    "load from": ("LOAD FROM 'x.csv' RETURN *", "refused: LOAD is not run"),
    "copy": ("COPY (MATCH (n) RETURN n) TO 'x.csv'", "refused: COPY is not run"),
    "export": ("EXPORT DATABASE 'x'", "refused: EXPORT is not run"),
    "import": ("IMPORT DATABASE 'x'", "refused: IMPORT is not run"),
    "checkpoint": ("CHECKPOINT", "refused: CHECKPOINT is not run"),
    "setting": ("CALL timeout=1", "refused: CALL timeout = is not run"),
    "install": ("INSTALL json", "refused: INSTALL is not run"),
    "attach": ("ATTACH 'x' AS y (dbtype duckdb)", "refused: ATTACH is not run"),
    "profile": ("PROFILE MATCH (n) RETURN n", "refused: PROFILE is not run"),
    "explain": ("EXPLAIN MATCH (n) RETURN n", "refused: EXPLAIN is not run"),
    "use": ("USE other MATCH (n) RETURN n", "refused: USE is not run"),
    "show": ("SHOW INDEXES", "refused: SHOW is not run"),
    "drop": ("DROP INDEX i", "refused: DROP is not run"),
    "second statement": ("RETURN 1; RETURN 2", "refused: it has more than one statement"),
    "procedure": ("CALL apoc.load.json('x')", "refused: CALL apoc.load.json is not run"),
    "quoted procedure": ("CALL `apoc`.`load`.json('x')", "refused: CALL apoc.load.json"),
    "transactions": ("CALL { RETURN 1 AS x } IN TRANSACTIONS RETURN 1", "refused: CALL with IN"),
    "function": ("RETURN apoc.load.json('x')", "refused: the function apoc.load.json is not run"),
    "quoted function": ("RETURN `apoc` . /* */ `load`('x')", "refused: the function apoc.load"),
    "function in backquotes": ("RETURN `apoc.load.json`('x')", "refused: the function apoc.load"),
    "function partly in backquotes": ("RETURN apoc.`load.json`('x')", "refused: the function apoc"),
    "function of an operand": ("RETURN (n).load('x')", "refused: the function load is not run"),
    "after a star": ("WITH * CREATE (n)", "refused: CREATE"),
    "after a quantifier": ("MATCH ((a)-->(b))+ CHECKPOINT", "refused: CHECKPOINT"),
    "after a number": ("MATCH (n) RETURN n LIMIT 10CHECKPOINT", "refused: CHECKPOINT"),
    "after the dot of a number": ("RETURN 1. CHECKPOINT", "refused: CHECKPOINT"),
    "after an alias": ("RETURN 1 AS not CHECKPOINT", "refused: CHECKPOINT"),
    "after a property": ("MATCH (n) RETURN n.as CHECKPOINT", "refused: CHECKPOINT"),
    "after DESC": ("MATCH (n) RETURN n ORDER BY n.x DESC CHECKPOINT", "refused: CHECKPOINT"),
    "after FINISH": ("MATCH (n) FINISH CHECKPOINT", "refused: CHECKPOINT"),
    "in CALL": ("MATCH (n) CALL { CREATE (m) } RETURN n", "refused: CREATE"),
    "in EXISTS": ("MATCH (n) WHERE EXISTS { CREATE (m) } RETURN n", "refused: CREATE"),
    "escaped quote": ("RETURN 'a\\u0027 CREATE (n) //'", "refused: the escape \\u0027"),
    "odd line end": ("RETURN 1 // a\u2028 CREATE (n)", "invalid: a comment holds a character"),
    "too long": ("RETURN 1" + " " * 100_000, "refused: it has more than 100,000 characters"),
    "typing error": ("MATCH (n) RETRUN n", "invalid: 'RETRUN' is no clause or operator"),
    "SQL": ("SELECT name FROM films", "invalid: expected a Cypher query that begins with MATCH"),
    "question": ("In which films?", "invalid: expected a Cypher query that begins with MATCH"),
    "words": ("Which films?", "invalid: expected a Cypher query that begins with MATCH"),
    "string without end": ("RETURN 'a", "invalid: a string, name or comment has no end"),
    "name without end": ("RETURN `a", "invalid: a string, name or comment has no end"),
    "comment without end": ("RETURN /* a", "invalid: a string, name or comment has no end"),
    "bracket without end": ("MATCH (n RETURN n", "invalid: RETURN cannot stand in brackets"),
    "brackets": ("MATCH (n]) RETURN n", "invalid: a ] has no opening bracket"),
    "empty": (" // nothing", "invalid: it is empty"),
}  # fmt: skip


@pytest.mark.parametrize(("query", "message"), NOT_SENT.values(), ids=NOT_SENT)
def test_other_queries_are_not_sent(query: str, message: str) -> None:
    with pytest.raises(QueryFailed) as caught:
        check_cypher(query)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param("RETURN $x, $`a b`, $0", {"x", "a b", "0"}, id="names"),
        pytest.param("RETURN '$x' /* $y */ AS `$z` // $a", set(), id="none"),
    ],
)
def test_the_names_of_parameters_are_returned(query: str, names: set[str]) -> None:
    assert check_cypher(query) == names


TOKENS = [
    "MATCH ( n : Person { name : 'a' } ) - [ r : KNOWS ] -> ( m ) WHERE n . x > 3 RETURN n . name",
    "MATCH ( n ) WITH * , count( * ) AS c ORDER BY n . x DESC SKIP 1 LIMIT 2 RETURN [ 1 , c ] AS l",
    "CALL { MATCH ( n ) RETURN n UNION ALL RETURN 1 AS n } RETURN CASE WHEN n THEN 1 ELSE $a END",
    "MATCH ( ( a ) --> ( b ) ) + WHERE EXISTS { MATCH ( a ) } UNWIND l AS x RETURN x . y , `z` , 2",
]

OTHERS = [
    "CREATE (x)",
    "create (:A {b: 1})",
    "MERGE (x)",
    "SET n.x = 1",
    "DELETE n",
    "DETACH DELETE n",
    "REMOVE n.x",
    "FOREACH (x IN [1] | CREATE (y))",
    "LOAD CSV FROM 'f' AS row",
    "LOAD FROM 'f.csv' RETURN x",
    "COPY (MATCH (n) RETURN n) TO 'f'",
    "EXPORT DATABASE 'd'",
    "INSTALL json",
    "ATTACH 'd' AS y",
    "DROP INDEX i",
    "CALL apoc.load.json('u')",
    "CALL timeout = 1",
    "CALL db.createLabel('x') YIELD y",
    "PROFILE MATCH (n) RETURN n",
    "; MATCH (n) RETURN n",
    "; CHECKPOINT",
]


@given(
    tokens=st.sampled_from(TOKENS).map(str.split),
    other=st.sampled_from(OTHERS),
    space=st.sampled_from([" ", "\n", " /* x */ ", "\t// RETURN 'x\n", "\u00a0"]),
    data=st.data(),
)
def test_no_query_with_another_clause_anywhere_is_sent(
    tokens: list[str], other: str, space: str, data: st.DataObject
) -> None:
    check_cypher(space.join(tokens))
    place = data.draw(st.integers(0, len(tokens)))
    with pytest.raises(QueryFailed):
        check_cypher(space.join([*tokens[:place], other, *tokens[place:]]))


FRAMES = [
    "MATCH (n) WHERE n.x = 'a {}; b' RETURN n",
    "MATCH (n) RETURN \"{} (n)\" AS x, 'it\\'s {}'",
    "MATCH (n) /* {} (n) */ RETURN n // {} n",
    "MATCH (`{} (n)`:`a``{} n`) RETURN `{} (n)`.x",
    "MATCH (n) RETURN n.{}, n.`{}`",
    "MATCH (n:{})-[:{}|{}]->(m:A&{}) RETURN n",
    "MATCH (n {{{}: 1}}) RETURN {{a: 1, {}: 2}}",
    "MATCH (n) WHERE n:{} AND n.{} IS NULL RETURN n {{ .{} }}",
    "MATCH (n) RETURN $`{} (n)`",
]


@given(
    frame=st.sampled_from(FRAMES),
    word=st.sampled_from(sorted(OTHER_CLAUSES)),
    change=st.sampled_from([str.upper, str.lower, str.title]),
)
def test_words_in_strings_comments_and_names_do_not_count(
    frame: str, word: str, change: type[str]
) -> None:
    check_cypher(frame.replace("{}", change(word)).replace("{{", "{").replace("}}", "}"))


@given(st.text(st.sampled_from("MATCH RETURN CALL(){}[];'\"`/*\\u0027\n$.:|+-x1é\x00\u2028")))
def test_any_text_is_sent_or_not(text: str) -> None:
    with suppress(QueryFailed):
        check_cypher(text)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["'", '"', "`", "/*", "(", "{", "a.", "a.a(", "1.", "\\u", "//\n", "''", "``", "$`"]
)
def test_long_queries_are_checked_in_linear_time(piece: str) -> None:
    """With a quadratic algorithm, one of them would take minutes."""
    query = ("RETURN " + piece * 100_000)[:100_000]
    with suppress(QueryFailed):
        check_cypher(query)
