"""Calls of `watch` that end by themselves, and the facts that it prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cli.support import failed, response

if TYPE_CHECKING:
    from tests.cli.support import Folder


RESPONSES = [response("q1"), response("q2", False), failed("q3"), response("q1", False)]
IDLE = ("--until-idle", "50ms", "--every", "1h")
"""A run that ends by itself, with facts at its end only, however slow the machine is."""


def watch(folder: Folder, *options: str, log: str = "responses.jsonl") -> list[str]:
    """Return the arguments that watch a log."""
    return ["watch", folder.reference, folder.file(log), *options]


def facts(text: str) -> list[dict[str, Any]]:
    """Return the facts of these lines of JSON."""
    return [json.loads(line) for line in text.splitlines()]


def samples(facts: dict[str, Any]) -> int:
    """Return how many responses have a result so far."""
    total: int = facts["overall"]["samples"]["total"]
    return total
