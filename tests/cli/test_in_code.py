"""Metrics in code on the command line."""

from __future__ import annotations

import sys

import pytest

from tests.cli.support import Folder, failed, response, run

MODULE = """
from graphrag_eval_async import metric

@metric(range=(0, 1))
def brevity(question, response, result):
    return 1 / len(response["actual_answer"].split())

def sizes(question, response, result):
    return {"steps": len(response["actual_steps"])}
"""
CONFIG = (
    "custom_metrics: {brevity: my_metrics:brevity, sizes: my_metrics:sizes}\nprimary: "
    "[sizes_steps]\n"
)


def evaluate(folder: Folder, *more: str, config: str = CONFIG) -> int:
    folder.write("my_metrics.py", MODULE.encode())
    folder.write("exits.py", b"raise SystemExit(0)")
    responses = folder.lines(
        response("q1", actual_answer="red or blue"), response("q2"), failed("q3")
    )
    written = folder.write("config.yaml", config.encode())
    output = () if "--dry-run" in more else ("-o", folder.file("results.jsonl"))
    return run("evaluate", folder.reference, responses, "--config", written, *output, *more)


def test_a_configuration_names_them(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.path)
    # As of a console script: without the working directory.
    monkeypatch.setattr("sys.path", [*sys.path])
    page = folder.file("page.html")
    gates = ("--gate", "brevity >= 0.5", "--gate", "sizes_steps < 2", "--report", page)
    assert evaluate(folder, *gates) == 1
    out, err = capfd.readouterr()
    assert "brevity >= 0.5: the mean is 0.333" in err
    assert "sizes" in out
    assert "first error of brevity: q2: KeyError: " in out + err
    assert "KeyError: " in (folder.path / "page.html").read_text()
    results = folder.file("results.jsonl")
    assert run("aggregate", results, "--gate", "brevity >= 0.9") == 1
    first = folder.read("results.jsonl")
    assert evaluate(folder, "--jobs", "2") == 0
    assert folder.read("results.jsonl") == first
    config = folder.write("primary.yaml", b"custom_metrics: {a: nowhere:a}\nprimary: [sizes_steps]")
    other = folder.lines(*({**each, "sizes_steps": 9, "brevity": 1} for each in first), name="b")
    # Primary ones come first.
    for more, worst in (
        ((), "brevity"),
        (("--config", config), "sizes_steps"),
    ):
        assert run("compare", other, results, *more, "--worst", "1") == 0
        assert capfd.readouterr().out.partition("got worse")[2].split()[7] == worst
    assert evaluate(folder, "--dry-run", "--gate", "brevity >= 0.5") == 0
    assert "failed" not in capfd.readouterr().err


def test_a_module_beside_the_configuration(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_metrics", raising=False)
    assert evaluate(folder) == 0


@pytest.mark.parametrize(
    ("options", "config", "told"),
    [
        pytest.param(
            (),
            "custom_metrics: {a: my_metrics:no}",
            "config.yaml:\n  custom_metrics.a: cannot import",
            id="no such function",
        ),
        pytest.param(
            (),
            "custom_metrics: {a: exits:f}",
            "custom_metrics.a: cannot import 'exits:f': SystemExit: 0",
            id="module that exits",
        ),
        pytest.param(
            (),
            f"{CONFIG[:-13]}brevty]",
            "primary[0]: 'brevty' is no metric; did you mean brevity?",
            id="misspelt primary metric",
        ),
        pytest.param(
            ("--gate", "brevty > 0.5"),
            CONFIG,
            "no metric 'brevty'; did you mean brevity?",
            id="misspelt gate",
        ),
        pytest.param(
            ("--gate", "brevity > 1.5"), CONFIG, "brevity is from 0 to 1", id="gate out of range"
        ),
        pytest.param(
            ("--until", "sizes >= 0.5"),
            CONFIG,
            "metrics declared range=(0, 1), not 'sizes'",
            id="condition without a range",
        ),
    ],
)
def test_mistakes(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...], config: str, told: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder.path)
    monkeypatch.syspath_prepend(folder.path)
    assert evaluate(folder, *options, config=config) == 2
    assert told in capfd.readouterr().err
