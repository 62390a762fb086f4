from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.support.deadlines import PROCESS_SECONDS

PACKAGE = "graphrag_eval_async"
ROOT = Path(__file__).parents[1] / PACKAGE

# From the top to the bottom: a room imports only from rooms further down.
LEVELS = [
    {"__main__"},
    {"cli", "testing"},
    {"exporters"},
    {"monitor"},
    {"reports"},
    {"blocking", "scale"},
    {"batch"},
    {"stream"},
    {"sources", "sinks", "evaluator", "inference"},
    {"reference"},
    {"execution", "metrics"},
    {"steps", "aggregates"},
    {"judge"},
    {"config"},
    {"traces"},
    {"records"},
    {"catalogue"},
    {"helpers", "removed"},
    {"errors"},
    {"unicode", "version"},
]
RANK = {room: rank for rank, rooms in enumerate(LEVELS) for room in rooms}

# Names used in annotations only, which no type checker could do without.
TYPES_ONLY = {("errors", "records")}

LLM = {"aiohttp", "openai", "ragas", "pydantic", "langchain", "litellm", "httpx"}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


HOLDS_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def is_type_checking(node: ast.AST) -> bool:
    """Return whether a node is `if TYPE_CHECKING:`."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Name):
        return False
    return node.test.id == "TYPE_CHECKING"


def imports(tree: ast.AST, *, types_only: bool = False) -> list[tuple[str, bool]]:
    """The modules imported anywhere in a module, and whether for type checkers only."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, types_only) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [
                (name, types_only)
                for name in (names if node.module == PACKAGE else [f"{node.module}"])
            ]
        elif isinstance(node, HOLDS_STATEMENTS):
            is_guarded = types_only or is_type_checking(node)
            found += imports(node, types_only=is_guarded)
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


MODULES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def test_the_map_in_the_docs_has_all_rooms_in_this_order() -> None:
    page = ROOT.parent / "docs" / "contributing.md"
    _, _, section = page.read_text().partition("## The map\n")
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    rooms = [room for row in rows for room in re.findall("`(.+?)`", row.split("|")[1])]
    assert {*rooms} == {room_of(path) for path in MODULES} - {"__main__"}
    assert len({*rooms}) == len(rooms)
    ranks = [RANK[room] for room in rooms]
    assert ranks == sorted(ranks)


def test_imports_point_down() -> None:
    for path in MODULES:
        room = room_of(path)
        for name, types_only in imports(tree_of(path)):
            package, _, inner = name.partition(".")
            assert package not in LLM or room in {"execution", "metrics", "judge"}, path
            target = inner.split(".")[0]
            if package != PACKAGE or target == room:
                continue
            if types_only and (room, target) in TYPES_ONLY:
                continue
            assert target, f"{path}: imports the package as a whole"
            assert RANK[room] < RANK[target], (
                f"{path}: {room} imports {target}, which is not further down"
            )


def test_no_modules_import_each_other() -> None:
    """Not even by a detour, and not for type checkers either."""
    names = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path for path in MODULES
    }
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    below: dict[str, set[str]] = {}
    for name, path in names.items():
        nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom)]
        modules = {f"{node.module}.{each.name}" for node in nodes for each in node.names}
        modules |= {f"{node.module}" for node in nodes if f"{node.module}" not in {PACKAGE, name}}
        below[name] = {module for module in modules & {*names} if module != name}
        # A package imports its modules; they import each other, not the package.
        below[name] -= {module for module in below[name] if name.startswith(f"{module}.")}
    tuple(TopologicalSorter(below).static_order())  # Raises `CycleError`, which tells the circle.


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "openai, ragas, pydantic, rich, click, yaml, uvloop, hypothesis"
    rare = (
        "execution",
        "inference.comparison",
        "inference.verdicts",
        "steps.answers",
        "steps.cypher.reading",
        "steps.numbers",
        "stream.http_agent",
        "traces.format",
    )
    heavy += "".join(f", {PACKAGE}.{name}" for name in rare)
    script = f"""
import sys
import {PACKAGE}
{PACKAGE}.evaluate_stream([{{"template_id": "t", "questions": []}}], [])
print(sorted({{*"{heavy}".split(", ")}} & {{*sys.modules}}))
"""
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd=ROOT.parent,
        text=True,
        timeout=PROCESS_SECONDS,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
