from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml

from graphrag_eval_async import compare
from tests.cli.support import Folder, finish, from_jsonl, run, start, until

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = Path(__file__).parent / "compared"
EXAMPLES = Path(__file__).parents[2] / "examples"


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


@pytest.fixture
def examples(folder: Folder, capfd: pytest.CaptureFixture[str]) -> Folder:
    """The results of the examples in ``a``; in ``b`` those of a run that fails, changes and leaves out."""
    responses = from_jsonl((EXAMPLES / "responses.jsonl").read_bytes())
    changed = [{**each} for each in responses if each["question_id"] != "lines-bergheim"]
    for each in changed:
        if each["question_id"] == "connected-lindau-tannau":
            each["actual_steps"] = []
        if each["question_id"] == "load-bergheim-t1":
            each |= {"status": "error", "error": "no answer"}
    for name, lines in (("a", responses), ("b", changed)):
        path = folder.lines(*lines, name="responses.jsonl")
        assert run("evaluate", str(EXAMPLES / "reference.yaml"), path, "-o", folder.file(name)) == 0
    capfd.readouterr()
    return folder


def test_golden_of_the_examples(examples: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    gate = ["--fail-on-regression", "--allow-missing"]
    assert run("compare", examples.file("a"), examples.file("b"), *gate) == 0
    out, err = capfd.readouterr()
    assert out == (GOLDEN / "examples.txt").read_text()
    assert not err


@pytest.mark.parametrize(("name", "candidate"), [("better", BETTER), ("worse", WORSE)])
def test_golden(folder: Folder, capfd: pytest.CaptureFixture[str], name: str, candidate: list[Any]) -> None:
    judged = [each | {"judge": {"model": f"model of {name}"}} for each in candidate]
    baseline = [each | {"judge": {"model": "model"}} for each in GOOD]
    assert run(*both(folder, baseline, judged), "--worst", "3") == 0
    out, err = capfd.readouterr()
    assert out == (GOLDEN / f"{name}.txt").read_text()
    assert max(map(len, out.splitlines())) <= 80
    assert not err


def test_pending_results_are_listed(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    broken_off = [GOOD[0], *(each | {"pending": ["answer_f1"]} for each in GOOD[1:14])]
    assert run(*both(folder, GOOD[:14], broken_off)) == 0
    out, err = capfd.readouterr()
    told = "pending in the candidate, and not compared: 13 questions: lines-1, lines-10, lines-11,"
    assert told in " ".join(out.split())
    assert "only in the baseline" not in out
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


def test_a_regression_overall(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    """In no template alone, but in all together."""
    a = [result(f"{i}", f"t{i}", steps_score=1.0) for i in range(60)]
    b = [each | {"steps_score": 0.0} for each in a]
    assert run(*both(folder, a, b), "--fail-on-regression") == 1
    out, err = capfd.readouterr()
    told = "gate failed: steps_score is worse: 1 -> 0, -1; 0 questions better, 60 worse, 0 equal"
    assert err == f"{told}, p < 0.001\n"
    assert "verdict" not in out  # Of a template.


def test_errors_are_a_regression(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    candidate = GOOD[:30] + [each | {"status": "error", "error": "no"} for each in GOOD[30:]]
    assert run(*both(folder, GOOD, candidate), "--fail-on-regression") == 1
    assert "gate failed: error_rate is worse: 0 -> 0.4231" in capfd.readouterr().err
    assert run(*both(folder, GOOD, candidate), "--fail-on-regression", "--include-errors") == 1


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


def test_all_reasons_are_told(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    failed = [{**each, "status": "error", "error": "no"} for each in scored("t", [1.0] * 40)]
    assert run(*both(folder, scored("t", [1.0] * 40), failed), "--fail-on-regression") == 1
    out, err = capfd.readouterr()
    first, *others = err.splitlines()
    assert " ".join(out.split()).startswith(
        "Worse: error_rate 0 -> 1, +1. No question has a primary score on both sides. 40 regressions, 0 impr"
    )
    assert first == "gate failed: no question has a primary score on both sides"
    assert [each.split(": ")[1] for each in others] == ["error_rate is worse", "t:error_rate is worse"]


def test_only_decided_templates_are_shown(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    a = scored("s", [1.0] * 5) + scored("t", [1.0] * 12) + scored("u", [1.0] * 12)
    assert run(*both(folder, a, [each | {"steps_score": 0.0} for each in a])) == 0
    lines = capfd.readouterr().out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("template"))
    rows = [line.split() for line in lines[start + 1 : lines.index("", start)]]
    assert rows == [[name, "steps_score", "1", "0", "-1", "worse", "0.0029"] for name in "tu"]


def test_details(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    command = both(folder, scored("t", [1.0] * 10), scored("t", [0.5] * 5 + [1.0] * 5))
    assert run(*command, "--detail") == 0
    rows = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert ["overall", "questions", "better", "worse", "equal", "p", "alone"] in rows
    assert ["steps_score", "10", "0", "5", "5", "0.062"] in rows
    assert ["t", "steps_score", "1", "0.75", "-0.25", "undecided", "0.12"] in rows


def test_identical_runs_have_no_difference(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(*both(folder, GOOD, GOOD)) == 0
    out, _ = capfd.readouterr()
    assert out.startswith("No difference: 52 questions with the same values in both runs.\n")


FIVE = scored("t", [0.0] * 5 + [1.0] * 45)


def test_five_regressions_of_fifty_are_undecided_and_counted(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    command = both(folder, scored("t", [1.0] * 50), FIVE)
    assert run(*command, "--fail-on-regression") == 0
    out, _ = capfd.readouterr()
    assert out.startswith("Undecided: what changed may be chance. 5 regressions, 0 improvements.\n")
    assert "0.12" in out  # Twice that of the test alone.
    # Where the result of a question that got worse is.
    assert "b:1" in out


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
REGRESSION_GATES = [
    ["--max-drop", "steps_score=0.05"],
    ["--max-regressions", "0"],
    ["--fail-on-regression"],
]


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
GROUNDED = [each | {"faithfulness": 1.0} for each in JUDGED]
UNGROUNDED = GROUNDED[:12] + [each | {"faithfulness_error": "timeout: no reply"} for each in JUDGED[12:]]
ANSWERED = [each | {"actual_answer": "a", "reference_answer": "a"} for each in JUDGED]
UNANSWERED = ANSWERED[:12] + [
    each | {"actual_answer": None, "reference_answer": "a", "answer_f1": None} for each in JUDGED[12:]
]


@pytest.mark.parametrize("steps_alone", [[*JUDGED[:12], *TWENTY[12:]], UNJUDGED, TWENTY], ids=len)
def test_missing_marks_are_neither_regressions_nor_improvements(
    folder: Folder, capfd: pytest.CaptureFixture[str], steps_alone: list[Any]
) -> None:
    gate = ["--max-regressions", "0"]
    assert run(*both(folder, JUDGED, steps_alone), *gate) == 1
    out, err = capfd.readouterr()
    assert "0 regressions, 0 improvements." in " ".join(out.split())
    lost = sum("answer_f1" not in each or each["answer_f1"] is None for each in steps_alone)
    told = f"0 regressions, at most 0 allowed; {lost} of 20 results lack answer_f1, in the baseline 0 of 20"
    assert err == f"gate failed: {told}\n"
    assert run(*both(folder, steps_alone, JUDGED), *gate) == 0
    assert "0 regressions, 0 improvements." in " ".join(capfd.readouterr().out.split())
    # Steps still decide, and so does the lack of an answer.
    wrong = [each | {"steps_score": 0.5} for each in steps_alone]
    assert len(compare(JUDGED, wrong)["regressions"]) == len(compare(wrong, JUDGED)["improvements"]) == 20
    assert len(compare(ANSWERED, UNANSWERED)["regressions"]) == 8
    assert len(compare(UNANSWERED, ANSWERED)["improvements"]) == 8


@pytest.mark.parametrize(
    ("baseline", "candidate", "gate", "code", "told"),
    [
        (JUDGED, FAILING, "steps_score=0.3", 1, "1 -> 0.6, -0.4: may get worse by at most 0.3; errors count"),
        (
            JUDGED,
            FAILING,
            "steps_score=0.3",
            1,
            "errors count as 0, 0 in the baseline and 8 in the candidate",
        ),
        (
            JUDGED,
            FAILING,
            "answer_f1=0.4",
            0,
            "answer_f1 1 -> 0.6, -0.4: may get worse by at most 0.4; errors",
        ),
        (JUDGED, FAILING[12:] * 2, "steps_score=0.9", 1, "steps_score 1 -> 0, -1: may get worse by at most"),
        (
            FAILING,
            FAILING,
            "steps_score=0",
            0,
            "0.6 -> 0.6, 0: may get worse by at most 0; errors count as 0",
        ),
        # In these, 0 would not be the worst value.
        (
            JUDGED,
            FAILING,
            "elapsed_sec=0",
            0,
            "elapsed_sec 2 -> 2, 0: may get worse by at most 0; errors are left",
        ),
        (
            JUDGED,
            FAILING,
            "answer_relevance=0.1",
            1,
            "answer_relevance 0.5 -> 0.3, -0.2: may get worse by at most 0.1; errors count as 0, 0 in the",
        ),
        (
            JUDGED,
            UNJUDGED,
            "answer_f1=0",
            1,
            "answer_f1 1 -> 1, 0: may get worse by at most 0; 8 of 20 results",
        ),
        (JUDGED, UNJUDGED, "answer_f1=0", 1, "8 of 20 results lack answer_f1, in the baseline 0 of 20"),
        # Without a retrieval step, faithfulness does not apply; a failure of its judge is another matter.
        (
            GROUNDED,
            GROUNDED[:12] + JUDGED[12:],
            "faithfulness=0",
            0,
            "faithfulness 1 -> 1, 0: may get worse by at most 0",
        ),
        (GROUNDED, UNGROUNDED, "faithfulness=0", 1, "8 of 20 results lack faithfulness, in the baseline 0"),
        (UNJUDGED, UNJUDGED, "answer_f1=0", 0, "answer_f1 1 -> 1, 0: may get worse by at most 0"),
        (JUDGED, UNJUDGED, "steps_score=0", 0, "steps_score 1 -> 1, 0: may get worse by at most 0"),
    ],
)
def test_errors_count_as_0_and_missing_values_fail(
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
    baseline: list[Any],
    candidate: list[Any],
    gate: str,
    code: int,
    told: str,
) -> None:
    _, *files = both(folder, baseline, candidate)
    gates = ["--max-drop", gate, "--allow-missing"]
    assert run("compare", *files, *gates) == code
    assert told in " ".join("".join(capfd.readouterr()).split())
    assert run("report", files[1], "--baseline", files[0], *gates) == code
    assert told in capfd.readouterr().out


def test_fewer_errors_are_no_drop(folder: Folder) -> None:
    failed = [each | {"status": "error", "error": "no"} for each in GOOD[:10]] + GOOD[10:]
    assert run(*both(folder, failed, GOOD), "--max-drop", "error_rate=0", "--max-regressions", "0") == 0
    assert run(*both(folder, GOOD, failed), "--max-drop", "error_rate=0.1") == 1


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


def test_all_is_written(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    command = both(folder, GOOD, WORSE)
    assert run(*command, "-o", folder.file("c.json"), "--level", "0.8", "--include-errors") == 0
    assert run(*command, "-o", folder.file("c.yaml"), "--worst", "0") == 0
    assert "got worse" not in capfd.readouterr().out.split("compared:")[2]
    written = orjson.loads((folder.path / "c.json").read_bytes())
    assert written == compare(GOOD, WORSE, level=0.8, include_errors=True)
    assert len(written["worse"]["steps_score"]) == 12
    assert yaml.safe_load((folder.path / "c.yaml").read_bytes()) == compare(GOOD, WORSE)


def test_invalid_result_lines(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    command = both(folder, [*GOOD, b"{"], [*WORSE, {"template_id": "t"}])
    assert run(*command, "--fail-on-regression") == 3
    out, err = capfd.readouterr()
    assert "compared: 52 questions" in out
    bad, field, counts, *gates = err.splitlines()
    assert bad.startswith(f"{folder.file('a')}: line 53 (byte ")
    assert field.startswith(f"{folder.file('b')}: line 53 (byte ")
    assert counts == "rejected: 1 invalid_field, 1 invalid_json"
    assert gates
    assert all(gate.startswith("gate failed: ") for gate in gates)
    assert run(*command, "--rejects", folder.file("r")) == 3
    assert [each["file"] for each in folder.read("r")] == [folder.file("a"), folder.file("b")]


def test_quoted_text_is_one_line_without_control_characters(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    odd = [result(f"q\n\x1b[2J{i}", "t\x1b\n", steps_score=1.0) for i in range(15)]
    assert run(*both(folder, odd, [each | {"steps_score": 0.0} for each in odd[1:]])) == 0
    out = capfd.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in out)
    assert r"q \x1b[2J1" in out
    assert "got worse" in out
    assert max(map(len, out.splitlines())) <= 80


def test_interrupted_runs_print_no_comparison(folder: Folder) -> None:
    rejects = folder.path / "rejects"
    command = ["compare", folder.lines(*GOOD, b"{", name="a"), "-", "--rejects", str(rejects)]
    process = start(*command, stdin=-1)
    until(process, lambda: rejects.exists() and rejects.read_bytes().endswith(b"\n"), "a reject")
    process.terminate()
    code, out, _ = finish(process)
    assert (code, out) == (143, "")


def test_one_side_may_come_from_standard_input(folder: Folder) -> None:
    text = Path(folder.lines(*BETTER, name="b")).read_bytes()
    code, out, err = finish(start("compare", folder.lines(*GOOD, name="a"), "-", stdin=-1), text)
    assert (code, err) == (0, "")
    assert "compared: 52 questions" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["a"],
        ["a", "no-such-file"],
        ["a", "b", "--level", "1"],
        ["a", "b", "--level", "nan"],
        ["a", "b", "--level", "x"],
        ["a", "b", "--worst", "-1"],
        ["a", "b", "-o", "c"],
        ["a", "b.json", "-o", "b.json"],
        ["a", "b", "--rejects", "a"],
        ["-", "-"],
    ],
    ids=" ".join,
)
def test_wrong_usage(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(folder.path)
    for name in ("a", "b", "b.json"):
        folder.lines(*GOOD, name=name)
    assert run("compare", *arguments) == 2
    out, err = capfd.readouterr()
    assert not out
    assert "Error: " in err
    assert folder.read("a") == folder.read("b.json") == GOOD


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
