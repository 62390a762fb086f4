"""What a reference set holds, what makes it invalid, and what is probably a mistake in it."""

from __future__ import annotations

import copy
import json
import warnings
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from graphrag_eval_async import Evaluator, GraphragEvalWarning, Reference, ReferenceDataError, load_reference
from graphrag_eval_async.records.yaml_file import CHECKED_BYTES
from tests.cases import each
from tests.conftest import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

SPARQL, JSON = "application/sparql-results+json", "application/json"
NAN = float("nan")
QUESTION = "templates[0].questions[0]"
STEP = f"{QUESTION}.reference_steps[0][0]"
QUOTES = "put it in quotes"


def problems(raw: Any, **options: Any) -> list[str]:
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(raw, **options)
    return caught.value.problems


def question(**more: Any) -> list[dict[str, Any]]:
    return [{"template_id": "t", "questions": [{"id": "q", "question_text": "?"} | more]}]


def steps(*group: Any) -> list[dict[str, Any]]:
    return question(reference_steps=[list(group)])


def of_step(**more: Any) -> list[dict[str, Any]]:
    return steps({"name": "x", "output": "y"} | more)


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


def containing_itself() -> list[Any]:
    value: list[Any] = []
    value += [value, value, value]
    return value


def test_what_a_set_holds() -> None:
    raw = [*templates(2), {"template_id": "none yet", "questions": []}]
    reference = load_reference(raw)
    assert list(reference.questions) == ["q0", "q1"]
    assert reference.templates == ("sums", "none yet")
    assert len(reference) == 2
    assert [q.text for q in reference] == ["Sum 0?", "Sum 1?"]
    assert reference.questions["q1"].reference_steps == raw[0]["questions"][1]["reference_steps"]
    assert list(reference.prepared) == ["q0", "q1"]
    assert load_reference(reference) is reference
    assert "1 templates" not in repr(reference)


@each("more", [{}, {"reference_steps": None, "reference_answer": None}, {"reference_steps": []}])
def test_a_question_needs_no_steps_and_no_answer(more: dict[str, Any]) -> None:
    (found,) = load_reference(question(**more))
    assert (found.reference_steps, found.reference_answer) == (None, None)


def test_every_source_gives_the_same(tmp_path: Path) -> None:
    raw = templates(3)
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(raw))
    (tmp_path / "r.json").write_text("\ufeff" + json.dumps(raw, indent=1))
    (tmp_path / "r.yml").write_text(json.dumps(raw))
    expected = load_reference(raw).questions
    for source in (tmp_path / "r.yaml", str(tmp_path / "r.json"), tmp_path / "r.yml", tuple(raw)):
        assert load_reference(source).questions == expected


