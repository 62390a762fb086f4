"""README's commands and snippets do what README says; so do those of the other pages."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from graphrag_eval_async import load_reference
from graphrag_eval_async.config import load_config
from tests.cli.judged import KEY, serving
from tests.cli.support import run
from tests.support.example_server import endpoint
from tests.support.shell import Shell

ROOT = Path(__file__).parents[1]
PAGES = {
    path.name: path.read_text()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
GO_ON = {"results.md", "scoring.md"}
"""Pages whose snippets use the names of earlier ones."""

JUDGED = ("judges.md", "statistics.md")
"""Pages whose commands need a judge."""

ASKING = ("agents.md",)
"""Pages whose commands ask the example server."""

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL
)


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
    """The lines that a page shows as the output of its commands: in blocks right after those of
    commands.
    """
    return shown_after(page, "console")


def shown_after(page: str, kind: str) -> list[str]:
    """The lines in the blocks of output that come right after blocks of a kind."""
    after = rf"^```{kind}\n(?:(?!^```).)*^```\n\n```text\n(.*?)^```$"
    texts = re.findall(after, PAGES[page], re.MULTILINE | re.DOTALL)
    return [line for line in "".join(texts).splitlines() if line != "..."]


YAML = {
    f"block {number} of {page}": text
    for page in PAGES
    for number, text in enumerate(blocks(page, "yaml"), 1)
}
WORKFLOWS = {name: text for name, text in YAML.items() if "\njobs:" in text}
"""Those of GitHub Actions."""
CONFIGURATIONS = {name: text for name, text in YAML.items() if name not in WORKFLOWS}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which looks like the checkout, and may be written to."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")  # There is no collector.
    return tmp_path


@pytest.fixture
def shell(folder: Path, capfd: pytest.CaptureFixture[str]) -> Shell:
    return Shell(folder, capfd)


def run_snippets(page: str) -> None:
    for number, text in enumerate(snippets(page)):
        exec(compile(text, f"{page}-{number}", "exec"), {"__name__": "__main__"})  # noqa: S102


@pytest.mark.ragas
def test_snippets_about_ragas_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ragas", reason="needs ragas: pip install '.[ragas]'")
    check_snippets("ragas.md", folder, monkeypatch, capsys)


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page) and page != "ragas.md"])
def test_snippets_run(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_snippets(page, folder, monkeypatch, capsys)


def check_snippets(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the snippets of a page, and compare what they print with what the page shows."""
    if "films/" in "".join(snippets(page)):
        assert run("init", "films") == 0
    write_scripts(page)
    monkeypatch.syspath_prepend(folder)
    with serving() as server:  # For those that need a judge.
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        run_snippets(page)
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in shown_after(page, "python") if line not in printed] == []


def test_the_first_command_of_the_readme(shell: Shell) -> None:
    for command in commands("README.md")[0].removeprefix("pip install . && ").split(" && "):
        printed = shell.line(command)
    assert "worst questions by steps_score: films-of-tati (0.667)" in printed


def questions_about_films(text: str) -> list[Any]:
    templates = yaml.safe_load(text)
    assert [template["template_id"] for template in templates] == ["films_of_a_director"]
    return [question for template in templates for question in template["questions"]]


@pytest.mark.parametrize("page", ["README.md", "quickstart.md"])
def test_questions_are_those_that_init_writes(page: str) -> None:
    written = questions_about_films(
        (ROOT / "graphrag_eval_async/cli/films/reference.yaml").read_text()
    )
    shown = [question for text in blocks(page, "yaml") for question in questions_about_films(text)]
    assert shown
    assert all(question in written for question in shown)


def write_scripts(page: str) -> None:
    """Write the snippets that begin with the name of their file."""
    for text in blocks(page, "python"):
        if found := re.match(r"# (\w+\.py)\n", text):
            Path(found[1]).write_text(text)


