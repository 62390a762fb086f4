"""Writes logs as badly as writers do: in pieces, rotated, deleted, recreated and, if asked for, truncated.

python -m tests.sources.log_writer FOLDER SEED LINES TRUNCATE LOG...

It prints one JSON value a line: what it wrote so far, when it waits until that was read, before it deletes a
file, and at last once more; by file, how many lines, and whether it was truncated after them.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

KEPT = 3
"""Rotated files."""


class Log:
    """A log, and how it is misused."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self.path = path
        self.writer = writer
        self.rest = b""
        self.create()

    def create(self) -> None:
        self.handle = self.path.open("ab", buffering=0)
        self.begin()

    def begin(self) -> None:
        """What is written from now on is a file of its own."""
        self.file = len(self.writer.files)
        self.writer.files.append([0, False])
        self.rest = b""

    def line(self) -> bytes:
        count = self.writer.files[self.file]
        padding = self.writer.random.choice(["", "é\u2028", "\U0001f600" * 40])
        data = json.dumps({"file": self.file, "line": count[0], "padding": padding}, ensure_ascii=False)
        count[0] += 1
        self.writer.left -= 1
        return data.encode() + b"\n"

    def write(self) -> None:
        """A piece of any size, cut anywhere."""
        size = self.writer.random.choice([1, 10, 50, 300, 2000])
        while len(self.rest) < size:
            self.rest += self.line()
        self.handle.write(self.rest[:size])
        self.rest = self.rest[size:]

    def finish(self) -> None:
        self.handle.write(self.rest)
        self.rest = b""

    def rotate(self) -> None:
        """The rest of a line, and more, come late."""
        for number in range(KEPT, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            if older.exists():
                if number == KEPT:
                    self.writer.wait()  # It is overwritten.
                older.rename(self.path.with_name(f"{self.path.name}.{number + 1}"))
        self.path.rename(self.path.with_name(f"{self.path.name}.1"))
        old, rest = self.handle, self.rest
        late = self.line() if self.writer.random.random() < 0.5 else b""
        self.create()
        if self.writer.random.random() < 0.5:
            self.write()
            self.writer.pause()
        old.write(rest + late)
        old.close()

    def delete(self) -> None:
        self.finish()
        self.writer.wait()
        self.path.unlink()
        self.handle.close()
        self.writer.pause()
        self.create()

    def truncate(self) -> None:
        """Of the lines begun, the last may not be finished."""
        count = self.writer.files[self.file]
        count[0] -= self.rest.count(b"\n")
        count[1] = True
        self.handle.truncate(0)
        self.begin()


class Writer:
    """Uses several logs at once."""

    def __init__(self, folder: Path, seed: int, lines: int, *, truncate: bool, names: list[str]) -> None:
        self.random = random.Random(seed)
        self.left = lines
        self.truncate = truncate
        self.files: list[list[int | bool]] = []
        self.logs = [Log(folder / name, self) for name in names]

    def run(self) -> None:
        while self.left > 0:
            log = self.random.choice(self.logs)
            choice = self.random.random()
            if choice < 0.02:
                for _ in range(self.random.randint(1, 3)):
                    log.rotate()
            elif choice < 0.025:
                log.delete()
            elif choice < 0.03 and self.truncate:
                log.truncate()
            elif choice < 0.1:
                self.pause()
            else:
                log.write()
        self.tell(is_last=True)

    def tell(self, *, is_last: bool) -> None:
        for log in self.logs:
            log.finish()
        sys.stdout.write(json.dumps([is_last, self.files]) + "\n")
        sys.stdout.flush()

    def pause(self) -> None:
        time.sleep(self.random.random() * 0.01)

    def wait(self) -> None:
        """Until all was read that was not truncated."""
        self.tell(is_last=False)
        sys.stdin.readline()


if __name__ == "__main__":
    folder, seed, lines, truncate, *names = sys.argv[1:]
    Writer(Path(folder), int(seed), int(lines), truncate=truncate == "1", names=names).run()
