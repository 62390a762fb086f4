"""The questions that responses answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a reference set; `reference_steps` holds groups of steps, in order of execution."""

    template_id: str
    id: str
    text: str
    reference_answer: str | None
    reference_steps: list[list[dict[str, Any]]] | None
