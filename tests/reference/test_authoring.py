"""Reference sets that nobody has to write by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import (
    Evaluator,
    Reference,
    ReferenceDataError,
    UsageError,
    load_reference,
    reference_step_from_sparql,
    save_reference,
)

YEAR = {"type": "literal", "value": "1999", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}
FILMS = [{"type": "uri", "value": f"urn:f:{number}"} for number in (1, 2)]
ROWS = [{"film": FILMS[0], "year": YEAR}, {"film": FILMS[1]}]
TABLE = {"head": {"vars": ["film", "year"]}, "results": {"bindings": ROWS}}
QUERY = "SELECT ?film ?year {?film a <urn:Film> OPTIONAL {?film <urn:year> ?year}}"


def with_step(step: dict[str, Any]) -> list[dict[str, Any]]:
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    return [{"template_id": "t", "questions": [question]}]


def from_rdflib() -> Any:
    rdflib = pytest.importorskip("rdflib")
    graph = rdflib.Graph()
    data = "<urn:f:1> a <urn:Film>; <urn:year> 1999 . <urn:f:2> a <urn:Film> ."
    return graph.parse(data=data, format="turtle").query(QUERY)


class Reply(io.BytesIO):
    def info(self) -> dict[str, str]:
        return {"content-type": "application/sparql-results+json"}


def from_wrapper() -> Any:
    wrapper = pytest.importorskip("SPARQLWrapper.Wrapper")
    return wrapper.QueryResult((Reply(json.dumps(TABLE).encode()), wrapper.JSON))


def from_file() -> Path:
    path = Path("results.srj")
    path.write_text(json.dumps(TABLE))
    return path


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "make", [lambda: TABLE, lambda: json.dumps(TABLE).encode(), from_file, from_rdflib, from_wrapper]
)
async def test_a_step_from_results(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    step = reference_step_from_sparql("sparql_query", make(), query=QUERY, required_columns=["film", "year"])
    assert step["args"] == {"query": QUERY}
    evaluator = Evaluator(with_step(step))
    actual = {"name": "sparql_query", "status": "success", "output": json.dumps(TABLE)}
    result = await evaluator.evaluate({"question_id": "q", "actual_steps": [actual]})
    assert result["steps_score"] == 1


def test_options_of_a_step() -> None:
    plain = reference_step_from_sparql("x", TABLE)
    assert [*plain] == ["name", "output", "output_media_type"]
    step = reference_step_from_sparql("x", TABLE, ordered=True, ignore_duplicates=False)
    assert (step["ordered"], step["ignore_duplicates"]) == (True, False)


def test_invalid_tables() -> None:
    wrong: list[Any] = ["no JSON", "[1]", b"{}", 5, None, {"head": {}}, [TABLE], {"head": {1}}]
    for results in wrong:
        with pytest.raises(UsageError):
            reference_step_from_sparql("x", results)
    with pytest.raises(UsageError, match="required_columns"):
        reference_step_from_sparql("x", TABLE, required_columns=["actor"])


ODD = ["2024-01-01", "yes", "1e3", "~", "- a", "a: b", " lead", "trail \n", "a\n\n b\n", "\t\n", "\x85\n"]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(ODD)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | TEXTS | NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(TEXTS, TEXTS, st.none() | TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3), VALUES)
def test_saved_sets_load_back_equal(
    template: str, text: str, answer: str | None, args: dict[str, Any], output: Any
) -> None:
    step = {"name": text, "args": args, "output": "x" if output is None else output}
    raw = [*with_step(step), {"template_id": "empty", "questions": []}]
    raw[0]["template_id"] = "t" + template
    raw[0]["questions"][0] |= {"id": "q" + text, "question_text": text, "reference_answer": answer}
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
        save_reference(with_step({"name": "x", "output": "y"}), tmp_path / "r.txt")
    assert [each.name for each in tmp_path.iterdir()] == ["r.yaml"]
    assert path.read_text() == "old"
    given = [with_step({"name": "x", "output": "y"})[0] | {"note": 1}]
    save_reference(given, tmp_path / "n.json")
    assert json.loads((tmp_path / "n.json").read_text()) == given
