"""Shell commands of pages and examples. Bash does all of them but our programs, which run in
this process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import chdir, contextmanager
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.cli import answer_correctness, main
from tests.support.deadlines import PROCESS_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAMS = {"graphrag-eval-async": main, "answer-correctness": answer_correctness}

NOTE = """#!/bin/bash
call=$(mktemp -d "$CALLS/XXXXXX")
[[ " $* " != *" - "* ]] || cat > "$call/stdin"
printf '%s\\0' "$(basename "$0")" "$@" > "$call/arguments"
"""
"""Stands for our programs: notes what it is given."""


class Shell:
    """Runs commands in a folder, where `bin` holds what stands for our programs."""

    def __init__(
        self, folder: Path, capfd: pytest.CaptureFixture[str], /, **environment: str
    ) -> None:
        self._folder = folder
        self._capfd = capfd
        programs, self._calls = folder / "bin", folder / "calls"
        programs.mkdir()
        self._calls.mkdir()
        for name in PROGRAMS:
            (programs / name).write_text(NOTE)
            (programs / name).chmod(0o755)
        path = {"PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(self._calls)}
        self._environment = {**os.environ, **path, **environment}

    def run(self, *command: str, **environment: str) -> str:
        """Run a command, and then each call of our programs in it; return what they print."""
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_SECONDS,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout + "".join(map(self._call, sorted(self._calls.iterdir())))

    def line(self, line: str) -> str:
        """Run a line of bash, in which our programs come last; their output goes where the line
        leads it.
        """
        printed = self.run("bash", "-euo", "pipefail", "-c", line)
        if found := re.search(r" > ([\w.]+)$", line):
            with (self._folder / found[1]).open("a") as file:
                file.write(printed)
            return ""
        return printed

    def _call(self, call: Path) -> str:
        program, *arguments = (call / "arguments").read_text().split("\0")[:-1]
        stdin = call / "stdin"
        with (
            chdir(self._folder),
            pytest.MonkeyPatch.context() as patch,
            reading(stdin if stdin.exists() else None),
        ):
            patch.setattr(sys, "argv", [program, *arguments])
            with pytest.raises(SystemExit) as end:
                PROGRAMS[program]()
        (call / "arguments").unlink()
        stdin.unlink(missing_ok=True)
        call.rmdir()
        out, err = self._capfd.readouterr()
        assert end.value.code == 0, err
        assert "Traceback" not in err
        return out


@contextmanager
def reading(path: Path | None) -> Iterator[None]:
    """Let standard input be a file."""
    own, new = os.dup(0), os.open(path or os.devnull, os.O_RDONLY)
    os.dup2(new, 0)
    try:
        yield
    finally:
        os.dup2(own, 0)
        os.close(own)
        os.close(new)
