"""The reference set: questions, their answers and steps, read and checked once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.records.templates import TemplateReader
from graphrag_eval_async.steps import PreparedStep, prepare_step

if TYPE_CHECKING:
    from graphrag_eval_async.records import Question
    from graphrag_eval_async.steps import Comparator

Templates = Sequence[Mapping[str, Any]]
Groups = tuple[tuple[PreparedStep, ...], ...]


class Reference:
    """A reference set that has been checked; immutable, so one serves any number of streams.

    Attributes:
        questions: every question by its id, in the order of the reference set.
        templates: the template ids, in that order.
        prepared: by question id, the groups of its reference steps, ready to be compared; only of questions
            that have steps.
    """

    __slots__ = ("prepared", "questions", "templates")

    questions: Mapping[str, Question]
    templates: tuple[str, ...]
    prepared: Mapping[str, Groups]

    def __init__(
        self,
        templates: Templates,
        *,
        source: str | None = None,
        comparators: Mapping[str, Comparator] | None = None,
    ) -> None:
        """Check and copy template dicts, laid out as in a YAML or JSON file.

        Args:
            templates: the dicts.
            source: names their file in errors.
            comparators: the caller's own, by name of reference step; see `Evaluator`. Such a step needs no
                output that a built-in comparator could read.

        Raises:
            ReferenceDataError: with every problem found.
        """
        reader = TemplateReader(partial(prepare_step, comparators=comparators))
        reader.read(templates)
        if reader.problems:
            raise ReferenceDataError(reader.problems, source)
        self.questions = MappingProxyType(reader.questions)
        self.templates = reader.templates
        self.prepared = MappingProxyType(reader.prepared)

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions.values())

    def __repr__(self) -> str:
        return f"<Reference: {len(self.templates)} templates, {len(self)} questions>"


def load_reference(
    reference: str | os.PathLike[str] | Templates | Reference,
    *,
    comparators: Mapping[str, Comparator] | None = None,
) -> Reference:
    """The reference set at a path to YAML or JSON (by its suffix), or made of template dicts.

    Args:
        reference: the path or the dicts; a `Reference` is returned as it is.
        comparators: the caller's own, by name of reference step; see `Reference`.

    Raises:
        ReferenceDataError: it cannot be read, or cannot be right; every problem is listed with its place.
    """
    if isinstance(reference, Reference):
        return reference
    if isinstance(reference, str | os.PathLike):
        from graphrag_eval_async.records.template_file import read_templates  # YAML takes long to import

        return Reference(read_templates(reference), source=os.fspath(reference), comparators=comparators)
    return Reference(reference, comparators=comparators)
