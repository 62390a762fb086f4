"""How long the import takes, and whether it loads what it must not.

python -m bench.imports
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from bench.report import Row, show

ROUNDS = 9
FORBIDDEN = ["openai", "ragas", "pydantic", "rich", "typer"]
FLOOR = "asyncio, orjson, msgspec, yaml, anyio"
PROGRAM = f"""
import sys, time
started = time.process_time()
import {{imported}}
{{used}}
print(time.process_time() - started, *(name for name in {FORBIDDEN} if name in sys.modules))
"""
PACKAGE = "graphrag_eval_async"


def seconds(imported: str, used: str = "") -> tuple[float, set[str]]:
    """The median of a few fresh interpreters, in CPU time, and what was loaded that must not be.

    They may use compiled modules, whatever the environment says: compiling them takes longer than the import.
    """
    times, loaded = [], set()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    program = PROGRAM.format(imported=imported, used=used)
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", program]
        output = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
        taken, *names = output.stdout.split()
        times.append(float(taken))
        loaded.update(names)
    return statistics.median(times), loaded


def rows() -> list[Row]:
    """Both against what the package cannot do without."""
    floor, _ = seconds(FLOOR)
    bare, _ = seconds(PACKAGE)
    used, loaded = seconds(PACKAGE, f"{PACKAGE}.evaluate_stream")
    return [
        Row(f"import {PACKAGE}, against {FLOOR}", f"{bare / floor:.2f}x", ""),
        Row(
            f"the same, and evaluate_stream ({used * 1000:.0f} ms)", f"{used / floor:.2f}x", "1.4x, aim 1.25x"
        ),
        Row(f"of {', '.join(FORBIDDEN)} it loads", ", ".join(sorted(loaded)) or "none", "none"),
    ]


if __name__ == "__main__":
    show(rows())
