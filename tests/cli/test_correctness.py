"""``answer-correctness``."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.cli import answer_correctness
from tests.cli.judged import KEY, MODEL, blocks, claims, config, failing, honest, serving
from tests.cli.support import ROOT, finish, run, start, terminal_output, until
from tests.judge_server import FAULTS, NEVER, Reply, completion, error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cli.support import Folder
    from tests.judge_server import Request

IN = ["Question", "Reference answer", "Actual answer"]
OUT = ["#Reference", "#PTarget", "#Matching", "Reasoning", "Error"]

ROWS = [
    ["Which?", "red blue", "red green\nyellow"],
    ['a "quoted"\tone', "red", "no\r\nmatch"],
    ["", "red", "red"],
    ["?", "", "red"],
    ["?", "red", " "],
    ["last", "\u00e9t\u00e9 \U0001f600", "\U0001f600"],
]


@pytest.fixture(autouse=True)
def _within_the_folder(monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    monkeypatch.chdir(folder.path)


def write(path: Path, rows: Sequence[Sequence[str]], *, header: Sequence[str] = IN, **dialect: Any) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, "excel-tab", **dialect).writerows([header, *rows])


def read(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, "excel-tab")
    assert header == OUT
    return rows


def judged(row: Sequence[str]) -> list[str]:
    """What the honest judge makes of a row, if it is asked."""
    missing = [f"no {IN[i].lower()}" for i in range(3) if not row[i].strip()]
    if missing:
        return ["", "", "", "", f"skipped: {' and '.join(missing)}"]
    found = claims(*row)
    counts = [len(found[name]) for name in ("reference_claims", "actual_claims", "matches")]
    return [*map(str, counts), found["reason"], ""]


def numbered(count: int) -> list[list[str]]:
    return [[f"riddle {i:04}", "red blue", f"red\ngreen {i}"] for i in range(count)]


def test_a_key_alone_is_enough(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the command of the published library, which also makes the folder of its output."""
    write(folder.path / "in.tsv", ROWS)
    with serving(honest) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert run("answer-correctness", "-i", "in.tsv", "-o", "new/folder/out.tsv") == 0
    assert {request.body["model"] for request in server.requests} == {"gpt-4o-mini"}
    assert read(folder.path / "new" / "folder" / "out.tsv") == [judged(row) for row in ROWS]


