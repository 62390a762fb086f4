"""Any reference set is read, or refused with its problems; nothing else is raised."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from graphrag_eval_async import Reference
from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.reference import load_reference
from tests.fuzz.seeds import repeat, sizes, spoil
from tests.fuzz.test_sparql_outputs import MEDIA_TYPE, table
from tests.support.cpu import affordable

if TYPE_CHECKING:
    import random
    from pathlib import Path


# Sets are made of any keys, most of which are unknown.
pytestmark = pytest.mark.filterwarnings("ignore::graphrag_eval_async.GraphragEvalWarning")


def templates(rng: random.Random) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [
        {
            "name": "q",
            "output": json.dumps(table(rng)),
            "output_media_type": MEDIA_TYPE,
            "required_columns": ["v0"],
        },
        {"name": "j", "output": '{"a": [1]}', "output_media_type": "application/json"},
        {"name": "retrieval", "output": '[{"id": 1}, {"id": "b"}]'},
        {
            "name": "retrieve_data_points",
            "args": {"start": "2h-ago", "end": "now", "limit": 5, "granularity": "15m"},
        },
        {"name": "iri_discovery", "output": "urn:x:y"},
        {"name": "own", "output": {"any": ["thing"]}, "ordered": True},
    ]
    rng.shuffle(steps)
    question = {
        "id": "1",
        "question_text": "?",
        "reference_answer": "!",
        "reference_steps": [steps[:2], steps[2:]],
    }
    return [{"template_id": "t", "questions": [question, {"id": "2", "question_text": "?"}]}]


UNUSUAL = {"template_id": "unusual", "questions": [{"id": "unusual", "question_text": "?", "note": 1}]}


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
    for question in reference:
        more = {
            key: value
            for key, value in question.as_dict().items()
            if key != "template_id" and value is not None
        }
        questions[question.template_id].append({**more, "question_text": more.pop("text")})
    return [{"template_id": name, "questions": mine} for name, mine in questions.items()]


@sizes
def test_any_objects_are_read_or_refused(count: int) -> None:
    def check(rng: random.Random) -> None:
        spoilt = spoil(templates(rng), rng, times=rng.randint(0, 4))
        with affordable(1):
            found = load(spoilt)
        if type(spoilt) is list and spoilt:  # One unusual template makes all be read with care.
            with_care = load([*spoilt, UNUSUAL])
            if isinstance(with_care, dict):
                del with_care["unusual"]
            assert with_care == found

    repeat(check, count)


@sizes
def test_any_file_is_read_or_refused(count: int, tmp_path: Path) -> None:
    def check(rng: random.Random) -> None:
        spoilt = spoil(templates(rng), rng, times=rng.randint(0, 3))
        as_json = rng.random() < 0.5
        text = json.dumps(spoilt, default=str, skipkeys=True)
        if not as_json and rng.random() < 0.7:
            text = yaml.safe_dump(json.loads(text), allow_unicode=True)
        data = bytearray(text.encode("utf-8", "surrogatepass"))
        for _ in range(rng.choice([0, 0, 1, 3])):
            data[rng.randrange(len(data))] = rng.choice(b"\0\xff&*!<:\"'{[]}-1\n")
        path = tmp_path / ("reference.json" if as_json else "reference.yaml")
        path.write_bytes(data)
        with affordable(len(data)):
            load(str(path))

    repeat(check, count)
