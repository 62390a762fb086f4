"""What a reference set holds, what makes it invalid, and what is probably a mistake in it."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from datetime import UTC, time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from graphrag_eval_async import (
    Evaluator,
    GraphragEvalWarning,
    Reference,
    ReferenceDataError,
    load_reference,
)
from graphrag_eval_async.records.yaml_file import CHECKED_BYTES
from tests.support.data import answer, question, template, templates

if TYPE_CHECKING:
    from pathlib import Path

SPARQL, JSON = "application/sparql-results+json", "application/json"
OTHER = "templates[1].questions[0]"
QUESTION = "templates[0].questions[0]"
STEP = f"{QUESTION}.reference_steps[0][0]"
QUOTES = "put it in quotes"
FLAT = "the steps of a group are a list of their own: [[{name: ...}]], or under steps"


def problems(raw: Any, **options: Any) -> list[str]:
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(raw, **options)
    return caught.value.problems


def asking(**more: Any) -> list[dict[str, Any]]:
    return template(question(**more))


def steps(*group: Any) -> list[dict[str, Any]]:
    return asking(reference_steps=[list(group)])


def of_step(**more: Any) -> list[dict[str, Any]]:
    return steps({"name": "x", "output": "y"} | more)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def test_what_a_set_holds(tmp_path: Path) -> None:
    raw = [*templates(2, args={"a": [1]}, matches="old"), *template(template_id="none yet")]
    raw[0]["questions"].append(question(question_id="r", reference_answer=None, reference_steps=[]))
    before = copy.deepcopy(raw)
    reference = load_reference(raw)
    assert raw == before
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(raw, sort_keys=False))
    (tmp_path / "r.json").write_text("\ufeff" + json.dumps(raw, indent=1))
    for source in (tmp_path / "r.yaml", str(tmp_path / "r.json"), tuple(raw), Reference(raw)):
        assert load_reference(source).questions == reference.questions
    raw[0]["questions"].clear()
    assert reference.templates == ("sums", "none yet")
    assert [each.text for each in reference] == ["Sum 0?", "Sum 1?", "What is r?"]
    # `matches` is left from an evaluation.
    step = {"name": "calculator", "output": "42", "args": {"a": [1]}}
    assert reference.questions["q1"].reference_steps == [[step]]
    assert reference.questions["r"].reference_steps is None
    assert load_reference(reference) is reference
    assert pickle.loads(pickle.dumps(reference)).questions == reference.questions  # noqa: S301


def test_tags_of_a_question_take_precedence_over_those_of_its_template(tmp_path: Path) -> None:
    raw = asking(tags={"hops": 2.5, "kind": " count "})
    raw[0]["questions"].append(question(question_id="r", tags=["hard"]))
    raw[0]["tags"] = {"hops": 1, "easy": False}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(raw))
    unusual = [{**each, "left": None} for each in raw]
    with pytest.warns(GraphragEvalWarning, match="unknown key"):
        careful = load_reference(unusual)
    for reference in (load_reference(raw), load_reference(str(tmp_path / "r.yaml")), careful):
        first, second = reference
        assert first.as_dict()["tags"] == {"easy": "false", "hops": "2.5", "kind": "count"}
        assert second.tags == (("easy", "false"), ("hard", "true"), ("hops", "1"))


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        pytest.param(
            asking(tags="hard"),
            (
                f"{QUESTION}.tags: expected an object or a list of names, got 'hard'; write "
                "{key: value} or [name]"
            ),
            id="tags of text",
        ),
        pytest.param(
            asking(tags={"n": None}),
            f"{QUESTION}.tags.n: expected a string, a number or a boolean, got None",
            id="null tag",
        ),
        pytest.param(
            asking(tags={"a=b": 1}),
            f"{QUESTION}.tags: expected a key without =, [ and ], got 'a=b'",
            id="tag with an equals sign",
        ),
        pytest.param(
            [{**asking()[0], "tags": ["a]"]}],
            "templates[0].tags: expected a key without =, [ and ], got 'a]'",
            id="tag with a bracket",
        ),
        pytest.param(
            [*asking(), *template()],
            "templates[1].template_id: 't' is already the template_id of templates[0]",
            id="same template id",
        ),
        pytest.param(
            [{"template_id": "t"}],
            "templates[0].questions: missing; a template needs it",
            id="no questions",
        ),
        pytest.param(
            [{"template_id": "t", "questions": [None]}],
            f"{QUESTION}: expected a question",
            id="question that is null",
        ),
        pytest.param(steps({"name": "x"}), f"{STEP}.output: missing", id="no output"),
        pytest.param(
            of_step(score="high"),
            f"{STEP}.score: expected exact, f1 or values_f1, got 'high'",
            id="unknown score",
        ),
        pytest.param(
            of_step(args_match="all", args={}),
            f"{STEP}.args_match: expected exact, none or subset, got 'all'; write one of",
            id="args match all",
        ),
        pytest.param(
            of_step(args_match="exact"),
            f"{STEP}.args: missing; args_match compares them",
            id="no args",
        ),
        pytest.param(
            steps({"name": "x", "args": {}, "args_match": "none"}),
            f"{STEP}.output: missing",
            id="args not matched",
        ),
        pytest.param(
            asking(reference_steps=[{"steps": [{"name": "x", "output": "y"}], "order": "strikt"}]),
            (
                f"{QUESTION}.reference_steps[0].order: expected any or strict, got 'strikt'; for "
                "the order of rows, write ordered: true in the step"
            ),
            id="unknown order",
        ),
        pytest.param(
            asking(reference_steps=[{"steps": [{"name": "x"}]}]),
            f"{QUESTION}.reference_steps[0].steps[0].output: missing",
            id="step of an object without output",
        ),
        pytest.param(
            steps({"name": "x", "output": "y"}, {"name": "z", "output": "y", "order": "strict"}),
            (
                f"{QUESTION}.reference_steps[0][1].order: is the group's; write "
                "{order: strict, steps: [...]}"
            ),
            id="order of a step",
        ),
        pytest.param(
            asking(forbidden_steps="x"),
            f"{QUESTION}.forbidden_steps: expected a list of texts, got 'x'; write [x]",
            id="forbidden steps of text",
        ),
        pytest.param(
            template(question({"name": "x", "output": "y"}, forbidden_steps=["X-"])),
            f"{QUESTION}.forbidden_steps: 'X-' is also a reference step",
            id="forbidden reference step",
        ),
        pytest.param(
            [{**asking()[0], "max_steps": -1}],
            "templates[0].max_steps: expected a whole number of 0 or more",
            id="negative limit",
        ),
        pytest.param(
            of_step(score="f1"), f"{STEP}.score: f1 is only for outputs", id="score of text"
        ),
        pytest.param(
            of_step(reference_query="DROP ALL"),
            f"{STEP}.reference_query: expected a SPARQL query",
            id="update",
        ),
        pytest.param(
            of_step(name="retrieve_time_series", args={"mrid": 5}),
            f"{STEP}.args.mrid: ",
            id="wrong mrid",
        ),
        pytest.param(
            of_step(args={"a": nested(201)}), f"{QUESTION}: nests more than 200 deep", id="too deep"
        ),
    ],
)
def test_problems(raw: Any, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(raw))
    for source in (raw, path):
        (found,) = problems(source)
        assert found.startswith(problem)


TABLE = (
    '{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "literal", "value": "1"}}]}}'
)


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("{", id="not JSON"),
        pytest.param(1, id="number"),
        pytest.param(TABLE.replace('"1"', "1"), id="value of a number"),
        pytest.param(TABLE.replace('[{"a"', '[1, {"a"'), id="row of a number"),
        pytest.param(TABLE.replace('"vars"', '"wars"'), id="no vars"),
    ],
)
def test_outputs_that_are_not_as_their_media_type_says(output: Any) -> None:
    assert [
        len(load_reference(of_step(output=TABLE, output_media_type=kind)))
        for kind in (SPARQL, JSON)
    ]
    # The tables before it are of the same form.
    valid = {"name": "x", "output": TABLE, "output_media_type": SPARQL}
    (found,) = problems(steps(*[valid] * 50, valid | {"output": output}))
    assert found.startswith(f"{QUESTION}.reference_steps[0][50].output: ")
    assert problems(of_step(output=TABLE, output_media_type=SPARQL, required_columns=["b"]))


INVALID = """\
- template_id: 1
  questions:
  - {id: q}
  - {id: r, question_text: "?"}
  - id: s
    question_text: "?"
    reference_steps:
    - name: sparql_query
      output: "{"
