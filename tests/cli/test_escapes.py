"""What is not trusted reaches no terminal unescaped: every field of every input of every command."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from graphrag_eval_async.records.metrics import COST
from graphrag_eval_async.text import INVISIBLE, escape, escape_json, one_line
from tests.cli.judged import claims, config, serving
from tests.cli.support import REFERENCE, ROOT, Folder, response, run, terminal_output
from tests.cli.watch.session import Session
from tests.judge_server import completion, error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.judge_server import Reply, Request

EVIL = "\x1b]0;owned\x07\x9b31m\x7f\x08\r\u202e\u2066\u200b\u2028\ufeff\ufe0f\u3164\U000e0041"
SURROGATE = "\udc9b"
FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def unsafe(text: str) -> set[str]:
    """The characters that no terminal should get."""
    return {
        c for c in text if c != "\n" and (unicodedata.category(c) in FORBIDDEN or c in "\u3164\ufe0f\u034f")
    }


def variants(value: Any, evil: str = EVIL) -> list[Any]:
    """Copies of a JSON value, each with `evil` in a string or key; one for each path without its indexes."""
    found: dict[tuple[Any, ...], Any] = {}

    def visit(part: Any, path: tuple[Any, ...], rebuild: Callable[[Any], Any]) -> None:
        if isinstance(part, str):
            found.setdefault(path, rebuild(part + evil))
        elif isinstance(part, list):
            for i, item in enumerate(part):
                visit(item, path, lambda new, i=i: rebuild([*part[:i], new, *part[i + 1 :]]))  # type: ignore[misc]
        elif isinstance(part, dict):
            for key, item in part.items():
                others = {other: part[other] for other in part if other != key}
                found.setdefault((*path, key, "key"), rebuild({**others, key + evil: item}))
                visit(item, (*path, key), lambda new, key=key: rebuild({**part, key: new}))  # type: ignore[misc]
        else:
            found.setdefault((*path, "text"), rebuild(evil))

    visit(value, (), lambda new: new)
    return list(found.values())


@pytest.fixture
def checked(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
    """Runs commands whose output must be safe; at the end, one of them must have quoted `EVIL`."""
    seen: list[str] = []

    def check(*arguments: str) -> str:
        run(*arguments)
        text = "".join(capfd.readouterr())
        assert not unsafe(text), ascii(text)
        seen.append(text)
        return text

    yield check
    assert r"\x1b]0;owned" in "".join(seen) or r"\u001b]0;owned" in "".join(seen)


@pytest.fixture(autouse=True)
def _within_the_folder(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.path)


EXAMPLES = yaml.safe_load((ROOT / "examples" / "reference.yaml").read_text())
EXAMPLE_RESPONSES = [
    json.loads(line) for line in (ROOT / "examples" / "responses.jsonl").read_text().splitlines()
]
RESPONSE = response("q1", actual_answer="a", input_tokens=1)
RESPONSES = [*variants(RESPONSE), *variants({"question_id": "q2", "error": "e"}), EVIL, [EVIL]]
"""Responses, with what should be one: `EVIL` is in each."""

RESULT = {
    "question_id": "q1",
    "template_id": "t",
    "sample": 1,
    "status": "success",
    "steps_score": 0.5,
    "answer_f1": 0.5,
    "answer_eval_error": "timeout: x",
    "failure": "wrong_order",
    "judge": {"model": "m", "provider": "p", "endpoint": "e", "outputs": ["custom_score"], "texts": ["x"]},
    "actual_steps": [{"name": "n", "args": {}, "status": "success", "output": "o", "id": "i"}],
    "reference_steps": [[{"name": "n", "args": {}, "output": "o"}]],
    "custom_score": 1.0,
    "custom_error": "other: y",
}


def with_bytes(items: list[Any]) -> list[bytes]:
    """Lines of ASCII, so that they may have lone surrogates."""
    return [json.dumps(item).encode() for item in items]


@pytest.mark.parametrize("evil", [EVIL, SURROGATE], ids=["controls", "surrogate"])
def test_responses(folder: Folder, capfd: pytest.CaptureFixture[str], evil: str) -> None:
    lines = with_bytes([*variants(RESPONSE, evil), *variants({"question_id": "q2", "error": "e"}, evil)])
    raw = [json.dumps(item, ensure_ascii=False).encode(errors="surrogatepass") for item in RESPONSES]
    path = folder.lines(*lines, *raw, b"{" + EVIL.encode(), b"\x9b31m{\xff")
    output = folder.file("results")
    for command in (
        ["evaluate", folder.reference, path, "-o", output],
        ["evaluate", folder.reference, path, "-o", folder.file("journal"), "--resume"],
        ["validate", folder.reference, path],
        ["watch", folder.reference, path, "--until-idle", "100ms", "--alert", "steps_score <= 1 over 1"],
        ["aggregate", output],
        ["compare", output, output],
        ["report", output, "--markdown", "-", "--github", "--baseline", output],
    ):
        run(*command)
        text = "".join(capfd.readouterr())
        assert text
        assert not unsafe(text), (command, ascii(text))


@pytest.mark.parametrize("command", ["validate", "evaluate"])
def test_reference_set(folder: Folder, checked: Callable[..., str], command: str) -> None:
    responses = folder.lines(*EXAMPLE_RESPONSES[:3])
    for variant in [*variants(EXAMPLES), EVIL, {EVIL: 1}]:
        path = folder.write("odd.json", json.dumps(variant).encode())
        output = ["-o", folder.file("out")] if command == "evaluate" else []
        checked(command, path, responses, *output)
    for text in ("[" + EVIL, "- " + EVIL + ": !!python/x", "a: &" + EVIL, "? " + json.dumps(EVIL)):
        checked(command, folder.write("odd.yaml", text.encode()), responses)


def test_results(folder: Folder, checked: Callable[..., str]) -> None:
    twin = folder.lines({**RESULT, "steps_score": 1.0}, name="twin")
    for variant in [*variants(RESULT), {**RESULT, "answer_relevance" + EVIL: 0.1}, EVIL]:
        lines = [{**variant, "question_id": f"q{i}"} for i in range(3)] if isinstance(variant, dict) else []
        path = folder.lines(*with_bytes([variant, *lines]), name="odd")
        checked("aggregate", path, "--gate", "nothing >= 1")
        checked("compare", path, path, "--fail-on-regression")
        checked("compare", twin, path)
        checked("compare", path, twin)
        checked("report", path, "--markdown", "-", "--github", "--baseline", twin)


def test_results_got_worse(folder: Folder, checked: Callable[..., str]) -> None:
    """With a metric and a template of evil names, in every table and sentence."""
    metric, template = f"my_{EVIL}_score", f"t{EVIL}"
    odd = {
        "template_id": template,
        "judge": {"outputs": [metric], "fractions": [metric], "model": EVIL},
        f"{EVIL}{COST}": 0.5,
        "failure": EVIL,
    }
    before = [{**RESULT, **odd, "question_id": f"q{i}{EVIL}", metric: 1.0} for i in range(20)]
    after = [{**result, metric: 0.0, "steps_score": 0.0} for result in before]
    paths = [folder.lines(*with_bytes(items), name=name) for name, items in (("a", before), ("b", after))]
    text = checked("compare", *paths, "--fail-on-regression")
    assert r"my_\x1b]0;" in text
    checked("report", paths[1], "--markdown", "-", "--github", "--baseline", paths[0], "--fail-on-regression")
    checked("aggregate", paths[0], "--gate", f"{template}:{metric} >= 2")
    log = folder.lines(*[response("q1")] * 3)
    checked("watch", folder.reference, log, "--until-idle", "100ms", "--baseline", paths[0])


def test_journal(folder: Folder, checked: Callable[..., str]) -> None:
    log, journal = folder.lines(response("q1")), folder.file("journal")
    command = ["evaluate", folder.reference, log, "-o", journal, "--resume"]
    run(*command)
    first = folder.read("journal")[0]
    side = (folder.path / "journal.run").read_bytes()
    for variant in [*variants(first), EVIL]:
        folder.write("journal", json.dumps(variant, ensure_ascii=False).encode() + b"\n")
        folder.write("journal.run", side)
        checked(*command)
    for place in range(0, len(side), max(1, len(side) // 20)):
        folder.write("journal.run", side[:place] + EVIL.encode() + side[place:])
        checked(*command)
    # What is said of evil names.
    checked("evaluate", folder.reference, log, "-o", folder.file(f"x{EVIL}/y"), "--resume")


def test_configuration(folder: Folder, checked: Callable[..., str]) -> None:
    log = folder.lines(response("q1"))
    given = {
        "llm": {
            "generation": {
                "provider": "openai",
                "model": "m",
                "api_key": "${NONE}",
                "parameters": {"a": "b"},
            },
            "cache": "nowhere/cache",
            "limits": {"max_concurrency": 1},
        },
        "answer_correctness": {"enabled": True},
        "custom_evaluations": [
            {"name": "n", "inputs": ["actual_answer"], "instructions": "i", "outputs": {"o": "0-9"}}
        ],
    }
    for variant in [*variants(given), EVIL, [EVIL]]:
        path = folder.write("config.json", json.dumps(variant).encode())
        checked("evaluate", folder.reference, log, "--dry-run", "--config", path)
        checked("evaluate", folder.reference, log, "--config", path, "-o", folder.file("out"))
        checked("answer-correctness", "-i", log, "-o", folder.file("out.tsv"), "--config", path)


ARGUMENTS = {
    "reference": ["evaluate", "{evil}", "{log}"],
    "responses": ["evaluate", "{reference}", "{evil}"],
    "output": ["evaluate", "{reference}", "{log}", "-o", "{folder}/no/{evil}"],
    "rejects": ["evaluate", "{reference}", "{log}", "--rejects", "{folder}/no/{evil}"],
    "aggregates": ["evaluate", "{reference}", "{log}", "--aggregates", "{evil}.json"],
    "suffix": ["evaluate", "{reference}", "{log}", "--aggregates", "{evil}"],
    "until": ["evaluate", "{reference}", "{log}", "--until", "{evil} >= 1"],
    "template": ["evaluate", "{reference}", "{log}", "--until", "{evil}:steps_score >= 1"],
    "gate": ["evaluate", "{reference}", "{log}", "-o", "{folder}/o", "--gate", "{evil} >= 1"],
    "llm": ["evaluate", "{reference}", "{log}", "--llm", "{evil}"],
    "model": ["evaluate", "{reference}", "{log}", "--llm", "openai/{evil}", "--dry-run"],
    "option": ["evaluate", "--{evil}"],
    "resume": ["evaluate", "--resume={evil}"],
    "level": ["evaluate", "{reference}", "{log}", "--level", "{evil}"],
    "choice": ["watch", "{reference}", "{log}", "--show", "{evil}"],
    "command": ["{evil}"],
    "alert": ["watch", "{reference}", "{log}", "--alert", "{evil} < 1"],
    "of_template": ["watch", "{reference}", "{log}", "--alert", "{evil}: steps_score < 1"],
    "window": ["watch", "{reference}", "{log}", "--window", "{evil}"],
    "path": ["watch", "{reference}", "{evil}", "--until-idle", "50ms"],
    "baseline": ["watch", "{reference}", "{log}", "--baseline", "{evil}"],
    "results": ["aggregate", "{evil}"],
    "reported": ["report", "{evil}", "--markdown", "-", "--github"],
    "junit": ["report", "{log}", "--junit", "{folder}/no/{evil}"],
    "candidate": ["compare", "{log}", "{evil}"],
    "table": ["answer-correctness", "-i", "{evil}", "-o", "{folder}/o"],
    "valid": ["validate", "{reference}", "{evil}"],
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("exists", [False, True])
def test_arguments_and_file_names(
    folder: Folder, capfd: pytest.CaptureFixture[str], arguments: list[str], exists: bool
) -> None:
    log = folder.lines(response("q1"))
    evil = EVIL + os.fsdecode(b"\x9b\xff")
    if exists:
        evil = folder.file(evil)
        with open(evil, "w", encoding="utf-8") as file:
            file.write("{\n")
    places = {"evil": evil, "log": log, "reference": folder.reference, "folder": str(folder.path)}
    run(*(argument.format(**places) for argument in arguments))
    text = "".join(capfd.readouterr())
    assert text.strip()
    assert not unsafe(text), ascii(text)


REPLIES: dict[str, Callable[[Request], Reply]] = {
    "reason": lambda _: completion({**claims("q", "a b", "a"), "reason": EVIL}),
    "names": lambda _: completion({EVIL: EVIL}),
    "claim": lambda _: completion(claims("q", EVIL, EVIL)),
    "text": lambda _: completion(EVIL),
    "refusal": lambda _: completion(None, refusal=EVIL),
    "ending": lambda _: completion(None, finish_reason=EVIL),
    "bad": lambda _: error(400, EVIL, code=EVIL, type=EVIL),
    "key": lambda _: error(401, EVIL),
    "missing": lambda _: error(404, EVIL),
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("command", ["evaluate", "answer-correctness"])
def test_judges_replies(
    folder: Folder, capfd: pytest.CaptureFixture[str], reply: Callable[[Request], Reply], command: str
) -> None:
    questions = [
        {**q, "reference_answer": "a b"} for template in REFERENCE for q in template["questions"][:1]
    ]
    reference = folder.write(
        "answers.json", json.dumps([{"template_id": "t", "questions": questions}]).encode()
    )
    log = folder.lines(response("q1", actual_answer="a"))
    table = folder.write("in.tsv", b"Question\tReference answer\tActual answer\nq\ta b\ta\n")
    with serving(reply) as server:
        given = config(folder.path, server, llm={"limits": {"max_attempts": 1}})
        if command == "evaluate":
            run(command, reference, log, "-o", folder.file("out"), "--config", given)
        else:
            run(command, "-i", table, "-o", folder.file("out.tsv"), "--config", given)
        assert server.counts.requests
    text = "".join(capfd.readouterr())
    assert "judge" in text
    assert not unsafe(text), ascii(text)


def sent(text: str) -> str:
    """What was sent to a terminal, without what moves its cursor and colours its text."""
    return re.sub(r"\x1b\[[\d;]*[A-Za-z]|\r", "", text)


def test_results_on_a_terminal(folder: Folder) -> None:
    """They are escaped, and still the same JSON; results in a file are as they were."""
    evil = EVIL.replace("\r", "")
    log = folder.lines(*[response("q1", actual_answer=evil + "\U0001f600")] * 2)
    shown = sent(terminal_output("evaluate", folder.reference, log, "-o", "-", stdout=True))
    assert not unsafe(shown), ascii(shown)
    results = [json.loads(line) for line in shown.splitlines() if line.startswith("{")]
    assert [result["actual_answer"] for result in results] == [evil + "\U0001f600"] * 2
    assert "\U0001f600" in shown
    run("evaluate", folder.reference, log, "-o", folder.file("out"))
    assert evil.encode()[-8:] in (folder.path / "out").read_bytes()


def test_watch_on_a_terminal(folder: Folder) -> None:
    odd = [
        {"template_id": f"t{EVIL}", "questions": [{**REFERENCE[0]["questions"][0], "id": f"q{EVIL}"}]},
        *REFERENCE[1:],
    ]
    reference = folder.write("odd.json", json.dumps(odd).encode())
    log = folder.lines(
        *with_bytes([response(f"q{EVIL}"), {"question_id": f"q{EVIL}", "error": EVIL}]), name=f"log{EVIL}"
    )
    with Session("watch", reference, log, "--until-idle", "500ms", "--alert", "steps_score<=1 over 1") as at:
        assert at.finish() == 0
    shown = sent(at.written)
    assert r"log\x1b]0;owned" in shown
    assert not unsafe(shown), ascii(shown)


def test_warnings_of_the_library_are_escaped(folder: Folder) -> None:
    """In a process of its own: here, pytest takes what is logged."""
    path = folder.file(f"log{EVIL}")
    os.mkfifo(path)
    code = f"""
