"""Which reference steps are compared as results of Cypher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.media_types import CSV, CYPHER_RESULTS, TSV, plain_type
from graphrag_eval_async.catalogue.reference_steps import COMPARE, REFERENCE_QUERY, TABLE
from graphrag_eval_async.records.aliases import CYPHER_STEPS, plain_name
from graphrag_eval_async.steps.tokens import FORMS, form_of

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES_BY_NAME = (None, "application/json", CSV, TSV)
"""Media types with which the name of a step decides that it is of Cypher; None if it has none."""


def compares_as_cypher(step: Mapping[str, Any]) -> bool:
    """Return whether a reference step is compared as a result of Cypher.

    This is so in two cases:

    - Its media type is that of Cypher results, or its key `compare` asks for a table.
    - It is named like a step that runs Cypher, its query is not in SPARQL, and its media type is
      one that results of Cypher may have, or absent.
    """
    media_type = plain_type(step.get("output_media_type"))
    if media_type == CYPHER_RESULTS or step.get(COMPARE) == TABLE:
        return True

    # Without these marks, the name decides.
    name = step.get("name")
    if not isinstance(name, str) or plain_name(name) not in CYPHER_STEPS:
        return False
    query = step.get(REFERENCE_QUERY)
    if isinstance(query, str) and form_of(query) in FORMS:
        return False
    return media_type in TYPES_BY_NAME
