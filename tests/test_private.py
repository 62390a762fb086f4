"""Tests look at the package through its public surface."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = "graphrag_eval_async"
TESTS = Path(__file__).parent

PATCHES = {
    "steps.comparators.COMPARATORS": (
        "the table to which the page for contributors adds a comparator"
    ),
    "helpers.connections.monotonic": "the clock, since a warning a minute would take minutes",
    "monitor.facts.time": "the clock, since silence of logs would take minutes",
    "reports.timeline.time": "the clock, since gaps between results would take minutes",
    "reports.history.time": "the clock, since a fall of scores would take minutes",
    "reports.history.History.add": "moves that clock by a result",
}
"""What tests replace in the package, since no option and no input of a fair size brings it
about.
"""


PATCH = re.compile(r'\b(?:setattr|setitem|delattr|object|patch)\(\s*"?([\w.]+)"?(?:,\s*"(\w+)")?')


def imported(text: str) -> dict[str, str]:
    """The names that a module imports from the package, with what they stand for."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return {PACKAGE: PACKAGE} | {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in nodes
        if f"{node.module}.".startswith(f"{PACKAGE}.")
        for alias in node.names
    }


def test_tests_use_the_public_surface() -> None:
    patched = set()
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text()
        known = imported(text)
        uses = [*known.values(), *re.findall(rf"\b(?:{'|'.join(known)})\.[\w.]+", text)]
        assert not [use for use in uses if re.search(r"\._(?!_)", use)], (
            f"{path} uses what is private"
        )
        for place, attribute in PATCH.findall(text):
            owner, dot, rest = place.partition(".")
            if owner in known:
                name = f"{known[owner]}{dot}{rest}.{attribute}".removesuffix(".")
                patched.add(name.removeprefix(f"{PACKAGE}."))
    assert patched == {*PATCHES}
