from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel

from graphrag_eval_async.errors import ConfigError, JudgeError
from graphrag_eval_async.judge.protocol import strict
from graphrag_eval_async.metrics.metric import has_text
from graphrag_eval_async.metrics.ragas_bridge import (
    ask_ragas,
    cosine,
    format_of_model,
    load_ragas,
    require_ragas,
    together,
)
from tests.conftest import leaving_nothing
from tests.deadlines import TEST_SECONDS
from tests.metrics.ragas_support import PROMPTS, ScriptedMetricJudge, WaitingMetricJudge, fixed

pytestmark = pytest.mark.ragas

ROOT = Path(__file__).parents[2]

SILENT = """
import socket, sys
attempts = []

def refuse(event, args):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"}:
        attempts.append((event, args))
        raise RuntimeError(f"{event} {args}")

sys.addaudithook(refuse)
if sys.argv[1] == "preloaded":
    import ragas, ragas._analytics
    assert not ragas._analytics.do_not_track()
assert ("ragas" in sys.modules) == (sys.argv[1] == "preloaded")

import asyncio
from graphrag_eval_async.config.model import METRICS as SECTIONS
from graphrag_eval_async.metrics.judging import METRICS
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.metrics.ragas_bridge import load_ragas

load_ragas()
from tests.metrics.ragas_support import fixed, outcome

row = {"statement": "S", "reason": "R"}
script = fixed(
    AnswerRelevanceOutput={"question": "Why?", "noncommittal": 0},
    ContextPrecisionOutput={"reason": "R", "verdict": 1},
    ContextRecallOutput={"classifications": [row | {"attributed": 1}]},
    StatementGeneratorOutput={"statements": ["S"]},
    ClassificationWithReason={"TP": [row], "FP": [], "FN": []},
)
step = {"name": "retrieval", "status": "success", "output": [{"text": "T"}]}
case = Case("Why?", "Because.", None, "So.", [step])
for name in ("answer_relevance", "retrieval_answer", "ragas_answer_correctness"):
    keys = asyncio.run(outcome(METRICS[name](SECTIONS[name]()), case, script))
    assert keys and not any(key.endswith("error") for key in keys), keys

from ragas import _analytics
_analytics._analytics_batcher._flush_thread.join(100)
assert not _analytics._analytics_batcher._flush_thread.is_alive()
event = _analytics.EvaluationEvent(
    user_id="u", metrics=[], num_rows=1, evaluation_type="SINGLE_TURN", language="english"
)
_analytics._analytics_batcher.add_evaluation(event)
_analytics._analytics_batcher.flush()
_analytics.track(event)
assert not attempts, attempts
"""


