from __future__ import annotations

import copy
import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from graphrag_eval_async import Reference, ReferenceDataError, load_reference
from tests.cases import each
from tests.conftest import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

SPARQL = "application/sparql-results+json"


def problems(raw: Any, **options: Any) -> list[str]:
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(raw, **options)
    return caught.value.problems


def question(**more: Any) -> list[dict[str, Any]]:
    return [{"template_id": "t", "questions": [{"id": "q", "question_text": "?"} | more]}]


def steps(*group: Any) -> list[dict[str, Any]]:
    return question(reference_steps=[list(group)])


def test_reference_attributes() -> None:
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


def test_a_question_needs_no_steps_and_no_answer() -> None:
    absent: dict[str, Any] = {"reference_steps": None, "reference_answer": None}
    empty: dict[str, Any] = {"reference_steps": []}
    for more in (absent, empty, absent | empty):
        (found,) = load_reference(question(**more))
        assert (found.reference_steps, found.reference_answer) == (None, None)


def test_every_source_gives_the_same(tmp_path: Path) -> None:
    raw = templates(3)
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(raw))
    (tmp_path / "r.json").write_text(json.dumps(raw))
    (tmp_path / "r.yml").write_text(json.dumps(raw))
    expected = load_reference(raw).questions
    for source in (tmp_path / "r.yaml", str(tmp_path / "r.json"), tmp_path / "r.yml", tuple(raw)):
        assert load_reference(source).questions == expected


def test_every_problem_is_listed_and_located() -> None:
    raw: Any = [
        {"template_id": "a", "questions": [{"id": "q1", "question_text": "?"}, {"id": "q1"}]},
        {"template_id": "a"},
        {"questions": {"id": "q2"}},
        "not a template",
        {
            "template_id": 5,
            "questions": [
                {"id": 7, "question_text": "?", "reference_answer": ["x"]},
                {"id": "", "question_text": None},
                {"question_text": "?", "reference_steps": "none"},
                None,
                {
                    "id": "q3",
                    "question_text": "?",
                    "reference_steps": [
                        [],
                        {},
                        [
                            {"name": "sparql_query", "output": "{", "output_media_type": SPARQL},
                            {"output": "x"},
                            {"name": "x"},
                            {"name": "x", "output": "y", "output_media_type": 5},
                            {"name": "x", "output": "y", "ordered": "no", "ignore_duplicates": 1, "args": []},
                            {"name": "x", "output": "y", "required_columns": ["a", 1]},
                            "step",
                        ],
                    ],
                },
            ],
        },
    ]
    steps = "templates[4].questions[4].reference_steps"
    found = problems(raw)
    expected = [
        "templates[0].questions[1].id: 'q1' is already the id of templates[0].questions[0]",
        "templates[0].questions[1].question_text: missing",
        "templates[1].template_id: 'a' is already the template_id of templates[0]",
        "templates[1].questions: missing",
        "templates[2].template_id: missing",
        "templates[2].questions: expected a list, got a mapping",
        "templates[3]: expected a mapping, got a string",
        "templates[4].template_id: expected a string, got an integer; put it in quotes",
        "templates[4].questions[0].id: expected a string, got an integer; put it in quotes",
        "templates[4].questions[0].reference_answer: expected a string, got a list",
        "templates[4].questions[1].id: is empty",
        "templates[4].questions[1].question_text: expected a string, got nothing",
        "templates[4].questions[2].id: missing",
        "templates[4].questions[2].reference_steps: expected a list, got a string",
        "templates[4].questions[3]: expected a mapping, got nothing",
        f"{steps}[0]: the group has no steps",
        f"{steps}[1]: expected a list, got a mapping",
        f"{steps}[2][0].output: not SPARQL JSON: ",
        f"{steps}[2][1].name: missing",
        f"{steps}[2][2].output: missing",
        f"{steps}[2][3].output_media_type: ",
        f"{steps}[2][4].args: expected a mapping, got a list",
        f"{steps}[2][4].ordered: expected a boolean, got a string",
        f"{steps}[2][4].ignore_duplicates: expected a boolean, got an integer",
        f"{steps}[2][5].required_columns[1]: expected a string, got an integer; put it in quotes",
        f"{steps}[2][6]: expected a mapping, got a string",
    ]
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


