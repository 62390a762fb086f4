"""``plot``."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tests.cli.support import Folder, run
from tests.support.cases import each

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


@each("ending", ["png", "txt"])
def test_formats_and_usage(folder: Folder, capfd: pytest.CaptureFixture[str], ending: str) -> None:
    """Of a score that is not from 0 to 1, too."""
    page = folder.file(f"page.{ending}")
    path = folder.lines(
        *[
            {"template_id": "t", "question_id": f"q{i}", "judge": {"outputs": ["stars"]}, "stars": i}
            for i in range(5)
        ],
        name="a",
    )
    code = run("plot", path, "--metric", "stars", "-o", page)
    out, err = capfd.readouterr()
    if ending == "txt":
        assert code == 2
        assert "expected a name that ends in .svg, .png, .pdf" in " ".join(err.split())
    else:
        assert (code, out) == (0, f"wrote {page}\n")
        begins = {"png": b"\x89PNG"}
        assert (folder.path / f"page.{ending}").read_bytes().startswith(begins[ending])
    assert run("plot", path, "--metric", "elapsed_sec", "-o", page) == 2
