"""What a report quotes of a result that failed: the expected and the actual side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import run_evaluation_sync
from graphrag_eval_async.reports.examples import example_of
from tests.support.data import question, template

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], names: Sequence[str] = ("x", "y")) -> str:
    bindings = [
        {name: {"type": "literal", "value": cell} for name, cell in zip(names, row, strict=False)}
        for row in rows
    ]
    return json.dumps({"head": {"vars": [*names]}, "results": {"bindings": bindings}})


def expected_query(output: str, **more: Any) -> dict[str, Any]:
    media_type = "application/sparql-results+json"
    return {"name": "sparql_query", "output": output, "output_media_type": media_type, **more}


def query(output: str, **more: Any) -> dict[str, Any]:
    return {"name": "sparql_query", "output": output, "id": "1", "args": {}, **more}


COUNT = {"name": "count", "args": {}, "output": "5"}
PEOPLE = table([["http://a.org/p/Grace_Hopper"], ["http://a.org/p/Alan_Turing"]], ["x"])
TWO_DOCUMENTS = {"name": "retrieval", "output": '[{"id": "d1"}, {"id": "d2"}]', "args": {"k": 3}}
OTHER_DOCUMENTS = {
    "name": "retrieval",
    "args": {},
    "id": "1",
    "output": '[{"id": "d2", "text": "t"}, {"id": "d9", "text": "t"}]',
}


@pytest.mark.parametrize(
    ("reference_steps", "actual_steps", "in_words"),
    [
        pytest.param(
            [expected_query(PEOPLE)],
            [query(table([["http://a.org/p/Alan_Turing"], ["http://a.org/p/X"]], ["x"]))],
            "expected Grace_Hopper; got X",
            id="the last parts of IRIs",
        ),
        pytest.param(
            [expected_query(PEOPLE)],
            [query(PEOPLE.replace("a.org", "b.org"))],
            "expected http://a.org/p/Grace_Hopper, http://a.org/p/Alan_Turing; "
            "got http://b.org/p/Grace_Hopper, http://b.org/p/Alan_Turing",
            id="IRIs that differ before their last parts",
        ),
        pytest.param(
            [expected_query(table([["a", "1"], ["b", "2"]]))],
            [query(table([["a", "1"], ["b", "3"]]))],
            "expected b, 2; got b, 3",
            id="a wrong value of a row",
        ),
        pytest.param(
            [expected_query(table([["a"], ["b"]], ["x"]), ordered=True)],
            [query(table([["b"], ["a"]], ["x"]))],
            "expected a, b; got b, a",
            id="another order",
        ),
        pytest.param(
            [expected_query(table([[str(i)] for i in range(900)], ["x"]), score="f1")],
            [query(table([[str(i)] for i in range(1, 900)], ["x"]))],
            "expected x = 0; got other rows",
            id="more rows than are kept",
        ),
        pytest.param(
            [expected_query(table([["a"], ["b"], ["c"]], ["x"]))],
            [query(table([["b"]], ["x"]))],
            "expected a, c; got only b",
            id="some rows are missing",
        ),
        pytest.param(
            [expected_query(table([["a"]], ["x"]))],
            [query(table([["a"], ["b"]], ["x"]))],
            "expected only a; got b",
            id="more rows than expected",
        ),
        pytest.param(
            [expected_query(table([["a"]], ["x"]))],
            [query(table([], ["x"]))],
            "expected a; got nothing",
            id="no rows",
        ),
        pytest.param(
            [expected_query(table([["a"]], ["x"]))],
            [query("", status="error", error="QueryError: no such prefix")],
            "expected a; got an error: QueryError: no such prefix",
            id="an error of a step",
        ),
        pytest.param(
            [expected_query(table([["a"]], ["x"])), COUNT],
            [query(table([["a"]], ["x"]))],
            "expected a step count; got sparql_query",
            id="a missing step",
        ),
        pytest.param(
            [COUNT], [{**COUNT, "output": "6"}], "expected 5; got 6", id="a step without a table"
        ),
        pytest.param([TWO_DOCUMENTS], [OTHER_DOCUMENTS], "expected d1; got d9", id="documents"),
        pytest.param(
            [expected_query(table([["</script><b>"]], ["x"]))],
            [query(table([["\x1b[31mred\u202e"]], ["x"]))],
            "expected </script><b>; got \\x1b[31mred\\u202e",
            id="what would harm a terminal",
        ),
    ],
)
def test_steps(
    reference_steps: list[dict[str, Any]], actual_steps: list[dict[str, Any]], in_words: str
) -> None:
    reference = template(question(*reference_steps, question_id="q"), template_id="t")
    response = {"question_id": "q", "actual_steps": actual_steps}
    [result] = run_evaluation_sync(reference, [response])
    assert example_of(result).in_words == in_words


@pytest.mark.parametrize(
    ("response", "in_words"),
    [
        pytest.param(
            {"actual_answer": "Donald Knuth, Frances Allen"},
            "expected Grace Hopper; got Donald Knuth, Frances Allen",
            id="a wrong answer",
        ),
        pytest.param({}, "expected Grace Hopper; got no answer", id="no answer"),
        pytest.param(
            {"error": "TimeoutError: 60 s"},
            "expected Grace Hopper; got an error: TimeoutError: 60 s",
            id="an error of the agent",
        ),
        pytest.param(
            {"actual_answer": "word " * 300},
            f"expected Grace Hopper; got {('word ' * 40).strip()} ...",
            id="a long answer",
        ),
    ],
)
def test_answers(response: dict[str, Any], in_words: str) -> None:
    asked = question(question_id="q", reference_answer="Grace Hopper", match="contains")
    [result] = run_evaluation_sync(
        template(asked, template_id="t"), [{"question_id": "q", **response}]
    )
    assert example_of(result).in_words == in_words
