"""How long the import and the start of commands take, and whether the import loads what it must
not.

python -m bench.imports
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.report import Row, show

ROUNDS = 9
FORBIDDEN = ["openai", "ragas", "pydantic", "rich", "click"]
FLOOR = "asyncio, orjson, msgspec, yaml, anyio"
PROGRAM = f"""
import sys, time
started = time.process_time()
import {{imported}}
{{used}}
print(time.process_time() - started, *(name for name in {FORBIDDEN} if name in sys.modules))
"""
PACKAGE = "graphrag_eval_async"
EXAMPLES = Path(__file__).parents[1] / "examples"
COMMANDS = {
    "--version": (["--version"], "1.5x"),
    "evaluate --help": (["evaluate", "--help"], "3x"),
    "evaluate of the examples": (
        [
            "evaluate",
            str(EXAMPLES / "reference.yaml"),
            str(EXAMPLES / "responses.jsonl"),
            "-o",
            os.devnull,
        ],
        "5x",
    ),
}
"""The arguments of a command, and how long it may take, as a multiple of `python -c "import
typer"`.
"""


def seconds(imported: str, used: str = "") -> tuple[float, set[str]]:
    """The median of a few fresh interpreters, in CPU time, and what was loaded that must not be.

    They may use compiled modules, whatever the environment says: compiling them takes longer than
    the import.
    """
    times, loaded = [], set()
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    program = PROGRAM.format(imported=imported, used=used)
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", program]
        output = subprocess.run(
            command, capture_output=True, check=True, text=True, env=environment
        )
        taken, *names = output.stdout.split()
        times.append(float(taken))
        loaded.update(names)
    return statistics.median(times), loaded


def cpu(*arguments: str) -> float:
    """The median CPU time of processes of Python with these arguments, the start of Python
    included.
    """
    with tempfile.TemporaryDirectory() as compiled:
        environment = {
            key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
        }
        environment["PYTHONPYCACHEPREFIX"] = compiled
        times = []
        for _ in range(ROUNDS + 1):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, *arguments]
            subprocess.run(command, capture_output=True, check=True, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times[1:])  # The first compiles.


def starts() -> list[Row]:
    """How long commands take, against the import of a framework for command lines."""
    floor = cpu("-c", "import typer")
    return [
        Row(
            f"{name}, against import typer ({floor * 1000:.0f} ms)",
            f"{cpu('-m', PACKAGE, *given) / floor:.1f}x",
            limit,
        )
        for name, (given, limit) in COMMANDS.items()
    ]


def rows() -> list[Row]:
    """Both against what the package cannot do without."""
    floor, _ = seconds(FLOOR)
    bare, _ = seconds(PACKAGE)
    used, loaded = seconds(PACKAGE, f"{PACKAGE}.evaluate_stream")
    return [
        Row(f"import {PACKAGE}, against {FLOOR}", f"{bare / floor:.2f}x", ""),
        Row(
            f"the same, and evaluate_stream ({used * 1000:.0f} ms)",
            f"{used / floor:.2f}x",
            "1.4x, aim 1.25x",
        ),
        Row(f"of {', '.join(FORBIDDEN)} it loads", ", ".join(sorted(loaded)) or "none", "none"),
    ]


if __name__ == "__main__":
    show([*rows(), *starts()])