- template_id: t
  questions:
  - {id: r, question_text: "?", reference_answer: 5}
  - {id: r, question_text: "?"}
"""


def test_every_problem_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(INVALID)
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(path)
    expected = [
        f"templates[0].template_id: expected text, got the number 1; {QUOTES} (line 1)",
        f"{QUESTION}.question_text: missing; a question needs it (line 3)",
        (
            "templates[0].questions[2].reference_steps[0]: expected a list of steps, got a step; "
            f"{FLAT} (line 8)"
        ),
        (
            f"{OTHER}.reference_answer: expected text or a list of texts, got the number 5; "
            f"{QUOTES} (line 12)"
        ),
        (
            f"{OTHER}.id: 'r' is already the id of templates[0].questions[1]; choose another; "
            "in 2 places (lines 12, 13)"
        ),
    ]
    assert caught.value.problems == expected
    assert str(caught.value).splitlines()[0] == f"reference set: 5 problems in {path}"
    assert caught.value.source == str(path)


def test_what_is_no_list_of_templates(tmp_path: Path) -> None:
    wrong: list[Any] = [None, [], {}, {"template_id": "t"}, 5, iter([]), b"[]", [None], [answer()]]
    wrong.append([{"template_id": "t", "questions": {1}}])  # A set has no order.
    for raw in wrong:
        assert len(problems(raw)) == 1
    assert problems(tmp_path / "absent.yaml")[0].startswith("cannot be read: ")
    for text in ("", "a: b"):
        (tmp_path / "r.yaml").write_text(text)
        assert len(problems(tmp_path / "r.yaml")) == 1


def test_duplicate_keys_in_large_json_files(tmp_path: Path) -> None:
    """One that programs wrote is searched only at its beginning."""
    path, twice = tmp_path / "r.json", '"question_text": "?", "question_text": "?"'
    for size, end, found in [
        (0, "", True),
        (CHECKED_BYTES, "", False),
        (CHECKED_BYTES, "\n", True),
    ]:
        text = f'[{{"template_id": "{"x" * size}", "questions": [{end}{{"id": "q", {twice}}}]}}]'
        path.write_text(end + text)
        if found:
            assert "duplicate key 'question_text'" in problems(path)[0]
        else:
            assert len(load_reference(path)) == 1


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([{1}], id="set"),
        pytest.param({5: "b"}, id="key that is a number"),
        pytest.param(10**24, id="integer too large"),
        pytest.param("\ud800", id="surrogate"),
        pytest.param(b"b", id="bytes"),
        pytest.param([None, float("nan")], id="NaN"),
        pytest.param(float("-inf"), id="infinity"),
        pytest.param(nested(253), id="too deep"),
    ],
)
def test_values_that_have_no_json_text(value: Any) -> None:
    (found,) = problems(of_step(args={"a": value}))
    assert found.startswith(f"{QUESTION}.reference_steps: cannot be written as JSON: ")


WITH_DATES = """\
- template_id: 2026-01-02
  tags: {since: 2026-01-03}
  questions:
  - id: 2026-01-04
    question_text: "?"
    reference_answer: 2026-01-05
    reference_steps:
    - [{name: history, args: {from: 2026-01-06T07:08:09, days: [2026-01-10]}, output: 2026-01-11}]
