"""``schema`` and ``grafana``: print files for other programs."""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.reference.schemas import json_schema
from graphrag_eval_async.text import tell

if TYPE_CHECKING:
    from graphrag_eval_async.cli.options import Given


def run(given: Given, _interrupts: Interrupts) -> Exit:
    tell(sys.stdout, json.dumps(json_schema(given.name), indent=2))
    return Exit.OK


def grafana(_given: Given, _interrupts: Interrupts) -> Exit:
    dashboard = files("graphrag_eval_async.monitor") / "grafana.json"
    tell(sys.stdout, dashboard.read_text(encoding="utf-8").removesuffix("\n"))
    return Exit.OK
