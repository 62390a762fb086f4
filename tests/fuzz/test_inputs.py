"""Configurations, reference sets and outputs of any kind are read, or refused with their
problems.
"""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import load_reference
from graphrag_eval_async.config import load_config, secrets
from graphrag_eval_async.errors import ConfigError, MalformedStep, ReferenceDataError
from graphrag_eval_async.metrics import Judging
from graphrag_eval_async.steps import check_step, prepare_step, score_steps
from tests.config.support import EVERYTHING
from tests.fuzz.seeds import load_spoilt, repeat, sizes, spoil
from tests.metrics.support import Judge
from tests.steps.support import literal, query
from tests.support.cpu import affordable
from tests.support.data import question, template

if TYPE_CHECKING:
    import random
    from pathlib import Path

# Sets are made of any keys, most of which are unknown.
pytestmark = pytest.mark.filterwarnings("ignore::graphrag_eval_async.GraphragEvalWarning")


def load_configuration(source: Any) -> None:
    for judge in (None, Judge()):
        try:
            loaded = load_config(source, judge=judge is not None)
            if loaded.judged:
                Judging(loaded, judge=judge, on_fatal="raise")
        except ConfigError as error:
            problems = error.problems
        else:
            assert repr(loaded).encode()
            assert all(secrets(loaded))
            continue
        assert problems
        assert all(problem and len(problem.encode()) < 5_000 for problem in problems)


def part_of(config: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    return copy.deepcopy({key: section for key, section in config.items() if rng.random() < 0.8})


@sizes
def test_any_configuration_is_loaded_or_refused(count: int, tmp_path: Path) -> None:
    load_spoilt(partial(part_of, EVERYTHING), load_configuration, count, tmp_path)


def cell(rng: random.Random) -> Any:
    number = rng.randrange(20)
    near = [f"{number}.0", f"{number}e0", f"{number}.000000001", f" {number} "]
    text = rng.choice(
        [str(number), *near, "INF", "NaN", "true", "é", "1" * 299, "1" * 400, "0" * 9 + "+"]
    )
    return literal(
        text, rng.choice([None, "integer", "decimal", "double", "boolean", "string", "nonsense"])
    )


def table(rng: random.Random) -> dict[str, Any]:
    names = [f"v{index}" for index in range(rng.randint(1, 5))]
    few = [cell(rng) for _ in range(rng.randint(1, 6))]
    rows = [
        {name: dict(rng.choice(few)) for name in names if rng.random() < 0.9}
        for _ in range(rng.choice([0, 1, 3, 30]))
    ]
    return {"head": {"vars": names}, "results": {"bindings": rows}}


def templates(rng: random.Random) -> list[dict[str, Any]]:
    args = {"start": "2h-ago", "end": "now", "limit": 5, "granularity": "15m"}
    steps: list[dict[str, Any]] = [
        query(json.dumps(table(rng)), required_columns=["v0"]),
        {"name": "j", "output": '{"a": [1]}', "output_media_type": "application/json"},
        {"name": "retrieval", "output": '[{"id": 1}, {"id": "b"}]'},
        {"name": "retrieve_data_points", "args": args},
        {"name": "iri_discovery", "output": "urn:x:y"},
        {"name": "own", "output": {"any": ["thing"]}, "ordered": True},
    ]
    rng.shuffle(steps)
    asked = question(question_id="1", reference_answer="!", reference_steps=[steps[:2], steps[2:]])
    return template(asked, question(question_id="2"))


[UNUSUAL] = template(question(question_id="unusual", note=1), template_id="unusual")


def questions_of(source: Any) -> dict[str, Any] | list[str]:
    """The questions of a set or, if it is invalid, its problems."""
    try:
        return dict(load_reference(source).questions)
    except ReferenceDataError as error:
        problems = error.problems
    assert problems
    assert all(len(problem) < 20_000 for problem in problems)
    return problems


def load_set(source: Any) -> None:
    found = questions_of(source)
    if type(source) is list and source:  # One unusual template makes all be read with care.
        with_care = questions_of([*source, UNUSUAL])
        if isinstance(with_care, dict):
            del with_care["unusual"]
        assert with_care == found


@sizes
def test_any_reference_set_is_read_or_refused(count: int, tmp_path: Path) -> None:
    load_spoilt(templates, load_set, count, tmp_path)


def output(expected: dict[str, Any], rng: random.Random) -> Any:
    found = expected if rng.random() < 0.5 else table(rng)
    if rng.random() < 0.7:
        found = spoil(found, rng, times=rng.randint(1, 4))
    if rng.random() < 0.5:
        return found
    text = json.dumps(found, default=str)
    return text if rng.random() < 0.7 else text[: rng.randrange(len(text) + 1)]


@sizes
def test_any_output_is_scored(count: int) -> None:
    def check(rng: random.Random) -> None:
        expected = table(rng)
        how = {"ordered": rng.random() < 0.3, "ignore_duplicates": rng.random() < 0.5}
        step = query(json.dumps(expected), **how)
        prepared, actual = prepare_step(step), step | {"status": "success"}
        steps = [actual | {"output": output(expected, rng)} for _ in range(3)]
        with affordable(1):
            assert 0 <= score_steps([[prepared]], steps, mode="last").score <= 1
        assert score_steps([[prepared]], [actual], mode="last").score == 1

    repeat(check, count)


def is_valid(output: Any, required: list[str]) -> bool:
    try:
        check_step(query(output, required_columns=required))
    except MalformedStep:
        return False
    return True


@sizes
def test_text_and_objects_are_checked_alike(count: int) -> None:
    """Text is checked more quickly, and after some tables with the same columns more quickly
    still.
    """

    def check(rng: random.Random) -> None:
        found = table(rng)
        required = [*found["head"]["vars"][: rng.randint(0, 5)], *rng.choice([[], [], ["v2"]])]
        if rng.random() < 0.5:
            found = spoil(found, rng, times=rng.randint(1, 2))
        text = json.dumps(found, default=str)
        try:
            document = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
        if isinstance(document, dict):
            assert is_valid(text, required) == is_valid(document, required), text

    repeat(check, 3 * count)