import logging, sys
sys.argv[1:] = ["watch", {folder.reference!r}, {path!r}, "--until-idle", "100ms"]
from graphrag_eval_async.cli import main
try:
    main()
finally:
    logging.getLogger("graphrag_eval_async.follow").warning("%s: is\\ngone", {path!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=100, cwd=ROOT, check=False
    )
    text = done.stderr.decode()
    assert r"owned\x07" in text
    assert ": is gone" in text
    assert not unsafe(text), ascii(text)


@pytest.mark.parametrize("command", ["evaluate", "watch", "aggregate", "compare", "report"])
def test_streams_without_an_encoding(folder: Folder, command: str) -> None:
    log = folder.lines(response("q1"))
    results = folder.lines(RESULT, name="results")
    arguments = {
        "evaluate": [folder.reference, log, "-o", folder.file("out")],
        "watch": [folder.reference, log, "--until-idle", "50ms"],
        "aggregate": [results],
        "compare": [results, results],
        "report": [results],
    }[command]
    with redirect_stderr(io.StringIO()) as err, redirect_stdout(io.StringIO()) as out:
        assert run(command, *arguments) == 0
        assert run(command, "nowhere", "nowhere") == 2
    assert "steps" in out.getvalue() + err.getvalue()
    assert "nowhere" in err.getvalue()


def test_every_character() -> None:
    """Whatever a terminal may obey or not show is escaped, and what it shows is left."""
    for code in [*range(0x20000), *range(0xE0000, 0xE0200), sys.maxunicode]:
        c = chr(code)
        if escape(c) == c:
            assert c == "\n" or not unsafe(c), hex(code)
            assert not (unicodedata.category(c) == "Zs" and c != " "), hex(code)
        else:
            assert c in INVISIBLE or unicodedata.category(c)[0] in "CZ", hex(code)
            assert escape(c).isascii()
            assert json.loads(f'"{escape_json(c)}"') == c
    assert one_line("a\n\t b\x1b") == r"a b\x1b"
