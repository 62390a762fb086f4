from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml

from graphrag_eval_async import compute_aggregates, run_evaluation
from graphrag_eval_async.monitor.wording import NOTHING_SCORED
from tests.cli.support import COLOURS, ODD, REFERENCE, failed, response, run

if TYPE_CHECKING:
    from tests.cli.support import Folder

RESPONSES = [
    response("q1", id="r1", model="m"),
    response("q2", False, input_tokens=3),
    failed("q3"),
    response("q1", False),
]


def evaluated(responses: list[Any], **options: Any) -> list[dict[str, Any]]:
    return asyncio.run(run_evaluation(REFERENCE, responses, missing="skip", **options))


def by_question(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(results, key=lambda result: (result["question_id"], result["sample"]))


def test_results_and_aggregates_are_those_of_the_api(folder: Folder) -> None:
    code = run(
        "evaluate",
        folder.reference,
        folder.lines(*RESPONSES),
        "-o",
        folder.file("results.jsonl"),
        "--aggregates",
        folder.file("aggregates.yaml"),
    )
    expected = evaluated(RESPONSES)
    assert code == 0
    assert by_question(folder.read("results.jsonl")) == by_question(expected)
    snapshot = yaml.safe_load((folder.path / "aggregates.yaml").read_bytes())
    assert snapshot == compute_aggregates(expected, reference=REFERENCE, detail=True)
    assert list(snapshot["per_template"]) == [COLOURS, ODD]


@pytest.mark.parametrize("suffix", ["yaml", "yml", "json"])
def test_aggregates_are_exact_whatever_their_format(folder: Folder, suffix: str) -> None:
    tokens = [2**64 - 1, 2**64 - 1, 7]
    responses = [response("q1", input_tokens=n, elapsed_sec=0.1 + n / 3) for n in tokens]
    path = folder.path / f"aggregates.{suffix}"
    assert run("evaluate", folder.reference, folder.lines(*responses), "--aggregates", str(path)) == 0
    snapshot = yaml.safe_load(path.read_bytes())
    assert snapshot == compute_aggregates(evaluated(responses), reference=REFERENCE, detail=True)
    assert snapshot["micro"]["input_tokens"]["sum"] == sum(tokens)


def test_aggregates_replace_an_older_file_and_leave_no_draft(folder: Folder) -> None:
    folder.write("aggregates.json", b"old")
    responses = folder.lines(response("q1"))
    assert run("evaluate", folder.reference, responses, "--aggregates", folder.file("aggregates.json")) == 0
    assert orjson.loads((folder.path / "aggregates.json").read_bytes())["micro"]
    assert {path.name for path in folder.path.iterdir()} == {
        "aggregates.json",
        "reference.json",
        "responses.jsonl",
    }


def test_aggregates_are_written_through_a_link(folder: Folder) -> None:
    link = folder.path / "link.json"
    link.symlink_to("target.yaml")
    assert run("evaluate", folder.reference, folder.lines(response("q1")), "--aggregates", str(link)) == 0
    assert link.is_symlink()
    assert orjson.loads((folder.path / "target.yaml").read_bytes())["micro"]


@pytest.mark.parametrize("output", [[], ["-o", "-"], ["-o", "/dev/stdout"]])
def test_results_on_stdout_leave_the_table_to_stderr(
    folder: Folder, capfd: pytest.CaptureFixture[str], output: list[str]
) -> None:
    assert run("evaluate", folder.reference, folder.lines(response("q1")), *output) == 0
    out, err = capfd.readouterr()
    assert [orjson.loads(line)["question_id"] for line in out.splitlines()] == ["q1"]
    assert "all results" in err
    assert "results: 1, rejected lines: 0, questions without a response: 2 of 3" in err


def test_the_page_uses_stdout_if_free(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", folder.reference, folder.lines(response("q1")), "-o", folder.file("r")) == 0
    out, err = capfd.readouterr()
    assert "all results" in out
    assert not err
    assert "\x1b" not in out


def test_ten_rejects_are_listed_and_all_are_counted(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = [b"{", *[response("nobody")] * 12, response("q2", **{"\x1b[31mred\nkey": 1, "elapsed_sec": "x"})]
    responses = folder.lines(response("q1"), *bad)
    assert run("evaluate", folder.reference, responses, "-o", folder.file("r")) == 3
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 12
    assert "line 2 (byte " in lines[0]
    assert ": invalid_json: " in lines[0]
    assert "line 11 (byte " in lines[9]
    assert lines[10] == "... and 4 more; --rejects FILE keeps all of them"
    assert lines[11] == "rejected: 1 invalid_field, 1 invalid_json, 12 unknown_question_id"
    assert len(folder.read("r")) == 1


def test_a_listed_reject_is_one_line_without_control_characters(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    line = orjson.dumps({"question_id": "\x1b[31m\nkey\x85"})
    assert run("evaluate", folder.reference, folder.lines(line), "-o", folder.file("r")) == 3
    listed, _ = capfd.readouterr().err.splitlines()
    assert "\x1b" not in listed
    assert "key" in listed


def test_rejects_go_to_their_file_whole(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    long = orjson.dumps(response("q2", note="n" * 5000))
    code = run(
        "evaluate",
        folder.reference,
        folder.lines(b"\xef\xbb\xbf", response("q1"), b"[\xc3\xa9", b"\xff", long),
        "-o",
        folder.file("r"),
        "--rejects",
        folder.file("rejects.jsonl"),
        "--max-line-bytes",
        "4000",
    )
    assert code == 3
    json, utf8, too_long = folder.read("rejects.jsonl")
    assert (json["line"], json["reason"], json["content"]) == (3, "invalid_json", "[\u00e9")
    assert (utf8["line"], utf8["reason"], utf8["content_base64"]) == (4, "invalid_utf8", "/w==")
    assert (too_long["line"], too_long["reason"], too_long["length"]) == (5, "too_long", len(long))
    assert capfd.readouterr().err == "rejected: 1 invalid_json, 1 invalid_utf8, 1 too_long\n"


@pytest.mark.parametrize("more", [[], ["--resume"], ["--jobs", "2"]])
def test_a_full_file_of_rejects(folder: Folder, more: list[str]) -> None:
    responses = folder.write("in.jsonl", b"x" * 1000 + b"\n{" + b"x" * 3000)
    rejects = folder.file("rejects")
    options = ["-o", folder.file("r"), "--rejects", rejects, "--max-reject-bytes", "3000", *more]
    assert run("evaluate", folder.reference, responses, *options) == 3
    assert ["content" in record for record in folder.read("rejects")] == [True, False]


def test_rejects_on_stdout_leave_the_table_to_stderr(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    responses = folder.lines(b"{")
    assert run("evaluate", folder.reference, responses, "-o", folder.file("r"), "--rejects", "-") == 3
    out, err = capfd.readouterr()
    assert orjson.loads(out)["reason"] == "invalid_json"
    assert "all results" in err


def test_options_reach_the_engine(folder: Folder) -> None:
    responses = [response("q2", note="n" * 300_000), *[response("q1", n=n) for n in range(20)]]
    arguments = [folder.reference, folder.lines(*responses), "-o", folder.file("r")]
    assert run("evaluate", *arguments, "--ordered", "--max-in-flight", "3", "--steps-groups", "all") == 0
    results = folder.read("r")
    assert [result["question_id"] for result in results] == ["q2", *["q1"] * 20]
    assert [result["sample"] for result in results] == [1, *range(1, 21)]


def test_steps_groups(folder: Folder) -> None:
    groups = [[{"name": "a", "output": "1"}], [{"name": "b", "output": "2"}]]
    questions = [{"id": "q", "question_text": "?", "reference_steps": groups}]
    reference = folder.write("r.json", orjson.dumps([{"template_id": "t", "questions": questions}]))
    actual = [{"name": "b", "output": "2", "status": "success", "id": "x"}]
    responses = folder.lines({"question_id": "q", "actual_steps": actual})
    scores = {}
    for mode in ("last", "all"):
        assert run("evaluate", reference, responses, "-o", folder.file("r"), "--steps-groups", mode) == 0
        scores[mode] = folder.read("r")[0]["steps_score"]
    assert scores == {"last": 1.0, "all": 0.5}


def test_include_errors_counts_the_metrics_of_error_responses(folder: Folder) -> None:
    responses = folder.lines({"question_id": "q1", "error": "e", "elapsed_sec": 4})
    gate = ["--gate", "elapsed_sec <= 5"]
    assert run("evaluate", folder.reference, responses, "-o", folder.file("r"), *gate) == 1
    assert (
        run("evaluate", folder.reference, responses, "-o", folder.file("r"), *gate, "--include-errors") == 0
    )


def test_no_responses_at_all(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", folder.reference, folder.lines(), "-o", folder.file("r")) == 0
    assert (folder.path / "r").read_bytes() == b""
    assert "questions without a response: 3 of 3" in capfd.readouterr().out


def test_a_broken_reference_lists_every_problem_and_touches_no_file(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = folder.write("broken.json", b'[{"template_id": 1, "questions": [{"id": "a\\nb\\u001b"}]}]')
    folder.write("r", b"earlier results")
    assert run("evaluate", broken, folder.lines(), "-o", folder.file("r")) == 2
    first, *problems = capfd.readouterr().err.splitlines()
    assert first == f"Error: reference set: {len(problems)} problems in {broken}"
    assert len(problems) == 2
    assert (folder.path / "r").read_bytes() == b"earlier results"


USAGE = [
    [],
    ["--no-such-option"],
    ["--aggregates", "a.txt"],
    ["--aggregates", "no/such/folder/a.json"],
    ["--aggregates", "folder.json"],
    ["--rejects", "no/such/folder/rejects"],
    ["--rejects", "."],
    ["-o", "no/such/folder/results"],
    ["-o", "."],
    ["-o", "responses.jsonl"],
    ["-o", "reference.json"],
    ["-o", "link.jsonl"],
    ["-o", "x.json", "--rejects", "./x.json"],
    ["-o", "x.json", "--aggregates", "x.json"],
    ["-o", "-", "--rejects", "-"],
    ["--steps-groups", "first"],
    ["--max-in-flight", "0"],
    ["--max-line-bytes", "x"],
    ["--fail-under", "steps_score=0.8"],
    ["--gate", "steps_score >= "],
    ["--gate", "steps_score >= high"],
    ["--gate", " >= 1"],
    ["--gate", "colours: >= 1"],
    ["--gate", "steps_score <= nan"],
    ["--gate", "steps_score <= inf"],
    ["--gate", "steps_score <= 1e999"],
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_wrong_usage_is_found_before_any_work(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.chdir(folder.path)
    responses = folder.lines(response("q1"))
    (folder.path / "folder.json").mkdir()
    (folder.path / "link.jsonl").symlink_to("responses.jsonl")
    before = (folder.path / "responses.jsonl").read_bytes()
    names = [folder.reference, responses] if arguments else [folder.reference]
    assert run("evaluate", *names, *arguments) == 2
    out, err = capfd.readouterr()
    assert not out
    assert err.splitlines()[-1].startswith("Error: ")
    assert sum(line.startswith("Error: ") for line in err.splitlines()) == 1
    assert (folder.path / "responses.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["no-such-file", "empty"])
def test_responses_and_reference_have_to_be_files(
    folder: Folder, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    (folder.path / "empty").mkdir()
    path = folder.file(name)
    assert run("evaluate", folder.reference, path, "-o", folder.file("r")) == 2
    assert run("evaluate", path, folder.lines(), "-o", folder.file("r")) == 2
    assert "Error: Invalid value for 'RE" in capfd.readouterr().err
    assert not (folder.path / "r").exists()


@pytest.mark.parametrize(
    "arguments",
    [["evaluate", "-", "responses"], ["validate", "-"], ["aggregate", "results", "--reference", "-"]],
    ids=" ".join,
)
def test_a_reference_from_standard_input_is_wrong_usage(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.chdir(folder.path)
    for name in ("responses", "results"):
        folder.lines(name=name)
    assert run(*arguments) == 2
    assert "cannot come from standard input" in capfd.readouterr().err


def test_a_file_named_like_standard_input(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.path)
    folder.lines(response("q1"), name="-")
    assert run("evaluate", folder.reference, "./-", "-o", "r") == 0
    assert len(folder.read("r")) == 1


def test_an_unforeseen_error_is_one_line(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def break_down(*_args: object, **_options: object) -> None:
        raise RuntimeError("worn\nout")

    monkeypatch.setattr("graphrag_eval_async.cli.run.evaluate_stream", break_down)
    assert run("evaluate", folder.reference, folder.lines()) == 4
    assert capfd.readouterr().err == "Error: RuntimeError: worn out\n"


def test_aggregates_that_cannot_be_written_cost_nothing_else(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(path: str, _snapshot: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr("graphrag_eval_async.cli.report.write_aggregates", fail)
    responses = folder.lines(response("q1"), b"{")
    options = ["-o", folder.file("r"), "--aggregates", folder.file("a.json")]
    assert run("evaluate", folder.reference, responses, *options) == 4
    out, err = capfd.readouterr()
    assert "results: 1, rejected lines: 1" in out
    assert "rejected: 1 invalid_json" in err
    assert err.splitlines()[-1] == f"Error: {folder.file('a.json')}: No space left on device"


@pytest.mark.parametrize("command", ["evaluate", "aggregate", "watch"])
def test_the_level_of_intervals(folder: Folder, capfd: pytest.CaptureFixture[str], command: str) -> None:
    inputs = [folder.reference, folder.lines(*RESPONSES)]
    if command == "aggregate":
        inputs = [folder.lines(*evaluated(RESPONSES), name="results.jsonl")]
    options = ["--aggregates", folder.file("a.json"), "--level", "0.8"]
    options += ["--until-idle", "10ms"] if command == "watch" else []
    assert run(command, *inputs, *options) == 0
    written = orjson.loads((folder.path / "a.json").read_bytes())
    kind: Any = "anytime" if command == "watch" else "one_look"
    assert written == compute_aggregates(evaluated(RESPONSES), detail=True, level=0.8, interval=kind)
    assert "80 %" in "".join(capfd.readouterr())


ANSWERS = [{"question_id": "q1", "actual_answer": "red"}, {"question_id": "q2", "actual_answer": "blue"}]


@pytest.mark.parametrize(
    ("responses", "told"),
    [
        (ANSWERS, True),
        ([*ANSWERS, failed("q3")], True),
        ([*ANSWERS, response("q3")], False),
        ([failed("q1")], False),
        ([], False),
    ],
)
def test_an_evaluation_that_scores_nothing_says_what_to_do(
    folder: Folder, capfd: pytest.CaptureFixture[str], responses: list[Any], told: bool
) -> None:
    """In the terminal, on the page and in the summary of a pull request."""
    results, errors = folder.file("results.jsonl"), len(responses) == 3
    evaluation = ["evaluate", folder.reference, folder.lines(*responses)]
    commands = [
        [*evaluation, "-o", results, "--report", folder.file("page.html")],
        [*evaluation, "-o", folder.file("others.jsonl"), "--jobs", "2"],
        ["report", results],
        ["aggregate", results],
    ]
    for command in commands:
        assert run(*command) == 0
        out, _ = capfd.readouterr()
        assert (NOTHING_SCORED in " ".join(out.split())) == told
        assert ("Errors: 1 of 3 responses. Nothing scored" in " ".join(out.split())) == (told and errors)
    assert (NOTHING_SCORED in (folder.path / "page.html").read_text()) == told
    gates = ["--gate", "steps_score >= 0", "--report", folder.file("page.html")]
    if told:
        assert run(*evaluation, "-o", results, *gates) == 1
        assert "gate failed: steps_score >= 0: no values; " in capfd.readouterr().err