def test_without_a_key_the_ways_to_name_a_judge_are_told(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    write(folder.path / "in.tsv", ROWS)
    assert run("answer-correctness", "-i", "in.tsv", "-o", "out.tsv") == 2
    assert "give --config FILE or --llm PROVIDER/MODEL, or set OPENAI_API_KEY" in capfd.readouterr().err


def test_every_row_in_its_order(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    write(folder.path / "in.tsv", ROWS)
    with serving() as server:
        arguments = ["-i", "in.tsv", "-o", "out.tsv", "-c", config(folder.path, server)]
        assert run("answer-correctness", *arguments) == 0
        assert server.counts.requests == 3
    rows = read(folder.path / "out.tsv")
    assert rows == list(map(judged, ROWS))
    assert rows[0][:3] == ["2", "3", "1"]
    assert rows[3][4] == "skipped: no reference answer"
    out, err = capfd.readouterr()
    assert not out
    assert err.splitlines() == [
        "rows: 6 of 6; not judged: 3 skipped",
        "judge gpt-4o-mini: 3 calls, 3 attempts, 0 cached, $0.0009",
        "tokens: 300 in, 60 out, 0 embedded",
        "metrics: 3 ok, 3 skipped, 0 failed",
    ]


def test_no_judge_writes_formulas(folder: Folder) -> None:
    """Neither in its reasoning nor in an error, unless they are asked for."""
    formula = '=HYPERLINK("http://example.org/?" & A1; "more")'
    write(folder.path / "in.tsv", [["q", "red", "red"], ["bad", "red", "red"]])

    def judge(request: Request) -> Reply:
        if blocks(request)["question"] == "bad":
            return error(400, formula, code=formula)
        return completion(claims("q", "red", "red") | {"reason": formula})

    with serving(judge) as server:
        arguments = ["-i", "in.tsv", "-c", config(folder.path, server)]
        assert run("answer-correctness", *arguments, "-o", "out.tsv") == 0
        assert run("answer-correctness", *arguments, "-o", "raw.tsv", "--no-escape-formulas") == 0
    good, bad = read(folder.path / "out.tsv")
    assert good == ["1", "1", "1", f"'{formula}", ""]
    assert not bad[4].startswith("=")
    assert [row[3] for row in read(folder.path / "raw.tsv")] == [formula, ""]


def test_columns_in_any_order_and_line_ends_of_any_kind(folder: Folder) -> None:
    header = ["note", IN[2], IN[0], "", IN[1]]
    rows = [["n", actual, question, "x", reference] for question, reference, actual in ROWS]
    write(folder.path / "in.tsv", rows, header=header, lineterminator="\n", quoting=csv.QUOTE_ALL)
    text = (folder.path / "in.tsv").read_bytes()
    folder.write("in.tsv", b"\xef\xbb\xbf" + text.removesuffix(b"\n"))
    with serving() as server:
        assert run("answer-correctness", "-i", "in.tsv", "-o", "out", "-c", config(folder.path, server)) == 0
    assert read(folder.path / "out") == list(map(judged, ROWS))
    assert (
        (folder.path / "out").read_bytes().startswith(b"#Reference\t#PTarget\t#Matching\tReasoning\tError\n")
    )


def test_rows_are_judged_at_the_same_time(folder: Folder) -> None:
    def script(request: Request) -> Reply:
        is_first = "riddle 0000" in blocks(request)["question"]  # Before it is answered, ten calls are made.
        once = None if is_first else lambda: server.counts.most_in_flight >= 20
        return replace(honest(request), once=once)

    write(folder.path / "in.tsv", numbered(40))
    with serving(script) as server:
        path = config(folder.path, server, llm={"limits": {"max_concurrency": 20}})
        assert run("answer-correctness", "-i", "in.tsv", "-o", "out", "-c", path) == 0
        assert server.counts.most_in_flight == 20
    assert read(folder.path / "out") == list(map(judged, numbered(40)))


def test_slow_rows_do_not_change_the_order(folder: Folder) -> None:
    def script(request: Request) -> Reply:
        is_first = "riddle 0000" in blocks(request)["question"]
        once = (lambda: server.counts.replies == 9) if is_first else None
        return replace(honest(request), once=once)

    write(folder.path / "in.tsv", numbered(10))
    with serving(script) as server:
        assert run("answer-correctness", "-i", "in.tsv", "-o", "out", "-c", config(folder.path, server)) == 0
    assert read(folder.path / "out") == list(map(judged, numbered(10)))


@pytest.mark.parametrize("script", [False, True])
def test_by_the_console_script_and_a_model_of_the_command_line(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, script: bool
) -> None:
    write(folder.path / "in.tsv", ROWS)
    arguments = ["-i", "in.tsv", "-o", "out.tsv", "--llm", f"openai/{MODEL}"]
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        if script:
            monkeypatch.setattr(sys, "argv", ["answer-correctness", *arguments])
            with pytest.raises(SystemExit) as end:
                answer_correctness()
            assert end.value.code == 0
        else:
            assert run("answer-correctness", *arguments) == 0
    assert read(folder.path / "out.tsv") == list(map(judged, ROWS))


def test_the_console_script_is_declared() -> None:
    scripts = (ROOT / "pyproject.toml").read_text().partition("[project.scripts]\n")[2]
    assert 'answer-correctness = "graphrag_eval_async.cli:answer_correctness"\n' in scripts


METRICS = {
    "answer_relevance": {},
    "retrieval_answer": {},
    "ragas_answer_correctness": {},
    "custom_evaluations": [
        {"name": "tone", "inputs": ["actual_answer"], "instructions": "?", "outputs": {"politeness": "0-9"}}
    ],
}


@pytest.mark.parametrize(
    ("section", "own"),
    [
        ({"answer_correctness": {"prompt": "Compare with {reference_answer}."}}, True),
        ({"answer_correctness": {"enabled": False, "prompt": "Compare with {reference_answer}."}}, True),
        ({"answer_correctness": {"enabled": False}}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("others", [METRICS, {}])
def test_only_answer_correctness_is_judged(folder: Folder, section: Any, others: Any, own: bool) -> None:
    write(folder.path / "in.tsv", ROWS[:1])
    with serving() as server:
        path = config(folder.path, server, **(section | others or {"steps": {"groups": "all"}}))
        assert run("answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", path) == 0
        (request,) = server.requests
    assert ("Compare with <reference_answer>." in request.body["messages"][0]["content"]) == own
    assert read(folder.path / "out.tsv") == [judged(ROWS[0])]


def test_an_embedding_model_that_is_not_needed_needs_no_key(folder: Folder) -> None:
    write(folder.path / "in.tsv", ROWS[:1])
    with serving() as server:
        embedding = {"provider": "azure", "model": "e", "api_key": "${NO_SUCH_VARIABLE}"}
        path = config(folder.path, server, llm={"embedding": embedding}, answer_relevance={})
        assert run("answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", path) == 0


def test_rows_that_fail_say_why(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    def script(request: Request) -> Reply:
        question = blocks(request)["question"]
        if "0001" in question:
            return FAULTS["refusal"](request)
        if "0003" in question:
            return error(400, "two\nlines\tand a tab")
        return honest(request)

    write(folder.path / "in.tsv", numbered(5))
    with serving(script) as server:
        path = config(folder.path, server, llm={"limits": {"max_attempts": 1}})
        assert run("answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", path) == 0
    rows = read(folder.path / "out.tsv")
    assert [rows[i] for i in (0, 2, 4)] == [judged(numbered(5)[i]) for i in (0, 2, 4)]
    for i, kind in ((1, "refused: "), (3, "invalid_request: ")):
        assert rows[i][:4] == [""] * 4
        assert rows[i][4].startswith(kind)
    err = capfd.readouterr().err
    assert "rows: 5 of 5; not judged: 1 invalid_request, 1 refused\n" in err
    assert "metrics: 3 ok, 0 skipped, 2 failed (1 invalid_request, 1 refused)" in err


def test_resume_continues_where_the_run_stopped(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    rows = numbered(6)
    write(folder.path / "in.tsv", rows)
    with serving() as server:
        command = ["answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", config(folder.path, server)]
        assert run(*command) == 0
        whole = (folder.path / "out.tsv").read_bytes()
        text = whole.decode()
        cuts = {0, 5, len(OUT), len(whole) - 1, len(whole), *range(60, len(whole), 37)}
        for cut in sorted(cuts):
            folder.write("out.tsv", whole[:cut])
            before = server.counts.requests
            assert run(*command) == 0
            assert (folder.path / "out.tsv").read_bytes() == whole
            done = max(0, len(list(csv.reader(text[:cut].splitlines(keepends=True), "excel-tab"))) - 1)
            assert len(rows) - done <= server.counts.requests - before <= len(rows) - done + 1
    assert "rows: 6 of 6, 6 of them from before\n" in capfd.readouterr().err


def test_rows_from_before_are_kept_as_they_are(folder: Folder) -> None:
    write(folder.path / "in.tsv", numbered(3))
    earlier = [["9", "8", "7", "by hand", ""], ["", "", "", "", "timeout: earlier"]]
    write(folder.path / "out.tsv", earlier, header=OUT, quoting=csv.QUOTE_ALL)
    before = (folder.path / "out.tsv").read_bytes()
    with serving() as server:
        assert (
            run("answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", config(folder.path, server)) == 0
        )
        assert server.counts.requests == 1
    assert (folder.path / "out.tsv").read_bytes().startswith(before)
    assert read(folder.path / "out.tsv") == [*earlier, judged(numbered(3)[2])]


def test_no_rows(folder: Folder) -> None:
    write(folder.path / "in.tsv", [])
    with serving() as server:
        assert (
            run("answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", config(folder.path, server)) == 0
        )
        assert server.counts.requests == 0
    assert read(folder.path / "out.tsv") == []


USAGE = [
    ([], "Missing option"),
    (
        ["-i", "in.tsv", "-o", "new.tsv", "-c", "config.yaml", "--llm", "openai/m"],
        "--llm cannot be combined with",
    ),
    (["-i", "in.tsv", "-o", "new.tsv", "--llm", "m"], "--llm: expected"),
    (["-i", "in.tsv", "-o", "new.tsv", "-c", "no-models.yaml"], "answer_correctness: needs llm.generation"),
    (["-i", "in.tsv", "-o", "new.tsv", "-c", "bad.yaml"], "configuration bad.yaml:\n  answr: unknown key"),
    (["-i", "none.tsv", "-o", "new.tsv"], "does not exist"),
    (["-i", "-", "-o", "new.tsv"], "the table cannot come from standard input"),
    (["-i", "in.tsv", "-o", "-"], "'-' is not a regular file"),
    (["-i", "in.tsv", "-o", "."], "is not a regular file"),
    (["-i", "in.tsv", "-o", "in.tsv/no.tsv", "-c", "config.yaml"], "in.tsv' cannot be made: File exists"),
    (["-i", "in.tsv", "-o", "in.tsv", "-c", "config.yaml"], "is given twice"),
    (["-i", "in.tsv", "-o", "config.yaml", "-c", "config.yaml"], "is given twice"),
    (["-i", "two.tsv", "-o", "new.tsv", "-c", "config.yaml"], "no column 'Reference answer'"),
    (["-i", "in.tsv", "-o", "other.tsv", "-c", "config.yaml"], "with another header than #Reference, "),
    (["-i", "in.tsv", "-o", "longer.tsv", "-c", "config.yaml"], "with more rows than the input"),
]


@pytest.mark.parametrize(("arguments", "problem"), USAGE, ids=[" ".join(case[0]) for case in USAGE])
def test_wrong_usage_changes_nothing(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    write(folder.path / "in.tsv", ROWS)
    write(folder.path / "two.tsv", [], header=["Question", "Actual answer"])
    write(folder.path / "other.tsv", ROWS)
    write(folder.path / "longer.tsv", [["1", "1", "1", "", ""]] * 7, header=OUT)
    (folder.path / "no-models.yaml").write_text("{}")
    (folder.path / "bad.yaml").write_text("answr: {}")
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        config(folder.path, server)
        before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
        assert run("answer-correctness", *arguments) == 2
        assert server.counts.most_connections == 0
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before
    out, err = capfd.readouterr()
    assert not out
    assert problem in err


def test_a_missing_key_is_found_before_the_output_is_touched(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    write(folder.path / "in.tsv", ROWS)
    folder.write("out.tsv", b"#Refer")
    assert run("answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "--llm", "openai/m") == 2
    assert "OPENAI_API_KEY" in capfd.readouterr().err
    assert (folder.path / "out.tsv").read_bytes() == b"#Refer"


def test_a_judge_that_refuses_the_key_ends_it_and_a_rerun_does_the_work(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = numbered(20)
    write(folder.path / "in.tsv", rows)

    def script(request: Request) -> Reply:
        return FAULTS["401"](request) if fatal else honest(request)

    fatal = True
    with serving(script) as server:
        path = config(folder.path, server, llm={"limits": {"max_concurrency": 8}})
        command = ["answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", path]
        assert run(*command) == 4
        err = capfd.readouterr().err
        assert err.splitlines()[0] == "rows: 0 of 20"
        assert err.splitlines()[-1].startswith("Error: unavailable: ")
        assert KEY not in err
        assert read(folder.path / "out.tsv") == []
        fatal = False
        assert run(*command) == 0
    assert read(folder.path / "out.tsv") == list(map(judged, rows))


def is_begun(output: Path) -> bool:
    """Whether there is a header."""
    return output.exists() and output.stat().st_size > 0


def test_ctrl_c_leaves_finished_rows(folder: Folder) -> None:
    rows = numbered(12)
    write(folder.path / "in.tsv", rows)
    with serving(failing("riddle 0005", NEVER)) as server:
        command = ["answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", config(folder.path, server)]
        process = start(*command)
        output = folder.path / "out.tsv"
        until(process, lambda: is_begun(output) and len(read(output)) == 5, "five rows")
        process.send_signal(signal.SIGINT)
        code, _, err = finish(process)
        assert code == 130
        assert read(folder.path / "out.tsv") == list(map(judged, rows[:5]))
        assert "rows: 5 of 12\n" in err
        assert "Traceback" not in err
        server.script = honest
        assert run(*command) == 0
    assert read(folder.path / "out.tsv") == list(map(judged, rows))


def test_a_killed_process_can_be_followed_by_another(folder: Folder) -> None:
    write(folder.path / "in.tsv", numbered(300))
    with serving() as server:
        path = config(folder.path, server, llm={"limits": {"max_concurrency": 8}})
        command = ["answer-correctness", "-i", "in.tsv", "-c", path]
        assert run(*command, "-o", "undisturbed.tsv") == 0
        whole, output = (folder.path / "undisturbed.tsv").read_bytes(), folder.path / "out.tsv"
        enough = len(whole) // 3
        server.script = failing("riddle 0299", NEVER)  # It must not end before it is killed.
        process = start(*command, "-o", "out.tsv")
        until(process, lambda: output.exists() and output.stat().st_size >= enough, "a third of the rows")
        process.kill()
        assert finish(process)[0] == -signal.SIGKILL
        left = output.read_bytes()
        assert whole.startswith(left)
        assert enough <= len(left) < len(whole)
        server.script = honest
        before = server.counts.requests
        assert run(*command, "-o", "out.tsv") == 0
        assert server.counts.requests - before < 210
    assert output.read_bytes() == whole


def test_a_full_disk_is_one_line(folder: Folder) -> None:
    write(folder.path / "in.tsv", numbered(3))
    with serving() as server:
        path = config(folder.path, server)
        limit = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150)); "
        code = f"{limit}from graphrag_eval_async.cli import main; main(sys.argv[1:])"
        command = ["answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", path]
        failed = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, check=False, timeout=60
        )
        assert failed.returncode == 4
        assert failed.stderr.splitlines()[-1] == b"Error: out.tsv: File too large"
        assert run("answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", path) == 0
    assert read(folder.path / "out.tsv") == list(map(judged, numbered(3)))


def test_cached_calls_are_not_made_again(folder: Folder) -> None:
    write(folder.path / "in.tsv", numbered(3))
    with serving() as server:
        path = config(folder.path, server, llm={"cache": "calls.sqlite"})
        for name in ("a.tsv", "b.tsv"):
            assert run("answer-correctness", "-i", "in.tsv", "-o", name, "-c", path) == 0
        assert server.counts.requests == 3
    assert (folder.path / "a.tsv").read_bytes() == (folder.path / "b.tsv").read_bytes()


def test_progress_on_a_terminal(folder: Folder) -> None:
    rows = numbered(4)
    write(folder.path / "in.tsv", rows)
    write(folder.path / "out.tsv", [judged(rows[0])], header=OUT)
    with serving() as server:
        path = config(folder.path, server)
        shown = terminal_output("answer-correctness", "-i", "in.tsv", "-o", "out.tsv", "-c", path)
    assert "3 results" in shown
    assert "100%" in shown
    assert "$0.0009" in shown
    assert "rows: 4 of 4, 1 of them from before" in shown
