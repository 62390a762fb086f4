"""``grafana``: a dashboard for Grafana."""

import sys
from dataclasses import dataclass
from importlib.resources import files
from typing import ClassVar

from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.text import tell


@dataclass(frozen=True, kw_only=True)
class Grafana:
    """Print a Grafana dashboard for watch --metrics.

    It is JSON to import in Grafana.
    """

    example: ClassVar = "grafana > dashboard.json"

    def run(self, interrupts: Interrupts) -> Exit:  # noqa: ARG002
        dashboard = files("graphrag_eval_async.monitor") / "grafana.json"
        tell(sys.stdout, dashboard.read_text(encoding="utf-8").removesuffix("\n"))
        return Exit.OK
