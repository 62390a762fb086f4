"""Reference sets that nobody has to write by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import rdflib
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import (
    Reference,
    ReferenceDataError,
    UsageError,
    load_reference,
    reference_step_from_sparql,
    run_evaluation_sync,
    save_reference,
)
from tests.support.data import question, taken, template

YEAR = {"type": "literal", "value": "1999", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}
FILMS = [{"type": "uri", "value": f"urn:f:{number}"} for number in (1, 2)]
ROWS = [{"film": FILMS[0], "year": YEAR}, {"film": FILMS[1]}]
TABLE = {"head": {"vars": ["film", "year"]}, "results": {"bindings": ROWS}}
QUERY = "SELECT ?film ?year {?film a <urn:Film> OPTIONAL {?film <urn:year> ?year}}"
DATA = "<urn:f:1> a <urn:Film>; <urn:year> 1999 . <urn:f:2> a <urn:Film> ."


class Reply(io.BytesIO):
    def info(self) -> dict[str, str]:
        return {"content-type": "application/sparql-results+json"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_step_from_results(tmp_path: Path) -> None:
    from SPARQLWrapper.Wrapper import QueryResult

    path = tmp_path / "results.srj"
    path.write_text(json.dumps(TABLE))
    queried = rdflib.Graph().parse(data=DATA, format="turtle").query(QUERY)
    reply: Any = Reply(path.read_bytes())
    results: list[Any] = [TABLE, path.read_bytes(), path, queried, QueryResult((reply, "json"))]
    for each in results:
        step = reference_step_from_sparql(
            "find", each, query=QUERY, required_columns=["film", "year"]
        )
        assert step["args"] == {"query": QUERY}
        response = {"question_id": "q", "actual_steps": [taken(step, output=json.dumps(TABLE))]}
        [result] = run_evaluation_sync(template(question(step)), [response])
        assert result["steps_score"] == 1
    assert [*reference_step_from_sparql("x", TABLE)] == ["name", "output", "output_media_type"]
    step = reference_step_from_sparql("x", TABLE, ordered=True, ignore_duplicates=False)
    assert (step["ordered"], step["ignore_duplicates"]) == (True, False)
    wrong: list[Any] = ["no JSON", "[1]", b"{}", 5, None, {"head": {}}, [TABLE], {"head": {1}}]
    for each in wrong:
        with pytest.raises(UsageError):
            reference_step_from_sparql("x", each)
    with pytest.raises(UsageError, match="required_columns"):
        reference_step_from_sparql("x", TABLE, required_columns=["actor"])


ODD = [
    "2024-01-01",
    "yes",
    "1e3",
    "~",
    "- a",
    "a: b",
    " lead",
    "trail \n",
    "a\n\n b\n",
    "\t\n",
    "\x85\n",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(ODD)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.filterwarnings("ignore::graphrag_eval_async.GraphragEvalWarning")
@settings(max_examples=60)
@given(TEXTS, TEXTS, st.none() | TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3), VALUES)
def test_saved_sets_load_back_equal(
    name: str, text: str, answer: str | None, args: dict[str, Any], output: Any
) -> None:
    step = {"name": text, "args": args, "output": "x" if output is None else output}
    asked = question(step, question_id=f"q{text}", question_text=text, reference_answer=answer)
    asked |= {"forbidden_steps": [f"x{text}y"], "max_steps": 5} if answer is None else {}
    raw = [*template(asked, template_id=f"t{name}"), *template(template_id="empty")]
    try:
        expected = Reference(raw)
    except ReferenceDataError:  # such as of a step that is by its name another one
        return
    with TemporaryDirectory() as folder:
        for suffix in ("yaml", "json"):
            for given_set in (raw, expected):
                path = Path(folder) / f"r.{suffix}"
                save_reference(given_set, path)
                loaded = load_reference(path)
                assert loaded.questions == expected.questions
                assert loaded.templates == expected.templates
        assert sorted(each.name for each in Path(folder).iterdir()) == ["r.json", "r.yaml"]


def test_failed_save_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("old")
    with pytest.raises(ReferenceDataError):
        save_reference([{"template_id": "t"}], path)
    with pytest.raises(UsageError, match=r"\.yaml, \.yml or \.json"):
        save_reference(template(question()), tmp_path / "r.txt")
    assert [each.name for each in tmp_path.iterdir()] == ["r.yaml"]
    assert path.read_text() == "old"
    given = [template(question())[0] | {"note": 1}]
    save_reference(given, tmp_path / "n.json")
    assert json.loads((tmp_path / "n.json").read_text()) == given
