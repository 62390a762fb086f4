"""``compare`` and ``plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.cli.support import Folder, run

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = Path(__file__).parent / "compared"


def result(question: str, template: str, **more: Any) -> dict[str, Any]:
    return {"template_id": template, "question_id": question, "status": "success", **more}


def scored(template: str, values: Sequence[float], **more: Any) -> list[dict[str, Any]]:
    return [result(f"{template}-{i}", template, steps_score=value, **more) for i, value in enumerate(values)]


GOOD = scored("lines", [0.5] * 40, total_tokens=900) + scored("very long names of templates", [1.0] * 12)
BETTER = scored("lines", [1.0] * 40, total_tokens=1200) + GOOD[40:]
WORSE = scored("lines", [0.5] * 40, total_tokens=1200) + scored(
    "very long names of templates", [0.05 * i for i in range(12)]
)


def both(folder: Folder, baseline: Sequence[Any], candidate: Sequence[Any]) -> list[str]:
    return ["compare", folder.lines(*baseline, name="a"), folder.lines(*candidate, name="b")]


@pytest.mark.parametrize(("name", "candidate"), [("better", BETTER), ("worse", WORSE)])
def test_golden(folder: Folder, capfd: pytest.CaptureFixture[str], name: str, candidate: list[Any]) -> None:
    judged = [each | {"judge": {"model": f"model of {name}"}} for each in candidate]
    baseline = [each | {"judge": {"model": "model"}} for each in GOOD]
    assert run(*both(folder, baseline, judged), "--worst", "3") == 0
    out, err = capfd.readouterr()
    assert out == (GOLDEN / f"{name}.txt").read_text()
    assert max(map(len, out.splitlines())) <= 80
    assert not err


def test_a_regression_is_told(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(*both(folder, GOOD, WORSE), "--fail-on-regression") == 1
    _, err = capfd.readouterr()
    template = "very long names of templates"
    told = "0 questions better, 12 worse, {} equal, p {}"
    gate = "gate failed: "
    assert err.splitlines() == [
        f"{gate}steps_score is worse: 0.6154 -> 0.4481, -0.167; {told.format(40, '< 0.001')}",
        f"{gate}{template}:steps_score is worse: 1 -> 0.275, -0.725; {told.format(0, '= 0.002')}",
    ]
    assert run(*both(folder, WORSE[40:] * 1, GOOD[40:]), "--fail-on-regression") == 0
    # More tokens are no regression.
    assert run(*both(folder, GOOD, BETTER), "--fail-on-regression") == 0
    # What is worse need not be so by more than chance.
    assert run(*both(folder, GOOD, WORSE), "--fail-on-regression", "--level", "0.9999999") == 0
    assert "error_rate and steps_score hold together, at 99.99999 %." in " ".join(
        capfd.readouterr().out.split()
    )


def test_values_that_are_lost_are_a_regression(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    a = scored("t", [1.0] * 60)
    b = [{key: each[key] for key in each if key != "steps_score"} for each in a[:40]] + a[40:]
    lost = "steps_score has lost its value in 40 questions, gained it in 0; sign test p < 0.001"
    assert run(*both(folder, a, b), "--fail-on-regression") == 1
    out, err = capfd.readouterr()
    assert err == f"gate failed: {lost}\n"
    assert " ".join(out.split()).startswith(f"Worse: {lost}. 0 regressions, 0 improvements. compared: ")
    assert f"{lost}: worse" in " ".join(out.split())
    assert run(*both(folder, b, a), "--fail-on-regression") == 0
    assert "lost its value in 0 questions, gained it in 40" in " ".join(capfd.readouterr().out.split())


FIVE = scored("t", [0.0] * 5 + [1.0] * 45)


@pytest.mark.parametrize(
    ("gates", "code", "told"),
    [
        (["--max-regressions", "5"], 0, "gate held: 5 regressions, at most 5 allowed"),
        (["--max-regressions", "4"], 1, "gate failed: 5 regressions, at most 4 allowed"),
        (["--max-drop", "steps_score=0.1"], 0, "gate held: steps_score 1 -> 0.9, -0.1: may get worse by at"),
        (["--max-drop", "steps_score=0.05"], 1, "gate failed: steps_score 1 -> 0.9, -0.1: may get worse by"),
        (["--max-drop", "answer_f1=0.05"], 1, "gate failed: answer_f1: no question has it on both sides; "),
        (["--fail-on-regression"], 0, "gate held: no regression by more than chance"),
    ],
)
def test_gates(
    folder: Folder, capfd: pytest.CaptureFixture[str], gates: list[str], code: int, told: str
) -> None:
    assert run(*both(folder, scored("t", [1.0] * 50), FIVE), *gates) == code
    assert told in "".join(capfd.readouterr())


TWENTY = scored("t", [1.0] * 20)
LACKING = "8 of 20 questions of the baseline are missing from the candidate: t-12, t-13, t-14, t-15, t-16,"
REGRESSION_GATES = [["--max-drop", "steps_score=0.05"], ["--max-regressions", "0"], ["--fail-on-regression"]]


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("gate", REGRESSION_GATES, ids="=".join)
def test_missing_questions_fail_each_gate(
    folder: Folder, capfd: pytest.CaptureFixture[str], gate: list[str], pending: bool
) -> None:
    unfinished = [each | {"pending": ["answer_f1"]} for each in TWENTY[12:]] * pending
    command = [*both(folder, TWENTY, TWENTY[:12] + unfinished), *gate]
    assert run(*command, "-o", folder.file("c.json")) == 1
    out, err = capfd.readouterr()
    assert " ".join(out.split()).startswith(f"{LACKING} t-17, t-18, t-19. No difference: 12 questions with ")
    assert err.startswith("gate failed: ")
    assert f", but {LACKING}" in err
    written = orjson.loads((folder.path / "c.json").read_bytes())
    assert next(iter(written.items())) == ("missing", [f"t-{i}" for i in range(12, 20)])
    assert run(*command, "--allow-missing") == 0
    out, err = capfd.readouterr()
    assert " ".join(out.split()).startswith(LACKING)
    assert not err
    assert run(*both(folder, TWENTY[:12], TWENTY), *gate) == 0


JUDGED = scored("t", [1.0] * 20, answer_f1=1.0, answer_relevance=0.5, elapsed_sec=2.0, reference_steps=[[]])
FAILING = JUDGED[:12] + [
    result(each["question_id"], "t", status="error", error="no", reference_steps=[[]]) for each in JUDGED[12:]
]
UNJUDGED = JUDGED[:12] + [
    each | {"answer_f1": None, "answer_eval_error": "timeout: no reply"} for each in JUDGED[12:]
]


@pytest.mark.parametrize(
    ("candidate", "gate", "code", "told"),
    [
        (FAILING, "steps_score=0.3", 1, "1 -> 0.6, -0.4: may get worse by at most 0.3; errors count"),
        (FAILING, "steps_score=0.4", 0, "as 0, 0 in the baseline and 8 in the candidate"),
        (UNJUDGED, "answer_f1=0", 1, "8 of 20 results lack answer_f1, in the baseline 0 of 20"),
    ],
)
def test_errors_count_as_0_and_missing_values_fail(
    folder: Folder, capfd: pytest.CaptureFixture[str], candidate: list[Any], gate: str, code: int, told: str
) -> None:
    _, *files = both(folder, JUDGED, candidate)
    gates = ["--max-drop", gate, "--allow-missing"]
    assert run("compare", *files, *gates) == code
    assert told in " ".join("".join(capfd.readouterr()).split())
    assert run("report", files[1], "--baseline", files[0], *gates) == code
    assert told in capfd.readouterr().out


@pytest.mark.parametrize(
    "candidate",
    [[], scored("other", [1.0] * 5), [result("lines-1", "lines", total_tokens=900)]],
    ids=["empty", "other questions", "no score"],
)
def test_nothing_to_compare_fails_the_gate(
    folder: Folder, capfd: pytest.CaptureFixture[str], candidate: list[Any]
) -> None:
    command = both(folder, GOOD, candidate)
    assert run(*command) == 0
    assert not capfd.readouterr().err
    assert run(*command, "--fail-on-regression") == 1
    assert capfd.readouterr().err == "gate failed: no question has a primary score on both sides\n"
    assert run(*command, "--max-regressions", "9", "--allow-missing") == 1
    assert (
        "at most 9 allowed, but no question has any of these on both sides: steps_score, answer_f1, "
        in capfd.readouterr().err
    )


def test_primary_metrics_of_a_configuration(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    """Whose other keys are not read: the key of a judge need not be there."""
    text = (
        b"primary: [total_tokens]\nllm: {generation: {provider: openai, model: m, api_key: '${NOT_SET}'}}\n"
    )
    folder.write("config.yaml", text)
    command = [*both(folder, GOOD, WORSE), "--fail-on-regression", "--config", folder.file("config.yaml")]
    assert run(*command) == 1
    out, err = capfd.readouterr()
    assert out.startswith("Worse: total_tokens 900 -> 1200, +300. 12 regressions, 0 improvements.\n")
    assert {line.split()[2] for line in err.splitlines()} == {"total_tokens", "lines:total_tokens"}
    folder.write("config.yaml", b"primary: [tokens]\n")
    assert run(*command) == 2
    assert "primary[0]: 'tokens' is no metric; did you mean total_tokens?" in capfd.readouterr().err


def lines(folder: Folder, name: str, values: list[float], repeats: int = 1) -> str:
    return folder.lines(
        *[
            {"template_id": "t", "question_id": f"q{i}", "status": "success", "steps_score": value}
            for i, value in enumerate(values)
            for _ in range(repeats)
        ],
        name=name,
    )


def test_a_plan_of_one_run(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--detect", "0.1", lines(folder, "a", [0.0, 1.0] * 10)) == 0
    out, err = capfd.readouterr()
    assert out.startswith("steps_score: standard deviation 0.513 (20 questions).\nAssumed: ")
    assert "ask both agents the same 265 questions (530 responses)" in " ".join(out.split())
    assert "no question was asked twice" in out
    assert max(map(len, out.splitlines())) <= 80
    assert not err


def test_a_plan_of_two_runs_with_repeats(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    a = lines(folder, "a", [0.0, 1.0, 0.5, 0.75] * 5, repeats=2)
    b = lines(folder, "b", [0.0, 0.5, 0.5, 1.0] * 5, repeats=2)
    assert run("plan", "--detect", "0.05", a, b, "--level", "0.9") == 0
    out, _ = capfd.readouterr()
    assert "Assumed" not in out
    assert [line.split()[0] for line in out.splitlines() if line[:1].isdigit()] == ["1", "2", "3", "5", "10"]


def test_a_plan_with_a_given_standard_deviation(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--detect", "0.1", "--sd", "0.5") == 0
    assert "the same 241 questions (482 responses)" in " ".join(capfd.readouterr().out.split())
