"""Files of public benchmarks in their own layouts, which `convert --from` reads."""

from __future__ import annotations

import csv
import io
import re
import shlex
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import (
    GraphragEvalWarning,
    ReferenceDataError,
    UsageError,
    import_questions,
    load_reference,
)
from tests.cli.support import run, to_jsonl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SELECT = "SELECT ?film WHERE { ?film a <urn:Film> }"
MATCH = "MATCH (film:Film)\nRETURN film.title"

LC_QUAD_1 = {
    "_id": "1501",
    "corrected_question": "Which films are there?",
    "intermediary_question": "Which are the <films>?",
    "sparql_query": SELECT,
    "sparql_template_id": 2,
}
LC_QUAD_2 = {
    "NNQT_question": "What is {film}?",
    "uid": 19719,
    "question": "Which films are there?",
    "paraphrased_question": "What films exist?",
    "sparql_wikidata": SELECT,
    "sparql_dbpedia18": "SELECT ?other { ?other ?p ?o }",
    "answer": [],
    "template_id": "1",
}
GRAIL_QA = {
    "qid": 3202448014000,
    "question": "Which films are there?",
    "answer": [{"answer_type": "Entity", "answer_argument": "m.01", "entity_name": "Playtime"}],
    "graph_query": {"nodes": []},
    "sparql_query": SELECT,
    "s_expression": "(AND film.film)",
}
CWQ = {
    "ID": "WebQTrn-1_a",
    "answers": [{"answer": "Playtime", "answer_id": "m.01"}, {"answer": "Parade"}],
    "compositionality_type": "conjunction",
    "question": "Which films are there?",
    "sparql": f"#MANUAL SPARQL\n{SELECT}",
    "webqsp_ID": "WebQTrn-1",
}
KQA_PRO = {
    "question": "Which films are there?",
    "choices": ["Playtime", "Parade"],
    "program": [{"function": "FindAll"}],
    "sparql": SELECT,
    "answer": "Playtime",
}
SCI_QA = {
    "id": "AQ0001",
    "question": {"string": "Which films are there?"},
    "paraphrased_question": [],
    "query": {"sparql": SELECT},
    "template_id": "T01",
}
TEXT2CYPHER = {
    "question": "Which films are there?",
    "schema": "(:Film {title: STRING})",
    "cypher": MATCH,
    "data_source": "films",
    "instance_id": "instance_id_1",
}
CYPHER_BENCH = {
    "qid": "a1",
    "graph": "film",
    "gold_cypher": MATCH,
    "nl_question": "Which films are there?",
    "answer_json": "[]",
}
WEBQSP = {
    "Version": "1.0",
    "Questions": [
        {
            "QuestionId": "WebQTest-0",
            "RawQuestion": "Which films are there?",
            "Parses": [
                {
                    "ParseId": "WebQTest-0.P0",
                    "Sparql": SELECT,
                    "Answers": [
                        {
                            "AnswerType": "Entity",
                            "AnswerArgument": "m.01",
                            "EntityName": "Playtime",
                        }
                    ],
                },
                {
                    "ParseId": "WebQTest-0.P1",
                    "Sparql": SELECT,
                    "Answers": [
                        {"AnswerType": "Value", "AnswerArgument": "1967", "EntityName": None}
                    ],
                },
            ],
        },
        {"QuestionId": "WebQTest-1", "RawQuestion": "Why?", "Parses": []},
    ],
}
QALD_9_PLUS = {
    "questions": [
        {
            "id": "99",
            "question": [
                {"language": "en", "string": "Which films are there?"},
                {"language": "de", "string": "Welche Filme gibt es?"},
                {"language": "de", "string": "Was für Filme gibt es?"},
            ],
            "query": {"sparql": SELECT},
            "answers": [{"boolean": True}],
        }
    ]
}