def run_commands(page: str, shell: Shell) -> None:
    write_scripts(page)
    lines = [
        line.rstrip() for command in commands(page) for line in shell.line(command).splitlines()
    ]
    assert [line for line in shown(page) if line.rstrip() not in lines] == []


@pytest.mark.parametrize(
    "page",
    [
        page
        for page in PAGES
        if commands(page) and page not in {"README.md", "watch.md", *ASKING, *JUDGED}
    ],
)
def test_commands_run_one_after_the_other(page: str, shell: Shell) -> None:
    run_commands(page, shell)


@pytest.mark.parametrize("page", ASKING)
def test_commands_that_ask_the_example_server(
    page: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint() as address:
        monkeypatch.setitem(PAGES, page, PAGES[page].replace("localhost:8000", address))
        run_commands(page, shell)


def test_the_log_that_grows_is_watched(shell: Shell) -> None:
    """The log has fewer lines, which come faster; nobody presses Ctrl-C."""
    log, *watching = commands("watch.md")
    shell.line(log.replace("seq 200", "seq 10").replace("sleep 0.2", "sleep 0"))
    for command in [*watching, watching[-1]]:
        line = command.replace("--web", "--web 127.0.0.1:0") + " --until-idle 200ms"
        seen = json.loads(shell.line(line).splitlines()[-1])
        assert seen["overall"]["samples"]["total"] == 80
        assert [alert["alert"] for alert in seen["alerts"]] == re.findall(
            "--alert '(.*?)'", command
        )
    assert seen["journal"]["restored"] == 80


def test_tutorials_work_in_one_folder(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    test_the_first_command_of_the_readme(shell)
    run_snippets("README.md")
    run_commands("quickstart.md", shell)
    test_the_log_that_grows_is_watched(shell)
    for page in ("ci.md", "logs.md"):
        run_commands(page, shell)
        run_snippets(page)


@pytest.mark.ragas
@pytest.mark.parametrize("page", JUDGED)
def test_commands_that_need_judges(
    page: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        run_commands(page, shell)
    assert server.counts.requests > 0


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_yaml_loads(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MY_KEY", "AZURE_KEY", "GRAPH_TOKEN", "NEO4J_PASSWORD"):
        monkeypatch.setenv(name, KEY)
    path = tmp_path / "file.yaml"
    path.write_text(text)
    if isinstance(yaml.safe_load(text), list):
        assert len(load_reference(path, strict=True)) >= 1
    else:
        assert load_config(path) != load_config({})


def test_the_workflow_runs(folder: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command, as GitHub Actions runs it, and the report that the page shows of a worse
    agent.
    """
    [workflow] = map(yaml.safe_load, WORKFLOWS.values())
    summary = folder / "step_summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    run_commands("ci.md", shell)
    steps = workflow["jobs"]["evaluation"]["steps"]
    lines = [step["run"] for step in steps if "run" in step]
    install, ask, report = lines
    assert install.startswith("pip install ./graphrag-eval-async")
    shell.line(ask)
    shell.line(report)
    assert summary.read_text().startswith(
        "## \N{WHITE HEAVY CHECK MARK} Evaluation: 3 gates held; no difference from the baseline\n"
    )
    assert all((folder / name).stat().st_size for name in steps[-1]["with"]["path"].split())
    summary.unlink()
    script = folder / "run_agent.py"
    script.write_text(script.read_text().replace(r"urn:film:mon-oncle\n", ""))
    shell.line(ask)
    assert run(*shlex.split(report)[1:]) == 1
    [shown] = [text for text in blocks("ci.md", "text") if "failed: `" in text]
    # What the page leaves out is an ellipsis.
    first, *others = shown.split("...\n")
    page = summary.read_text()
    assert page.startswith(first)
    position = len(first)
    for part in others:
        position = page.index(part, position) + len(part)


@pytest.mark.parametrize("page", ["README.md", "inputs.md"])
def test_json_is_json(page: str) -> None:
    for text in blocks(page, "json"):
        assert "question_id" in json.loads(text)