def test_the_error_shows_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("- template_id: 1\n  questions: 2\n")
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(path)
    assert str(caught.value).splitlines()[0] == f"reference set: 2 problems in {path}"
    assert len(str(caught.value).splitlines()) == 3
    assert caught.value.source == str(path)


@each("output", ["", "[]", "{", "null", '{"head": {}}', '{"boolean": null}', 1, [], {}])
def test_outputs_that_are_not_sparql_results(output: Any) -> None:
    (found,) = problems(steps({"name": "sparql_query", "output": output, "output_media_type": SPARQL}))
    assert found.startswith("templates[0].questions[0].reference_steps[0][0].output: ")


def test_outputs_that_are_not_json() -> None:
    (found,) = problems(steps({"name": "x", "output": "{", "output_media_type": "application/json"}))
    assert found.startswith("templates[0].questions[0].reference_steps[0][0].output: ")


def test_problems_of_a_question_do_not_hide_those_of_its_steps() -> None:
    raw = steps({"name": "x", "output": "{", "output_media_type": "application/json"})
    del raw[0]["questions"][0]["id"]
    assert len(problems(raw)) == 2
    raw[0]["questions"] = [{"id": "q", "question_text": "?"}, raw[0]["questions"][0] | {"id": "q"}]
    assert len(problems(raw)) == 2


@each("raw", [None, [], {}, (), {"template_id": "t", "questions": []}, 5, iter([]), b"[]", [None], [[]]])
def test_templates_that_are_not_a_list(raw: Any) -> None:
    assert len(problems(raw)) == 1


@pytest.mark.parametrize("text", ["", "# nothing", "a: b", "[]", "text", "- template_id: t"])
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    assert problems(tmp_path / "r.yaml")


def test_unquoted_ids() -> None:
    for value in (5, 5.5, True):
        (found,) = problems(question(id=value))
        assert found.endswith("put it in quotes")


def containing_itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = [value]
    return value


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@each(
    ("value", "place", "what"),
    [
        ({"a": [{1, 2}]}, ".args.a[0]", "cannot be written as JSON"),
        ({"a": {5: "b"}}, ".args.a", "cannot be written as JSON"),
        ({10**5000: "b"}, ".args", "cannot be written as JSON"),
        ({"a": 10**24}, ".args.a", "cannot be written as JSON"),
        ({"a": 10**10_000}, ".args.a", "cannot be written as JSON"),
        ({"a": "\ud800"}, ".args.a", "cannot be written as JSON"),
        ({"a": b"b"}, ".args.a", "cannot be written as JSON"),
        ({"a": [None, float("nan")]}, ".args.a[1]", "nan is not a finite number"),
        ({"a": float("-inf")}, ".args.a", "-inf is not a finite number"),
    ],
)
def test_values_that_have_no_json_text(value: Any, place: str, what: str) -> None:
    (found,) = problems(steps({"name": "x", "output": "y", "args": value}))
    assert found.startswith(f"templates[0].questions[0].reference_steps[0][0]{place}: {what}")


@pytest.mark.parametrize("depth", [201, 253, 900, 1_000_000])
def test_values_that_nest_too_deep(depth: int) -> None:
    (found,) = problems(question(other=nested(depth)))
    assert "nests more than 200 deep" in found
    assert len(found) < 500


def test_values_that_contain_themselves() -> None:
    (found,) = problems(question(other=[containing_itself()]))
    assert "contains itself" in found


def test_tuples_nest_like_lists() -> None:
    value: Any = "x"
    for _ in range(250):
        value = (value,)
    assert "nests more than 200 deep" in problems(question(other=value))[0]


