"""Questions of TEXT2SPARQL and QALD, and answers to them."""

from __future__ import annotations

import gzip
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

if TYPE_CHECKING:
    from graphrag_eval_async import Reference

FOLDER = Path(__file__).parents[2] / "examples" / "benchmark"
TEXT2SPARQL, QALD = FOLDER / "text2sparql.yml", FOLDER / "qald.json"
FORMS = [
    pytest.param("text2sparql", TEXT2SPARQL, id="text2sparql"),
    pytest.param("qald", QALD, id="qald"),
]
ASK = {"sparql": "ASK {}"}
INDENTED = orjson.OPT_INDENT_2
EN = [{"language": "en", "string": "Why?"}]


def steps_of(reference: Reference) -> list[dict[str, Any]]:
    return [
        step for question in reference for group in question.reference_steps or () for step in group
    ]


def written(path: Path, **document: Any) -> Path:
    path.write_bytes(orjson.dumps(document))
    return path


@pytest.mark.parametrize(("form", "path"), FORMS)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="no options"),
        pytest.param({"language": "en", "score": "values_f1"}, id="language and score"),
    ],
)
def test_converted_files_load_equal(form: Any, path: Path, options: Any, tmp_path: Path) -> None:
    reference = load_reference(path, format=form, **options, strict=True)
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    for name in ("reference.yaml", "reference.json"):
        assert run("convert", "--from", form, str(path), *given, "-o", str(tmp_path / name)) == 0
        found = load_reference(tmp_path / name)
        assert [each.as_dict() for each in found] == [each.as_dict() for each in reference]
    assert len(reference) == (7 if form == "text2sparql" and not options else 4)
    assert {step.get("score") for step in steps_of(reference)} == {options.get("score")}


def test_questions_have_ids_tags_and_order() -> None:
    reference = load_reference(TEXT2SPARQL, format="text2sparql")
    assert reference.templates == ("grid",)
    question, step = reference.questions["grid:2-de"], steps_of(reference)[3]
    assert question.text.startswith("Liste")
    own = {"SELECT": "true", "RESULT_ORDER_MATTERS": "true", "language": "de"}
    assert dict(question.tags) == own | {"dataset": "https://example.org/grid/"}
    assert (step["name"], step["ordered"], "output" in step) == ("sparql", True, False)
    assert step["reference_query"].startswith(
        "PREFIX grid: <https://example.org/grid#>\nSELECT ?name WHERE"
    )


@pytest.mark.parametrize(("form", "path"), FORMS)
@pytest.mark.parametrize("replaced", [True, False])
def test_right_queries_have_full_scores(form: Any, path: Path, replaced: bool) -> None:
    reference = load_reference(path, format=form)
    answers = [
        {"question": question.text, "query": step["reference_query"], "qname": question.id}
        for question, step in zip(reference, steps_of(reference), strict=True)
    ]
    config = {"execute": {"graph": str(FOLDER / "graph.ttl"), "reference": replaced}}
    results = run_evaluation_sync(reference, answers, format="text2sparql", config=config)
    assert {result["steps_score"] for result in results} == {1}
    for result, step in zip(results, steps_of(reference), strict=True):
        assert ("executed_at" in result["reference_steps"][0][0]) == (
            replaced or "output" not in step
        )


TEXT: dict[str, Any] = {"question": {"en": "Why?"}, "query": ASK}


