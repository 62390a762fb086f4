"""What is wrong with one part of a reference does not hide what is wrong with the rest."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import ReferenceDataError, load_reference
from graphrag_eval_async.records.decoding import MAX_DEPTH
from graphrag_eval_async.records.yaml_file import read_templates
from tests.cases import each

# Sets are made of any keys, most of which are unknown.
pytestmark = pytest.mark.filterwarnings("ignore::graphrag_eval_async.GraphragEvalWarning")

SPARQL = "application/sparql-results+json"
JSON = "application/json"
NAN = float("nan")
QUESTION = "templates[0].questions[0]"
STEP = f"{QUESTION}.reference_steps[0][0]"


def problems(raw: Any) -> list[str]:
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(raw)
    return caught.value.problems


def question(**more: Any) -> list[dict[str, Any]]:
    return [{"template_id": "t", "questions": [{"id": "q", "question_text": "?"} | more]}]


def places(raw: Any) -> list[str]:
    return [problem.partition(": ")[0] for problem in problems(raw)]


def step_places(**step: Any) -> list[str]:
    found = places(question(reference_steps=[[step]]))
    assert all(place.startswith(f"{STEP}.") for place in found)
    return [place.removeprefix(f"{STEP}.") for place in found]


def too_deep() -> Any:
    value: Any = "x"
    for _ in range(300):
        value = [value]
    return value


def test_every_argument_is_checked() -> None:
    args = {"external_id": 5, "granularity": "5 parsecs", "start": "yesterday", "end": "z", "limit": "a"}
    found = step_places(name="retrieve_data_points", args=args | {"aggregates": {}})
    assert sorted(found) == sorted(f"args.{key}" for key in [*args, "aggregates"])
    assert step_places(name="retrieve_time_series", args={"mrid": 5, "limit": "a"}) == [
        "args.mrid",
        "args.limit",
    ]


@each(
    ("wrong", "place"),
    [
        ({"ordered": "yes"}, "ordered"),
        ({"ignore_duplicates": 1}, "ignore_duplicates"),
        ({"args": []}, "args"),
        ({"args": {"a": NAN}}, "args.a"),
        ({"required_columns": "abc"}, "required_columns"),
        ({"required_columns": 5}, "required_columns"),
        ({"required_columns": [[1]]}, "required_columns[0]"),
        ({"name": 5}, "name"),
        ({"name": NAN}, "name"),
        ({"name": None}, "name"),
    ],
)
@each("media_type", [SPARQL, JSON])
def test_a_key_of_the_wrong_type_does_not_hide_the_output(
    wrong: dict[str, Any], place: str, media_type: str
) -> None:
    step = {"name": "x", "output": "{", "output_media_type": media_type}
    assert step_places(**step | wrong) == [place, "output"]


def test_a_media_type_of_the_wrong_type_does_not_hide_the_output() -> None:
    assert step_places(name="x", output_media_type=5) == ["output_media_type", "output"]


def test_columns_of_the_wrong_type_do_not_hide_unknown_ones() -> None:
    output = '{"head": {"vars": ["a"]}, "results": {"bindings": []}}'
    step = {"name": "x", "output": output, "output_media_type": SPARQL}
    assert step_places(**step, required_columns=["a", 1, "b"]) == ["required_columns[1]", "required_columns"]
    assert step_places(**step, required_columns=["a", 1]) == ["required_columns[1]"]
    assert step_places(**step, required_columns=["a", {1: 2}]) == ["required_columns[1]"]


def test_a_step_without_a_name_may_need_no_output() -> None:
    assert step_places() == ["name"]
    assert step_places(output_media_type=JSON) == ["name"]
    assert step_places(output="{") == ["name"]


def test_unwritable_values_do_not_hide_the_rest() -> None:
    step = {"name": 5, "args": {"a": [NAN, {"b": {1}}, 10**24]}}
    other = {"name": "retrieve_data_points", "args": {"limit": "a"}}
    raw = question(reference_steps=[[step, other]], note=NAN)
    del raw[0]["questions"][0]["question_text"]
    assert sorted(places(raw)) == sorted(
        [
            f"{QUESTION}.question_text",
            f"{QUESTION}.note",
            f"{STEP}.args.a[0]",
            f"{STEP}.args.a[1].b",
            f"{STEP}.args.a[2]",
            f"{STEP}.name",
            f"{QUESTION}.reference_steps[0][1].args.limit",
        ]
    )


@each(
    ("step", "place"),
    [
        ({"name": "x", "output": NAN}, "output"),
        ({"name": "x", "output": {"a": NAN}, "output_media_type": SPARQL}, "output.a"),
        ({"name": "retrieval", "output": [{"id": NAN}]}, "output[0].id"),
        ({"name": "retrieve_time_series", "args": {"mrid": ["a", NAN]}}, "args.mrid[1]"),
        ({"name": "retrieve_time_series", "args": {"limit": NAN}}, "args.limit"),
        ({"name": "retrieve_time_series", "args": NAN}, "args"),
        ({"name": "x", "output": "y", "ordered": {5: 1}}, "ordered"),
        ({"name": "x", "output": "y", "required_columns": [NAN]}, "required_columns[0]"),
    ],
)
def test_no_place_is_reported_twice(step: dict[str, Any], place: str) -> None:
    assert step_places(**step) == [place]


@pytest.mark.parametrize("value", [NAN, {1}, 10**24, "\ud800"])
def test_unwritable_values_in_place_of_structure(value: Any) -> None:
    assert places(question(reference_steps=value)) == [f"{QUESTION}.reference_steps"]
    assert places(question(reference_steps=[value])) == [f"{QUESTION}.reference_steps[0]"]
    assert places(question(reference_steps=[[value]])) == [STEP]
    assert places(question(id=value)) == [f"{QUESTION}.id"]
    assert places([{"template_id": value, "questions": []}]) == ["templates[0].template_id"]


def test_structure_is_checked_round_unwritable_values() -> None:
    assert places(question(question_text=[NAN])) == [
        f"{QUESTION}.question_text[0]",
        f"{QUESTION}.question_text",
    ]


def test_keys_that_are_not_strings_do_not_hide_the_rest() -> None:
    raw: Any = question(id=5)
    raw[0]["questions"][0][True] = 1
    assert places(raw) == [QUESTION, f"{QUESTION}.id"]


def test_a_too_deep_value_does_not_hide_the_rest() -> None:
    raw = question(id=5, note=too_deep(), reference_steps=[[{"name": "x", "args": too_deep()}, {"name": 5}]])
    assert places(raw) == [
        f"{QUESTION}.note",
        STEP,
        f"{QUESTION}.id",
        f"{QUESTION}.reference_steps[0][1].name",
    ]


def test_the_depth_that_is_read_does_not_depend_on_the_callers() -> None:
    value: Any = "x"
    for _ in range(MAX_DEPTH - 1):
        value = [value]

    def call(frames: int) -> int:
        return call(frames - 1) if frames else len(load_reference(question(note=value)))

    assert call(0) == call(350) == 1


def test_a_value_that_contains_itself_many_times_is_refused_quickly() -> None:
    value: list[Any] = []
    value += [value, value, value]
    assert all("contains itself" in problem for problem in problems(question(other=value)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reference.json"


@pytest.mark.parametrize("number", ["1" * 25, "-" + "1" * 25, "18446744073709551616", "1" * 300])
def test_integers_beyond_64_bits(path: Path, number: str) -> None:
    step = {"name": "retrieve_time_series", "args": {"mrid": "a", "limit": "LIMIT"}}
    path.write_text(json.dumps(question(reference_steps=[[step]])).replace('"LIMIT"', number))
    (found,) = problems(path)
    assert found.startswith(f"{STEP}.args.limit: cannot be written as JSON: Integer exceeds 64-bit range")


def test_integers_of_64_bits(path: Path) -> None:
    path.write_text("[18446744073709551615, -9223372036854775808, 5.0]")
    assert read_templates(path) == [2**64 - 1, -(2**63), 5.0]


def test_integers_of_10_000_digits(path: Path) -> None:
    path.write_text(json.dumps(question(note="X")).replace('"X"', "9" * 10_000))
    assert problems(path)[0].startswith("not JSON: ")


def test_repeated_keys(path: Path) -> None:
    path.write_text(
        '[{"template_id": "a", "template_id": "t", "questions": [{"id": "q", "question_text": "?",'
        '"id": 5, "reference_steps": [[{"name": "x", "output": "y", "args": {"a": 1, "b": 2, "b": 2,'
        '"a": 1}}]]}]}]'
    )
    assert problems(path) == [
        "templates[0]: repeats a key: 'template_id' (line 1)",
        f"{QUESTION}: repeats a key: 'id' (line 1)",
        f"{STEP}.args: repeats a key: 'a', 'b' (line 1)",
        f"{QUESTION}.id: expected a string, got an integer; put it in quotes (line 1)",
    ]


@pytest.mark.parametrize("depth", [250, 500])
def test_deep_values_are_located(path: Path, depth: int) -> None:
    path.write_text(json.dumps(question(note="X")).replace('"X"', "[" * depth + "]" * depth))
    (found,) = problems(path)
    assert found.startswith(f"{QUESTION}.note: nests more than 200 deep")


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" , ", " : ")])
@given(
    st.dictionaries(
        st.text(max_size=4).map("x{}".format), st.integers(0, 9) | st.text(max_size=3), min_size=1, max_size=4
    ),
    st.integers(0, 3),
    st.booleans(),
)
def test_a_repeated_key_is_found_however_the_text_is_laid_out(
    separators: tuple[str, str], members: dict[str, Any], place: int, in_template: bool
) -> None:
    """Keys are counted, or lengths compared, which must not take one text for another."""
    comma, colon = separators

    def text_of(pairs: list[tuple[str, str]]) -> str:
        return "{" + comma.join(f"{json.dumps(key)}{colon}{value}" for key, value in pairs) + "}"

    extra = [(key, json.dumps(value)) for key, value in members.items()]
    repeated = extra[place % len(extra)]
    for more in (extra, [*extra, repeated]):
        asked = [("id", '"q"'), ("question_text", '"?"')]
        template = [("template_id", '"t"')]
        (template if in_template else asked).extend(more)
        text = f"[{text_of([*template, ('questions', f'[{text_of(asked)}]')])}]"
        with TemporaryDirectory() as folder:
            path = Path(folder) / "reference.json"
            path.write_text(text)
            if more is extra:
                assert list(load_reference(path).questions) == ["q"]
            else:
                assert problems(path) == [
                    f"{'templates[0]' if in_template else QUESTION}: repeats a key: {repeated[0]!r} (line 1)"
                ]
