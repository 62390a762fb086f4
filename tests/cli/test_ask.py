"""``ask``, with an agent on a server of this machine."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.cli.beside import terminal_output
from tests.cli.judged import config, serving
from tests.cli.support import response, run
from tests.support.deadlines import WAIT_SECONDS
from tests.support.judge_server import Reply, json_reply
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.support import Folder
    from tests.support.judge_server import Request

SECRET = "s3cr3t-of-the-agent"  # noqa: S105


class Agent:
    """Answers questions by `answer`, which gets the text of one and the request; `asked` keeps
    the texts.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Callable[[str, Request], Reply] = right
        self.url = ""

    def __call__(self, request: Request) -> Reply:
        body = request.body
        text = parse_qs(request.query)["question"][0] if body is None else body["input"][0]["text"]
        self.asked.append(text)
        return self.answer(text, request)


def right(text: str, _: Request) -> Reply:
    """All answers are right but that to q2."""
    name = text.removeprefix("What of ").removesuffix("?")
    return json_reply({"steps": response(name, name != "q2")["actual_steps"], "answer": name})


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    with serving(agent) as server:
        agent.url = f"{server.origin}/ask"
        yield agent


def ask(folder: Folder, agent: Agent, *options: str, name: str = "results.jsonl") -> int:
    return run("ask", folder.reference, agent.url, "-o", folder.file(name), *options)


def untimed(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in each.items() if key != "elapsed_sec"} for each in results]


@pytest.mark.parametrize("way", ["get", "post"])
def test_results_are_those_of_evaluate(folder: Folder, agent: Agent, way: str) -> None:
    body = folder.write("body.json", b'{"input": [{"text": "{question}"}], "session": 1}')
    assert ask(folder, agent, "--ordered", *(["--body", body] if way == "post" else [])) == 0
    answers = [response(name, name != "q2", actual_answer=name) for name in ("q1", "q2", "q3")]
    same = folder.file("same.jsonl")
    assert run("evaluate", folder.reference, folder.lines(*answers), "-o", same, "--ordered") == 0
    assert untimed(folder.read("results.jsonl")) == untimed(folder.read("same.jsonl"))


def test_gates_tables_and_reports(
    folder: Folder, agent: Agent, capfd: pytest.CaptureFixture[str]
) -> None:
    files = ["--aggregates", folder.file("a.json"), "--report", folder.file("r.html")]
    assert ask(folder, agent, "--gate", "steps_score >= 0.9", *files, name="results.csv") == 1
    out, err = capfd.readouterr()
    assert "results: 3, rejected lines: 0, questions without a response: 0 of 3" in out
    assert "gate failed: steps_score >= 0.9" in err
    assert (folder.path / "results.csv").read_text().count("What of") == 3
    assert "Evaluation of 127.0.0.1" in (folder.path / "r.html").read_text()
    assert (
        json.loads((folder.path / "a.json").read_bytes())["micro"]["number_of_success_samples"] == 3
    )


def test_what_is_answered_is_not_asked_again(folder: Folder, agent: Agent) -> None:
    agent.answer = lambda text, request: Reply(b"", 404) if "q2" in text else right(text, request)
    assert ask(folder, agent, "--resume") == 0
    agent.answer = right
    for options, texts in (
        ([], []),
        (["--repeats", "2"], ["What of q1?", "What of q2?", "What of q3?"]),
        (["--repeats", "2", "--retry-errors"], ["What of q2?"]),
    ):
        agent.asked.clear()
        assert ask(folder, agent, "--resume", *options) == 0
        assert sorted(agent.asked) == texts
    found = sorted((each["question_id"], each["sample"]) for each in folder.read("results.jsonl"))
    assert found == [(name, sample) for name in ("q1", "q2", "q3") for sample in (1, 2)]


def test_failed_metrics_are_asked_again(
    folder: Folder, agent: Agent, capfd: pytest.CaptureFixture[str]
) -> None:
    reference = json.loads((folder.path / "reference.json").read_bytes())
    for question in (question for template in reference for question in template["questions"]):
        question["reference_answer"] = "q1"
    folder.write("reference.json", json.dumps(reference).encode())
    told = []
    with serving() as server:
        for budget, code, asked, *more in (0, 4, 3), (1, 0, 3), (1, 0, 6, "--retry-failed"):
            path = config(folder.path, server, llm={"limits": {"budget_usd": budget}})
            assert ask(folder, agent, "--resume", "-c", path, *more) == code
            assert len(agent.asked) == asked
            told.append(capfd.readouterr().out)
    assert "budget_usd, which counts earlier costs, and resume with --retry-failed" in told[0]
    assert (
        "3 results from before with failed metrics: kept; --retry-failed evaluates them again"
        in told[1]
    )
    assert "not judged: answer_correctness failed for each result\n" in told[1]
    assert all(each["answer_f1"] is not None for each in folder.read("results.jsonl"))


def test_another_agent_does_not_resume(
    folder: Folder, agent: Agent, capfd: pytest.CaptureFixture[str]
) -> None:
    other = ["--param", "model=b"]
    assert [ask(folder, agent, *more) for more in (["--resume"], [*other, "--resume"])] == [0, 2]
    assert (
        "another agent (its URL, method, params, body or paths changed); " in capfd.readouterr().err
    )
    assert ask(folder, agent, *other, "--resume=force") == 0


