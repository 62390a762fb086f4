"""``plot``."""

from __future__ import annotations

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


def test_two_runs_are_paired(folder: Folder) -> None:
    a, b = lines(folder, "a", [0.5] * 9 + [1.0] * 9), lines(folder, "b", [0.5] * 12 + [1.0] * 6)
    assert run("plot", a, b, "-o", folder.file("one.svg")) == 0
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


def test_usage(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    path = lines(folder, "a", [0.0, 1.0])
    for options, told in (
        ("-o page.txt", "expected a name that ends in .svg"),
        ("-o p.svg --metric tokens", ""),
    ):
        assert run("plot", path, *options.split()) == 2
        assert told in capfd.readouterr().err
