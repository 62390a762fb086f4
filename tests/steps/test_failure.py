"""Why a response failed, and the differences that results list for steps with partial credit."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator, JudgeError, evaluate_stream
from tests.metrics.support import Judge, claims
from tests.steps.support import encode, groups, literal, query, result_of, texts
from tests.support.data import HEAVY_BYTES, question, template

if TYPE_CHECKING:
    from collections.abc import Mapping


def docs(*ids: str) -> str:
    return json.dumps([{"id": name, "text": f"Of {name}."} for name in ids])


STATIONS = query(texts(("T1", "110"), ("T2", "220"), ("T3", "380")), ordered=True)
REPORTS: dict[str, Any] = {"name": "retrieval", "output": docs("r1", "r2")}
SERIES: dict[str, Any] = {
    "name": "retrieve_time_series",
    "args": {"mrid": "m1"},
    "output": "[[0, 1.5]]",
}
IRI: dict[str, Any] = {"name": "iri_discovery", "output": "<urn:grid:bergheim>"}


def took(reference: Mapping[str, Any], output: Any = None, **keys: Any) -> dict[str, Any]:
    """An actual step as the reference has it, but for the output, if any, and for the keys."""
    step = {"name": reference["name"], "args": reference.get("args", {}), "status": "success"}
    return step | {"output": reference["output"] if output is None else output} | keys


async def failure(reference: list[list[dict[str, Any]]], steps: Any, **options: Any) -> str:
    """The failure, which is the same whether a response is scored at once, in a thread or in a
    stream.
    """
    response: dict[str, Any] = {"question_id": "q", "actual_steps": steps, "actual_answer": "a"}
    if isinstance(steps, dict):
        response = {"question_id": "q", **steps}
    async with Evaluator(groups(*reference), **options) as evaluator:
        result = await evaluator.evaluate(response)
        large = await evaluator.evaluate(response | {"padding": "x" * HEAVY_BYTES})
    async with evaluate_stream(groups(*reference), [response], **options) as stream:
        (streamed,) = [result async for result in stream]
    assert result["failure"] == large["failure"] == streamed["failure"]
    assert (result["steps_score"] == 1) == (result["failure"] in RIGHT_STEPS)
    return str(result["failure"])


RIGHT_STEPS = ("none", "no_answer", "right_steps_wrong_answer")
ROWS = [("T1", "110"), ("T2", "220"), ("T3", "380")]
WRONG = texts(("T1", "110"), ("T2", "220"), ("T4", "380"))
SWAPPED = texts(*ROWS[::-1])
PARTIAL: dict[str, Any] = STATIONS | {"score": "f1", "ordered": False}
HEADS_ONLY = encode([[literal("T1"), None], [literal("T2"), None], [literal("T3"), None]], "ab")

CASES = [
    pytest.param("none", [STATIONS], [took(STATIONS)], id="none"),
    # Nothing was done that could have been right.
    pytest.param("no_steps", [STATIONS], [], id="no steps"),
    pytest.param("no_steps", [STATIONS], [took(REPORTS)], id="only other steps"),
    pytest.param(
        "agent_error", [STATIONS], {"status": "error", "actual_steps": []}, id="status of error"
    ),
    pytest.param("agent_error", [STATIONS], {"error": "timeout"}, id="error"),
    pytest.param(
        "agent_error",
        [STATIONS],
        {"error": "timeout", "actual_steps": [took(STATIONS)]},
        id="error after a step",
    ),
    pytest.param(
        "agent_error",
        [STATIONS],
        {"error": "timeout", "actual_steps": [took(STATIONS, status="error")]},
        id="error after a failed step",
    ),
    pytest.param("missing_step", [STATIONS, STATIONS], [took(STATIONS)], id="one of two"),
    # It was done, and failed.
    pytest.param(
        "step_error", [STATIONS], [took(STATIONS, "syntax error", status="error")], id="failed step"
    ),
    pytest.param(
        "step_error",
        [IRI],
        [{"name": "autocomplete_search", "status": "error"}],
        id="failed step of another name",
    ),
    # It returned something else.
    pytest.param("wrong_query_result", [STATIONS], [took(STATIONS, WRONG)], id="wrong row"),
    pytest.param(
        "wrong_query_result",
        [STATIONS],
        [took(STATIONS, '{"head": {}, "boolean": true}')],
        id="boolean for a table",
    ),
    pytest.param(
        "wrong_query_result", [SERIES], [took(SERIES, args={"mrid": "m2"})], id="wrong series"
    ),
    pytest.param("wrong_query_result", [IRI], [took(STATIONS)], id="table for an IRI"),
    # It returned nothing.
    pytest.param("empty_result", [STATIONS], [took(STATIONS, texts(names="ab"))], id="empty table"),
    pytest.param(
        "empty_result", [STATIONS], [{**took(STATIONS), "output": None}], id="null output"
    ),
    pytest.param(
        "empty_result", [SERIES], [took(SERIES, "[]", args={"mrid": "m2"})], id="empty series"
    ),
    pytest.param(
        "empty_result", [IRI], [took(STATIONS, texts(names="i"))], id="empty table for an IRI"
    ),
    pytest.param("empty_result", [STATIONS], [took(STATIONS, " null\n")], id="text of null"),
    # It returned too few columns.
    pytest.param("missing_columns", [STATIONS], [took(STATIONS, HEADS_ONLY)], id="missing column"),
    # It returned the right rows, in another order.
    pytest.param("wrong_order", [STATIONS], [took(STATIONS, SWAPPED)], id="swapped rows"),
    pytest.param(
        "wrong_order",
        [STATIONS],
        [took(STATIONS, texts(*(("x", *row[::-1]) for row in ROWS[::-1])))],
        id="swapped rows and a column more",
    ),
    # With partial credit, what explains most of the cells that do not agree.
    pytest.param("missing_rows", [PARTIAL], [took(PARTIAL, texts(*ROWS[:2]))], id="rows missing"),
    pytest.param(
        "missing_rows",
        [PARTIAL],
        [took(PARTIAL, texts(ROWS[0], ("T2", "221")))],
        id="row missing and another wrong",
    ),
    pytest.param(
        "extra_rows", [PARTIAL], [took(PARTIAL, texts(*ROWS, ("T9", "10")))], id="row too many"
    ),
    pytest.param("wrong_values", [PARTIAL], [took(PARTIAL, WRONG)], id="wrong value"),
    pytest.param(
        "wrong_order",
        [PARTIAL | {"ordered": True}],
        [took(PARTIAL, SWAPPED)],
        id="swapped rows with partial credit",
    ),
    pytest.param(
        "missing_columns",
        [PARTIAL],
        [took(PARTIAL, texts(("T1",), ("T2",)))],
        id="column missing with partial credit",
    ),
    pytest.param(
        "wrong_query_result",
        [PARTIAL],
        [took(PARTIAL, '{"head": {}, "boolean": true}')],
        id="boolean with partial credit",
    ),
    # It returned not all of the relevant documents.
    pytest.param(
        "missed_retrieval", [REPORTS], [took(REPORTS, docs("r9", "r1"))], id="missed document"
    ),
]


@pytest.mark.parametrize(("expected", "group", "steps"), CASES)
async def test_failures_by_steps_alone(
    expected: str, group: list[dict[str, Any]], steps: Any
) -> None:
    assert await failure([group], steps) == expected


JUDGED = [
    pytest.param("none", [took(STATIONS)], claims(4, 4, 4), id="all right"),
    pytest.param("right_steps_wrong_answer", [took(STATIONS)], claims(4, 4, 1), id="right steps"),
    pytest.param(
        "wrong_steps_right_answer", [took(STATIONS, WRONG)], claims(4, 4, 3), id="right answer"
    ),
    pytest.param(
        "wrong_steps_right_answer",
        [took(STATIONS, status="error")],
        claims(4, 4, 4),
        id="failed step",
    ),
    pytest.param("wrong_steps_right_answer", [], claims(4, 4, 4), id="no steps"),
    pytest.param(
        "wrong_query_result", [took(STATIONS, WRONG)], claims(4, 4, 1), id="wrong steps and answer"
    ),
    pytest.param(
        "wrong_order", [took(STATIONS, SWAPPED)], JudgeError("refused", "no"), id="refused"
    ),
]


@pytest.mark.parametrize(("expected", "steps", "replies"), JUDGED)
async def test_failures_by_the_judged_answer(expected: str, steps: Any, replies: Any) -> None:
    judge = Judge(replies=replies)
    assert await failure([[STATIONS]], steps, judge=judge) == expected
    assert len(judge.asked) == 3


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="missing"),
        pytest.param({"actual_answer": None}, id="null"),
        pytest.param({"actual_answer": " \n"}, id="blank"),
    ],
)
async def test_right_steps_without_an_answer(answer: dict[str, Any]) -> None:
    right = {"actual_steps": [took(STATIONS)], **answer}
    assert await failure([[STATIONS]], right) == "no_answer"
    assert await failure([[STATIONS]], right | {"actual_steps": []}) == "no_steps"
    reference = groups([STATIONS])
    for none in (None, " "):
        reference[0]["questions"][0]["reference_answer"] = none
        result = await Evaluator(reference).evaluate({"question_id": "q", **right})
        assert result["failure"] == "none"


async def test_only_groups_that_are_compared_decide() -> None:
    both = [[REPORTS], [STATIONS]]
    steps = [took(REPORTS, docs("r9")), took(STATIONS)]
    assert await failure(both, steps) == "none"
    assert await failure(both, steps, steps_groups="all") == "missed_retrieval"
    steps = [took(REPORTS, docs("r9")), took(STATIONS, SWAPPED)]
    assert await failure(both, steps, steps_groups="all") == "wrong_order"
    # What comes after the group's turn is not to blame.
    steps = [took(REPORTS), took(STATIONS, SWAPPED)]
    assert await failure([[STATIONS], [REPORTS]], steps, steps_groups="all") == "missing_step"


async def test_the_latest_unmatched_step_with_output_is_blamed() -> None:
    empty, error = took(STATIONS, texts(names="ab")), took(STATIONS, status="error")
    assert await failure([[STATIONS]], [empty, took(STATIONS, SWAPPED)]) == "wrong_order"
    assert await failure([[STATIONS]], [took(STATIONS, SWAPPED), empty, error]) == "empty_result"
    null = {**took(STATIONS), "output": None}
    assert await failure([[STATIONS]], [null, error]) == "step_error"
    assert await failure([[STATIONS]], [error, null]) == "empty_result"
    other = query(texts(("L1",)))
    steps = [took(STATIONS, SWAPPED), took(other)]  # The latter is taken, by the other one.
    assert await failure([[STATIONS, other]], steps) == "wrong_order"
    assert await failure([[STATIONS, other]], [*steps, error]) == "wrong_order"
    assert await failure([[STATIONS, other]], [error, took(other)]) == "step_error"


async def test_steps_in_another_order() -> None:
    first, then, *_ = names = [{"name": name, "output": name} for name in "abc"]
    reference: Any = [{"order": "strict", "steps": names}]
    assert await failure(reference, names) == "none"
    assert await failure(reference, [then, *names]) == "none"
    unordered: Any = [{"steps": names, "order": "any"}]
    assert await failure(unordered, names[::-1]) == "none"
    assert await failure(reference, [then, first]) == "wrong_step_order"
    assert await failure(reference, [first, names[2]]) == "missing_step"
    assert (
        await failure([[first], *reference], [*names, first], steps_groups="all") == "missing_step"
    )
    assert await failure([[first], *reference], [first, *names], steps_groups="all") == "none"
    result = await Evaluator(groups(*reference)).evaluate(
        {"question_id": "q", "actual_steps": names[::-1]}
    )
    assert result["failure_detail"] == "actual_steps[1] (b) is out of order"
    # Read again, they mean the same.
    assert result["reference_steps"][0][0]["order"] == "strict"
    assert await failure(result["reference_steps"], names[::-1]) == "wrong_step_order"


TRACEBACK = """Traceback (most recent call last):
  File "agent.py", line 3, in ask
    raise KeyError("b")
