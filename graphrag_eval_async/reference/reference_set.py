"""A checked reference set: its questions, and their steps prepared for comparison."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.records.document import Document
from graphrag_eval_async.records.question import AnyQuestion
from graphrag_eval_async.reference.contents import Contents, names_in_last_group
from graphrag_eval_async.reference.reading import read_templates
from graphrag_eval_async.steps import PreparedStep, accepted_names, prepare_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msgspec import Raw

    from graphrag_eval_async.records import Question
    from graphrag_eval_async.steps import Comparator

Templates = Sequence[Mapping[str, Any]]

MAX_CACHED_BYTES = 1 << 20
"""Prepared steps are cached for sets with up to this many bytes of encoded steps."""


class Prepared(NamedTuple):
    """The reference steps of a question by group, and the same steps prepared for comparison."""

    steps: list[list[dict[str, Any]]]
    groups: list[list[PreparedStep]]
    has_values: bool = False  # Whether a step has `score: values_f1`.


class PreparedSteps:
    """Reference steps by question id, prepared for comparison when they are accessed.

    The prepared steps of a small set are cached. Steps of a large set are prepared each time, since
    the garbage collector would visit all cached steps again and again.

    Attributes:
        keeps_steps: whether prepared steps are cached.
        lacks_output: whether a step has only the query that gives its output.
    """

    def __init__(
        self,
        questions: Mapping[str, Question],
        comparators: Mapping[str, Comparator] | None,
        *,
        lacks_output: bool = False,
    ) -> None:
        """Prepare to decode the reference steps of questions when they are needed.

        Args:
            questions: the questions, by id.
            comparators: your own comparison of steps, by name of reference step.
            lacks_output: whether a step has no output, but a query that returns it.
        """
        self._questions = questions
        self._comparators = comparators
        self._cache: dict[str, Prepared] = {}
        self._last_names: dict[str, set[str]] = {}
        encoded_bytes = sum(question.size for question in questions.values())
        self.keeps_steps = encoded_bytes <= MAX_CACHED_BYTES
        self.lacks_output = lacks_output

    def __getitem__(self, question_id: str) -> Prepared:
        """Return the prepared steps of a question, from the cache if the set is small.

        Raises:
            KeyError: there is no question with this id, or the question has no reference steps.
        """
        cached = self._cache.get(question_id)
        if cached is not None:
            return cached

        steps = self._questions[question_id].reference_steps
        if steps is None:
            raise KeyError(question_id)
        groups = [[prepare_step(step, self._comparators) for step in group] for group in steps]
        has_values = any(step.as_values for group in groups for step in group)
        prepared = Prepared(steps, groups, has_values)
        if self.keeps_steps:
            self._cache[question_id] = prepared
        return prepared

    def last_names(self, template_id: str) -> set[str]:
        """Return the names of the steps in the last groups of the questions of a template.

        The first call collects the names of all templates, and keeps them for later calls.
        """
        if not self._last_names:
            for question in self._questions.values():
                names = self._last_names.setdefault(question.template_id, set())
                names.update(names_in_last_group(question))
        return self._last_names.get(template_id, set())


class Reference:
    """A checked reference set. It is immutable, so any number of streams can share it.

    Attributes:
        questions: every question by its id, in the order of the reference set.
        templates: the template ids, in the order of the reference set.
        step_names: the names of the reference steps, and of the actual steps that match these.
        comparators: your own comparison of steps, by name of reference step.
        doubts: probable mistakes, such as an unknown key, each with its place.
    """

    __slots__ = (
        "_contents",
        "comparators",
        "doubts",
        "prepared",
        "questions",
        "step_names",
        "templates",
    )

    def __init__(
        self,
        templates: Templates | Raw,
        *,
        source: str | None = None,
        comparators: Mapping[str, Comparator] | None = None,
    ) -> None:
        """Check and copy template dicts, which have the layout of a YAML or JSON file.

        Args:
            templates: the dicts, or the text of a JSON file.
            source: path of the file, for errors; None if the dicts are from no file.
            comparators: your own comparison of steps, by name of reference step; see `Evaluator`.
                The output of such a step may be anything.

        Raises:
            ReferenceDataError: the templates are invalid. The error lists all problems.
        """
        document = (
            None if source is None else Document(Path(source), is_json=source.endswith(".json"))
        )
        reading = read_templates(templates, comparators or {}, document)
        if reading.problems:
            raise ReferenceDataError(reading.problems, source, reading.doubts)

        contents = reading.contents
        contents.doubts = [
            *reading.doubts,
            *idle_comparators(contents.comparators, contents.step_names),
        ]
        # The attributes are set from the contents, as they are after unpickling.
        self.__setstate__(contents)

    def __getstate__(self) -> Contents:
        """Return the contents, which are all that is pickled; see `__setstate__`."""
        return self._contents

    def __setstate__(self, contents: Contents) -> None:
        """Set all attributes from valid contents; `__init__` calls this, and so does unpickling."""
        self._contents = contents
        self.questions: Mapping[str, Question] = MappingProxyType(contents.questions)
        self.templates = tuple(contents.templates)

        step_names = set(contents.step_names)
        for name in contents.step_names:
            step_names.update(accepted_names(name))
        self.step_names = frozenset(step_names)

        self.comparators = contents.comparators
        self.prepared = PreparedSteps(
            contents.questions, contents.comparators, lacks_output=contents.lacks_output
        )
        self.doubts = tuple(contents.doubts)

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions.values())

    def __repr__(self) -> str:
        return f"<Reference: {len(self.templates)} templates, {len(self)} questions>"


def idle_comparators(comparators: Collection[str], step_names: Collection[str]) -> list[str]:
    """Return a warning for each comparator whose name no reference step has.

    Args:
        comparators: the names for which the caller has comparators.
        step_names: the names of the reference steps.
    """
    warnings = []
    for name in comparators:
        if name not in step_names:
            suggestion = did_you_mean(name, sorted(step_names))
            warnings.append(f"comparators[{name!r}]: no reference step has this name; {suggestion}")
    return warnings


class NoReference(Reference):
    """Stands for a missing reference set. Each response brings its own question."""

    __slots__ = ()

    def __init__(self) -> None:
        empty_contents = Contents(comparators={})
        self.__setstate__(empty_contents)
        self.questions = AnyQuestion()

    def __reduce__(self) -> Any:
        """Make pickle create a new object, since this object has no state to save."""
        return NoReference, ()