@pytest.mark.parametrize("before", ["fresh", "preloaded"])
def test_ragas_sends_nothing_and_leaves_nothing(before: str, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment = os.environ | home | {"RAGAS_DO_NOT_TRACK": "false"}
    command = [sys.executable, "-W", "error", "-c", SILENT, before]
    done = subprocess.run(
        command, capture_output=True, check=False, cwd=ROOT, env=environment, text=True, timeout=TEST_SECONDS
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.rglob("*"))


def test_the_metrics_can_be_made_without_importing_ragas() -> None:
    script = """
import sys
from graphrag_eval_async.config.model import METRICS as SECTIONS
from graphrag_eval_async.metrics.judging import METRICS
for name, section in SECTIONS.items():
    METRICS[name](section())
print(sorted({"ragas", "pydantic", "numpy", "openai"} & {*sys.modules}))
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(
        command, capture_output=True, check=False, cwd=ROOT, text=True, timeout=TEST_SECONDS
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require_ragas("answer_relevance") == "0.4.3"
    monkeypatch.setitem(sys.modules, "ragas", None)
    with pytest.raises(ConfigError) as caught:
        require_ragas("answer_relevance")
    assert caught.value.problems == [
        "answer_relevance: needs the package ragas: pip install 'graphrag-eval-async[ragas]'"
    ]


def test_a_package_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    monkeypatch.setitem(sys.modules, "ragas", None)
    with pytest.raises(ConfigError, match=r"ragas: cannot be imported .*graphrag-eval-async\[ragas\]"):
        load_ragas.__wrapped__()


class Row(BaseModel):
    statement: str
    attributed: int


class Rows(BaseModel):
    classifications: list[Row]


class Verdict(BaseModel):
    verdict: int


@pytest.mark.parametrize(
    ("model", "reply", "message"),
    [
        (Verdict, {"verdict": 2}, "verdict: must be 0 or 1"),
        (Verdict, {"verdict": 10**400}, "verdict: must be 0 or 1"),
        (Verdict, {}, "verdict: Field required"),
        (Verdict, None, "the reply: Input should be a valid dictionary or instance of Verdict"),
        (Rows, {"classifications": [{"statement": "s", "attributed": -1}]}, "attributed: must be 0 or 1"),
        (Rows, {"classifications": [{"attributed": 1}]}, "classifications.0.statement: Field required"),
        (Rows, {"classifications": {}}, "classifications: Input should be a valid list"),
    ],
)
def test_a_reply_that_does_not_fit(model: type[BaseModel], reply: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        format_of_model(model).read(reply)
    assert str(caught.value) == message


def test_a_reply_that_fits() -> None:
    assert format_of_model(Verdict).read({"verdict": "1", "more": 2}) == Verdict(verdict=1)
    assert format_of_model(Rows).read({"classifications": []}) == Rows(classifications=[])
    assert format_of_model(Rows).schema == strict(Rows.model_json_schema())
    assert format_of_model(Rows) is format_of_model(Rows)


@pytest.mark.parametrize(("prompt", "data"), PROMPTS)
async def test_prompts_are_those_of_ragas(prompt: Any, data: dict[str, Any]) -> None:
    asking = ScriptedMetricJudge(fixed())
    with pytest.raises(KeyError):
        await ask_ragas(asking, prompt, **data)
    text = prompt().to_string(prompt.input_model(**data))
    assert asking.messages == [[{"role": "user", "content": text}]]


async def test_together_keeps_the_order() -> None:
    async def after(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert await together(*(partial(after, turns) for turns in (3, 0, 2))) == [3, 0, 2]
    assert await together() == []


async def test_an_error_is_raised_when_all_are_done() -> None:
    errors = [JudgeError("refused", "no"), JudgeError("timeout", "late")]
    done = []

    async def end(turns: int, error: JudgeError | None) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        done.append(turns)
        if error is not None:
            raise error

    async with leaving_nothing():
        with pytest.raises(JudgeError) as caught:
            await together(partial(end, 3, errors[0]), partial(end, 5, None), partial(end, 0, errors[1]))
    assert caught.value is errors[0]
    assert done == [0, 3, 5]


async def test_together_is_cancelled_as_a_whole() -> None:
    waiting = WaitingMetricJudge(fixed())
    async with leaving_nothing():
        with anyio.CancelScope() as scope:

            async def cancel() -> None:
                await anyio.wait_all_tasks_blocked()
                scope.cancel()

            await together(cancel, partial(waiting.embed, []), partial(waiting.embed, []))
    assert scope.cancelled_caught
    assert waiting.cancelled == 2


def test_has_text() -> None:
    assert has_text("a", " b ")
    assert has_text()
    assert not any([has_text("a", None), has_text(""), has_text(" \n\t"), has_text("a", "")])


numbers = st.floats(-1e300, 1e300, allow_subnormal=False)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8))
def test_agrees_with_exact_arithmetic(pairs: list[tuple[float, float]]) -> None:
    left, right = ([Fraction(pair[side]) for pair in pairs] for side in (0, 1))
    squares = sum(x * x for x in left) * sum(x * x for x in right)
    assume(squares)
    dot = sum(x * y for x, y in zip(left, right, strict=True))
    expected = math.copysign(math.sqrt(dot * dot / squares), 1 if dot >= 0 else -1)
    # The similarity of nearly orthogonal vectors is a difference of large terms.
    assert cosine(*zip(*pairs, strict=True)) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([3, 4], [3, 4], 1.0),
        ([3, 4], [-3, -4], -1.0),
        ([1, 0], [0, 1], 0.0),
        ([5e-324], [1.7e308], 1.0),
        ([1.7e308, 1.7e308], [1.7e308, 1.7e308], 1.0),
        ([0.1] * 1536, [0.1] * 1536, 1.0),
    ],
)
def test_cosine(left: list[float], right: list[float], expected: float) -> None:
    assert cosine(left, right) == pytest.approx(expected, abs=1e-15)
    assert -1 <= cosine(left, right) <= 1
