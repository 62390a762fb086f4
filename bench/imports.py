"""How long the import takes, and whether it loads what it must not.

python -m bench.imports
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from bench.report import Row, show

ROUNDS = 9
FORBIDDEN = ["openai", "ragas", "pydantic", "rich", "typer"]
PROGRAM = f"""
import sys, time
started = time.perf_counter()
import graphrag_eval_async
print(time.perf_counter() - started, *(name for name in {FORBIDDEN} if name in sys.modules))
"""


def rows() -> list[Row]:
    """The median of a few fresh interpreters."""
    times, loaded = [], set()
    for _ in range(ROUNDS):
        output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True)
        seconds, *names = output.stdout.split()
        times.append(float(seconds))
        loaded.update(names)
    return [
        Row("import graphrag_eval_async", f"{statistics.median(times) * 1000:.0f} ms", "under 100 ms"),
        Row(f"of {', '.join(FORBIDDEN)} it loads", ", ".join(sorted(loaded)) or "none", "none"),
    ]


if __name__ == "__main__":
    show(rows())