FILES: dict[str, tuple[str, Any, str, dict[str, Any]]] = {
    "LC-QuAD 1.0": ("a.json", [LC_QUAD_1], "1501", {"query": SELECT}),
    "LC-QuAD 2.0": ("a.json", [LC_QUAD_2], "19719", {"query": SELECT}),
    "GrailQA": ("a.json", [GRAIL_QA], "3202448014000", {"query": SELECT}),
    "ComplexWebQuestions": (
        "a.json",
        [CWQ],
        "WebQTrn-1_a",
        {"query": f"#MANUAL SPARQL\n{SELECT}", "answer": "Playtime\nParade"},
    ),
    "KQA Pro": ("a.json", [KQA_PRO], "1", {"query": SELECT, "answer": "Playtime"}),
    "SciQA": ("a.json", {"questions": [SCI_QA]}, "AQ0001", {"query": SELECT}),
    "Text2Cypher": ("a.jsonl", [TEXT2CYPHER], "instance_id_1", {"query": MATCH}),
    "Text2Cypher in CSV": ("a.csv", [TEXT2CYPHER], "instance_id_1", {"query": MATCH}),
    "CypherBench": ("a.json", [CYPHER_BENCH], "a1", {"query": MATCH}),
    "WebQSP": ("a.json", WEBQSP, "WebQTest-0", {"query": SELECT, "answer": "Playtime"}),
}


def written(folder: Path, name: str, document: Any) -> Path:
    """Write a document in the format of its file's suffix, and return the path."""
    path = folder / name
    if name.endswith(".jsonl"):
        path.write_bytes(to_jsonl(document))
    elif name.endswith(".csv"):
        text = io.StringIO()
        table = csv.DictWriter(text, list(document[0]))
        table.writeheader()
        table.writerows(document)
        path.write_text(text.getvalue())
    else:
        path.write_bytes(orjson.dumps(document))
    return path


def advised_command(message: str) -> Sequence[str]:
    """Return the arguments of the command that a message tells to use."""
    match = re.search(r"graphrag-eval-async (convert .*) -o reference.yaml", message)
    assert match is not None, message
    return shlex.split(match[1])