@each(
    ("raw", "problem"),
    [
        (
            [{"template_id": 5, "questions": []}],
            f"templates[0].template_id: expected a string, got an integer; {QUOTES}",
        ),
        ([{"questions": []}], "templates[0].template_id: missing"),
        ([{"template_id": "t"}], "templates[0].questions: missing"),
        ([{"template_id": "t", "questions": {}}], "templates[0].questions: expected a list, got a mapping"),
        (["x"], "templates[0]: expected a mapping, got a string"),
        ([{"template_id": "t", "questions": [None]}], f"{QUESTION}: expected a mapping, got nothing"),
        (
            [*question(), {"template_id": "t", "questions": []}],
            "templates[1].template_id: 't' is already the template_id of templates[0]",
        ),
        (question(id=7), f"{QUESTION}.id: expected a string, got an integer; {QUOTES}"),
        (question(id=True), f"{QUESTION}.id: expected a string, got a boolean; {QUOTES}"),
        (question(id=""), f"{QUESTION}.id: is empty"),
        (question(question_text=None), f"{QUESTION}.question_text: expected a string, got nothing"),
        (question(reference_answer=["x"]), f"{QUESTION}.reference_answer: expected a string, got a list"),
        (question(reference_steps="x"), f"{QUESTION}.reference_steps: expected a list, got a string"),
        (question(reference_steps=0), f"{QUESTION}.reference_steps: expected a list, got an integer"),
        (question(reference_steps={}), f"{QUESTION}.reference_steps: expected a list, got a mapping"),
        (
            question(reference_steps=[{"name": "x"}]),
            f"{QUESTION}.reference_steps[0]: expected a list, got a mapping",
        ),
        (steps(), f"{QUESTION}.reference_steps[0]: is empty"),
        (steps("x"), f"{STEP}: expected a mapping, got a string"),
        (steps({"output": "x"}), f"{STEP}.name: missing"),
        (steps({"name": "x"}), f"{STEP}.output: missing"),
        (of_step(output_media_type=5), f"{STEP}.output_media_type: expected a string, got an integer"),
        (of_step(ordered="no"), f"{STEP}.ordered: expected a boolean, got a string"),
        (of_step(args=[]), f"{STEP}.args: expected a mapping, got a list"),
        (of_step(score="high"), f"{STEP}.score: must be absent, exact or f1"),
        (of_step(score="f1"), f"{STEP}.score: f1 is only for outputs"),
        (
            of_step(required_columns=["a", 1]),
            f"{STEP}.required_columns[1]: expected a string, got an integer",
        ),
        (of_step(reference_query="DROP ALL"), f"{STEP}.reference_query: expected a SPARQL query"),
        (of_step(name="retrieve_time_series", args={"mrid": 5}), f"{STEP}.args.mrid: "),
    ],
)
def test_problems(raw: Any, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(raw))
    for source in (raw, path):
        (found,) = problems(source)
        assert found.startswith(problem)


@each("output", ["", "[]", "{", "null", '{"head": {}}', '{"boolean": null}', 1, [], {}])
def test_outputs_that_are_not_as_their_media_type_says(output: Any) -> None:
    for media_type in (SPARQL, "text/turtle"):
        (found,) = problems(of_step(output=output or "{", output_media_type=media_type))
        assert found.startswith(f"{STEP}.output: ")
    (found,) = problems(of_step(output="{", output_media_type=JSON))
    assert found.startswith(f"{STEP}.output: not JSON")


TABLE = '{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "literal", "value": "1"}}]}}'


@each(
    "output",
    [
        TABLE.replace('"1"', "1"),
        TABLE.replace('"value"', '"walue"'),
        TABLE.replace('[{"a"', '[1, {"a"'),
        TABLE.replace('"vars"', '"wars"'),
        TABLE.replace("{}", "[]").replace('["a"]', '"a"'),
        TABLE.replace('"head"', '"boolean": true, "head"'),
        TABLE.replace('"type": "literal"', '"datatype": 5'),
    ],
)
def test_tables_that_are_invalid(output: str) -> None:
    sets = [of_step(output=TABLE, output_media_type=SPARQL), of_step(output=TABLE)]
    assert [len(load_reference(valid)) for valid in sets] == [1, 1]
    for media_type in (SPARQL, JSON):
        # The table before it is of the same form.
        valid = {"name": "x", "output": TABLE, "output_media_type": SPARQL}
        (found,) = problems(
            steps(*[valid] * 50, {"name": "x", "output": output, "output_media_type": media_type})
        )
        assert found.startswith(f"{QUESTION}.reference_steps[0][50].output: ")


def test_columns_that_a_table_lacks() -> None:
    table = {"output": TABLE, "output_media_type": SPARQL}
    assert len(load_reference(of_step(**table, required_columns=["a"]))) == 1
    (found,) = problems(of_step(**table, required_columns=["b"]))
    assert found.startswith(f"{STEP}.required_columns: ")


