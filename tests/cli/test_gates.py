from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import load_reference
from graphrag_eval_async.cli.gates import check_each, failed_and_held
from graphrag_eval_async.records.conditions import Condition, parse_condition
from tests.cases import each
from tests.cli.support import COLOURS, ODD, REFERENCE, failed, response, run

if TYPE_CHECKING:
    from tests.cli.support import Folder


@each(
    ("text", "template", "metric", "operator", "bound"),
    [
        ("steps_score >= 0.8", None, "steps_score", ">=", 0.8),
        ("lines: error_rate<.1", "lines", "error_rate", "<", 0.1),
        ("a>b=c:steps_score > 1", "a>b=c", "steps_score", ">", 1.0),
    ],
)
def test_conditions(text: str, template: str | None, metric: str, operator: str, bound: float) -> None:
    assert parse_condition(text) == (template, metric, operator, bound)


@each("text", ["", "steps_score=0.8", "steps_score", "> 0.5", "steps_score >= x", "steps_score >= nan"])
def test_conditions_have_one_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|finite"):
        parse_condition(text)


def group(errors: int, successes: int, **means: float) -> dict[str, Any]:
    counts = {"number_of_error_samples": errors, "number_of_success_samples": successes}
    steps = {"steps": {"total": {"mean": 3}}}
    return counts | steps | {metric: {"mean": mean} for metric, mean in means.items()}


SNAPSHOT = {
    "per_template": {COLOURS: group(3, 1, steps_score=0.25)},
    "micro": group(3, 1, steps_score=0.5),
    "macro": {"steps_score": {"mean": 0.75}},
}


@given(value=st.floats(allow_nan=False), bound=st.floats(allow_nan=False, allow_infinity=False))
def test_the_bound_itself_holds(value: float, bound: float) -> None:
    for mean in (value, bound):
        snapshot = {"per_template": {}, "micro": group(0, 1, m=mean)}
        under, over = (
            check_each([Condition(None, "m", operator, bound)], snapshot)[0].holds
            for operator in (">=", "<=")
        )
        assert under == (mean >= bound)
        assert over == (mean <= bound)


def failures(gate: str) -> list[str]:
    checked = check_each([parse_condition(gate)], SNAPSHOT, load_reference(REFERENCE), {"q1", "q3"})
    failed, held = failed_and_held(checked)
    assert len(failed) + len(held) == 1
    return failed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps_score", 0.5),
        ("error_rate", 0.75),
        ("missing_rate", 2 / 3),
        (f"{COLOURS}:steps_score", 0.25),
        (f"{COLOURS}:error_rate", 0.75),
        (f"{COLOURS}:missing_rate", 0.5),
        (f"{ODD}:missing_rate", 1.0),
    ],
)
def test_values(name: str, value: float) -> None:
    for over, beyond in ((True, -math.inf), (False, math.inf)):
        operator = "<=" if over else ">="
        assert not failures(f"{name} {operator} {value!r}")
        bound = math.nextafter(value, beyond)
        if not 0 <= bound <= 1:
            continue
        (failure,) = failures(f"{name} {operator} {bound!r}")
        assert failure.startswith(f"{name} {operator} ")
        mean = float(failure.rpartition(" ")[2])
        assert mean == pytest.approx(value, abs=5e-4)
        assert (mean > bound) if over else (mean < bound)


@each(
    ("name", "hint"),
    [
        ("score", "metrics with values: steps_score, error_rate, missing_rate"),
        ("steps", "no values"),
        (f"{ODD}:steps_score", "no values; metrics with values: missing_rate"),
        (f"{ODD}:error_rate", "no values"),
        ("color:steps_score", f"no results of such a template; there are: {COLOURS}, {ODD}"),
    ],
)
def test_a_metric_without_values_does_not_hold(name: str, hint: str) -> None:
    (failure,) = failures(f"{name} >= 0")
    assert failure.startswith(f"{name} >= 0: ")
    assert hint in failure


def test_without_results_no_rate_of_errors_holds() -> None:
    empty = {"per_template": {}, "micro": group(0, 0), "macro": {}}
    (gate,) = check_each([parse_condition("error_rate <= 1")], empty)
    assert not gate.holds
    assert gate.told == "error_rate <= 1: no values; metrics with values: none"


RESPONSES = [response("q1"), response("q2", False), failed("q1"), failed("q2")]


@pytest.mark.parametrize(
    ("gates", "code"),
    [
        (["--gate", "steps_score >= 0.5"], 0),
        (["--gate", "steps_score >= 0.51"], 1),
        (["--gate", "elapsed_sec <= 1.5"], 0),
        (["--gate", "elapsed_sec <= 1.49"], 1),
        (["--gate", "error_rate <= 0.5"], 0),
        (["--gate", "error_rate <= 0.4"], 1),
        (["--gate", "missing_rate <= 0.34"], 0),
        (["--gate", "missing_rate <= 0"], 1),
        (["--gate", f"{COLOURS}:missing_rate <= 0"], 0),
        (["--gate", f"{ODD}:missing_rate <= 0.5"], 1),
        (["--gate", f"{COLOURS}:steps_score >= 0.5"], 0),
        (["--gate", f"{ODD}:steps_score >= 0"], 1),
        (["--gate", "steps_score >= 0", "--gate", "steps_score >= 1"], 1),
        (["--gate", "steps_score >= 0", "--gate", "steps_score <= 1"], 0),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "aggregate"])
