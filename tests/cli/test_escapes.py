"""What is not trusted reaches no terminal unescaped: any field of the input of any command."""

from __future__ import annotations

import json
import logging
import unicodedata
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.helpers.text import INVISIBLE, escape, escape_json, one_line
from tests.cli.judged import claims, config, failing, serving
from tests.cli.support import REFERENCE, Folder, response, run, to_jsonl
from tests.support.judge_server import completion, error

if TYPE_CHECKING:
    from collections.abc import Callable

EVIL = "\x1b]0;owned\x07\x9b31m\x7f\x08\r\u202e\u2066\u200b\u2028\ufeff\ufe0f\u3164\U000e0041"
FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def unsafe(text: str) -> set[str]:
    """The characters that no terminal should get."""
    return {
        c for c in text if c != "\n" and (unicodedata.category(c) in FORBIDDEN or c in INVISIBLE)
    }


def variants(value: Any) -> list[Any]:
    """Copies of a JSON value, each with `EVIL` in one of its texts or keys, or in place of a
    number.
    """
    if isinstance(value, str):
        return [value + EVIL]
    if isinstance(value, list):
        return [
            [*value[:i], new, *value[i + 1 :]]
            for i, part in enumerate(value)
            for new in variants(part)
        ]
    if isinstance(value, dict):
        others = {key: {other: value[other] for other in value if other != key} for key in value}
        keys = [others[key] | {key + EVIL: value[key]} for key in value]
        return keys + [value | {key: new} for key in value for new in variants(value[key])]
    return [EVIL]


@pytest.fixture
def check(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Folder
) -> Callable[..., str]:
    """Runs a command in the folder, whose output must be safe; returns it."""
    monkeypatch.chdir(folder.path)

    def check(*arguments: str) -> str:
        run(*arguments)
        text = "".join(capfd.readouterr())
        assert not unsafe(text), ascii(text)
        return text

    return check


RESPONSES = [*variants(response("q1", actual_answer="a", input_tokens=1)), EVIL, [EVIL]]


def test_responses_and_reference_sets(folder: Folder, check: Callable[..., str]) -> None:
    folder.lines(*RESPONSES, b"{" + EVIL.encode(), b"\xff\x1b[31m")
    for command in (["evaluate", "-o", "r"], ["validate"]):
        assert "owned" in check(*command, "reference.json", "responses.jsonl")
    check("convert", "responses.jsonl", "-o", "r")
    folder.lines(response("q1"), response("q2", False))
    for reference in variants(REFERENCE[:1]):
        folder.write("reference.json", json.dumps(reference).encode())
        check("evaluate", "reference.json", "responses.jsonl", "-o", "r", "--detail")


def test_results(folder: Folder, check: Callable[..., str]) -> None:
    more = {
        "steps_score": 0.5,
        "answer_eval_error": "timeout: x",
        "failure": "other_rows",
        "pending": ["answer_f1"],
    }
    result = {"question_id": "q1", "template_id": "t", "sample": 1, "status": "success", **more}
    folder.write(
        "results", to_jsonl([result, *variants(result), *variants(result | {"status": "error"})])
    )
    folder.write("better", to_jsonl([each | {"steps_score": 1.0} for each in variants(result)]))
    assert "owned" in check("aggregate", "results", "--detail", "--gate", f"x{EVIL} > 1")
    check("compare", "better", "results", "--fail-on-regression")
    check("report", "results", "--baseline", "better", "--github")
    check("plan", "--detect", "0.1", "results")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["evaluate", EVIL, "responses.jsonl"], id="reference"),
        pytest.param(["evaluate", "reference.json", "responses.jsonl", "--gate", EVIL], id="gate"),
        pytest.param(
            ["evaluate", "reference.json", "responses.jsonl", "-o", f"no/{EVIL}"], id="output"
        ),
        pytest.param(["evaluate", "reference.json", "responses.jsonl", f"--{EVIL}"], id="option"),
        pytest.param(["watch", "reference.json", f"{EVIL}*", "--until-idle", "1ms"], id="pattern"),
        pytest.param([EVIL], id="command"),
    ],
)
def test_arguments(folder: Folder, check: Callable[..., str], arguments: list[str]) -> None:
    folder.lines(response("q1"))
    assert "owned" in check(*arguments)


def test_replies_of_judges(folder: Folder, check: Callable[..., str]) -> None:
    questions = [{**question, "reference_answer": "red"} for question in REFERENCE[0]["questions"]]
    folder.write("reference.json", json.dumps([{**REFERENCE[0], "questions": questions}]).encode())
    folder.lines(response("q1", actual_answer="red"))
    for reply in (
        completion(claims("q", "red", "red") | {"reason": EVIL}),
        error(400, EVIL, code=EVIL),
    ):
        with serving(failing("", reply)) as server:
            path = config(folder.path, server, llm={"limits": {"max_attempts": 1}})
            check("evaluate", "reference.json", "responses.jsonl", "-c", path, "-o", "r")


def test_log_records_and_warnings(
    check: Callable[..., str], capfd: pytest.CaptureFixture[str]
) -> None:
    """As they are shown once the command line has run."""
    check("grafana")
    assert logging.lastResort is not None
    logging.lastResort.handle(logging.makeLogRecord({"msg": EVIL, "levelno": logging.WARNING}))
    warnings.showwarning(EVIL, UserWarning, "file", 1)
    text = capfd.readouterr().err
    assert text.count("owned") == 2
    assert not unsafe(text)


@given(st.text())
def test_every_text(text: str) -> None:
    assert not unsafe(escape(text))
    assert not unsafe(one_line(text))
    assert "\n" not in one_line(text)
    encoded = json.dumps(text, ensure_ascii=False)
    assert json.loads(escape_json(encoded)) == text