def test_a_table_that_is_too_sparse_to_compare_is_a_problem() -> None:
    rows = [{f"v{i}": {"type": "literal", "value": "1"}} for i in range(3000)]
    output = {"head": {"vars": [f"v{i}" for i in range(3000)]}, "results": {"bindings": rows}}
    (found,) = problems(of_step(output=json.dumps(output), output_media_type=SPARQL))
    assert "too sparse" in found


def test_the_first_problem_of_each_question_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(
        """\
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
    )
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(path)
    flat = "templates[0].questions[2].reference_steps[0]: expected a list, got a mapping"
    expected = [
        f"templates[0].template_id: expected a string, got an integer; {QUOTES} (line 1)",
        f"{QUESTION}.question_text: missing (line 3)",
        flat,
        f"templates[1].questions[0].reference_answer: expected a string, got an integer; {QUOTES} (line 12)",
        "templates[1].questions[1].id: 'r' is already the id of templates[0].questions[1] (line 13)",
    ]
    found = caught.value.problems
    assert '"- - name: ..."' in found[2]
    assert [problem if len(problem) < 200 else flat for problem in found] == expected
    assert str(caught.value).splitlines()[0] == f"reference set: 5 problems in {path}"
    assert caught.value.source == str(path)


@each("raw", [None, [], {}, (), {"template_id": "t", "questions": []}, 5, iter([]), b"[]", [None], [[]]])
def test_templates_that_are_not_a_list(raw: Any) -> None:
    assert len(problems(raw)) == 1


@each("text", ["", "# nothing", "a: b", "[]", "text", "- template_id: t"])
def test_files_that_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(text)
    assert problems(tmp_path / "r.yaml")


@each(
    ("key", "value"),
    [
        ("template_id", '"t"'),
        ("questions", "[]"),
        ("id", '"q"'),
        ("question_text", '"\\ud800"'),
        ("reference_steps", "[]"),
        ("output", "1e999"),
        ("query", "9" * 30),
    ],
)
def test_keys_that_appear_twice_in_a_json_file(key: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    for indent, colon in [(None, '": '), (None, '":'), (2, '"  : ')]:
        text = json.dumps(of_step(args={"query": "x"}), indent=indent).replace('": ', colon)
        first = text.index(f'"{key}"')
        end = "\n" if indent else ""
        path.write_text(f'{text[:first]}"{key}":{value},{end}{text[first:]}')
        (found,) = problems(path)
        assert found.startswith(f"not JSON: duplicate key '{key}' in a")
        line = text[:first].count("\n") + 2 if indent else 1
        assert f", in line {line}, column " in found


@each("text", ['{"a": 1, "a": 2}', '", "id": "', "\\", ":", '\\": "id": ', '"id": 1, "id": 1'])
def test_text_that_looks_like_keys_is_no_duplicate(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    step = {"name": "x", "output": text, "args": {text: text, "id": [{"id": 1}, {"id": 1}]}}
    raw = question(question_text=text, reference_steps=[[step, step]])
    for indent in (None, 1):
        path.write_text(json.dumps(raw, indent=indent))
        assert load_reference(path).questions == Reference(raw).questions


def test_duplicate_keys_in_large_json_files(tmp_path: Path) -> None:
    """One that programs wrote is searched only at its beginning."""
    path, twice = tmp_path / "r.json", '"question_text": "?", "question_text": "?"'
    for before, end, found in [
        ("", "", True),
        ("x" * CHECKED_BYTES, "", False),
        ("x" * CHECKED_BYTES, "\n", True),
    ]:
        text = f'[{{"template_id": "{before}", "questions": [{end}{{"id": "q", {twice}}}]}}]'
        path.write_text(end + text)
        if found:
            assert "duplicate key 'question_text'" in problems(path)[0]
        else:
            assert len(load_reference(path)) == 1


@each("name", [".", "absent.yaml", "absent/reference.json", "nul\0byte"])
def test_files_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    (found,) = problems(str(tmp_path / name))
    assert found.startswith("cannot be read: ")


@each(
    ("value", "place", "what"),
    [
        ([{1, 2}], "a[0]", "cannot be written as JSON"),
        ({5: "b"}, "a", "cannot be written as JSON"),
        (10**24, "a", "cannot be written as JSON: Integer exceeds 64-bit range"),
        (10**10_000, "a", "cannot be written as JSON"),
        ("\ud800", "a", "cannot be written as JSON"),
        ({"\ud800": 1}, "a", "cannot be written as JSON"),
        (b"b", "a", "cannot be written as JSON"),
        ([None, NAN], "a[1]", "nan is not a finite number"),
        (float("-inf"), "a", "-inf is not a finite number"),
    ],
)
def test_values_that_have_no_json_text(value: Any, place: str, what: str) -> None:
    (found,) = problems(of_step(args={"a": value}))
    assert found.startswith(f"{STEP}.args.{place}: {what}")
    assert problems(question(reference_steps=value))
    assert problems(question(id=value))


@each("number", ["1" * 25, "-" + "1" * 25, "18446744073709551616"])
def test_integers_beyond_64_bits_in_a_file(number: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(of_step(args={"a": "N"})).replace('"N"', number))
    (found,) = problems(path)
    assert found.startswith(f"{STEP}.args.a: cannot be written as JSON: Integer exceeds 64-bit range")


@each("value", [nested(201), nested(253), nested(900), nested(100_000), containing_itself()])
def test_values_that_nest_too_deep(value: Any) -> None:
    for raw in (question(other=value), of_step(args={"a": value})):
        (found,) = problems(raw)
        assert "nests more than 200 deep" in found
        assert len(found) < 500


@each("depth", [250, 900, 1_000_000])
def test_files_that_nest_too_deep(depth: int, tmp_path: Path) -> None:
    deep = "[" * depth + "]" * depth
    for name in ("r.yaml", "r.json"):
        (tmp_path / name).write_text(json.dumps(of_step(args={"a": "X"})).replace('"X"', deep))
        (found,) = problems(tmp_path / name)
        assert "deep" in found or "nesting depth" in found or found.startswith("not JSON: ")


def test_the_depth_that_is_read_does_not_depend_on_the_callers() -> None:
    raw = of_step(args={"a": nested(194)})

    def call(frames: int) -> int:
        return call(frames - 1) if frames else len(load_reference(raw))

    assert call(0) == call(350) == 1


def test_the_input_is_copied() -> None:
    raw = templates(2, args={"a": [1]}, matches="old")
    before = copy.deepcopy(raw)
    reference = Reference(raw)
    assert raw == before
    raw[0]["questions"][0]["reference_steps"][0][0]["args"]["a"].append(2)
    raw[0]["questions"].clear()
    raw[0]["template_id"] = "other"
    assert reference.templates == ("sums",)
    assert len(reference) == 2
    groups = reference.questions["q0"].reference_steps
    assert groups is not None
    # `matches` is left from an evaluation.
    assert groups[0][0] == {"name": "calculator", "output": "42", "args": {"a": [1]}}


def test_a_reference_cannot_be_changed() -> None:
    reference = load_reference(templates())
    assert isinstance(reference.questions, MappingProxyType)
    with pytest.raises(TypeError):
        reference.prepared["q0"] = reference.prepared["q1"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        reference.other = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        setattr(reference.questions["q0"], "text", "other")  # noqa: B010


def test_results_do_not_serve_as_a_reference() -> None:
    assert problems([answer()])


def test_a_step_with_a_comparator_of_the_callers_needs_no_output_and_may_have_any_keys() -> None:
    own, raw = {"influx": lambda _r, _a: 1.0}, steps({"name": "influx"})
    assert problems(raw) == [f"{STEP}.output: missing"]
    assert len(load_reference(raw, comparators=own, strict=True)) == 1
    raw = steps({"name": "influx", "tolerance": 0.1, "output_media_type": "text/x"})
    assert load_reference(raw, comparators=own, strict=True).doubts == ()


SET = """\
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
    path.write_text(SET)
    as_json.write_text(json.dumps(yaml.safe_load(SET), indent=2))
    with pytest.warns(GraphragEvalWarning) as caught:
        reference = load_reference(path)
    in_json = problems(as_json, strict=True)
    head, *listed = str(caught[0].message).split("\n  ")
    assert head == f"reference set {path}:"
    assert listed == [*reference.doubts]
    place = "templates[0].questions[1].reference_steps[0][0]"
    expected = [
        "templates[0].tmeplate: unknown key, ignored; did you mean template_id?",
        f"{QUESTION}.refrence_steps: unknown key, ignored; did you mean reference_steps?; in 2 places",
        f"{place}.required_colums: unknown key, ignored; did you mean required_columns?",
        f"{place}.output_media_type: unknown media type 'text/tortoise', the output is compared as text; ",
    ]
    for doubts, lines in [(listed, [3, 7, 11, 11]), (in_json, [4, 9, 19, 22])]:
        for doubt, start, line in zip(doubts, expected, lines, strict=True):
            assert doubt.startswith(start)
            assert doubt.endswith(f"(line {line})")
    assert problems(path, strict=True) == listed


def test_correct_keys_raise_no_doubts() -> None:
    step = {"name": "x", "args": {"any": 1}, "output": "y", "ordered": True, "matches": "call_1"}
    uri = {"name": "iri_discovery", "output": "urn:x:y", "output_media_type": "text/uri"}
    columns = {"ignore_duplicates": True, "required_columns": []}
    raw = question(reference_answer="!", reference_steps=[[step | columns, uri]])
    assert load_reference(raw, strict=True).doubts == ()


def test_keys_for_tables_do_nothing_for_graphs() -> None:
    graph = {"name": "x", "output": "<urn:a> <urn:b> <urn:c> .", "output_media_type": "text/turtle"}
    defaults = {"ordered": False, "required_columns": [], "ignore_duplicates": True}
    assert load_reference(steps(graph | defaults), strict=True).doubts == ()
    raw = steps(graph | {"ordered": True}, graph | {"ordered": True, "required_columns": ["a"]})
    what = "ignored, since the output is a graph, which has no rows and columns; remove it"
    expected = [
        f"{STEP}.ordered: {what}; in 2 places",
        f"{QUESTION}.reference_steps[0][1].required_columns: {what}",
    ]
    assert problems(raw, strict=True) == expected


def test_comparators_that_no_step_needs() -> None:
    raw, own = steps({"name": "kwh", "output": "5"}), {"kww": lambda _, __: 1.0}
    text = "comparators['kww']: no reference step has this name; did you mean kwh?"
    assert problems(raw, comparators=own, strict=True) == [text]
    for reference in (raw, Reference(raw)):
        with pytest.warns(GraphragEvalWarning) as warned:
            evaluator = Evaluator(reference, comparators=own)
        assert [text in str(each.message) for each in warned] == [True]
        assert evaluator.fingerprints() == Evaluator(reference).fingerprints()


def test_a_loaded_reference_does_not_warn_again() -> None:
    with pytest.warns(GraphragEvalWarning):
        reference = load_reference(question(note=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_reference(reference) is reference
    with pytest.raises(ReferenceDataError, match="note"):
        load_reference(reference, strict=True)


def test_many_doubts_are_limited_and_escaped() -> None:
    raw = question(**{f"\x1b[2J {index}": 1 for index in range(50_000)})
    with pytest.warns(GraphragEvalWarning) as caught:
        reference = load_reference(raw)
    assert len(reference.doubts) == 1000
    assert str(caught[0].message).endswith("\n  ... and 980 more")
    assert "\x1b" not in "".join(reference.doubts)
