from __future__ import annotations

import runpy
import shlex
from typing import TYPE_CHECKING

from graphrag_eval_async import load_config
from tests.cli.support import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_written_folder_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", "a/new folder") == 0
    out, err = capfd.readouterr()
    assert not err
    assert run(*shlex.split(out.splitlines()[-1])[1:]) == 0
    folder = tmp_path / "a" / "new folder"
    assert run("validate", "--strict", str(folder / "reference.yaml"), str(folder / "responses.jsonl")) == 0
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert [*load_config(folder / "judges.yaml").metrics] == ["answer_correctness"]
    capfd.readouterr()
    runpy.run_path(str(folder / "harness.py"), run_name="__main__")
    assert capfd.readouterr() == ("films-of-varda success 0.0 no_steps\n", "")


def test_it_overwrites_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "judges.yaml").symlink_to(tmp_path / "nothing")
    assert run("init", str(tmp_path)) == 2
    assert "has judges.yaml already; give another folder" in capfd.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["judges.yaml"]
    (tmp_path / "file").write_text("")
    assert run("init", str(tmp_path / "file")) == 2
    assert "cannot be written: File exists" in capfd.readouterr().err
