"""Responses for the benchmarks, made from the examples or from the folder in `GRAPHRAG_EVAL_GOLDEN`."""

from __future__ import annotations

import json
import os
from itertools import count, cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("GRAPHRAG_EVAL_GOLDEN", ROOT / "examples"))
REFERENCE = FOLDER / "reference.yaml"


def responses(number: int) -> Iterator[bytes]:
    """So many JSON lines; each with ids and outputs of its own, which score as the originals do."""
    originals = [json.loads(line) for line in (FOLDER / "responses.jsonl").read_text().splitlines()]
    numbers = count()
    for original in islice(cycle(originals), number):
        steps = [_renumbered(step, next(numbers)) for step in original.get("actual_steps", [])]
        response = {**original, "id": f"response-{next(numbers)}", "actual_steps": steps}
        yield json.dumps(response).encode() + b"\n"


def _renumbered(step: dict[str, Any], number: int) -> dict[str, Any]:
    step = {**step, "id": f"call_{number}"}
    if '"head"' in step.get("output", ""):
        output = json.loads(step["output"])
        output["head"]["link"] = [f"urn:example:{number}"]
        step["output"] = json.dumps(output, indent=2)
    return step
