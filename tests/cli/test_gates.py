from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.support import COLOURS, ODD, failed, response, run
from tests.support.cases import each

if TYPE_CHECKING:
    from tests.cli.support import Folder


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
