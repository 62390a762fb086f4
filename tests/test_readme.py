"""README's commands and snippets do what README says; so do those of the other pages."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
import yaml

from graphrag_eval_async import load_reference
from graphrag_eval_async.config import load_config
from tests.cli.judged import KEY, serving
from tests.support.deadlines import PROCESS_SECONDS
from tests.support.redis_server import redis_server

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
GO_ON = {"traces.md"}
"""Pages whose snippets go on from one another."""

FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {"graphrag-eval-async": "main", "answer-correctness": "answer_correctness"}
README_LINES = 150


def blocks(page: str, kind: str) -> list[str]:
    return [found["text"] for found in FENCE.finditer(PAGES[page]) if found["kind"] == kind]


def snippets(page: str) -> list[str]:
    found = blocks(page, "python")
    return ["\n".join(found)] if page in GO_ON else found


def commands(page: str) -> list[str]:
    lines = "".join(blocks(page, "console")).splitlines()
    assert all(line.startswith("$ ") for line in lines)
    return [line.removeprefix("$ ") for line in lines]


def shown(page: str) -> list[str]:
    """The lines that a page shows as the output of its commands: in blocks right after those of commands."""
    after = r"^```console\n[^`]*```\n\n```text\n(.*?)^```$"
    texts = re.findall(after, PAGES[page], re.MULTILINE | re.DOTALL)
    return [line for line in "".join(texts).splitlines() if line != "..."]


# The two of README that install are run, word for word, by .ci/run; here only what follows the installation.
INSTALLING = [command for command in commands("README.md") if "pip install" in command]
FIRST = INSTALLING[0].removeprefix("pip install . && ")
PYTHON = {
    f"{page}-{number}": text
    for page in PAGES
    if page != "redis.md"
    for number, text in enumerate(snippets(page))
}
YAML = {f"{page}-{number}": text for page in PAGES for number, text in enumerate(blocks(page, "yaml"))}
WORKFLOWS = [YAML.pop(key) for key in [*YAML] if "\njobs:" in YAML[key]]
"""Those of GitHub Actions."""

WITH_COMMANDS = [page for page in PAGES if page != "README.md" and commands(page)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like the checkout, and may be written to."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def _run(command: list[str], folder: Path, **variables: str) -> str:
    programs = folder / "bin"
    programs.mkdir()
    for name, function in PROGRAMS.items():
        program = programs / name
        program.write_text(
            f"#!{sys.executable}\nfrom graphrag_eval_async.cli import {function}\n{function}()\n"
        )
        program.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **variables}
    environment["OTEL_SDK_DISABLED"] = "true"  # There is no collector.
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("snippet", PYTHON.values(), ids=PYTHON)
def test_snippet_runs(snippet: str, folder: Path) -> None:
    _run([sys.executable, "-W", "error", "-c", snippet], folder)


def _run_commands(page: str, folder: Path, **variables: str) -> None:
    printed = _run(["bash", "-euo", "pipefail", "-c", "\n".join(commands(page))], folder, **variables)
    lines = [line.rstrip() for line in printed.splitlines()]
    assert [line for line in shown(page) if line.rstrip() not in lines] == []


@pytest.mark.parametrize("page", [page for page in WITH_COMMANDS if page not in ("judges.md", "redis.md")])
def test_commands_run_one_after_the_other(page: str, folder: Path) -> None:
    _run_commands(page, folder)


def test_commands_and_snippets_that_need_redis(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with redis_server(data) as server:
        python = [f"python - <<'END'\n{text}END" for text in snippets("redis.md")]
        text = "\n".join([*commands("redis.md"), *python])
        text = text.replace("redis-cli", f"redis-cli -p {server.port}")
        text = text.replace("redis://localhost", server.url).replace("python -", f"{sys.executable} -")
        printed = _run(["bash", "-euo", "pipefail", "-c", text], folder)
    assert "results: 8, rejected lines: 0" in printed
    assert "Backlog(unread=0, in_work=0, lost=0, workers=0)" in printed


@pytest.mark.ragas
def test_commands_that_need_judges(folder: Path) -> None:
    with serving() as server:
        _run_commands("judges.md", folder, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY)
    assert server.counts.requests > 50
    with (folder / "correctness.tsv").open(newline="") as file:
        assert [row[:3] for row in csv.reader(file, delimiter="\t")][1:] == [["4", "6", "3"], ["1", "3", "0"]]


@pytest.mark.parametrize("text", YAML.values(), ids=YAML)
def test_yaml_loads(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MY_KEY", "AZURE_KEY"):
        monkeypatch.setenv(name, KEY)
    path = tmp_path / "file.yaml"
    path.write_text(text)
    if isinstance(yaml.safe_load(text), list):
        assert len(load_reference(path, strict=True)) == 1
    else:
        assert load_config(path) != load_config({})


def test_the_workflow_runs(folder: Path) -> None:
    """Each command, as GitHub Actions runs it, with an agent that answers like that of the examples."""
    [workflow] = map(yaml.safe_load, WORKFLOWS)
    (folder / "reference.yaml").symlink_to(ROOT / "examples" / "reference.yaml")
    answers = ROOT / "examples" / "responses.jsonl"
    (folder / "ask_agent.py").write_text(f"print(open({str(answers)!r}).read(), end='')\n")
    steps = workflow["jobs"]["evaluation"]["steps"]
    lines = [re.sub("^python ", f"{sys.executable} ", step["run"]) for step in steps if "run" in step]
    assert lines.pop(0) == "pip install graphrag-eval-async"
    baseline = f"graphrag-eval-async evaluate reference.yaml {answers} -o baseline.jsonl"
    summary = folder / "step_summary.md"
    printed = _run(
        ["bash", "-e", "-c", "\n".join([baseline, *lines])], folder, GITHUB_STEP_SUMMARY=str(summary)
    )
    assert [line for line in printed.splitlines() if line.startswith("::notice title=")]
    assert summary.read_text().startswith("## \N{WHITE HEAVY CHECK MARK} Evaluation: gates held: 2 of 2\n")
    assert all((folder / name).stat().st_size for name in steps[-1]["with"]["path"].split())


@pytest.mark.parametrize("page", ["README.md", "inputs.md"])
def test_json_is_json(page: str) -> None:
    for text in blocks(page, "json"):
        assert "question_id" in json.loads(text)


def test_first_command_runs(folder: Path) -> None:
    assert "results: 8, rejected lines: 0" in _run(["bash", "-c", FIRST], folder)
    results = [orjson.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    assert len(results) == 8


def test_installing_commands_are_the_first_two_of_readme() -> None:
    assert len(INSTALLING) == 2
    assert commands("README.md")[:2] == INSTALLING


def test_readme_is_a_page() -> None:
    assert len(PAGES["README.md"].splitlines()) <= README_LINES
