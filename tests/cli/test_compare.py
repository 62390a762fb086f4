"""``compare`` and ``plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.cli.support import Folder, run
from tests.support.comparisons import BETTER, GOOD, WORSE, result, scored_in

if TYPE_CHECKING:
    from collections.abc import Sequence


GOLDEN = Path(__file__).parent / "compared"


def both(folder: Folder, baseline: Sequence[Any], candidate: Sequence[Any]) -> list[str]:
    return ["compare", folder.lines(*baseline, name="a"), folder.lines(*candidate, name="b")]


@pytest.mark.parametrize(
    ("name", "candidate"),
    [pytest.param("better", BETTER, id="better"), pytest.param("worse", WORSE, id="worse")],
)
def test_golden(
    folder: Folder, capfd: pytest.CaptureFixture[str], name: str, candidate: list[Any]
) -> None:
    judged = [each | {"judge": {"model": f"model of {name}"}} for each in candidate]
    baseline = [each | {"judge": {"model": "model"}} for each in GOOD]
    assert run(*both(folder, baseline, judged), "--worst", "3") == 0
    out, err = capfd.readouterr()
    assert out == (GOLDEN / f"{name}.txt").read_text()
    assert max(map(len, out.splitlines())) <= 80
    assert not err


def test_a_regression_is_told(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(*both(folder, GOOD, WORSE), "--fail-on-regression") == 1
    # The change of the only template that changed is not told a second time.
    assert capfd.readouterr().err.splitlines() == [
        (
            "gate failed: steps_score is worse: 0.6154 -> 0.4481, -0.167; 0 questions better, "
            "12 worse, 40 equal, p < 0.001, all in very long names of templates"
        )
    ]
    # More tokens are no regression; what is worse need not be significantly worse.
    assert run(*both(folder, GOOD, BETTER), "--fail-on-regression") == 0
    assert run(*both(folder, GOOD, WORSE), "--fail-on-regression", "--level", "0.9999999") == 0


FIFTY = scored_in("t", [1.0] * 50)
FIVE = scored_in("t", [0.0] * 5 + [1.0] * 45)
JUDGED = scored_in(
    "t", [1.0] * 20, answer_f1=1.0, answer_relevance=0.5, elapsed_sec=2.0, reference_steps=[[]]
)
FAILING = JUDGED[:12] + [
    result(each["question_id"], "t", status="error", error="no", reference_steps=[[]])
    for each in JUDGED[12:]
]
UNJUDGED = JUDGED[:12] + [
    each | {"answer_f1": None, "answer_eval_error": "timeout: x"} for each in JUDGED[12:]
]
LOWER = {"outputs": ["noise"], "lower_is_better": ["noise"]}
QUIET = scored_in("t", [1.0] * 20, noise=0.2, judge=LOWER)
NOISY = scored_in("t", [1.0] * 20, noise=0.5, judge=LOWER)
DROP = "may get worse by at most"


@pytest.mark.parametrize(
    ("runs", "gates", "code", "told"),
    [
        pytest.param(
            (FIFTY, FIVE),
            "--max-regressions 5",
            0,
            "5 regressions, at most 5 allowed",
            id="as many regressions as allowed",
        ),
        pytest.param(
            (FIFTY, FIVE),
            "--max-regressions 4",
            1,
            "5 regressions, at most 4 allowed",
            id="too many regressions",
        ),
        pytest.param(
            (FIFTY, FIVE),
            "--max-drop steps_score=0.1",
            0,
            f"steps_score 1 -> 0.9, -0.1: {DROP} 0.1",
            id="a drop within the limit",
        ),
        pytest.param(
            (FIFTY, FIVE),
            "--max-drop steps_score=0.05",
            1,
            f"steps_score 1 -> 0.9, -0.1: {DROP} 0.05",
            id="a drop beyond the limit",
        ),
        pytest.param(
            (JUDGED, UNJUDGED),
            "--max-drop answer_f1=0 --allow-missing",
            1,
            ": 8 of 20 results lack answer_f1",
            id="missing judgements",
        ),
        pytest.param(
            (FIFTY, FIVE), "--non-inferior steps_score=0.05", 1, "-0.1, 95% interval", id="inferior"
        ),
        pytest.param(
            (FIFTY, FIVE),
            "--non-inferior steps_score=0.05",
            1,
            (
                "(not that of the change alone: three questions are added for those that were not "
                "asked, two lose 1 and one gains 1): may be worse by more than 0.05"
            ),
            id="inferior with a corrected interval",
        ),
        pytest.param(
            (FIFTY, FIVE),
            "--non-inferior steps_score=0.3 --non-inferior error_rate=0.02",
            1,
            "may be worse",
            id="inferior by errors",
        ),
        pytest.param(
            (FIVE, FIFTY),
            "--non-inferior steps_score=0.05",
            0,
            ": not worse by more than 0.05",
            id="not inferior",
        ),
        pytest.param(
            (FIFTY, FIVE),
            "--fail-on-regression",
            0,
            "no significant regression",
            id="no significant regression",
        ),
        pytest.param(
            (QUIET, NOISY),
            "--max-drop noise=0.1",
            1,
            f"noise 0.2 -> 0.5, +0.3: {DROP} 0.1",
            id="a cost that rises",
        ),
        pytest.param(
            (NOISY, QUIET),
            "--max-drop noise=0.1",
            0,
            f"noise 0.5 -> 0.2, -0.3: {DROP} 0.1",
            id="a cost that falls",
        ),
        pytest.param(
            (JUDGED, FAILING),
            "--max-drop steps_score=0.3 --allow-missing",
            1,
            f"1 -> 0.6, -0.4: {DROP} 0.3",
            id="failing judges",
        ),
    ],
)
def test_gates(
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
    runs: tuple[list[Any], list[Any]],
    gates: str,
    code: int,
    told: str,
) -> None:
    _, *files = both(folder, *runs)
    assert run("compare", *files, *gates.split()) == code
    text = " ".join("".join(capfd.readouterr()).split())
    assert told in text
    assert f"gate {'failed' if code else 'held'}: " in text
    assert run("report", files[1], "--baseline", files[0], *gates.split()) == code


TWENTY = scored_in("t", [1.0] * 20)
LACKING = (
    "8 of 20 questions of the baseline are missing from the candidate: t-12, t-13, t-14, t-15, "
    "t-16,"
)


@pytest.mark.parametrize(
    "gate",
    [
        pytest.param(["--max-drop", "steps_score=0.05"], id="drop"),
        pytest.param(["--max-regressions", "0"], id="regressions"),
        pytest.param(["--fail-on-regression"], id="significance"),
    ],
)
def test_missing_questions_fail_each_gate(
    folder: Folder, capfd: pytest.CaptureFixture[str], gate: list[str]
) -> None:
    command = [*both(folder, TWENTY, TWENTY[:12]), *gate]
    capfd.readouterr()
    assert run(*command, "-o", folder.file("c.json")) == 1
    assert f": {LACKING}" in capfd.readouterr().err
    written = orjson.loads((folder.path / "c.json").read_bytes())
    assert written["missing"] == [f"t-{i}" for i in range(12, 20)]
    assert run(*command, "--allow-missing") == 0
    assert run(*both(folder, TWENTY[:12], TWENTY), *gate) == 0


def test_nothing_to_compare_fails_the_gate(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    command = both(folder, GOOD, scored_in("other", [1.0] * 5))
    assert run(*command) == 0
    capfd.readouterr()
    assert run(*command, "--fail-on-regression") == 1
    assert capfd.readouterr().err == "gate failed: no question has a primary score on both sides\n"


def test_primary_metrics_of_a_configuration(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whose other keys are not read: the key of a judge need not be there."""
    text = (
        b"primary: [total_tokens]\nllm: {generation: {provider: openai, model: m, api_key: "
        b"'${NOT_SET}'}}\n"
    )
    folder.write("config.yaml", text)
    command = [
        *both(folder, GOOD, WORSE),
        "--fail-on-regression",
        "--config",
        folder.file("config.yaml"),
    ]
    assert run(*command) == 1
    out, err = capfd.readouterr()
    assert out.startswith(
        "Worse: total_tokens 900 -> 1200, +300. 12 regressions, 0 improvements.\n"
    )
    assert err.startswith("gate failed: total_tokens is worse: ")
    assert err.endswith(", all in lines\n")
    folder.write("config.yaml", b"primary: [tokens]\n")
    assert run(*command) == 2
    assert (
        "primary: no result has the metric 'tokens'; did you mean total_tokens?"
        in capfd.readouterr().err
    )


def test_plans(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    one = folder.lines(*scored_in("t", [0.0, 1.0] * 10), name="a")
    assert run("plan", "--detect", "0.1", one) == 0
    out, _ = capfd.readouterr()
    start = (
        "To see a change of 0.1 in steps_score with 80% power, ask both agents the same 265 "
        "questions "
    )
    assert " ".join(out.split()).startswith(
        f"{start}(530 responses). With different questions, each agent"
    )
    assert "\nAssumed: " in out
    assert run("plan", "--detect", "0.1", "--sd", "0.5") == 0
    assert "the same 241 questions (482 responses)" in " ".join(capfd.readouterr().out.split())
    assert run("plan", "--detect", "0.1") == 2
    assert "or a standard deviation (--sd" in capfd.readouterr().err
