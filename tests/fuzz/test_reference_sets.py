"""Any reference set is read, or refused with its problems; nothing else is raised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Reference
from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.reference import load_reference
from tests.fuzz.seeds import load_spoilt, sizes
from tests.fuzz.test_sparql_outputs import MEDIA_TYPE, table
from tests.support.data import question, template

if TYPE_CHECKING:
    import random
    from pathlib import Path


# Sets are made of any keys, most of which are unknown.
pytestmark = pytest.mark.filterwarnings("ignore::graphrag_eval_async.GraphragEvalWarning")


def templates(rng: random.Random) -> list[dict[str, Any]]:
    args = {"start": "2h-ago", "end": "now", "limit": 5, "granularity": "15m"}
    steps: list[dict[str, Any]] = [
        {"name": "q", "output": json.dumps(table(rng)), "output_media_type": MEDIA_TYPE},
        {"name": "j", "output": '{"a": [1]}', "output_media_type": "application/json"},
        {"name": "retrieval", "output": '[{"id": 1}, {"id": "b"}]'},
        {"name": "retrieve_data_points", "args": args},
        {"name": "iri_discovery", "output": "urn:x:y"},
        {"name": "own", "output": {"any": ["thing"]}, "ordered": True},
    ]
    steps[0]["required_columns"] = ["v0"]
    rng.shuffle(steps)
    asked = question(question_id="1", reference_answer="!", reference_steps=[steps[:2], steps[2:]])
    return template(asked, question(question_id="2"))


[UNUSUAL] = template(question(question_id="unusual", note=1), template_id="unusual")


def load(source: Any) -> dict[str, Any] | list[str]:
    """The questions of a set or, if it is invalid, its problems."""
    try:
        reference = load_reference(source)
    except ReferenceDataError as error:
        problems = error.problems
    else:
        assert Reference(templates_of(reference)).questions == reference.questions
        return dict(reference.questions)
    assert problems
    assert all(len(problem) < 20_000 for problem in problems)
    return problems


def templates_of(reference: Reference) -> list[dict[str, Any]]:
    questions: dict[str, list[dict[str, Any]]] = {name: [] for name in reference.templates}
    for known in reference:
        more = {key: value for key, value in known.as_dict().items() if value is not None}
        more["question_text"] = more.pop("text")
        questions[more.pop("template_id")].append(more)
    return [{"template_id": name, "questions": mine} for name, mine in questions.items()]


def load_alike(spoilt: Any) -> None:
    found = load(spoilt)
    if type(spoilt) is list and spoilt:  # One unusual template makes all be read with care.
        with_care = load([*spoilt, UNUSUAL])
        if isinstance(with_care, dict):
            del with_care["unusual"]
        assert with_care == found


@sizes
def test_any_objects_are_read_or_refused(count: int) -> None:
    load_spoilt(templates, load_alike, count)


@sizes
def test_any_file_is_read_or_refused(count: int, tmp_path: Path) -> None:
    load_spoilt(templates, load, count, tmp_path)
