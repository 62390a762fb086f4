from __future__ import annotations

from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import (
    GraphragEvalWarning,
    ReferenceDataError,
    import_questions,
    load_reference,
    run_evaluation_sync,
)
from tests.cli.support import to_jsonl

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    ["Question", "reference_answer", "QUERY", "id", "template ", "tags"],
    [
        "Which lines, and how long?",
        "84.5 km; 31.2 km",
        "SELECT ?l\n{?l a <urn:L>}",
        "",
        "lines",
        "hops=2; kind = count; hard",
    ],
    ["Wie heißt\tes?", "", "", "name", "", ""],
    ["", "", "", "", "", ""],
    ["Wie heißt es!", "", "", "", "lines", "hard, spatial,"],
]
TEMPLATES: list[dict[str, Any]] = [
    {
        "template_id": "lines",
        "questions": [
            {
                "id": "which-lines-and-how-long",
                "question_text": "Which lines, and how long?",
                "reference_answer": "84.5 km; 31.2 km",
                "tags": {"hops": "2", "kind": "count", "hard": True},
                "reference_steps": [
                    [{"name": "sparql_query", "reference_query": "SELECT ?l\n{?l a <urn:L>}"}]
                ],
            },
            {
                "id": "wie-heisst-es",
                "question_text": "Wie heißt es!",
                "tags": {"hard": True, "spatial": True},
            },
        ],
    },
    {"template_id": "all", "questions": [{"id": "name", "question_text": "Wie heißt\tes?"}]},
]


