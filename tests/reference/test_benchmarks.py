"""Questions of TEXT2SPARQL and QALD, and answers to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml

from graphrag_eval_async import (
    GraphragEvalWarning,
    ReferenceDataError,
    UsageError,
    evaluate_stream,
    load_reference,
    run_evaluation_sync,
)
from graphrag_eval_async.traces import TraceFormat
from tests.cli.support import from_jsonl, run, to_jsonl
from tests.support.cases import each

if TYPE_CHECKING:
    from graphrag_eval_async import Reference

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT2SPARQL, ANSWERS, QALD = (
    EXAMPLES / "benchmarks" / name for name in ("text2sparql.yml", "answers.json", "qald.json")
)
GRAPH = {"graph": str(EXAMPLES / "grid.ttl")}
ASK = {"sparql": "ASK {}"}
EN = [{"language": "en", "string": "Why?"}]


def contents(reference: Reference) -> list[dict[str, Any]]:
    return [question.as_dict() for question in reference]


def steps_of(reference: Reference) -> list[dict[str, Any]]:
    return [step for question in reference for group in question.reference_steps or () for step in group]


@each(
    ("form", "path", "language", "score", "count"),
    [
        ("text2sparql", TEXT2SPARQL, None, None, 7),
        ("text2sparql", TEXT2SPARQL, "en", "f1", 4),
        ("qald", QALD, None, None, 4),
        ("qald", QALD, "en", "f1", 4),
    ],
)
def test_converted_files_load_equal(
    form: Any, path: Path, language: str | None, score: Any, count: int, tmp_path: Path
) -> None:
    reference = load_reference(path, format=form, language=language, score=score, strict=True)
    given = {"--language": language, "--score": score}
    options = [word for name, value in given.items() if value for word in (name, value)]
    for name in ("reference.yaml", "reference.json"):
        assert run("convert", "--from", form, str(path), *options, "-o", str(tmp_path / name)) == 0
        assert contents(load_reference(tmp_path / name)) == contents(reference)
    assert len(reference) == count
    assert [step.get("score") for step in steps_of(reference)] == [score] * count


def test_questions_have_ids_tags_and_order() -> None:
    reference = load_reference(TEXT2SPARQL, format="text2sparql")
    assert reference.templates == ("grid",)
    question = reference.questions["grid:2-de"]
    assert question.text.startswith("Liste")
    own = {"SELECT": "true", "RESULT_ORDER_MATTERS": "true", "language": "de"}
    assert dict(question.tags) == own | {"dataset": "https://example.org/grid/"}
    step = steps_of(reference)[3]
    assert (step["name"], step["ordered"], "output" in step) == ("sparql", True, False)
    assert step["reference_query"].startswith("PREFIX grid: <https://example.org/grid#>\nSELECT ?name WHERE")


@each(("form", "path"), [("text2sparql", TEXT2SPARQL), ("qald", QALD)])
@each("replaced", [True, False])
def test_right_queries_have_full_scores(form: Any, path: Path, replaced: bool) -> None:
    reference = load_reference(path, format=form)
    answers = [
        {"question": question.text, "query": step["reference_query"], "qname": question.id}
        for question, step in zip(reference, steps_of(reference), strict=True)
    ]
    config = {"execute": GRAPH | {"reference": replaced}}
    results = run_evaluation_sync(reference, answers, format="text2sparql", config=config)
    assert {result["steps_score"] for result in results} == {1}
    for result, step in zip(results, steps_of(reference), strict=True):
        assert ("executed_at" in result["reference_steps"][0][0]) == (replaced or "output" not in step)


TEXT: dict[str, Any] = {"id": 1, "question": {"en": "Why?"}, "query": ASK}


@each(
    ("questions", "problems"),
    [
        (
            [TEXT | {"id": None}, TEXT | {"query": {}}],
            ["questions[0]: id: Expected", "1: query.sparql: missing"],
        ),
        (
            [{"id": "a"}, 5],
            ["'a': Object missing required field `question`", "questions[1]: Expected `object`"],
        ),
        ([TEXT | {"question": {"en": " ", "es": None}}], ["question 1: question: no text in any language"]),
        ([TEXT | {"question": {"en": 7}}], ["question 1: question[...]: Expected `str | null`, got `int`"]),
        ([TEXT | {"query": {"sparql": "DROP ALL"}}], ["reference_query: expected a SPARQL query"]),
        ([TEXT, TEXT | {"id": "1"}], ["question '1': id: another question has the id 'p:1-en', too"]),
        ([TEXT | {"features": ["a=b"]}], ["question 1: tags"]),
        ([TEXT | {"question": EN}], ["question 1: question: it is of the format qald"]),
        ([], ["no question in language None; languages: none"]),
    ],
)
def test_what_cannot_be_read_is_said_by_id(questions: list[Any], problems: list[str], tmp_path: Path) -> None:
    path = tmp_path / "questions.yml"
    path.write_text(yaml.safe_dump({"dataset": {"id": "urn:d", "prefix": "p"}, "questions": questions}))
    with pytest.raises(ReferenceDataError) as error:
        load_reference(path, format="text2sparql")
    assert error.value.source == str(path)
    for found, expected in zip(error.value.problems, problems, strict=True):
        assert expected in found


X, Y = ({name: {"type": "literal", "value": value}} for name, value in [("x", "1"), ("y", "2")])


def table(*rows: Any, names: Any = ("x",)) -> dict[str, Any]:
    return {"head": {"vars": [*names]}, "results": {"bindings": [*rows]}}


@each(
    ("answers", "output"),
    [
        ([table(X, names=["uri"])], table(X)),
        ([table(X, names=["x", "y"])], table(X, names=["x", "y"])),
        ([table(X), table(Y, X, names="y")], table(X, Y, X, names="xy")),
        (
            [table({"x": {"type": "typed-literal", "value": 1}, "y": None})],
            table({"x": {"type": "typed-literal", "value": "1"}}),
        ),
        ([{"head": {}, "results": {}, "boolean": True}], {"head": {}, "boolean": True}),
        ([{"head": {"vars": ["x"]}, "results": {}}], table()),
        ([{"head": {}}], table(names=())),
        ([table(X), {"boolean": True}], "answers: a boolean stands beside other answers"),
        ([table({"x": {"type": "uri"}})], "output: not SPARQL JSON: results.bindings[0].x.value is missing"),
        ([{"results": {"bindings": [7]}}], "answers[0].results.bindings[0]: Expected `object`, got `int`"),
        ([], None),
        (None, None),
    ],
)
def test_answers_of_qald_are_outputs(answers: Any, output: Any, tmp_path: Path) -> None:
    path = tmp_path / "qald.json"
    question = {"id": 7, "question": EN, "query": {"sparql": "SELECT * {}"}, "answers": answers, "more": 1}
    path.write_bytes(orjson.dumps({"questions": [question]}))
    if isinstance(output, str):
        with pytest.raises(ReferenceDataError) as error:
            load_reference(path, format="qald")
        assert f"question 7: {output}" in error.value.problems[0]
        return
    [step] = steps_of(load_reference(path, format="qald"))
    assert (orjson.loads(step["output"]) if "output" in step else None) == output


def test_questions_of_qald_without_text_or_query(tmp_path: Path) -> None:
    out = {"sparql": "OUT OF SCOPE"}
    questions: list[dict[str, Any]] = [
        {"id": 1, "question": [{"language": "de", "string": "Warum?"}], "query": ASK},
        {"id": 2, "question": EN, "query": out},
        {"id": 3, "question": EN, "query": None, "answers": [table(X)]},
        {"id": 4, "question": EN, "query": out, "answers": [{"boolean": False}]},
    ]
    path = tmp_path / "qald.json"
    path.write_bytes(orjson.dumps({"questions": questions}))
    with pytest.warns(GraphragEvalWarning) as warnings:
        reference = load_reference(path, format="qald")
    assert [str(each.message).removeprefix(f"{path}: ") for each in warnings] == [
        "skipped, no text in language 'en': 1",
        "skipped, no query and no answers: 2",
        "no query, only answers: 3, 4",
    ]
    assert [*reference.questions] == ["3", "4"]
    with pytest.raises(ReferenceDataError, match="no question in language 'fr'; languages: de, en"):
        load_reference(path, format="qald", language="fr")


@each(
    ("options", "message"),
    [
        ({"language": "en"}, "language: only for benchmarks"),
        ({"format": "csv"}, "format: expected text2sparql, qald, got 'csv'"),
        ({"format": "qald", "score": "f2"}, "score: expected"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_reference(QALD, **options)


@each(
    "arguments",
    [
        ("--language", "en", str(QALD)),
        ("--from", "qald", "-"),
        ("--from", "qald", str(QALD), "--format", "auto"),
        ("--from", "qald", str(QALD), "-o", "reference.txt"),
        ("--from", "qald", str(QALD), "-o", "missing/reference.yaml"),
        ("--from", "text2sparql", str(ANSWERS)),
        (str(TEXT2SPARQL),),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...]) -> None:
    assert run("convert", *arguments) == 2


def test_answers_are_responses_in_any_way(tmp_path: Path) -> None:
    reference, array, lines = (tmp_path / name for name in ("reference.json", "answers.json", "a.jsonl"))
    reference.write_bytes(orjson.dumps(TWO))
    answers = [
        {"qname": f"{name}:1-{language}", "query": "ASK {}"} for name in "ab" for language in ("en", "de")
    ]
    array.write_bytes(orjson.dumps(answers, option=orjson.OPT_INDENT_2))
    lines.write_bytes(to_jsonl(answers))
    command = ["evaluate", str(reference), "--format", "text2sparql", "-o"]
    found = []
    for number, (path, *options) in enumerate(
        [[path, "--jobs", "2"] for path in (array, lines)]
        + [[path, "--shard", f"{index}/2"] for path in (array, lines) for index in (0, 1)]
        + [[array, "--resume"]] * 2
    ):
        output = tmp_path / f"{min(number, 6)}.jsonl"
        assert run(*command, str(output), *map(str, [path, *options])) == 0
        found.append([result["question_id"] for result in from_jsonl(output.read_bytes())])
    names = [answer["qname"] for answer in answers]
    parts = [found[2] + found[3], found[4] + found[5]]
    assert [*found[:2], *parts, *found[6:]] == [names] * 6
    assert run("validate", str(reference), str(array), "--format", "text2sparql") == 0


TWO = [
    {
        "template_id": name,
        "tags": {"dataset": f"urn:{name}"},
        "questions": [
            {
                "id": f"{name}:1-{language}",
                "question_text": "Why?" if language == "en" else f"Warum, {name}?",
                "reference_steps": [[{"name": "sparql", "output": "{}"}]],
            }
            for language in ("en", "de")
        ],
    }
    for name in "ab"
]


@each(
    ("answer", "found"),
    [
        ({"qname": "b:1-en", "question": "?", "query": "ASK {}", "dataset": "urn:a"}, ("b:1-en", "ASK {}")),
        ({"question": "why", "query": "ASK {}", "dataset": "urn:a"}, ("a:1-en", "ASK {}")),
        ({"question": "Why?", "query": "", "dataset": "urn:b", "qname": None}, ("b:1-en", None)),
        ({"qname": "a:1-en"}, ("a:1-en", None)),
        ({"qname": "a:1-en", "query": "ASK {}", "error": "timeout"}, ("a:1-en", "ASK {}")),
        (
            {"question": "Why?", "query": "ASK {}"},
            "2 questions of the reference set have the text",
        ),
        ({"qname": "c:1-en", "query": "ASK {}"}, "unknown_question_id"),
        ({"qname": "a:1-en", "query": {"sparql": "ASK {}"}}, "not_a_trace: expected an object whose `query`"),
        (7, "not_a_trace: expected an object whose `query` is text, got a int"),
    ],
)
async def test_answers_find_their_questions(answer: Any, found: Any, tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_bytes(orjson.dumps([{"qname": "a:1-de", "seconds": 2}, answer], option=orjson.OPT_INDENT_2))
    async with evaluate_stream(TWO, path, format="text2sparql", ordered=True) as stream:
        first, *others = [result async for result in stream]
    assert (first["question_id"], first["failure"]) == ("a:1-de", "no_steps")
    assert first["metadata"] == {"seconds": 2, "trace_format": "text2sparql"}
    if isinstance(found, str):
        [reject] = stream.rejects
        assert found in f"{reject.reason}: {reject.message}"
        assert reject.line == 2
        return
    [result] = others
    assert (result["question_id"], (result["actual_steps"] or [{}])[0].get("args", {}).get("query")) == found


def test_names_of_steps_and_places_of_answers() -> None:
    answer = {"body": {"query": "ASK {}"}, "id": "a:1-en"}
    options: Any = {"select": "body", "question_id": "id", "step_names": {"sparql": "sparql_query"}}
    response = TraceFormat(name="text2sparql", **options).convert(answer)
    assert response["question_id"] == "a:1-en"
    assert [step["name"] for step in response["actual_steps"]] == ["sparql_query"]