@pytest.mark.filterwarnings("ignore:.*skipped, no query")
@pytest.mark.parametrize(
    ("name", "document", "question_id", "expected"), FILES.values(), ids=FILES.keys()
)
def test_another_benchmark_is_named_with_the_command_that_reads_it(
    name: str, document: Any, question_id: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    path = written(tmp_path, name, document)
    with pytest.raises(ReferenceDataError) as error:
        load_reference(path, format="text2sparql")
    converted = tmp_path / "reference.yaml"
    assert run(*advised_command(str(error.value)), "-o", str(converted)) == 0

    [question] = load_reference(converted)
    assert (question.id, question.text) == (question_id, "Which films are there?")
    assert question.reference_steps is not None
    [[step]] = question.reference_steps
    assert step["reference_query"] == expected["query"]
    assert step["name"] == ("cypher_query" if expected["query"] == MATCH else "sparql")
    assert question.reference_answer == expected.get("answer")


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
def test_a_benchmark_in_place_of_a_reference_set_is_named(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, [LC_QUAD_2])
    with pytest.raises(ReferenceDataError, match=r"like LC-QuAD 2\.0; to read it: .*--id uid"):
        load_reference(path)


def test_parses_of_webqsp_are_alternatives(tmp_path: Path) -> None:
    path = written(tmp_path, "webqsp.json", WEBQSP)
    with pytest.warns(GraphragEvalWarning, match="skipped, no query: WebQTest-1"):
        reference = load_reference(path, format="webqsp", score="values_f1")
    [question] = reference
    assert question.reference_steps is not None
    [[step]] = question.reference_steps
    entity = {"type": "uri", "value": "http://rdf.freebase.com/ns/m.01"}
    value = {"type": "literal", "value": "1967"}
    assert orjson.loads(step["output"])["results"]["bindings"] == [{"x": entity}]
    [alternative] = step["alternatives"]
    assert orjson.loads(alternative["output"])["results"]["bindings"] == [{"x": value}]
    assert step["score"] == "values_f1"


def test_texts_in_one_language_of_qald_9_plus(tmp_path: Path) -> None:
    path = written(tmp_path, "qald.json", QALD_9_PLUS)
    german = load_reference(path, format="qald-9-plus", language="de")
    assert {question.id: question.text for question in german} == {
        "99": "Welche Filme gibt es?",
        "99-2": "Was für Filme gibt es?",
    }
    [english] = load_reference(path, format="qald-9-plus")
    assert english.id == "99"


def test_keys_choose_a_language_and_make_a_tag(tmp_path: Path) -> None:
    record = {
        "uid": "1",
        "texts": {"en": "Which films?", "fr": "Quels films ?"},
        "query": SELECT,
        "answers": [{"names": ["Playtime"]}, {"names": ["Parade"]}],
    }
    path = written(tmp_path, "films.json", {"version": 1, "data": [record, {"uid": "2"}]})
    with pytest.warns(GraphragEvalWarning, match="skipped, no text in fr: 2"):
        [template] = import_questions(
            path, id="uid", question="texts", query="query", answer="answers.names", language="fr"
        )
    assert template["template_id"] == "films"
    [question] = template["questions"]
    assert question["question_text"] == "Quels films ?"
    assert question["tags"] == {"language": "fr"}
    assert question["reference_answer"] == '["Playtime"]\n["Parade"]'


CYPHER_QUERIES = {
    "comment": "// All films\nMATCH (f:Film) RETURN f",
    "comment in a line": "/* All */ MATCH (f:Film) RETURN f",
    "no blank": "MATCH(f:Film) RETURN f",
    "subquery": "CALL{MATCH (f) RETURN f} RETURN f",
    "lower case": "optional match (f:Film) return f",
    "writing": "CREATE (f:Film)",
}


@pytest.mark.parametrize("query", CYPHER_QUERIES.values(), ids=CYPHER_QUERIES.keys())
def test_queries_in_cypher_are_told_from_sparql(query: str, tmp_path: Path) -> None:
    path = written(tmp_path, "a.json", [{"q": "Which?", "c": query}])
    [template] = import_questions(path, question="q", query="c")
    [question] = template["questions"]
    assert question["reference_steps"] == [[{"name": "cypher_query", "reference_query": query}]]


def test_records_whose_query_cannot_be_read_are_skipped(tmp_path: Path) -> None:
    records = [{"q": "Which?", "c": SELECT}, {"q": "Why?", "c": "SELET ?x"}]
    path = written(tmp_path, "a.json", records)
    with pytest.warns(GraphragEvalWarning, match="neither SPARQL nor Cypher: 2"):
        [template] = import_questions(path, question="q", query="c")
    assert [question["id"] for question in template["questions"]] == ["1"]


WRONG: dict[str, tuple[str, str, dict[str, str], str]] = {
    "key": (
        "a.json",
        '[{"question": "Why?", "sparql": "ASK {}"}]',
        {"question": "question", "query": "query"},
        "query: no record has 'query'; they have question, sparql",
    ),
    "similar key": (
        "a.json",
        '[{"questions": "Why?", "sparql": "ASK {}"}]',
        {"question": "question", "query": "sparql"},
        "did you mean questions",
    ),
    "repeated id": (
        "a.json",
        '[{"n": 1, "q": "Why?", "a": "x"}, {"n": 1, "q": "How?", "a": "y"}]',
        {"question": "q", "id": "n", "answer": "a"},
        "question '1': id: '1' is already the id of",
    ),
    "empty file": ("a.json", "", {"question": "q", "answer": "a"}, "the file is empty"),
    "not JSON": ("a.json", "[{]", {"question": "q", "answer": "a"}, "not JSON"),
    "line": (
        "a.jsonl",
        '{"q": "Why?", "a": "x"}\n{"q"}\n',
        {"question": "q", "answer": "a"},
        "line 2: not JSON",
    ),
    "table": ("a.csv", "q,a\nWhy,not,so\n", {"question": "q", "answer": "a"}, "line 2: too many"),
    "no rows": ("a.csv", "q,a\n", {"question": "q", "answer": "a"}, "no rows"),
    "no query": (
        "a.json",
        '[{"q": "Why?", "s": ""}, {"q": null, "s": "x"}]',
        {"question": "q", "query": "s"},
        "no question can be read: no query and no answer; no text",
    ),
}


@pytest.mark.parametrize(("name", "text", "keys", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_read_is_said(
    name: str, text: str, keys: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ReferenceDataError) as error:
        import_questions(path, **keys)
    assert message in str(error.value)


def test_wrong_arguments(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "a.json", [KQA_PRO])
    with pytest.raises(UsageError, match="query: expected the key of the queries"):
        import_questions(path, question="question")
    for arguments, message in [
        ("--from json", "--from json needs --question KEY"),
        ("--from qald --question question", "--question needs --from json"),
        ("--id qid", "--id needs --from json"),
    ]:
        assert run("convert", str(path), *arguments.split()) == 2
        assert message in capfd.readouterr().err
