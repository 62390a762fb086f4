"""Writes logs as badly as writers do: in pieces, rotated, deleted and recreated.

python -m tests.sources.log_writer FOLDER SEED LINES LOG...

It prints how many lines it wrote to each file so far, as a list of JSON: when it waits until they were read,
before it deletes a file, and at the end.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random


def main(folder: Path, random: Random, left: int, names: list[str]) -> None:
    counts: list[int] = []
    logs = {}  # Handles, numbers of files, and rests of lines that are half written.

    def line(number: int) -> bytes:
        counts[number] += 1
        padding = random.choice(["", "é\u2028", "\U0001f600" * 40])
        text = json.dumps({"file": number, "line": counts[number] - 1, "padding": padding})
        return text.encode() + b"\n"

    def create(path: Path) -> None:
        counts.append(0)
        logs[path] = path.open("ab", buffering=0), len(counts) - 1, b""

    def wait() -> None:
        for path, (handle, number, rest) in logs.items():
            handle.write(rest)
            logs[path] = handle, number, b""
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()
        sys.stdin.readline()

    def rotate(path: Path) -> None:
        handle, number, rest = logs[path]
        path.rename(path.with_name(f"{path.name}.{len(counts)}"))
        create(path)
        time.sleep(random.random() * 0.01)
        handle.write(rest + line(number))  # It comes late.
        handle.close()

    def write(path: Path, size: int) -> None:
        handle, number, rest = logs[path]
        while len(rest) < size:
            rest += line(number)
        handle.write(rest[:size])
        logs[path] = handle, number, rest[size:]

    for name in names:
        create(folder / name)
    while sum(counts) < left:
        path = random.choice([*logs])
        choice = random.random()
        if choice < 0.005:
            wait()
            path.unlink()
            logs[path][0].close()
            create(path)
        elif choice < 0.03:
            rotate(path)
        elif choice < 0.1:
            time.sleep(random.random() * 0.01)
        else:
            write(path, random.choice([1, 10, 50, 300, 2000]))
    wait()


if __name__ == "__main__":
    _, folder, seed, lines, *names = sys.argv
    main(Path(folder), Random(int(seed)), int(lines), names)
