"""``schema``: JSON Schemas of files."""

import json
import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import typer

from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.schemas import json_schema
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