@pytest.mark.parametrize("name", ["r.yaml", "r.json"])
@pytest.mark.parametrize("depth", [900, 1_000_000])
def test_deep_files(tmp_path: Path, name: str, depth: int) -> None:
    path = tmp_path / name
    deep = "[" * depth + "]" * depth
    path.write_text(
        f'[{{"template_id": "t", "questions": [{{"id": "q", "question_text": "?", "x": {deep}}}]}}]'
    )
    assert len(problems(path)) == 1


def test_a_chain_of_aliases(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    chain = "\n".join(f"    - &n{i} [*n{i - 1}]" for i in range(1, 500))
    path.write_text(
        f"- template_id: t\n  questions:\n  - id: q\n    question_text: q\n    x:\n    - &n0 []\n{chain}"
    )
    assert len(problems(path)) == 1


def test_the_input_is_copied() -> None:
    raw = templates(2, args={"a": [1]})
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
    assert groups[0][0]["args"] == {"a": [1]}


def test_matches_left_from_an_evaluation_are_dropped_from_the_copy_only() -> None:
    raw = templates(1, matches="old")
    (found,) = load_reference(raw)
    assert found.reference_steps is not None
    assert "matches" not in found.reference_steps[0][0]
    assert raw[0]["questions"][0]["reference_steps"][0][0]["matches"] == "old"


def test_a_reference_cannot_be_changed() -> None:
    reference = load_reference(templates())
    assert isinstance(reference.questions, MappingProxyType)
    with pytest.raises(TypeError):
        reference.prepared["q0"] = reference.prepared["q1"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        reference.other = 1  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        setattr(reference.questions["q0"], "text", "other")  # noqa: B010


def test_a_step_with_a_comparator_of_the_callers_needs_no_output() -> None:
    raw = steps({"name": "influx_query"})
    assert problems(raw) == ["templates[0].questions[0].reference_steps[0][0].output: missing"]
    assert len(load_reference(raw, comparators={"influx_query": lambda _r, _a: 1.0})) == 1


def test_results_do_not_serve_as_a_reference() -> None:
    assert problems([answer()])


def test_a_table_that_is_too_sparse_to_compare_is_a_problem() -> None:
    rows = [{f"v{i}": {"type": "literal", "value": "1"}} for i in range(3000)]
    output = {"head": {"vars": [f"v{i}" for i in range(3000)]}, "results": {"bindings": rows}}
    with pytest.raises(ReferenceDataError, match=r"reference_steps\[0\]\[0\]\.output: .*too sparse"):
        load_reference(templates(1, output=output, output_media_type="application/sparql-results+json"))


@pytest.mark.parametrize("value", [{}, 0, "", False])
def test_steps_that_are_no_list_are_not_taken_for_none(value: Any, tmp_path: Path) -> None:
    raw = question(reference_steps=value)
    (tmp_path / "r.json").write_text(json.dumps(raw))
    (tmp_path / "r.yaml").write_text(json.dumps(raw))
    for source in (raw, tmp_path / "r.json", tmp_path / "r.yaml"):
        (found,) = problems(source)
        assert found.startswith("templates[0].questions[0].reference_steps: expected a list, got ")


class Key(str):
    __slots__ = ()


@pytest.mark.parametrize("key", [Key("k"), "\ud800"])
def test_keys_that_json_cannot_hold_are_problems(key: str) -> None:
    (found,) = problems(steps({"name": "x", "output": "1", "args": {key: 1}}))
    assert found.startswith(
        "templates[0].questions[0].reference_steps[0][0].args: cannot be written as JSON: "
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"id" : "q", "id": "z", "question_text": "t"}',
        '{"id":"q","question_text":"t","aa":1,"aa":2,"b":2}',
        '{"id":"q","question_text":"t","a":1,"a":1,"b":1e6}',
        '{"id": "q", "question_text": "t", "a":1, "a":2, "b\\\\":3, "c":  1}',
    ],
)
def test_repeated_keys_are_found_whatever_the_length_of_the_text(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(f'[{{"template_id": "t", "questions": [{text}]}}]')
    assert "repeats a key: " in problems(path)[0]
