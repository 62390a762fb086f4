"""README's commands and snippets do what README says; so do the snippets of the other pages."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from graphrag_eval_async.config import load_config
from tests.cli.judged import KEY, serving

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {"README.md": README, **{path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}}
GO_ON = {"traces.md"}
"""Pages whose snippets go on from one another."""


def snippets(name: str) -> list[str]:
    found = re.findall(r"^```python\n(.*?)^```$", PAGES[name], re.MULTILINE | re.DOTALL)
    return ["\n".join(found)] if name in GO_ON else found


PYTHON = {f"{name}-{number}": snippet for name in PAGES for number, snippet in enumerate(snippets(name))}
CONSOLE = [
    line.removeprefix("$ ")
    for block in re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
# The two that install are run, word for word, by .ci/run; here only what follows the installation.
TEXT = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
YAML = re.findall(r"^```yaml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PROGRAMS = {"graphrag-eval-async": "main", "answer-correctness": "answer_correctness"}
COMMANDS = [command.removeprefix("pip install . && ") for command in CONSOLE if "pytest" not in command]


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
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("snippet", PYTHON.values(), ids=PYTHON)
def test_snippet_runs(snippet: str, folder: Path) -> None:
    _run([sys.executable, "-W", "error", "-c", snippet], folder)


@pytest.mark.ragas
def test_commands_run_one_after_the_other(folder: Path) -> None:
    assert len(COMMANDS) >= 5
    with serving() as server:
        where = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY}
        printed = _run(["bash", "-euo", "pipefail", "-c", "\n".join(COMMANDS[1:])], folder, **where)
    assert server.counts.requests > 50
    shown = [block for block in TEXT if block.startswith(("decided after", "overall"))]
    assert len(shown) == 2
    for line in "".join(shown).splitlines():
        assert line == "..." or line in printed.splitlines()
    with (folder / "correctness.tsv").open(newline="") as file:
        assert [row[:3] for row in csv.reader(file, delimiter="\t")][1:] == [["4", "6", "3"], ["1", "3", "0"]]


@pytest.mark.parametrize("settings", YAML, ids=range(len(YAML)))
def test_configuration_loads(settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MY_KEY", "AZURE_KEY"):
        monkeypatch.setenv(name, KEY)
    path = tmp_path / "eval.yaml"
    path.write_text(settings)
    config = load_config(path)
    assert config.llm is not None
    assert config.llm.generation is not None


def test_first_command_prints_the_table_shown(folder: Path) -> None:
    printed = _run(["bash", "-c", COMMANDS[0]], folder)
    assert [line.rstrip() for line in printed.strip("\n").splitlines()] == TEXT[0].splitlines()
    assert len((folder / "results.jsonl").read_text().splitlines()) == 8


def test_installing_commands_are_the_two_that_ci_runs() -> None:
    assert [command for command in CONSOLE if "pip install" in command] == CONSOLE[:2]
