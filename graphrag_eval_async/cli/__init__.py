"""The command line: it translates arguments, calls the public API, and renders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line on `arguments`, those of the process by default, and exit with its code."""
    try:
        from graphrag_eval_async.cli.app import run  # takes a while, in which Ctrl-C may come

        run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)