@pytest.mark.parametrize(
    ("questions", "problems"),
    [
        pytest.param(
            [TEXT | {"id": 1.5}, TEXT | {"query": {}}],
            ["1.5: id: Expected", "[1]: query.sparql: missing"],
            id="wrong types",
        ),
        pytest.param(
            [{"id": "a"}, 5],
            ["'a': Object missing required field `question`", "[1]: Expected `object`"],
            id="missing question",
        ),
        pytest.param(
            [TEXT | {"id": 1, "question": {"en": " ", "es": None}}],
            ["question 1: question: no text in any"],
            id="blank text",
        ),
        pytest.param(
            [TEXT | {"question": {"en": 7}}],
            ["question[...]: Expected `str | null`, got `int`"],
            id="text of a number",
        ),
        pytest.param(
            [TEXT, TEXT | {"query": {"sparql": "DROP ALL"}}],
            ["'{p}:2-en': reference_steps[0][0].reference_query: "],
            id="update",
        ),
        pytest.param(
            [TEXT, TEXT | {"id": "1"}],
            ["question '{p}:1-en': id: '{p}:1-en' is already the id of"],
            id="same id",
        ),
        pytest.param([TEXT | {"features": ["a=b"]}], ["question '{p}:1-en': tags"], id="tag"),
        pytest.param(
            [TEXT | {"question": EN}], ["question: it is of the format qald"], id="another format"
        ),
        pytest.param([], ["questions: the list is empty"], id="no questions"),
    ],
)
def test_what_cannot_be_read_is_said_by_id(
    questions: list[Any], problems: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "questions.yml"
    path.write_text(
        yaml.safe_dump({"dataset": {"id": "urn:d", "prefix": "{p}"}, "questions": questions})
    )
    with pytest.raises(ReferenceDataError) as error:
        load_reference(path, format="text2sparql")
    assert error.value.source == str(path)
    for found, expected in zip(error.value.problems, problems, strict=True):
        assert expected in found


X, Y = ({name: {"type": "literal", "value": value}} for name, value in [("x", "1"), ("y", "2")])
TYPED = {"type": "typed-literal", "value": 1}


def table(*rows: Any, names: Any = "x") -> dict[str, Any]:
    return {"head": {"vars": [*names]}, "results": {"bindings": [*rows]}}


@pytest.mark.parametrize(
    ("answers", "output"),
    [
        pytest.param([table(X, names=["uri"])], table(X), id="own name"),
        pytest.param([table(X, names="xy")], table(X, names="xy"), id="more names"),
        pytest.param(
            [table(X), table(Y, X, names="y")], table(X, Y, X, names="xy"), id="two tables"
        ),
        pytest.param(
            [table({"x": TYPED, "y": None})], table({"x": TYPED | {"value": "1"}}), id="typed"
        ),
        pytest.param(
            [{"head": {}, "results": {}, "boolean": True}],
            {"head": {}, "boolean": True},
            id="boolean",
        ),
        pytest.param([{"head": {"vars": ["x"]}, "results": {}}], table(), id="no bindings"),
        pytest.param([{"head": {}}], table(names=""), id="no results"),
        pytest.param([table({}, {"x": None}, names="")], table(names=""), id="row without names"),
        pytest.param([table({})], table({}), id="row without values"),
        pytest.param(
            [table(X), {"boolean": True}],
            "question 7: answers: a boolean stands beside other answers",
            id="boolean and table",
        ),
        pytest.param(
            [table({"x": {}})],
            "question '7': reference_steps[0][0].output: not SPARQL JSON: results",
            id="term without a value",
        ),
        pytest.param(
            [{"results": {"bindings": [7]}}],
            "question 7: answers[0].results.bindings[0]: Expected `object`",
            id="binding that is a number",
        ),
        pytest.param([], None, id="no answers"),
        pytest.param(None, None, id="null"),
    ],
)
def test_answers_of_qald_are_outputs(answers: Any, output: Any, tmp_path: Path) -> None:
    question = {
        "id": 7,
        "question": EN,
        "query": {"sparql": "SELECT * {}"},
        "answers": answers,
        "more": 1,
    }
    path = written(tmp_path / "qald.json", questions=[question])
    if isinstance(output, str):
        with pytest.raises(ReferenceDataError) as error:
            load_reference(path, format="qald")
        assert output in error.value.problems[0]
    else:
        [step] = steps_of(load_reference(path, format="qald"))
        assert (orjson.loads(step["output"]) if "output" in step else None) == output


def test_questions_of_qald_without_text_or_query(tmp_path: Path) -> None:
    out = {"sparql": "OUT OF SCOPE"}
    questions: list[dict[str, Any]] = [
        {"id": 1, "question": [{"language": "de", "string": "Warum?"}], "query": ASK},
        {"id": 2, "question": EN, "query": out},
        {"id": 3, "question": EN, "query": None, "answers": [table(X)]},
        {"id": 4, "question": EN, "query": out, "answers": [{"boolean": False}]},
        {"id": 5, "question": EN, "query": ASK, "answers": []},
    ]
    path = written(tmp_path / "qald.json", questions=questions)
    with pytest.warns(GraphragEvalWarning) as warnings:
        reference = load_reference(path, format="qald")
    assert [str(warning.message).removeprefix(f"{path}: ") for warning in warnings] == [
        "skipped, no text in language 'en': 1",
        "skipped, no query and no answers: 2",
        "no answers, only a query, which `execute` runs: 5",
    ]
    assert [*reference.questions] == ["3", "4", "5"]
    with pytest.raises(ReferenceDataError, match=r"in language 'fr'; the file has \['de', 'en'\]"):
        load_reference(path, format="qald", language="fr")
    # It tells of none if all are so.
    load_reference(written(path, questions=questions[4:]), format="qald")
    written(path, questions=questions[1:2])
    with pytest.raises(
        ReferenceDataError, match="no question with a query or answers in language 'en'"
    ):
        load_reference(path, format="qald")


def test_wrong_options(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "qald.json.gz"
    packed.write_bytes(gzip.compress(QALD.read_bytes()))
    wrong: list[tuple[Path, dict[str, Any], str]] = [
        (QALD, {"language": "en"}, "language: only"),
        (QALD, {"format": "csv"}, "format: expected"),
        (QALD, {"format": "qald", "score": "f2"}, "score: expected"),
        (QALD, {}, "looks like QALD; to read it: .* convert --from qald"),
        (packed, {"format": "qald"}, "unpack it first"),
    ]
    for path, options, message in wrong:
        with pytest.raises((UsageError, ReferenceDataError), match=message):
            load_reference(path, **options)
    qald = f"--from qald {QALD}"
    for command, advised in [
        (f"{qald} --format auto", "--format cannot be combined with --from"),
        (f"{qald} --language fr", "in language 'fr'"),
        ("--from qald -", "--from reads a file"),
        (f"{QALD} --score f1", "--score needs --from"),
        (f"{TEXT2SPARQL}", "name it with --from"),
        (f"{qald} -o a.csv", ".yaml"),
        (f"{QALD} -o a.csv", ".jsonl"),
    ]:
        assert run("convert", *command.split()) == 2
        assert advised in capfd.readouterr().err


def question(name: str, text: str, *steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": name, "question_text": text, "reference_steps": [*steps]}


WHY = [{"name": "sparql", "output": "{}"}]
TWO = [
    {
        "template_id": name,
        "tags": {"dataset": f"urn:{name}"},
        "questions": [question(f"{name}:1", "Why?", WHY), question(f"{name}:2", f"Who is {name}?")],
    }
    for name in "ab"
]


def test_answers_are_responses_in_any_way(tmp_path: Path) -> None:
    reference, array, lines = (
        str(tmp_path / name) for name in ("reference.json", "a.json", "a.jsonl")
    )
    names = ["a:1", "a:2", "b:1", "b:2"]
    answers = [{"qname": name, "query": "ASK {}"} for name in names]
    for path, data in (
        (reference, orjson.dumps(TWO)),
        (array, orjson.dumps(answers, option=INDENTED)),
    ):
        Path(path).write_bytes(data)
    Path(lines).write_bytes(to_jsonl(answers))
    found = []
    for arguments in ("--jobs 2", "--shard 0/2", "--shard 1/2", "--resume", "--resume"):
        for path in (array, lines):
            output = tmp_path / f"{arguments[:5]}{path[-5:]}"
            command = ["evaluate", reference, path, "--format", "text2sparql", "-o", str(output)]
            assert run(*command, *arguments.split()) == 0
            found.append([result["question_id"] for result in from_jsonl(output.read_bytes())])
    shards = [found[2] + found[4], found[3] + found[5]]
    assert [*found[:2], *shards, *found[6:]] == [names] * 8
    assert run("validate", reference, array, "--format", "text2sparql") == 0


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        pytest.param(
            {"qname": "b:1", "question": "?", "query": "ASK {}", "dataset": "urn:a"},
            ("b:1", "ASK {}"),
            id="name",
        ),
        pytest.param(
            {"question": "why", "query": "ASK {}", "dataset": "urn:a"},
            ("a:1", "ASK {}"),
            id="text and dataset",
        ),
        pytest.param(
            {"question": "Why?", "query": "", "dataset": "urn:b", "qname": None},
            ("b:1", None),
            id="another dataset",
        ),
        pytest.param(
            {"qname": "a:1", "query": "ASK {}", "error": "timeout"}, ("a:1", "ASK {}"), id="error"
        ),
        pytest.param(
            {"question": "Why?", "query": "ASK {}"},
            "have the text 'Why?': 'a:1', 'b:1'",
            id="two questions",
        ),
        pytest.param(
            {"question": "who is a", "query": "", "dataset": "urn:b"},
            "no question has the text 'who is a' in the dataset 'urn:b'",
            id="dataset lacks it",
        ),
        pytest.param(
            {"question": "Who is a?", "query": "ASK {}", "dataset": "urn:a"},
            ("a:2", "ASK {}"),
            id="spelling",
        ),
        pytest.param({"qname": "c:1", "query": "ASK {}"}, "unknown_question_id", id="unknown name"),
        pytest.param(
            {"qname": "b:1", "query": "ASK {}", "answer": "B.", "error": None},
            ("b:1", "ASK {}"),
            id="answer",
        ),
        pytest.param(
            {"qname": "a:1", "query": {"text": "ASK {}"}},
            "query: expected text, got the keys 'text'",
            id="query of another type",
        ),
        pytest.param(
            {"qname": "a:1", "sparql": "ASK {}"},
            "with question and query, got the keys 'qname', 'sparql'",
            id="other keys",
        ),
        pytest.param(
            7, "not_a_trace: expected an object with question and query, got a int", id="number"
        ),
        pytest.param([], "not_a_trace: it is empty", id="empty list"),
    ],
)
async def test_answers_find_their_questions(answer: Any, found: Any, tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_bytes(
        orjson.dumps([{"qname": "a:1", "query": "", "seconds": 2}, answer], option=INDENTED)
    )
    async with evaluate_stream(TWO, path, format="text2sparql", ordered=True) as stream:
        first, *others = [result async for result in stream]
    assert (first["question_id"], first["failure"]) == ("a:1", "no_steps")
    assert first["metadata"] == {"seconds": 2, "trace_format": "text2sparql"}
    if isinstance(found, str):
        [reject] = stream.rejects
        assert found in f"{reject.reason}: {reject.message}"
        assert "question_id" not in reject.message.replace("question_id 'c:1'", "qname")
        assert (reject.line, "--format" in reject.message) == (2, False)
    else:
        [result] = others
        [step] = result["actual_steps"] or [{}]
        assert (result["question_id"], step.get("args", {}).get("query")) == found


@pytest.mark.parametrize(
    ("response", "found"),
    [
        pytest.param(
            {"question": "who is a", "answer": "A.", "object": 1}, {"question_id": "a:2"}, id="text"
        ),
        pytest.param(
            {"question_id": "b:1", "question": "?", "actual_answer": "B."},
            {"actual_answer": "B."},
            id="id",
        ),
        pytest.param(
            {"question": "Who is b?", "actual_steps": WHY},
            {"actual_steps": [{**WHY[0], "status": "success"}]},
            id="steps",
        ),
        pytest.param(
            {"question": "Who is b?", "error": "timeout"},
            {"question_id": "b:2", "error": "timeout"},
            id="error",
        ),
        pytest.param(
            {"question": "Why?", "dataset": "urn:b", "answer": "B."},
            {"question_id": "b:1"},
            id="dataset",
        ),
        pytest.param(
            {"question": "Who is a?", "response": "A."},
            "response: did you mean actual_answer?",
            id="unknown key",
        ),
        pytest.param(
            {"answers": []},
            "expected an object with question and answer, got the keys 'answers'",
            id="other keys",
        ),
        pytest.param(
            {"question": None, "answer": "A."},
            "no question id, and no text of a question",
            id="no text",
        ),
    ],
)
@pytest.mark.parametrize("is_array", [True, False])
def test_plain_responses_find_their_questions(
    response: Any, found: Any, is_array: bool, tmp_path: Path
) -> None:
    path = tmp_path / "log.jsonl"
    responses = [{"question_id": "a:1", "answer": "?"}, response]
    path.write_bytes(orjson.dumps(responses) if is_array else to_jsonl(responses))
    reference, rejects, output = (
        tmp_path / name for name in ("r.json", "rejects.jsonl", "o.jsonl")
    )
    reference.write_bytes(orjson.dumps(TWO))
    command = ["evaluate", str(reference), str(path), "--format", "plain", "-o", str(output)]
    run(*command, "--rejects", str(rejects))
    results, [reject, *_] = (
        from_jsonl(output.read_bytes()),
        [*from_jsonl(rejects.read_bytes()), None],
    )
    assert results[0]["actual_answer"] == "?"
    if isinstance(found, str):
        assert found in reject["message"]
        assert "--format" not in reject["message"]
    else:
        assert {key: results[1].get(key) for key in found} == found


def test_plain_answers_without_a_reference_set(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log, output = tmp_path / "log.jsonl", tmp_path / "o.jsonl"
    log.write_bytes(
        to_jsonl([{"question": "Who?", "answer": "I.", "question_id": "w"}, {"answer": "?"}])
    )
    for command in (["evaluate", "-o", str(output)], ["validate"]):
        assert run(*command, "--no-reference", str(log), "--format", "plain") == 3
        assert run(*command, "--no-reference", str(log), "--format", "auto") == 2
        assert "expected plain; auto needs one" in capfd.readouterr().err
    [result] = from_jsonl(output.read_bytes())
    assert (result["question_text"], result["actual_answer"]) == ("Who?", "I.")


def test_names_of_steps_and_places_of_answers() -> None:
    options: Any = {"select": "body", "question_id": "id", "step_names": {"sparql": "sparql_query"}}
    answer = {"body": {"query": "ASK {}"}, "id": "a:1"}
    response = TraceFormat(name="text2sparql", **options).convert(answer)
    [step] = response["actual_steps"]
    assert (response["question_id"], step["name"]) == ("a:1", "sparql_query")