@pytest.mark.parametrize(
    ("by", "encoding"),
    [
        pytest.param(",", "utf-8", id="comma"),
        pytest.param(";", "utf-8-sig", id="semicolon"),
        pytest.param("\t", "utf-8", id="tab"),
    ],
)
def test_tables(by: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    text = "\r\n".join(by.join(f'"{cell}"' for cell in row) for row in ROWS)
    path.write_bytes(text.replace("?l\n", "?l\r\n").encode(encoding))
    assert import_questions(path) == TEMPLATES
    assert len(load_reference(TEMPLATES, strict=True)) == 3


def test_responses_and_results(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    responses = [
        {"question": "Why?", "id": "r1", "actual_answer": "Wait", "error": "timeout"},
        {
            "question": "Why?",
            "id": "r2",
            "actual_answer": "So.",
            "template": "t",
            "actual_steps": [],
        },
        {"question": "Why?", "id": "r3", "actual_answer": "Thus."},
        {"question": "Who?", "question_id": "q2", "id": 7},
        {"question": "Who?!"},
        {"question": " Who "},
    ]
    path.write_bytes(BOM_UTF8 + to_jsonl(responses))
    first, second = import_questions(path)
    assert first["template_id"] == "t"
    question = {"id": "why", "question_text": "Why?", "reference_answer": "So.", "reviewed": False}
    assert first["questions"] == [question]
    others = {each["id"]: each["question_text"] for each in second["questions"]}
    assert [*others.values()] == ["Who?", "Who?!", "Who"]
    assert [name[:4] for name in others] == ["q2", "who", "who-"]

    del question["reviewed"]
    question |= {"match": "contains", "tags": {"hops": "2"}}
    reference = [{"template_id": "t", "questions": [question]}]
    path.write_bytes(
        to_jsonl(run_evaluation_sync(reference, [{"question_id": "why", "actual_answer": "No."}]))
    )
    assert import_questions(path) == reference

    listed = {
        "question": "A?",
        "reference_answer": ["a", "b"],
        "match": "list",
        "actual_answer": "a",
    }
    path.write_bytes(to_jsonl([listed | {"question_id": name} for name in ("q1", "q2")]))
    [template] = import_questions(path)
    [question] = template["questions"]
    assert question == {
        "id": "q1",
        "question_text": "A?",
        "reference_answer": ["a", "b"],
        "match": "list",
    }


@pytest.mark.parametrize(
    "reference_answer",
    ["five", ["five", "six"]],
    ids=["text", "list"],
)
def test_the_answer_of_an_agent_is_not_the_expected_one(
    reference_answer: Any, tmp_path: Path
) -> None:
    path = tmp_path / "responses.jsonl"
    response = {
        "question": "How many?",
        "reference_answer": reference_answer,
        "answer": "six",
        "match": "contains",
    }
    path.write_bytes(to_jsonl([response]))
    [template] = import_questions(path)
    [question] = template["questions"]
    assert question["reference_answer"] == reference_answer


def test_columns_of_a_match(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text(
        "question;answer;match;tolerance;tags\nA?;5;number;0.1;{'hops': 2, kind: count}\n"
    )
    [template] = import_questions(path)
    asked = {"id": "a", "question_text": "A?", "reference_answer": "5", "match": "number"}
    assert template["questions"] == [
        asked | {"tolerance": 0.1, "tags": {"hops": "2", "kind": "count"}}
    ]


def test_answers_that_nobody_reviewed() -> None:
    question = {"id": "why", "question_text": "Why?", "reference_answer": "So.", "reviewed": False}
    questions = [question, question | {"id": "who"}]
    templates = [{"template_id": "t", "questions": questions}]
    with pytest.warns(GraphragEvalWarning, match=r"questions\[0\].reviewed: .*; in 2 places"):
        load_reference(templates)
    with pytest.raises(ReferenceDataError, match="then delete this key"):
        load_reference(templates, strict=True)
    for each_ in questions:
        each_["reviewed"] = True
    load_reference(templates, strict=True)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param(
            "qestion,answer\nA?,1",
            ["line 1: expected a column question, and none twice, got qestion, answer"],
            id="misspelt column",
        ),
        pytest.param(
            "question,question_text\nA?,1",
            ["line 1: expected a column question, and none twice, got "],
            id="other column",
        ),
        pytest.param(
            "", ["line 1: expected a column question, and none twice, got nothing"], id="empty file"
        ),
        pytest.param(
            "question,answer\nA?,1\nA?,2\n,3\nB?,1,2\n",
            [
                "line 3: the question of line 2",
                "line 4: no question",
                "line 5: too many cells; put texts in double",
            ],
            id="rows",
        ),
        pytest.param(
            "question,id\nA?,x\nB?,x",
            ["line 3: the id 'x' is already that of line 2"],
            id="same id",
        ),
        pytest.param(
            "question,tags\nA?,a[=2",
            ["line 2: tags: expected a key without =, [ and ], got 'a['"],
            id="tag",
        ),
        pytest.param(
            "question,query\nA?,DELETE {}",
            ["line 2: reference_query: expected a SPARQL query"],
            id="update",
        ),
        pytest.param(
            'question\nA?\n"B?\nC?',
            ["line 3 or later: unexpected end of data; is a double quote missing?"],
            id="open quote",
        ),
        pytest.param(
            "question,answer,match\nA?,many,number",
            ["line 2: reference_answer: must have one number"],
            id="no number",
        ),
        pytest.param(
            "question,answer,match,tolerance\nA?,5,number,x",
            ["line 2: tolerance: expected a numb"],
            id="tolerance",
        ),
        pytest.param(
            b"question\nA?\nGr\xf6sse?",
            ["not text in UTF-8; unpack it, or save it as such: in Excel, CSV"],
            id="not UTF-8",
        ),
        pytest.param(
            "question,id\n" + "".join(f"{i},x\n" for i in range(30)),
            [*["line"] * 20, "..."],
            id="many problems",
        ),
        pytest.param(
            '{"question": "A?"}\n{"question_id": "q"}\n\n{"messages": []}\n[]',
            [
                "line 2: no question",
                "line 4: no question; add it; `convert`",
                "line 5: expected a JSON",
            ],
            id="JSON lines",
        ),
        pytest.param(None, ["No such file"], id="missing file"),
    ],
)
def test_problems(text: str | bytes | None, problems: list[str], tmp_path: Path) -> None:
    is_log = isinstance(text, str) and text.startswith("{")
    path = tmp_path / ("questions.jsonl" if is_log else "questions.csv")
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ReferenceDataError) as caught:
        import_questions(path)
    assert caught.value.source == str(path)
    assert [
        told[: len(start)] for told, start in zip(caught.value.problems, problems, strict=True)
    ] == problems


def test_unknown_columns(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text("question,notes,anwser,\nA?,x,1,\n")
    with pytest.warns(
        GraphragEvalWarning, match="ignored columns: notes, anwser; known: question, answer"
    ):
        [template] = import_questions(path)
    assert template["questions"] == [{"id": "a", "question_text": "A?"}]
