"""The command line: translates arguments, calls the public API, and renders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["answer_correctness", "main"]

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line on `arguments`, those of the process by default, and exit with its
    code.
    """
    if [*(sys.argv[1:] if arguments is None else arguments)] == ["--version"]:
        from graphrag_eval_async.helpers.text import tell
        from graphrag_eval_async.version import version

        tell(sys.stdout, f"graphrag-eval-async {version()}")
        sys.exit(0)
    code = INTERRUPTED
    try:
        # Imports take a while, in which Ctrl-C may come.
        from graphrag_eval_async.cli.exits import Interrupts

        interrupts = Interrupts()
        try:
            with interrupts:
                from graphrag_eval_async.cli.app import run

                run(arguments, interrupts)
        finally:
            code = interrupts.code or code
    except KeyboardInterrupt:
        sys.exit(code)


def answer_correctness() -> NoReturn:
    """Run the command `answer-correctness` on the arguments of the process."""
    main(["answer-correctness", *sys.argv[1:]])
