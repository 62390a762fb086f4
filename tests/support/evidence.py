"""Steps of a result with tables, as reports show them."""

from __future__ import annotations

from typing import Any

import orjson


def table(names: list[str], *rows: list[Any]) -> str:
    """Return SPARQL JSON of plain literals."""
    bindings = [
        {
            name: {"type": "literal", "value": str(cell)}
            for name, cell in zip(names, row, strict=True)
        }
        for row in rows
    ]
    return orjson.dumps({"head": {"vars": names}, "results": {"bindings": bindings}}).decode()


def query(output: str, **more: Any) -> dict[str, Any]:
    """Return a step of a SPARQL query."""
    return {"name": "sparql_query", "args": {"query": "SELECT"}, "output": output, **more}


def result(expected: list[Any], actual: list[Any]) -> dict[str, Any]:
    """Return a result with these steps."""
    return {"reference_steps": expected, "actual_steps": actual}
