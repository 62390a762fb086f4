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


@pytest.mark.parametrize("output", [[], ["-o", "-"], ["-o", "/dev/stdout"]])
def test_results_on_stdout_leave_the_table_to_stderr(
    folder: Folder, capfd: pytest.CaptureFixture[str], output: list[str]
) -> None:
    assert run("evaluate", folder.reference, folder.lines(response("q1")), *output) == 0
    out, err = capfd.readouterr()
    assert [orjson.loads(line)["question_id"] for line in out.splitlines()] == ["q1"]
    assert "all results" in err
    assert "results: 1, rejected lines: 0, questions without a response: 2 of 3" in err


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
    ["-o", "no/such/folder/results"],
    ["-o", "responses.jsonl"],
    ["-o", "reference.json"],
    ["-o", "link.jsonl"],
    ["-o", "x.json", "--rejects", "./x.json"],
    ["-o", "x.json", "--aggregates", "x.json"],
    ["-o", "-", "--rejects", "-"],
    ["--steps-groups", "first"],
    ["--max-in-flight", "0"],
    ["--fail-under", "steps_score=0.8"],
    ["--gate", "steps_score >= "],
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_wrong_usage_is_found_before_any_work(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str]
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