"""
GROUP_WITH_DATES = """\
    - order: strict
      steps: [{name: readings, output: {2026-01-12: {at: 2026-01-13T01:02:03.000004+02:00}},
               output_media_type: application/json}]
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WITH_DATES, id="question"),
        pytest.param(WITH_DATES + GROUP_WITH_DATES, id="question and group"),
    ],
)
def test_dates_and_times_in_objects_are_iso_text_as_in_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "reference.yaml"
    path.write_text(text)
    from_file, from_objects = load_reference(path), load_reference(yaml.safe_load(text))
    assert [*from_objects] == [*from_file]
    assert from_objects.templates == from_file.templates == ("2026-01-02",)


def test_a_time_of_day_is_iso_text() -> None:
    moment = time(7, 8, 9, tzinfo=UTC)
    [loaded] = load_reference(of_step(args={"at": moment}))
    [[step]] = loaded.reference_steps or []
    assert step["args"] == {"at": "07:08:09+00:00"}


def test_a_step_with_a_comparator_of_the_callers_needs_no_output_and_may_have_any_keys() -> None:
    own, raw = {"influx": lambda _r, _a: 1.0}, steps({"name": "influx"})
    advice = "write the expected output, or a reference_query that returns it"
    assert problems(raw) == [f"{STEP}.output: missing; {advice}"]
    assert len(load_reference(raw, comparators=own, strict=True)) == 1
    raw = steps({"name": "influx", "tolerance": 0.1, "output_media_type": "text/x"})
    assert load_reference(raw, comparators=own, strict=True).doubts == ()


