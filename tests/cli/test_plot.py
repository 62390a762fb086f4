"""``plot``."""

from __future__ import annotations

import sys
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.cli.support import Folder, run

pytest.importorskip("matplotlib", reason="needs the extra plot")


def lines(folder: Folder, name: str, scores: list[float], template: str = "t") -> str:
    return folder.lines(
        *[
            {"template_id": f"{template}{i % 3}", "question_id": f"q{i}", "steps_score": score}
            for i, score in enumerate(scores)
        ],
        name=name,
    )


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_formats(folder: Folder, capfd: pytest.CaptureFixture[str], ending: str) -> None:
    page = folder.file(f"page.{ending}")
    assert run("plot", lines(folder, "a", [0.5, 1.0, 0.0] * 20), "-o", page) == 0
    assert capfd.readouterr().out == f"wrote {page}\n"
    begins = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    assert (folder.path / f"page.{ending}").read_bytes().startswith(begins[ending])


def test_two_runs_are_paired(folder: Folder) -> None:
    a, b = lines(folder, "a", [0.5] * 9 + [1.0] * 9), lines(folder, "b", [0.5] * 12 + [1.0] * 6)
    for name in ("one.svg", "two.svg"):
        assert run("plot", a, b, "-o", folder.file(name)) == 0
    assert (folder.path / "one.svg").read_bytes() == (folder.path / "two.svg").read_bytes()
    groups = [each.get("id", "") for each in ET.parse(folder.path / "one.svg").getroot().iter()]  # noqa: S314
    assert sum(each.startswith("axes_") for each in groups) == 3


def test_names_are_only_text(folder: Folder) -> None:
    """Neither markup nor formulas, and no letter that the font lacks ends it."""
    evil = lines(folder, "$x_{$.jsonl", [0.0, 1.0, 0.5], "<script>$\\frac{$\x1b[2J\u4e2d")
    assert run("plot", evil, evil, "-o", folder.file("page.svg")) == 0
    text = (folder.path / "page.svg").read_text()
    ET.fromstring(text)  # noqa: S314
    assert "<script" not in text
    assert "\x1b" not in text


def test_scores_that_are_not_from_0_to_1(folder: Folder) -> None:
    judge: Any = {"outputs": ["stars"]}
    path = folder.lines(
        *[{"template_id": "t", "question_id": f"q{i}", "judge": judge, "stars": i} for i in range(5)],
        name="a",
    )
    assert run("plot", path, "--metric", "stars", "-o", folder.file("page.svg")) == 0


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["-o", "page.txt"], "expected a name that ends in .svg, .png, .pdf"),
        ([], "--output"),
        (["-o", "page.svg", "--metric", "elapsed_sec"], "is no score"),
        (["-o", "page.svg", "--metric", "step_score"], "did you mean steps_score"),
    ],
)
def test_wrong_usage(folder: Folder, capfd: pytest.CaptureFixture[str], more: list[str], told: str) -> None:
    path = lines(folder, "a", [0.5, 1.0])
    assert run("plot", path, *more) == 2
    assert told in " ".join(capfd.readouterr().err.split())
    assert run("plot", path, path, path, "-o", folder.file("page.svg")) == 2


def test_without_matplotlib(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run("plot", lines(folder, "a", [0.5, 1.0]), "-o", folder.file("page.svg")) == 2
    assert "pip install 'graphrag-eval-async[plot]'" in capfd.readouterr().err
