"""Compares tables, and what cells without types may stand for if they disagree as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.steps.formats.second_reading import read_again
from graphrag_eval_async.steps.tables.step import SparqlStep

if TYPE_CHECKING:
    from graphrag_eval_async.steps.actual import ActualStep
    from graphrag_eval_async.steps.differences import Agreement


class TolerantSparqlStep(SparqlStep):
    """Compares an output with reference results as it is written and in a second reading.

    The reading that agrees better counts.
    """

    __slots__ = ()

    def compare(self, actual: ActualStep) -> Agreement:
        """Return how far an output agrees with the reference.

        If it does not agree fully, and its cells have no types, also compare a second reading, in
        which cells are what their texts may stand for. Return the better agreement.
        """
        agreement = super().compare(actual)
        if agreement.score == 1:
            return agreement
        table = actual.table()
        if table.typed:
            return agreement
        document = read_again(table.document, self.table().document)
        if document is None:
            return agreement
        second_agreement = super().compare(actual.with_table(table._replace(document=document)))
        if second_agreement.score > agreement.score:
            return second_agreement
        return agreement
