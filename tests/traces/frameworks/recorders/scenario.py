"""What the scripted models of all recorders do, and the form of a recording."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any, NamedTuple

from tests.traces.scenario import STEPS

CALLS = [(step["id"], step["name"], step["args"]) for step in STEPS]
"""Id, name and arguments of the calls that the model makes in its first turn."""

USAGE = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}


class Recording(NamedTuple):
    """One recorded history."""

    framework: str  # Name of the package and its version.
    format: str  # As `detect` names it, or "otlp" for spans.
    form: str  # Which of the forms of that framework.
    history: Any  # JSON; of spans, lines of OTLP.


def framework(package: str) -> str:
    """Return the name of a package with its version."""
    return f"{package} {version(package)}"


def plain(value: Any) -> Any:
    """Return a value as JSON would hold it."""
    return json.loads(json.dumps(value, default=_plain_object))


def _plain_object(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return str(value)