def test_gates_decide_the_exit_code(
    folder: Folder, capfd: pytest.CaptureFixture[str], command: str, gates: list[str], code: int
) -> None:
    results = folder.file("results.jsonl")
    evaluation = ["evaluate", folder.reference, folder.lines(*RESPONSES), "-o", results]
    if command == "aggregate":
        assert run(*evaluation) == 0
        assert run("aggregate", results, "--reference", folder.reference, *gates) == code
    else:
        assert run(*evaluation, *gates) == code
    assert capfd.readouterr().err.count("gate failed: ") == code


CUSTOM = """\
llm: {generation: {provider: openai, model: m, api_key: k}}
custom_evaluations:
- {name: tone, inputs: [actual_answer], instructions: Judge., outputs: {politeness: "fraction 0-1"}}
"""


@each("dry", [[], ["--dry-run"], ["--jobs", "2"]])
@each(
    ("gate", "words"),
    [
        ("step_score >= 0.8", "no metric 'step_score'; did you mean steps_score?"),
        ("answer_f1 >= 0.8", "nothing judges 'answer_f1'; a configuration (--config) with the section"),
        ("politness >= 0.8", "no metric 'politness'; did you mean politeness?"),
        ("colors:steps_score >= 0.8", "no template 'colors' in the reference set; did you mean colours?"),
    ],
)
def test_an_unknown_gate_is_found_before_anything_runs(
    folder: Folder, capfd: pytest.CaptureFixture[str], gate: str, words: str, dry: list[str]
) -> None:
    config = folder.write("judges.yaml", CUSTOM.encode())
    output = folder.file("results.jsonl")
    arguments = [folder.reference, folder.lines(*RESPONSES), "-o", output, "--config", config, "--gate", gate]
    assert run("evaluate", *arguments, *dry) == 2
    out, err = capfd.readouterr()
    assert not out
    assert err.startswith(f"Error: --gate: {words}")
    assert not (folder.path / "results.jsonl").exists()
    assert run("watch", *arguments, "--until-idle", "1s") == 2
    assert words in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "condition", "words"),
    [
        ("evaluate --gate", "error_rate <= 10", "error_rate is from 0 to 1, not 10; for 10 %, write 0.1"),
        ("evaluate --gate", "colours: missing_rate < 1.01", "missing_rate is from 0 to 1, not 1.01"),
        ("evaluate --gate", "politeness >= 80", "politeness is from 0 to 1, not 80; for 80 %, write 0.8"),
        ("evaluate --gate", "answer_relevance >= -2", "answer_relevance is from -1 to 1, not -2"),
        ("evaluate --gate", "elapsed_sec <= -1", "elapsed_sec is 0 or more, not -1"),
        ("watch --alert", "p95 steps_score < 80 over 20", "steps_score is from 0 to 1, not 80; for 80 %"),
        (
            "watch --alert",
            "colours: politeness < 80",
            "politeness is from 0 to 1, not 80; for 80 %, write 0.8",
        ),
        ("report --pass-if", "answer_f1 >= 50", "answer_f1 is from 0 to 1, not 50; for 50 %, write 0.5"),
        ("compare --max-drop", "steps_score=5", "a change of steps_score is from 0 to 1, not 5; for 5 %"),
        ("report --max-drop", "answer_relevance=2.5", "a change of answer_relevance is from 0 to 2, not 2.5"),
    ],
)
def test_a_bound_outside_the_range_of_the_metric_is_found_before_anything_runs(
    folder: Folder, capfd: pytest.CaptureFixture[str], command: str, condition: str, words: str
) -> None:
    name, option = command.split()
    files = [folder.reference, folder.lines(*RESPONSES)]
    output = [] if name == "compare" else ["-o", folder.file("out.html" if name == "report" else "out.jsonl")]

    config = ["--config", folder.write("judges.yaml", CUSTOM.encode())] * (name in {"evaluate", "watch"})
    assert run(name, *files, *output, *config, option, condition) == 2
    out, err = capfd.readouterr()
    assert not out
    assert words in err
    assert not [*folder.path.glob("out.*")]


def test_gates_of_custom_outputs_and_costs_are_known(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    config = folder.write("judges.yaml", CUSTOM.encode() + b"answer_correctness: {}\n")
    gates = [
        f"{metric} >= 0" for metric in ("politeness", "tone_cost", "answer_f1", "answer_correctness_cost")
    ]
    options = [word for gate in gates for word in ("--gate", gate)]
    evaluation = ["evaluate", folder.reference, folder.lines(*RESPONSES), "--config", config, "--dry-run"]
    assert run(*evaluation, *options) == 0
    assert "no metric" not in capfd.readouterr().err
