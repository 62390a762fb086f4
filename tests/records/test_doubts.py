"""What is probably a mistake in a reference set is said, with its place and what was probably meant."""

from __future__ import annotations

import warnings
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator, GraphragEvalWarning, Reference, ReferenceDataError, load_reference
from graphrag_eval_async.records.shapes import MEDIA_TYPES
from tests.cases import each

if TYPE_CHECKING:
    from pathlib import Path

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
JSON_SET = """[
  {
\t"template_id": "t",
    "questions": [
      {"id": "q", "question_text": "?",
       "refrence_steps": "\\/"}
    ]
  }
]"""


def doubts(path: Path) -> list[str]:
    with pytest.warns(GraphragEvalWarning) as caught:
        reference = load_reference(path)
    (warning,) = caught
    head, *listed = str(warning.message).split("\n  ")
    assert head == f"reference set {path}:"
    assert listed == [*reference.doubts]
    return listed


def test_unknown_keys_and_media_types(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(SET)
    assert doubts(path) == [
        "templates[0].tmeplate: unknown key, ignored; did you mean template_id? (line 3)",
        (
            "templates[0].questions[0].refrence_steps: unknown key, ignored; did you mean "
            "reference_steps?; in 2 places (line 7)"
        ),
        (
            "templates[0].questions[1].reference_steps[0][0].required_colums: unknown key, ignored; "
            "did you mean required_columns? (line 11)"
        ),
        (
            "templates[0].questions[1].reference_steps[0][0].output_media_type: unknown media type "
            f"'text/tortoise', the output is compared as text; known: {', '.join(MEDIA_TYPES)} (line 11)"
        ),
    ]
    with pytest.raises(ReferenceDataError) as strict:
        load_reference(path, strict=True)
    assert len(strict.value.problems) == 4
    assert strict.value.source == str(path)


def test_json_has_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(JSON_SET)
    (doubt,) = doubts(path)
    assert doubt.endswith("did you mean reference_steps? (line 6)")


def question(**more: Any) -> list[dict[str, Any]]:
    return [{"template_id": "t", "questions": [{"id": "q", "question_text": "?"} | more]}]


def test_correct_keys_raise_no_doubts() -> None:
    step = {"name": "x", "args": {"any": 1}, "output": "y", "ordered": True, "matches": "call_1"}
    uri = {"name": "iri_discovery", "output": "urn:x:y", "output_media_type": "text/uri"}
    columns = {"ignore_duplicates": True, "required_columns": []}
    raw = question(reference_answer="!", reference_steps=[[step | columns, uri]])
    assert load_reference(raw, strict=True).doubts == ()
    own = question(reference_steps=[[{"name": "own", "tolerance": 0.1, "output_media_type": "text/x"}]])
    assert load_reference(own, comparators={"own": lambda _, __: 1.0}, strict=True).doubts == ()


def test_keys_for_tables_do_nothing_for_graphs() -> None:
    graph = {"name": "x", "output": "<urn:a> <urn:b> <urn:c> .", "output_media_type": "text/turtle"}
    defaults = {"ordered": False, "required_columns": [], "ignore_duplicates": True}
    assert load_reference(question(reference_steps=[[graph | defaults]]), strict=True).doubts == ()
    how = {"ordered": True, "required_columns": ["a"], "ignore_duplicates": False}
    raw = question(reference_steps=[[graph | how], [graph | {"ordered": True}]])
    with pytest.warns(GraphragEvalWarning, match="no rows and columns"):
        doubts = load_reference(raw).doubts
    place = "templates[0].questions[0].reference_steps[0][0]"
    what = "ignored, since the output is a graph, which has no rows and columns; remove it"
    assert doubts == (
        f"{place}.ordered: {what}; in 2 places",
        f"{place}.required_columns: {what}",
        f"{place}.ignore_duplicates: {what}",
    )
    with pytest.raises(ReferenceDataError, match="ordered"):
        load_reference(raw, strict=True)
    assert load_reference(raw, comparators={"x": lambda _, __: 1.0}, strict=True).doubts == ()


def test_comparators_that_no_step_needs() -> None:
    raw, own = question(reference_steps=[[{"name": "kwh", "output": "5"}]]), {"kww": lambda _, __: 1.0}
    text = "comparators['kww']: no reference step has this name; did you mean kwh?"
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(raw, comparators=own, strict=True)
    assert caught.value.problems == [text]
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


def test_many_doubts_are_cheap_and_limited() -> None:
    raw = question(**{f"key {index}": 1 for index in range(50_000)})
    start = process_time()
    with pytest.warns(GraphragEvalWarning) as caught:
        reference = load_reference(raw)
    assert process_time() - start < 10
    assert len(reference.doubts) == 1000
    assert str(caught[0].message).endswith("\n  ... and 980 more")


def test_names_of_keys_are_escaped() -> None:
    (doubt,) = Reference(question(**{"\x1b[2J": 1})).doubts
    assert "\x1b" not in doubt


FLAT = """\
- template_id: t
  questions:
  - id: q7
    question_text: "?"
    reference_steps:
    - name: sparql_query
      output: "{"
      output_media_type: application/json
"""


def test_flat_steps(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(FLAT)
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(path)
    flat, output = caught.value.problems
    assert flat.startswith(
        "templates[0].questions[0].reference_steps: question 'q7': expected groups of steps"
    )
    assert '"- - name: ..."' in flat
    assert flat.endswith("(line 5)")
    assert output.startswith("templates[0].questions[0].reference_steps[0].output: not JSON")
    assert output.endswith("(line 7)")


@each("suffix", ["json", "yaml"])
def test_a_missing_key_is_reported_at_the_line_of_its_parent(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"r.{suffix}"
    path.write_text('[\n{"template_id": "t", "questions": [\n{"id":\n "q"}]}]')
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(path)
    assert caught.value.problems == ["templates[0].questions[0].question_text: missing (line 3)"]