KeyError: 'b'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "agent.py", line 5, in ask
    raise ValueError("no such city\\nin the map")
ValueError: no such city
in the map
"""
NGINX = """<html>\r
<head><title>502 Bad Gateway</title></head>\r
<body>\r
<center><h1>502 Bad Gateway</h1></center>\r
<hr><center>nginx</center>\r
</body>\r
</html>\r
"""
UNTITLED = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><style>p { color: red }</style><title> </title></head>
<body>
<!-- served by b7 -->
<script>start()</script>
<pre>Cannot&nbsp;GET
/sparql</pre>
<p>Ask your administrator.</p>
</body>
"""
FIRST_LINES: list[tuple[Any, str | None]] = [
    # The first line that says something.
    ("ValueError: \nno such city", "ValueError: no such city"),
    ("errors.NotFound:\n\n  no such city\nin the map", "errors.NotFound: no such city"),
    ("ValueError: \n \n", "ValueError:"),
    ("----------\nno such city\n----------", "no such city"),
    ("???", "???"),
    (
        f"{TRACEBACK.rpartition('ValueError')[0]}ValueError: \nno such city",
        "ValueError: no such city",
    ),
    # Pages.
    (NGINX, "502 Bad Gateway"),
    (f"HTTP 502: {NGINX}", "HTTP 502: 502 Bad Gateway"),
    (" ".join(f"HTTP 502: {NGINX}".split()), "HTTP 502: 502 Bad Gateway"),
    (f"the endpoint failed\n{NGINX}", "the endpoint failed"),
    ({"code": 502, "message": NGINX}, "502 Bad Gateway"),
    (UNTITLED, "Cannot GET /sparql"),
    ("<HTML><BODY>No service &amp; no hope", "No service & no hope"),
    ('<?xml version="1.0"?>\n<error><message>no such city</message></error>', "no such city"),
    ("<html>\n<body></body></html>", "<html>"),
    (f"<html>&#{'9' * 100_000}", "\N{REPLACEMENT CHARACTER}"),
    ("<html" * 100_000, "<html" * 100 + "..."),
    ("expected '<html>'\nat the start", "expected '<html>'"),
    # Objects of servers and tools.
    ({"exception": "no such city\nin the map"}, "no such city"),
    ({"code": 7, "exception": {"type": "KeyError", "message": "no such city"}}, "no such city"),
    ({"exception": "KeyError", "message": "no such city"}, "no such city"),
    ('{"exception": "no such city", "path": "/sparql"}', "no such city"),
    ({"errors": [{"message": "no such city"}], "data": None}, "no such city"),
    ({"detail": [{"loc": ["body"], "msg": "field required"}]}, "field required"),
    ({"error": {"type": "parsing_exception", "reason": "no such city"}}, "no such city"),
    ("TimeoutError: no answer within 60 s", "TimeoutError: no answer within 60 s"),
    ("ValueError: no such city\nin the map\n", "ValueError: no such city"),
    ("\r\n \n  502 Bad Gateway \r\n<html>", "502 Bad Gateway"),
    (TRACEBACK, "ValueError: no such city"),
    ("Traceback (most recent call last):\n  cut off", "Traceback (most recent call last):"),
    ("x" * 2000, "x" * 500 + "..."),
    ({"code": 7, "message": "no such city\nin the map"}, "no such city"),
    ({"error": {"detail": [{"text": "no such city"}]}}, "no such city"),
    ('{\n  "error": {"message": "no such city"}\n}', "no such city"),
    ('{\n  "code": 7\n}', '{ "code": 7 }'),
    ({"code": 7}, '{"code":7}'),
    ("[" * 1000 + "]" * 1000, "[" * 500 + "..."),
    ("{not JSON", "{not JSON"),
    (503, "503"),
    (True, None),
    (" \n", None),
    ("", None),
]


