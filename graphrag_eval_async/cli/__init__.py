"""The command line: it translates arguments, calls the public API, and renders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from graphrag_eval_async.cli.exits import Exit, Interrupts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["answer_correctness", "main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line on `arguments`, those of the process by default, and exit with its code."""
    interrupts = Interrupts()
    try:
        with interrupts:
            from graphrag_eval_async.cli.app import run  # takes a while, in which Ctrl-C may come

            run(arguments, interrupts)
    except KeyboardInterrupt:
        sys.exit(interrupts.code or Exit.INTERRUPTED)


def answer_correctness() -> NoReturn:
    """Run the command `answer-correctness` on the arguments of the process."""
    main(["answer-correctness", *sys.argv[1:]])