def test_an_empty_path_reads_nothing(folder: Folder, agent: Agent) -> None:
    agent.answer = lambda text, _: json_reply({"answer": text, "query": 7, "steps": 8})
    assert ask(folder, agent, "--query", "", "--steps", "") == 0
    assert sorted(each["actual_answer"] for each in folder.read("results.jsonl")) == sorted(
        agent.asked
    )


def test_until_stops_asking(
    folder: Folder, agent: Agent, capfd: pytest.CaptureFixture[str]
) -> None:
    reference = json.loads((folder.path / "reference.json").read_bytes())
    [first, *_] = reference[0]["questions"]
    reference[0]["questions"] = [
        {**first, "id": f"q{n}", "question_text": "What of q1?"} for n in range(200)
    ]
    folder.write("reference.json", json.dumps(reference[:1]).encode())
    assert ask(folder, agent, "--until", "steps_score >= 0.5") == 0
    assert len(agent.asked) < 50
    out = capfd.readouterr().out
    assert "steps_score >= 0.5 holds" in out
    [skipped] = re.findall(r"^skipped: (\d+) questions$", out, re.MULTILINE)
    assert f"questions without a response so far: {skipped} of 200" in out


def test_secrets_are_sent_and_never_shown(
    folder: Folder, agent: Agent, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_TOKEN", SECRET)
    agent.answer = lambda _, request: json_reply(
        f"sent: {request.headers['authorization']}", status=401
    )
    for token in ("${AGENT_TOKEN}", SECRET):
        ask(
            folder,
            agent,
            "--header",
            f"Authorization: Bearer {token}",
            "--resume",
            "--retry-errors",
        )
    shown = "".join([*capfd.readouterr(), *(path.read_text() for path in folder.path.iterdir())])
    assert "sent: ***" in shown
    assert SECRET not in shown


def test_the_page_in_the_browser(
    folder: Folder, agent: Agent, capfd: pytest.CaptureFixture[str]
) -> None:
    port, pages = free_port(), []

    def look(text: str, request: Request) -> Reply:
        with closing(
            http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
        ) as connection:
            connection.request("GET", "/")
            pages.append(connection.getresponse().read().decode())
        return right(text, request)

    agent.answer = look
    assert ask(folder, agent, "--web", f"127.0.0.1:{port}") == 0
    assert len(pages) == 3
    assert "Evaluation of 127.0.0.1" in pages[0]
    assert f"dashboard: http://127.0.0.1:{port}/" in capfd.readouterr().err


def test_a_port_in_use_empties_no_file(folder: Folder, agent: Agent) -> None:
    before = folder.write("results.jsonl", b"kept\n")
    assert ask(folder, agent, "--web", urlsplit(agent.url).netloc) == 2
    assert Path(before).read_bytes() == b"kept\n"


def test_ctrl_c_stops_asking(
    folder: Folder, agent: Agent, capfd: pytest.CaptureFixture[str]
) -> None:
    """And what was asked is still evaluated."""

    def interrupt(text: str, request: Request) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        return right(text, request)

    agent.answer = interrupt
    # A shell's job may ignore it.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert ask(folder, agent, "--max-concurrency", "1", "--repeats", "50") == 130
    finally:
        signal.signal(signal.SIGINT, handler)
    assert 1 <= len(agent.asked) <= 2
    assert f"results: {len(agent.asked)}, rejected lines: 0" in capfd.readouterr().out


def test_an_agent_that_cannot_be_reached(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    address, output = f"http://127.0.0.1:{free_port()}/", folder.file("results.jsonl")
    assert run("ask", folder.reference, address, "-o", output, "--retries", "0") == 4
    out, err = capfd.readouterr()
    assert "first error of the agent: " in out
    said = (
        f"first error of the agent: {urlsplit(address).netloc}: it cannot be reached: "
        "ConnectError: All "
    )
    assert err.startswith(f"Error: no question was answered; {said}")
    assert [each["status"] for each in folder.read("results.jsonl")] == ["error"] * 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(
            "responses.jsonl",
            "url: expected a URL that begins with http:// or https://",
            id="no URL",
        ),
        pytest.param(
            "http://x --header Token", "expected NAME: VALUE", id="a header without a value"
        ),
        pytest.param(
            "http://x --param a=1 --param a=2",
            "--param: the same name is given twice",
            id="a parameter twice",
        ),
        pytest.param(
            "http://x --body body.json",
            "Invalid value for '--body': not JSON",
            id="a body that is not JSON",
        ),
        pytest.param(
            "http://x --param question", "expected NAME=TEXT", id="a parameter without text"
        ),
        pytest.param(
            "http://x --retry-errors",
            "--retry-errors needs --resume",
            id="retries without resuming",
        ),
    ],
)
def test_mistakes(
    folder: Folder, capfd: pytest.CaptureFixture[str], arguments: str, told: str
) -> None:
    arguments = arguments.replace("body.json", folder.write("body.json", b"{question}"))
    assert run("ask", folder.reference, *arguments.split()) == 2
    assert told in capfd.readouterr().err


def test_a_terminal_shows_how_many_questions_are_answered(
    folder: Folder, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    options = ["-o", folder.file("results.jsonl"), "--repeats", "2"]
    code, shown = terminal_output("ask", folder.reference, agent.url, *options)
    assert code == 0
    assert "6 of 6 " in re.sub(r"\x1b\[[\d;]*m", "", shown)
