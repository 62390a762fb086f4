"""``evaluate`` with a judge."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async.cli.exits import SAME_SECONDS
from graphrag_eval_async.cli.judges import judging, never_judged
from graphrag_eval_async.config import load_config
from graphrag_eval_async.errors import ConfigError
from graphrag_eval_async.judge import JudgeUsage, TokenUsage
from graphrag_eval_async.judge.usage import Prices
from graphrag_eval_async.text import dollars
from tests.cases import each
from tests.cli.judged import KEY, MODEL, PRICES, config, failing, honest, serving
from tests.cli.support import (
    finish,
    from_jsonl,
    next_line,
    question,
    run,
    start,
    step,
    terminal_output,
    until,
)
from tests.judge_server import FAULTS, NEVER, completion, error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cli.support import Folder
    from tests.judge_server import JudgeServer

REFERENCE = [
    {
        "template_id": "colours",
        "questions": [question(f"q{i}", "red") | {"reference_answer": f"red blue word{i}"} for i in range(4)],
    }
]
STEPS = {"actual_steps": [step("red", id="call_1", status="success")], "elapsed_sec": 1.5}
RESPONSES = [
    *({"question_id": f"q{i}", "actual_answer": f"red green word{i}", **STEPS} for i in range(3)),
    {"question_id": "q3", **STEPS},
]
"""Three to be judged, and one without an answer."""


@pytest.fixture
def names(folder: Folder) -> list[str]:
    """Reference data and responses."""
    return [folder.write("r.json", orjson.dumps(REFERENCE)), folder.lines(*RESPONSES)]


def by_question(folder: Folder, name: str = "out") -> dict[str, dict[str, Any]]:
    results = {result["question_id"]: result for result in folder.read(name)}
    assert len(results) == len(folder.read(name))
    return results


def money(server: JudgeServer, prices: Mapping[str, float] = PRICES) -> float:
    seen = server.counts
    tokens = seen.input_tokens * prices["input_usd_per_million"]
    tokens += seen.output_tokens * prices["output_usd_per_million"]
    return (tokens + seen.embedding_tokens * prices["embedding_usd_per_million"]) / 1e6


def test_results_and_report(folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with serving() as server:
        code = run("evaluate", *names, "-o", folder.file("out"), "-c", config(folder.path, server))
        seen = server.counts
    assert code == 0
    results = by_question(folder)
    for i in range(3):
        result = results[f"q{i}"]
        assert (result["answer_recall"], result["answer_precision"]) == (2 / 3, 2 / 3)
        assert result["judge"]["model"] == MODEL
    assert "answer_recall" not in results["q3"]
    out, err = capfd.readouterr()
    assert not err
    assert sum(line.count("0.667") for line in out.splitlines() if line.startswith("all results")) == 3
    assert out.splitlines()[-6:] == [
        "results: 4, rejected lines: 0, questions without a response: 0 of 4",
        "failure: 1 no_answer",
        "worst questions by answer_f1: q0 (0.667), q1 (0.667), q2 (0.667)",
        f"judge {MODEL}: 3 calls, 3 attempts, 0 cached, {dollars(money(server))}",
        f"tokens: {seen.input_tokens} in, {seen.output_tokens} out, 0 embedded",
        "metrics: 3 ok, 1 skipped, 0 failed",
    ]


@pytest.mark.parametrize("embedding", [False, pytest.param(True, marks=pytest.mark.ragas)])
def test_models_of_the_command_line(
    folder: Folder, names: list[str], monkeypatch: pytest.MonkeyPatch, embedding: bool
) -> None:
    options = ["--embedding", "openai/text-embedding-3-small"] if embedding else []
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert run("evaluate", *names, "-o", folder.file("out"), "--llm", f"openai/{MODEL}", *options) == 0
        paths = {request.path: request.body["model"] for request in server.requests}
    assert paths["/v1/chat/completions"] == MODEL
    assert ("/v1/embeddings" in paths) == embedding
    assert "answer_f1" in by_question(folder)["q1"]
    assert ("answer_relevance" in by_question(folder)["q1"]) == embedding


def test_the_environment_alone_starts_no_calls(
    folder: Folder, names: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert run("evaluate", *names, "-o", folder.file("out")) == 0
        (folder.path / "steps.yaml").write_text("steps: {groups: all}")
        assert run("evaluate", *names, "-o", folder.file("out"), "-c", folder.file("steps.yaml")) == 0
        assert server.counts.most_connections == 0
    assert "judge" not in capfd.readouterr().out


USAGE = [
    (["--embedding", "openai/e"], "--embedding needs --llm"),
    (["--config", "good.yaml", "--llm", "openai/m"], "--llm cannot be combined with --config"),
    (["--config", "good.yaml", "--embedding", "openai/e"], "--embedding needs --llm"),
    (["--config", "no-such-file"], "does not exist"),
    (["--config", "-"], "cannot come from standard input"),
    (["--config", "."], "is a directory"),
    (["--config", "text.yaml"], "configuration text.yaml:\n  expected a mapping, got a string"),
    (["--config", "empty.yaml"], "expected a mapping, got nothing"),
    (["--config", "broken.yaml"], "configuration broken.yaml:\n  not YAML: "),
    (["--config", "bad.yaml"], "configuration bad.yaml:\n  llm.generation.modle: unknown key; did you mean"),
    (["--config", "bad.yaml"], "\n  llm.generation.model: missing\n  steps.groups: expected"),
    (["--config", "good.yaml"], "llm.generation.api_key: missing: set it here or in the environment"),
    (["--llm", "gpt-4o"], 'expected "openai/" or "azure/" and a model'),
    (["--llm", ""], "--llm: expected"),
    (["--llm", "openai/m", "--embedding", "e"], "--embedding: expected"),
    (["--llm", f"openai/{MODEL}"], "llm.generation.api_key: missing"),
    (["--llm", "openai/m", "--on-fatal", "stop"], "Invalid value for '--on-fatal'"),
]


@pytest.mark.parametrize(("arguments", "problem"), USAGE, ids=[" ".join(case[0]) for case in USAGE])
@pytest.mark.parametrize("written", [["-o", "out"], ["-o", "out", "--rejects", "rejects"]], ids=len)
def test_a_configuration_that_cannot_be_right_is_wrong_usage(
    folder: Folder,
    names: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
    written: list[str],
) -> None:
    monkeypatch.chdir(folder.path)
    for name, text in {
        "good": "llm: {generation: {provider: openai, model: m}}",
        "bad": "{llm: {generation: {provider: openai, modle: m}}, steps: {groups: first}}",
        "text": "openai",
        "empty": "",
        "broken": "{",
    }.items():
        (folder.path / f"{name}.yaml").write_text(text)
    (folder.path / "out").write_text("earlier results")
    assert run("evaluate", *names, *written, *arguments) == 2
    out, err = capfd.readouterr()
    assert not out
    assert problem in err
    assert (folder.path / "out").read_text() == "earlier results"
    assert not (folder.path / "rejects").exists()


def test_a_missing_package_names_the_extra(
    folder: Folder, names: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("graphrag_eval_async.judge.session.find_spec", lambda _: None)
    assert run("evaluate", *names, "-o", folder.file("out"), "--llm", "openai/m") == 2
    assert "graphrag-eval-async[llm]" in capfd.readouterr().err
    assert not (folder.path / "out").exists()


def test_a_package_that_cannot_be_imported_after_all(
    folder: Folder, names: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def break_down() -> None:
        raise ConfigError(["llm: aiohttp cannot be imported"])

    monkeypatch.setattr("graphrag_eval_async.judge.endpoint.import_aiohttp", break_down)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert run("evaluate", *names, "-o", folder.file("out"), "--llm", "openai/m") == 2
    assert capfd.readouterr().err == "Error: configuration:\n  llm: aiohttp cannot be imported\n"


@pytest.mark.parametrize("name", ["config.yaml", "cache.sqlite"])
def test_neither_configuration_nor_cache_are_overwritten(folder: Folder, names: list[str], name: str) -> None:
    folder.write("cache.sqlite", b"kept")
    path = config(folder.path, None, llm={"cache": folder.file("cache.sqlite")})
    before = (folder.path / name).read_bytes()
    assert run("evaluate", *names, "-o", folder.file(name), "-c", path) == 2
    assert (folder.path / name).read_bytes() == before


def test_a_judge_without_quota_ends_the_run(
    folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    script = failing("word2", FAULTS["quota"])
    options = ["-o", folder.file("out"), "--aggregates", folder.file("a.json"), "--rejects", folder.file("x")]
    with serving(script) as server:
        path = config(folder.path, server, llm={"limits": {"max_concurrency": 1}})
        folder.lines(b"{", *RESPONSES)
        assert run("evaluate", *names, *options, "-c", path) == 4
    results = by_question(folder)
    assert results["q0"]["answer_f1"] == results["q1"]["answer_f1"]
    assert "q2" not in results
    assert len(folder.read("x")) == 1
    micro = json.loads((folder.path / "a.json").read_text())["micro"]
    assert micro["number_of_success_samples"] == len(results)
    out, err = capfd.readouterr()
    assert "all results" in out
    assert "judge gpt-4o-mini: 3 calls, 3 attempts, 0 cached, $" in out
    assert err.splitlines()[-1].startswith("Error: unavailable: ")
    assert KEY not in out + err


def test_or_every_metric_says_so(folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with serving(failing("word", FAULTS["401"])) as server:
        path = config(folder.path, server, llm={"limits": {"max_concurrency": 1}})
        command = ["evaluate", *names, "-o", folder.file("out"), "-c", path, "--on-fatal", "continue"]
        assert run(*command) == 4
        assert server.counts.requests == 3
    results = by_question(folder)
    assert all(results[f"q{i}"]["answer_eval_error"].startswith("unavailable: ") for i in range(3))
    assert results["q3"]["steps_score"] == 1
    out, err = capfd.readouterr()
    assert "metrics: 0 ok, 1 skipped, 3 failed (3 unavailable)" in out
    assert "all 3 metrics to judge failed, the first: unavailable: " in err


def test_or_the_only_metric_says_so(
    folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    folder.lines(RESPONSES[0])
    with serving(FAULTS["refusal"]) as server:
        path = config(folder.path, server)
        assert run("evaluate", *names, "-o", folder.file("out"), "-c", path) == 4
    assert "the only metric to judge failed: refused: I cannot help with that." in capfd.readouterr().err


def test_failures_and_retries_are_in_the_report(
    folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    def script(request: Any) -> Any:
        if b"word0" in request.raw:
            return FAULTS["refusal"](request)
        if b"word1" in request.raw:
            return completion("{", usage=None)
        return failing("word2", error(503, "busy", headers={"Retry-After": "0"}))(request)

    with serving(script) as server:
        path = config(folder.path, server, llm={"limits": {"max_attempts": 2}})
        assert run("evaluate", *names, "-o", folder.file("out"), "-c", path) == 4
    lines = capfd.readouterr().out.splitlines()
    judge, _, metrics, *first = lines[-6:]
    assert judge.startswith("judge gpt-4o-mini: 3 calls, 5 attempts, 0 cached, about $0.")
    problem = "unexpected end of data: line 1 column 2 (char 1)"
    assert first == [
        "first refused: I cannot help with that.",
        f"first invalid_reply: the content is not JSON: {problem}; it ends with '{{'",
        "first unavailable: HTTP 503: busy (2 attempts)",
    ]
    assert metrics == (
        "metrics: 0 ok, 1 skipped, 3 failed (1 invalid_reply, 1 refused, 1 unavailable); "
        "retries: 1 invalid_reply, 1 unavailable"
    )


def test_unknown_price(folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with serving() as server:
        generation = {"provider": "openai", "model": "own\x1b", "base_url": server.base_url}
        path = config(folder.path, server, llm={"generation": generation, "pricing": {}})
        assert run("evaluate", *names, "-o", folder.file("out"), "-c", path) == 0
    out = capfd.readouterr().out
    assert "judge own\\x1b: 3 calls, 3 attempts, 0 cached, price not known\n" in out
    assert "cost" not in out


def test_cached_calls_cost_nothing(
    folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with serving() as server:
        path = config(folder.path, server, llm={"cache": folder.file("cache.sqlite")})
        for _ in range(2):
            assert run("evaluate", *names, "-o", folder.file("out"), "-c", path) == 0
        assert server.counts.requests == 3
    assert "0 calls, 0 attempts, 3 cached, $0.00\ntokens: 0 in, 0 out" in capfd.readouterr().out


def test_stages(folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    whole = ["-o", folder.file("whole"), "--aggregates", folder.file("whole.json")]
    staged = ["-o", folder.file("staged"), "--aggregates", folder.file("staged.json"), "--stages"]
    with serving() as server:
        path = config(folder.path, server)
        for options in (whole, staged):
            assert run("evaluate", *names, "-c", path, *options) == 0
    lines = folder.read("staged")
    first = [line for line in lines if "pending" in line]
    assert {line["question_id"]: line["pending"] for line in first} == {
        f"q{i}": ["answer_correctness"] for i in range(3)
    }
    assert all(line["steps_score"] == 1 and "answer_f1" not in line for line in first)
    complete = [line for line in lines if "pending" not in line]
    assert {line["question_id"]: line for line in complete} == by_question(folder, "whole")
    order = [(line["question_id"], "pending" in line) for line in lines]
    assert all(order.index((f"q{i}", True)) < order.index((f"q{i}", False)) for i in range(3))
    assert capfd.readouterr().out.count("results: 4, rejected") == 2

    assert run("aggregate", folder.file("staged"), "--aggregates", folder.file("again.json")) == 0
    whole_run, staged_run, again = (
        json.loads((folder.path / f"{name}.json").read_text()) for name in ("whole", "staged", "again")
    )
    assert whole_run == staged_run == again
    assert "results: 4, rejected lines: 0" in capfd.readouterr().out


def test_a_result_that_was_never_finished_counts_as_an_answer_only(
    folder: Folder, names: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    pending = {"template_id": "colours", "question_id": "q1", "status": "success", "pending": ["x"]}
    assert run("aggregate", folder.lines(pending), "--reference", names[0]) == 0
    assert "results: 0, rejected lines: 0, questions without a response: 3 of 4" in capfd.readouterr().out


def test_groups_of_steps_are_those_of_the_configuration_unless_the_command_line_says(folder: Folder) -> None:
    groups = [[step("1")], [step("2")]]
    questions = [{"id": "q", "question_text": "?", "reference_steps": groups}]
    reference = folder.write("r.json", orjson.dumps([{"template_id": "t", "questions": questions}]))
    responses = folder.lines({"question_id": "q", "actual_steps": [step("2", id="x", status="success")]})
    (folder.path / "all.yaml").write_text("steps: {groups: all}")
    (folder.path / "none.yaml").write_text("{}")
    scores = []
    configured, overruled = ["-c", folder.file("all.yaml")], ["--steps-groups", "last"]
    for options in ([], ["-c", folder.file("none.yaml")], configured, [*configured, *overruled]):
        assert run("evaluate", reference, responses, "-o", folder.file("out"), *options) == 0
        scores.append(folder.read("out")[0]["steps_score"])
    assert scores == [1.0, 1.0, 0.5, 1.0]


def test_gates_on_what_is_judged(folder: Folder, names: list[str]) -> None:
    with serving() as server:
        path = config(folder.path, server)
        for bound, code in (("0.5", 0), ("0.7", 1)):
            gate = ["--gate", f"colours:answer_f1 >= {bound}"]
            assert run("evaluate", *names, "-o", folder.file("out"), "-c", path, *gate) == code


def test_ctrl_c_with_a_journal_finishes_sent_calls_only(folder: Folder, names: list[str]) -> None:
    answers = [RESPONSES[0] | {"actual_answer": f"red word{i}"} for i in range(60)]
    lines = folder.lines(*answers, b"{")
    interrupted = False
    with serving(lambda request: replace(honest(request), once=lambda: interrupted), latency=0.5) as server:
        path = config(folder.path, server, llm={"limits": {"max_concurrency": 2}})
        command = ["evaluate", names[0], lines, "-c", path, "-o", folder.file("journal"), "--resume"]
        process = start(*command)
        until(process, lambda: server.counts.requests == 2, "the first requests")
        process.send_signal(signal.SIGINT)
        # Until the process sees the signal, it may send more, which are slow to be answered.
        interrupted, server.script = True, honest
        code, _, err = finish(process)
        assert code == 130  # Though a line was rejected.
        assert "Traceback" not in err
        paid = server.counts.requests
        assert len(folder.read("journal")) == paid < 30
        server.latency = 0.0
        assert run(*command) == 3
        assert server.counts.requests == 60
    assert sorted(result["source"]["line"] for result in folder.read("journal")) == [*range(1, 61)]


def test_ctrl_c_keeps_judged_results(folder: Folder, names: list[str]) -> None:
    with serving(failing("word1", NEVER)) as server:
        path = config(folder.path, server)
        process = start("evaluate", *names, "-c", path, "--aggregates", folder.file("a.json"))
        lines = [next_line(process, f"result {i}") for i in range(3)]
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):  # It waits for what is under way.
            process.wait(timeout=2 * SAME_SECONDS)
        process.send_signal(signal.SIGINT)  # If it has just noticed the first, it ends by itself, but later.
        code, out, err = finish(process)
    assert code == 130
    assert not out
    assert {result["question_id"] for result in from_jsonl(b"".join(lines))} == {"q0", "q2", "q3"}
    assert "metrics: 2 ok, 1 skipped, 0 failed" in err
    assert "Traceback" not in err
    assert json.loads((folder.path / "a.json").read_text())["micro"]["number_of_success_samples"] == 3


def test_progress_shows_what_was_spent(folder: Folder, names: list[str]) -> None:
    with serving() as server:
        path = config(folder.path, server)
        shown = terminal_output("evaluate", *names, "-o", folder.file("out"), "-c", path, "--stages")
    assert re.search(r" 4 results, \d+\.\d/s, \$0\.0009, steps_score 1\.000, time left", shown)


def usage(**counts: Any) -> JudgeUsage:
    usage = JudgeUsage(prices := Prices(1.0, 10.0, None))
    usage.add("completion", TokenUsage(counts.pop("input_tokens", 0)), prices)
    usage.add("embedding", TokenUsage(counts.pop("embedding_tokens", 0)), prices)
    vars(usage).update(counts)
    return usage


def test_the_report_on_a_judge() -> None:
    shown = judging("m", usage(calls=9, attempts=11, shared_calls=2, cache_hits=4, embedding_tokens=5))
    assert shown[0] == "judge m: 9 calls, 11 attempts, 4 cached, 2 shared, price not known"
    assert shown[1] == "tokens: 0 in, 0 out, 5 embedded"
    shown = judging("m", usage(input_tokens=1000, unmetered=1))
    assert shown[0].endswith(", about $0.001")
    shown = judging("m", usage(input_tokens=1000, timed_out_dollars=0.5))
    assert shown[0].endswith(", $0.501, $0.50 of it estimated for requests without a reply")


def test_a_metric_that_always_failed_is_named(tmp_path: Path) -> None:
    loaded = load_config(config(tmp_path, None, answer_correctness={}, context_relevance={}))
    told = never_judged(loaded, usage(asked=Counter(answer_correctness=3)), ["steps_score"])
    assert told == {
        "answer_correctness": "failed for each result",
        "context_relevance": "needs the texts of a retrieval step, which no result has",
    }


@each(
    ("amount", "text"),
    [
        (None, "price not known"),
        (0, "$0.00"),
        (0.0, "$0.00"),
        (1.5e-7, "$0.00000015"),
        (0.000123456, "$0.0001235"),
        (0.999999, "$1.00"),
        (1.23456, "$1.235"),
        (12.3456, "$12.35"),
        (123456.789, "$123456.79"),
    ],
)
def test_dollars(amount: float | None, text: str) -> None:
    assert dollars(amount) == text


def test_without_a_reference_set(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    lines = [{"question": f"Why {i}?", "template": "t", "total_tokens": i} for i in range(3)]
    path = folder.path / "open.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert (
        run("evaluate", "--no-reference", str(path), "-o", folder.file("out"), "--gate", "t:total_tokens > 0")
        == 0
    )
    out = capfd.readouterr().out
    assert "results: 3, rejected lines: 0\nNothing scored the responses: " in out
    assert "gate held: t:total_tokens > 0" in out
    assert run("watch", "--no-reference", str(path), "--until-idle", "0.1s", "-o", folder.file("other")) == 0
    assert len((folder.path / "other").read_text().splitlines()) == 3


@pytest.mark.filterwarnings("always:without a reference set")
@pytest.mark.parametrize("helps", [False, True])
def test_metrics_that_no_response_can_have_are_named(
    folder: Folder, capfd: pytest.CaptureFixture[str], helps: bool
) -> None:
    path = folder.path / "open.jsonl"
    path.write_text(json.dumps({"question": "Why?", "actual_answer": "So."}) + "\n")
    metrics: dict[str, Any] = {"answer_correctness": {}, "context_relevance": {}}
    if helps:
        inputs = {"inputs": ["actual_answer"], "instructions": "?", "outputs": {"politeness": "0-9"}}
        metrics["custom_evaluations"] = [{"name": "tone", **inputs}]
    with serving() as server:
        config_path = config(folder.path, server, **metrics)
        code = run("evaluate", "--no-reference", str(path), "-o", folder.file("out"), "-c", config_path)
    out, err = capfd.readouterr()
    idle = "Warning: without a reference set, these do nothing: answer_correctness\n"
    lacking = [
        "answer_correctness needs an answer and a reference answer, which no result has",
        "context_relevance needs the texts of a retrieval step, which no result has",
    ]
    if helps:
        assert (code, err) == (0, idle)
        assert all(f"\nnot judged: {text}\n" in out for text in lacking)
    else:
        assert (code, err) == (4, f"{idle}Error: nothing was judged: {'; '.join(lacking)}\n")


@pytest.mark.parametrize("count", [0, 1])
def test_missing_arguments_are_named(count: int, names: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", *names[:count]) == 2
    assert "expected REFERENCE and RESPONSES, or --no-reference RESPONSES" in capfd.readouterr().err