DOUBTFUL = """\
# A comment.
- template_id: t
  tmeplate: x
  questions:
  - id: q
    question_text: "?"
    refrence_steps: []
  - {id: r, question_text: "?",
     reference_steps: [
       [{name: find, output: x,
         required_colums: [a], output_media_type: text/tortoise}]]}
  - id: s
    question_text: "?"
    refrence_steps: []
"""


def test_unknown_keys_and_media_types(tmp_path: Path) -> None:
    path, as_json = tmp_path / "r.yaml", tmp_path / "r.json"
    path.write_text(DOUBTFUL)
    as_json.write_text(json.dumps(yaml.safe_load(DOUBTFUL), indent=2))
    with pytest.warns(GraphragEvalWarning) as caught:
        reference = load_reference(path)
    head, *listed = str(caught[0].message).split("\n  ")
    assert head == f"reference set {path}:"
    assert listed == [*reference.doubts] == problems(path, strict=True)
    place = "templates[0].questions[1].reference_steps[0][0]"
    expected = [
        "templates[0].tmeplate: unknown key, ignored; did you mean template_id?",
        (
            f"{QUESTION}.refrence_steps: unknown key, ignored; did you mean reference_steps?; in "
            "2 places"
        ),
        f"{place}.required_colums: unknown key, ignored; did you mean required_columns?",
        (
            f"{place}.output_media_type: unknown media type 'text/tortoise', the output is "
            "compared as text; "
        ),
    ]
    for doubts, lines in [
        (listed, ["line 3", "lines 7, 14", "line 11", "line 11"]),
        (problems(as_json, strict=True), ["line 4", "lines 9, 30", "line 19", "line 22"]),
    ]:
        for doubt, start, line in zip(doubts, expected, lines, strict=True):
            assert doubt.startswith(start)
            assert doubt.endswith(f"({line})")


def test_comparators_that_no_step_needs() -> None:
    raw, own = steps({"name": "kwh", "output": "5"}), {"kww": lambda _, __: 1.0}
    text = "comparators['kww']: no reference step has this name; did you mean kwh?"
    assert problems(raw, comparators=own, strict=True) == [text]
    for reference in (raw, Reference(raw)):
        with pytest.warns(GraphragEvalWarning) as warned:
            evaluator = Evaluator(reference, comparators=own)
        assert [text in str(each.message) for each in warned] == [True]
        assert evaluator.fingerprints() == Evaluator(reference).fingerprints()


def test_doubts_are_limited_and_a_loaded_reference_does_not_warn_again() -> None:
    with pytest.warns(GraphragEvalWarning) as caught:
        reference = load_reference(asking(**{f"note {index}": 1 for index in range(2_000)}))
    assert len(reference.doubts) == 1000
    assert str(caught[0].message).endswith("\n  ... and 980 more")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_reference(reference) is reference
    with pytest.raises(ReferenceDataError, match="note"):
        load_reference(reference, strict=True)
