"""Errors with texts that UTF-8 cannot hold, or with none at all, end neither a stream nor its journal."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator, JudgeError, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BAD = "\udcff"
SHOWN = "\\udcff"
TEMPLATES = [
    {
        "template_id": "t",
        "questions": [
            {
                "id": name,
                "question_text": "?",
                "reference_answer": "a",
                "reference_steps": [[{"name": "own", "output": "1"}]],
            }
            for name in ("1", "2")
        ],
    }
]
STEP = {"name": "own", "id": "x", "status": "success", "output": "2"}
RESPONSES = [{"question_id": name, "actual_answer": "b", "actual_steps": [STEP]} for name in ("1", "2")]


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


class RenamedError(JudgeError):
    def __str__(self) -> str:
        return BAD


def noted() -> Exception:
    error = ValueError("x")
    error.add_note(BAD)
    return error


class Judge:
    """Raises or returns always the same."""

    def __init__(self, outcome: Any, model: str = "m") -> None:
        self.model = model
        self._outcome = outcome

    async def complete(self, _messages: Any, _schema: Any) -> tuple[Any, None]:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome, None

    async def embed(self, _texts: Any) -> Any:
        raise NotImplementedError


async def journaled(tmp_path: Path, **how: Any) -> list[Any]:
    """The results of a run and of its continuation, which has nothing left to do."""
    lines, journal = tmp_path / "responses.jsonl", tmp_path / "results.jsonl"
    lines.write_text("".join(f"{json.dumps(response)}\n" for response in RESPONSES))
    results = []
    for _ in range(2):
        async with evaluate_stream(TEMPLATES, str(lines), journal=str(journal), **how) as stream:
            results += [result async for result in stream]
    assert [result["question_id"] for result in results] == ["1", "2"]
    return results


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError(BAD), f"ValueError: {SHOWN}"),
        (noted(), f"ValueError: x\n{SHOWN}"),
        (UnspeakableError(), "UnspeakableError: <exception str() failed>"),
        (OSError(2, "gone", f"/data/{BAD}"), "FileNotFoundError: [Errno 2] gone: '/data/\\udcff'"),
    ],
)
async def test_a_comparator_that_raises(tmp_path: Path, error: Exception, shown: str) -> None:
    def own(_reference: object, _actual: object) -> float:
        raise error

    for result in await journaled(tmp_path, comparators={"own": own}):
        assert result["steps_score"] == 0
        assert result["steps_score_error"].endswith(f"against actual_steps[0]: {shown}")


CLAIMS = {"reference_claims": ["a"], "actual_claims": [], "reason": "", "matches": []}


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (ValueError(BAD), f"unavailable: ValueError: {SHOWN}"),
        (noted(), f"unavailable: ValueError: x\n{SHOWN}"),
        (UnspeakableError(), "unavailable: UnspeakableError: <exception str() failed>"),
        (TimeoutError(BAD), f"timeout: {SHOWN}"),
        (RenamedError("refused", "by the policy"), "refused: by the policy"),
        (CLAIMS | {"reason": BAD}, "invalid_reply: the reply is not JSON: "),
        ({BAD: 1}, "invalid_reply: the reply is not JSON: "),
    ],
)
async def test_a_judge_that_raises_or_replies(tmp_path: Path, outcome: Any, shown: str) -> None:
    config = {"llm": {"limits": {"max_attempts": 1}}}
    for result in await journaled(tmp_path, config=config, judge=Judge(outcome)):
        assert result["answer_eval_error"].startswith(shown)


async def test_a_judge_with_such_a_name(tmp_path: Path) -> None:
    for result in await journaled(tmp_path, judge=Judge(CLAIMS, BAD)):
        assert result["judge"]["model"] == SHOWN
        assert result["answer_recall"] == 0


async def test_one_response() -> None:
    def own(_reference: object, _actual: object) -> float:
        raise ValueError(BAD)

    evaluator = Evaluator(TEMPLATES, comparators={"own": own}, judge=Judge(ValueError(BAD)))
    async with evaluator:
        result = await evaluator.evaluate(RESPONSES[0])
    assert json.loads(json.dumps(result, ensure_ascii=False).encode())["answer_eval_error"].endswith(SHOWN)


def write_bytes(path: Path) -> str:
    """A reference set in a file with a name that is not UTF-8."""
    named = os.fsencode(path / "set") + b"\xff.json"
    try:
        with open(named, "w") as file:
            json.dump(TEMPLATES, file)
    except OSError:
        pytest.skip("the file system takes no such names")
    return os.fsdecode(named)


async def test_reference_sets_with_such_a_file_name(tmp_path: Path) -> None:
    named, responses, out = write_bytes(tmp_path), tmp_path / "responses.jsonl", tmp_path / "out.jsonl"
    responses.write_text("".join(f"{json.dumps(response)}\n" for response in RESPONSES) + "junk\n")
    async with evaluate_stream(named, str(responses), journal=str(out)) as stream:
        assert len([result async for result in stream]) == 2


PLACES: dict[str, Callable[[dict[str, Any]], object]] = {
    "custom_evaluations[0].instructions": lambda config: config["custom_evaluations"][0].update(
        instructions=BAD
    ),
    "custom_evaluations[0].outputs.s": lambda config: config["custom_evaluations"][0].update(
        outputs={"s": BAD}
    ),
    "custom_evaluations[0].steps_name": lambda config: config["custom_evaluations"][0].update(steps_name=BAD),
    "custom_evaluations[0].steps_keys[0]": lambda config: config["custom_evaluations"][0].update(
        steps_keys=[BAD]
    ),
    "answer_correctness.prompt": lambda config: config.update(answer_correctness={"prompt": BAD}),
    "llm.generation.model": lambda config: config.update(
        llm={"generation": {"provider": "openai", "model": "${NOT_UTF_8}"}}
    ),
}


@pytest.mark.parametrize(("key", "put"), PLACES.items(), ids=PLACES)
def test_a_configuration_that_cannot_be_sent_is_refused(
    key: str, put: Callable[[dict[str, Any]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOT_UTF_8", BAD)
    custom = {"name": "c", "inputs": ["actual_steps"], "instructions": "x", "outputs": {"s": "y"}}
    config: dict[str, Any] = {"custom_evaluations": [custom]}
    put(config)
    with pytest.raises(ValueError) as caught:
        Evaluator(TEMPLATES, config=config, judge=Judge(CLAIMS))
    expected = f"{key}: expected text, got lone surrogates, which UTF-8 cannot encode"
    assert caught.value.problems == [expected]  # type: ignore[attr-defined]
