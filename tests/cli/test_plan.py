"""``plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.support import Folder, run

if TYPE_CHECKING:
    import pytest


def lines(folder: Folder, name: str, values: list[float], repeats: int = 1) -> str:
    return folder.lines(
        *[
            {"template_id": "t", "question_id": f"q{i}", "status": "success", "steps_score": value}
            for i, value in enumerate(values)
            for _ in range(repeats)
        ],
        name=name,
    )


def test_one_run(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--detect", "0.1", lines(folder, "a", [0.0, 1.0] * 10)) == 0
    out, err = capfd.readouterr()
    assert out.startswith("steps_score: standard deviation 0.513 (20 questions).\nAssumed: ")
    assert "ask both agents the same 265 questions (530 responses)" in " ".join(out.split())
    assert "no question was asked twice" in out
    assert max(map(len, out.splitlines())) <= 80
    assert not err


def test_two_runs_with_repeats(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    a = lines(folder, "a", [0.0, 1.0, 0.5, 0.75] * 5, repeats=2)
    b = lines(folder, "b", [0.0, 0.5, 0.5, 1.0] * 5, repeats=2)
    assert run("plan", "--detect", "0.05", a, b, "--level", "0.9") == 0
    out, _ = capfd.readouterr()
    assert "Assumed" not in out
    assert [line.split()[0] for line in out.splitlines() if line[:1].isdigit()] == ["1", "2", "3", "5", "10"]


def test_a_given_standard_deviation(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--detect", "0.1", "--sd", "0.5") == 0
    assert "the same 241 questions (482 responses)" in " ".join(capfd.readouterr().out.split())