QUESTIONS = {
    "steps": question(STATIONS),
    "match": question(reference_answer="a", match="contains"),
    "limit": question(max_steps=1),
    "text": question(),
}


@pytest.mark.parametrize("asked", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize(
    ("response", "detail"),
    [({"error": text}, line) for text, line in FIRST_LINES] + [({"status": "error"}, None)],
)
async def test_an_agent_error_has_the_first_line_of_the_error(
    asked: dict[str, Any], response: dict[str, Any], detail: str | None
) -> None:
    given_steps: list[dict[str, Any]] = [
        {},
        {"actual_steps": []},
        {"actual_steps": [took(STATIONS)]},
    ]
    responses = [
        {"question_id": "q", **response, **steps, **answer}
        for steps in given_steps
        for answer in ({}, {"actual_answer": "a"})
    ]
    reference = template(asked)
    async with evaluate_stream(reference, responses, ordered=True) as stream:
        results = [result async for result in stream]
    evaluator = Evaluator(reference)
    for number, (given, result) in enumerate(zip(responses, results, strict=True), 1):
        assert (result["status"], result["failure"]) == ("error", "agent_error")
        assert (result["steps_score"], result.get("failure_detail")) == (None, detail)
        assert await evaluator.evaluate(given, sample=number) == result
        json.dumps(result)
        keys = [*result]
        if detail is not None:
            assert keys.index("failure_detail") == keys.index("failure") + 1
    assert stream.aggregates.snapshot(detail=True)["micro"]["failure"] == {"agent_error": 6}


@pytest.mark.parametrize(
    ("keys", "line"),
    [({"error": text}, line) for text, line in FIRST_LINES]
    + [({"output": text, "status": "error"}, line) for text, line in FIRST_LINES]
    + [
        ({"status": "error"}, None),
        ({"error": "timed out\nafter 60 s", "output": "x", "status": "error"}, "timed out"),
        (
            {"error": " ", "output": "Error: no such table\n...", "status": "error"},
            "Error: no such table",
        ),
        (
            {"error": None, "output": "Error: no such table", "status": "error"},
            "Error: no such table",
        ),
        (
            {"error": "", "exception": "no such table\n...", "output": None, "status": "error"},
            "no such table",
        ),
        ({"exception": {"message": "no such table"}, "status": "error"}, "no such table"),
        ({"error": True, "output": "no such table"}, "no such table"),
        ({"message": "no such table", "output": " ", "status": "error"}, "no such table"),
        ({"message": "asking", "output": "no such table", "status": "error"}, "no such table"),
        (
            {"isError": True, "output": [{"type": "text", "text": "no\nmore"}], "status": "error"},
            "no",
        ),
    ],
)
async def test_a_step_error_has_the_first_line_of_the_steps_error(
    keys: dict[str, Any], line: str | None
) -> None:
    other = {"name": "look_up", "output": "x", "status": "success"}
    step = {"name": "Sparql-Query", **keys}
    if keys.get("error") == "":
        step["status"] = "error"
    given = {"question_id": "q", "actual_steps": [other, step]}
    reference = groups([STATIONS])
    result = await Evaluator(reference).evaluate(given)
    large = await Evaluator(reference).evaluate(given | {"padding": "x" * HEAVY_BYTES})
    assert (result["steps_score"], result["failure"]) == (0, "step_error")
    place = "actual_steps[1] (sparql_query)"
    assert result["failure_detail"] == (place if line is None else f"{place}: {line}")
    assert large["failure_detail"] == result["failure_detail"]
    json.dumps(result)


async def test_a_step_without_a_status_and_an_output_failed() -> None:
    given = {"question_id": "q", "actual_steps": [{"name": "sparql_query"}]}
    result = await Evaluator(groups([STATIONS])).evaluate(given)
    assert (result["failure"], result["failure_detail"]) == (
        "step_error",
        "actual_steps[0] (sparql_query)",
    )


LOOK, DELETE = ({"name": name, "output": name} for name in ("look_up", "delete_graph"))
NEVER: dict[str, Any] = {"forbidden_steps": ["delete_graph"]}
TWO: dict[str, Any] = {"max_steps": 2}


@pytest.mark.parametrize(
    ("question", "template", "response", "expected"),
    [
        pytest.param(
            NEVER,
            {},
            [LOOK, DELETE],
            (0, "forbidden_step", "actual_steps[1] (delete_graph)"),
            id="forbidden step",
        ),
        # It counts whatever it returned, in any spelling of its aliases.
        pytest.param(
            NEVER,
            {},
            [{"name": "Drop-", "status": "error"}],
            (0, "forbidden_step", None),
            id="forbidden step that failed",
        ),
        pytest.param(
            NEVER,
            {},
            {"actual_steps": [DELETE], "error": "timeout"},
            (None, "forbidden_step", None),
            id="forbidden step before an error",
        ),
        pytest.param(
            {"forbidden_steps": ["Drop It"]},
            {},
            [{"name": "drop-it"}],
            (0, "forbidden_step", None),
            id="spelling with a hyphen",
        ),
        pytest.param(
            {"forbidden_steps": ["Drop It"]},
            {},
            [{"name": "drop_it"}],
            (0, "forbidden_step", None),
            id="spelling with an underscore",
        ),
        pytest.param(
            {"forbidden_steps": ["drop_it"]},
            {},
            [DELETE],
            (0, "forbidden_step", None),
            id="another name",
        ),
        pytest.param(TWO, {}, [LOOK, LOOK], (1, "none", None), id="as many as allowed"),
        pytest.param(
            TWO,
            {},
            [LOOK, LOOK, LOOK],
            (0, "too_many_steps", "steps: 3, allowed: 2"),
            id="too many",
        ),
        pytest.param(
            TWO | NEVER, {}, [LOOK, LOOK, DELETE], (0, "forbidden_step", None), id="both limits"
        ),
        # A template's limits are those of its questions, unless these have their own.
        pytest.param(
            {"forbidden_steps": ["drop_graph"]},
            NEVER,
            [LOOK, DELETE],
            (1, "none", None),
            id="limit of the question counts",
        ),
        pytest.param(
            TWO,
            {"max_steps": 1} | NEVER,
            [LOOK, LOOK],
            (1, "none", None),
            id="higher limit of the question counts",
        ),
    ],
)
async def test_limits(
    question: Any, template: Any, response: Any, expected: tuple[Any, ...]
) -> None:
    response = response if isinstance(response, dict) else {"actual_steps": response}
    for steps in ({"reference_steps": [[LOOK]]}, {}):
        asked = {"id": "q", "question_text": "?", **question, **steps}
        reference = [{"template_id": "t", "questions": [asked], **template}]
        aliases = {"delete_graph": ["drop", "drop_it"]}
        again = pickle.loads(pickle.dumps(Evaluator(reference, step_aliases=aliases)))  # noqa: S301
        result = await again.evaluate({"question_id": "q", **response})
        given = [{"question_id": "q", **response}]
        async with evaluate_stream(reference, given, step_aliases=aliases) as stream:
            (streamed,) = [result async for result in stream]
        assert streamed == result
        assert (result["steps_score"], result["failure"]) == expected[:2]
        assert expected[2] in (None, result.get("failure_detail"))


async def test_questions_with_limits_alone() -> None:
    reference = template(question(**NEVER))
    for response, found in (
        ({"actual_steps": []}, (1, "none")),
        ({}, (None, None)),  # Nothing is known of its steps.
        ({"error": "timeout"}, (None, "agent_error")),
    ):
        result = await Evaluator(reference).evaluate({"question_id": "q", **response})
        assert (result["steps_score"], result["failure"]) == found
    # A right answer does not excuse it.
    judge = Judge(replies=claims(4, 4, 4))
    assert await failure([[LOOK]], [LOOK, DELETE], judge=judge) == "none"
    reference = template(question(LOOK, reference_answer="a", **NEVER))
    async with Evaluator(reference, judge=judge) as evaluator:
        result = await evaluator.evaluate(
            {"question_id": "q", "actual_answer": "a", "actual_steps": [DELETE]}
        )
    assert (result["answer_f1"], result["failure"]) == (1, "forbidden_step")


PREFIX = "the prefix, which stands for a namespace"
ENCODING = "percent-encoding or Unicode normalization"


def iris(*values: str) -> str:
    return encode([[{"type": "uri", "value": value}] for value in values], "a")


@pytest.mark.parametrize(
    ("expected", "actual", "said"),
    [
        pytest.param(
            iris("http://x.org/a", "urn:b"),
            iris("urn:b", "https://x.org/a"),
            "https://x.org/a and http://x.org/a differ only in http and https",
            id="scheme",
        ),
        pytest.param(
            iris("https://x.org/a"),
            "a\n<http://x.org/a>\n",
            "http://x.org/a and https://x.org/a differ only in http and https",
            id="scheme in a table",
        ),
        pytest.param(
            iris("http://schema.org/name"),
            iris("schema:name"),
            "schema:name and http://schema.org/name differ only in " + PREFIX,
            id="prefix",
        ),
        pytest.param(
            iris("http://x.org/Z%C3%BCrich"),
            iris("http://x.org/Zürich"),
            "http://x.org/Zürich and http://x.org/Z%C3%BCrich differ only in " + ENCODING,
            id="percent-encoding",
        ),
        pytest.param(
            iris("http://x.org/Zürich"),
            iris("http://x.org/Zu\u0308rich"),
            "http://x.org/Zu\u0308rich and http://x.org/Zürich differ only in " + ENCODING,
            id="normalisation",
        ),
        pytest.param(
            iris("http://x.org/a%20b"),
            iris("https://x.org/a b".replace(" ", "%20")),
            "https://x.org/a%20b and http://x.org/a%20b differ only in http and https",
            id="encoded space and scheme",
        ),
        pytest.param(
            iris("http://x.org/a"),
            iris("http://x.org/a/"),
            "http://x.org/a/ and http://x.org/a differ only in a slash or a hash at the end",
            id="slash at the end",
        ),
        pytest.param(
            iris("http://x.org/Berlin"),
            iris("http://x.org/berlin"),
            "http://x.org/berlin and http://x.org/Berlin differ only in upper and lower case",
            id="case",
        ),
        pytest.param(
            iris("http://www.x.org/a"),
            iris("http://x.org/a"),
            "http://x.org/a and http://www.x.org/a differ only in www.",
            id="www",
        ),
        pytest.param(
            iris("http://www.x.org/a"),
            iris("https://x.org/a"),
            "https://x.org/a and http://www.x.org/a differ only in http and https, and www.",
            id="www and scheme",
        ),
        pytest.param(
            iris("http://x.org/a", "urn:b"), iris("http://x.org/a", "urn:c"), None, id="another IRI"
        ),
        pytest.param(iris("http://x.org/a"), iris("x:b"), None, id="unknown prefix"),
        pytest.param(
            encode([[literal("1", "integer"), literal("b")]], "ab"),
            '?a\t?b\n"1"^^xsd:integer\t"c"\n',
            None,
            id="literal",
        ),
        pytest.param(
            iris("http://e.org/a"),
            '{"text": "It is\\nex:a"}',
            "ex:a and http://e.org/a differ only in " + PREFIX,
            id="prefix in text",
        ),
        pytest.param(
            "It is <http://x.org/a>.",
            "It is https://x.org/a.",
            "https://x.org/a and http://x.org/a differ only in http and https",
            id="prose",
        ),
    ],
)
def test_iris_in_another_form(expected: str, actual: str, said: str | None) -> None:
    for score in ("exact", "f1") if "head" in expected else ("exact",):
        step = {"name": "sparql_query", "output": expected, "score": score}
        result = result_of(step, actual)
        assert result["steps_score"] < 1
        assert result.get("failure_detail") == said


GRAPHS_IN_ANOTHER_FORM = {
    "https": (
        "<http://x.org/a> <urn:p> 1 .",
        "<https://x.org/a> <urn:p> 1 .",
        "https://x.org/a and http://x.org/a differ only in http and https",
    ),
    "percent-encoding": (
        "<urn:s> <urn:p> <http://x.org/Z%C3%BCrich> .",
        "<urn:s> <urn:p> <http://x.org/Zürich> .",
        "http://x.org/Zürich and http://x.org/Z%C3%BCrich differ only in " + ENCODING,
    ),
    "prefixes": (
        "@prefix x: <http://x.org/> . x:a x:p 1 ; x:q 2 .",
        "@prefix y: <https://x.org/> . <http://x.org/a> y:p 1 ; <http://x.org/q> 2 .",
        "https://x.org/p and http://x.org/p differ only in http and https",
    ),
    "www": (
        "<http://www.x.org/a> <urn:p> 1 .",
        "<http://x.org/a> <urn:p> 1 .",
        "http://x.org/a and http://www.x.org/a differ only in www.",
    ),
    "another value": ("<http://x.org/a> <urn:p> 1 .", "<http://x.org/a> <urn:p> 2 .", None),
    "no graph": ("<http://x.org/a> <urn:p> 1 .", "See https://x.org/a.", None),
}


@pytest.mark.parametrize(
    ("expected", "actual", "said"), GRAPHS_IN_ANOTHER_FORM.values(), ids=GRAPHS_IN_ANOTHER_FORM
)
@pytest.mark.parametrize("score", ["exact", "f1"])
def test_iris_of_graphs_in_another_form(
    expected: str, actual: str, said: str | None, score: str
) -> None:
    step = {"name": "q", "output": expected, "output_media_type": "text/turtle", "score": score}
    result = result_of(step, actual)
    assert result["steps_score"] < 1
    detail = result.get("failure_detail")
    if said is None:
        assert "differ only in" not in str(detail)
    else:
        assert detail == said


# Differences


async def diff_of(found: str, **keys: Any) -> Any:
    """The diff of the result, which is the same whether it is scored at once or in a thread."""
    reference = groups([PARTIAL | keys])
    response = {"question_id": "q", "actual_steps": [took(PARTIAL, found, id="call")]}
    evaluator = Evaluator(reference)
    result = await evaluator.evaluate(response)
    large = await evaluator.evaluate(response | {"padding": "x" * HEAVY_BYTES})
    (step,) = result["reference_steps"][0]
    assert [step] == large["reference_steps"][0]
    assert "diff" not in reference[0]["questions"][0]["reference_steps"][0][0]
    assert step.get("matches") == ("call" if result["steps_score"] else None)
    return step.get("diff")


async def test_every_kind() -> None:
    assert await diff_of(texts(*ROWS[:2])) == [
        {"kind": "missing_row", "row": {"a": "T3", "b": "380"}}
    ]
    assert await diff_of(texts(*ROWS, ("T9", "10"))) == [
        {"kind": "extra_row", "row": {"a": "T9", "b": "10"}}
    ]
    # Under the names of the reference, whatever the actual ones; `row` counts the actual rows.
    turned = texts(("380", "T3"), ("221", "T2"), ("110", "T1"), names="xy")
    assert await diff_of(turned) == [
        {"kind": "wrong_value", "row": 1, "column": "b", "expected": "220", "actual": "221"}
    ]
    assert await diff_of(texts(("T1",), ("T2",), ("T3",))) == [
        {"kind": "missing_column", "column": "b"}
    ]


async def test_rows_that_agree_in_less_than_half_are_missing_and_extra() -> None:
    wide = texts(("a", "b", "c"), ("d", "e", "f"))
    assert await diff_of(texts(("a", "b", "c"), ("d", "x", "y")), output=wide) == [
        {"kind": "missing_row", "row": {"a": "d", "b": "e", "c": "f"}},
        {"kind": "extra_row", "row": {"a": "d", "b": "x", "c": "y"}},
    ]


async def test_they_are_bounded_and_kinds_share_the_room() -> None:
    wide = [[f"{row}-{column}" + "x" * 1000 for column in range(24)] for row in range(30)]
    other = [[*row] for row in wide]
    for index, row in enumerate(other[:12]):
        row[index] = "y" * 1000
    names = "abcdefghijklmnopqrstuvwx"
    for height, missing in ((28, 2), (13, 5), (29, 1)):
        found = await diff_of(texts(*other[:height], names=names), output=texts(*wide, names=names))
        kinds = [each["kind"] for each in found]
        assert kinds == ["missing_row"] * missing + ["wrong_value"] * (10 - missing)
        assert len(found[0]["row"]) == 20
        assert {len(text) for text in found[0]["row"].values()} == {201}
        assert len(found[-1]["actual"]) == 201


async def test_unbound_cells_are_null() -> None:
    one, two, three = ([literal("1"), None], [literal("2"), literal("x")], [literal("3"), None])
    expected = encode([one, two, three], "ab")
    assert await diff_of(encode([[literal("1"), literal("y")], two], "ab"), output=expected) == [
        {"kind": "missing_row", "row": {"a": "3", "b": None}},
        {"kind": "wrong_value", "row": 0, "column": "b", "expected": None, "actual": "y"},
    ]
