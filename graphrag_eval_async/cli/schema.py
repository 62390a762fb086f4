"""``schema`` and ``grafana``: print files for other programs."""

import json
import sys
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, ClassVar, Literal

import typer

from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.reference.schemas import json_schema
from graphrag_eval_async.text import tell


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Print a JSON Schema, for editors and other programs."""

    example: ClassVar = "schema reference > reference.schema.json"

    name: Annotated[
        Literal["reference", "responses", "results", "aggregates", "configuration"],
        typer.Argument(metavar="NAME", help="reference, responses, results, aggregates or configuration."),
    ]

    def run(self, interrupts: Interrupts) -> Exit:  # noqa: ARG002
        tell(sys.stdout, json.dumps(json_schema(self.name), indent=2))
        return Exit.OK


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
