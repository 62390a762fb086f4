"""An output of Cypher that was read.

This is apart from the modules that read it, which take long to import.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphrag_eval_async.steps.cypher.detail import OutputTraits
    from graphrag_eval_async.steps.cypher.values import CypherTable


@dataclass(frozen=True, slots=True)
class CypherOutput:
    """An output that was read: its table, and the traits of the table."""

    table: CypherTable
    traits: OutputTraits
