"""The fast path: evaluates the line of a usual response in a few microseconds.

A usual response has known keys, plain types and no nulls (see `records.usual`). For each reference
step, the last of its steps of that name is equal, or it has no step of any reference step's name.
Any other response takes the slow path: `records.response` reads it and says what is wrong, and
`steps.matching` compares its steps. Both paths give equal evaluations; tests compare them.

What many lines have in common is computed once and kept: the reference steps of a question, what is
counted of a step by its name, and what is counted of results that differ only in their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from graphrag_eval_async.catalogue.media_types import SPARQL_RESULTS
from graphrag_eval_async.catalogue.metrics import RESOURCES
from graphrag_eval_async.catalogue.outcomes import (
    ABSENT,
    AGENT_ERROR,
    ANSWERED,
    answer_state,
    outcomes_of,
)
from graphrag_eval_async.records.aliases import plain_name
from graphrag_eval_async.records.evaluation import (
    EMPTY,
    FAILED,
    LONGEST_NAME,
    RETURNED,
    Evaluation,
    SharedTraits,
)
from graphrag_eval_async.records.outputs import has_no_rows, returned_nothing
from graphrag_eval_async.records.question import decode_steps
from graphrag_eval_async.records.usual import decode_usual
from graphrag_eval_async.steps import compares_by_name
from graphrag_eval_async.steps.failure import error_line
from graphrag_eval_async.steps.formats.results import TypedTable, read_typed_table

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from graphrag_eval_async.catalogue.outcomes import Outcomes
    from graphrag_eval_async.catalogue.tags import Tags
    from graphrag_eval_async.records import Line, Question
    from graphrag_eval_async.records.usual import UsualResponse

    Step: TypeAlias = dict[str, Any]
    StepKind: TypeAlias = tuple[str, int, int]
    # The table in the output of each step. False if the output is not a table; None if it was not
    # read yet.
    Tables: TypeAlias = list[TypedTable | Literal[False] | None]

MOST_REMEMBERED = 4096
"""Maximum number of entries in each cache; a full cache is cleared."""

MOST_SHARED_STEPS = 16
"""Maximum number of steps of results that are cached: results with more are rarely equal."""

_SCORE_AND_RESOURCES = ("steps_score", *RESOURCES)
_copy_step = dict.copy  # `map` calls it faster than a Python function.


class _KindsOfStep(NamedTuple):
    """What is counted of a step with a certain name if it returned data, no data, or failed.

    Each is the name, the kind of the outcome and the number of such steps, as in `StepKinds`.
    """

    returned: StepKind
    empty: StepKind
    failed: StepKind


class _Expected(NamedTuple):
    """The decoded reference steps of a question.

    Attributes:
        groups: the steps by group.
        tables: the tables in the outputs of the last group's steps.
    """

    groups: list[list[Step]]
    tables: Tables


class _Shared(NamedTuple):
    """What is counted of all results that differ only in their numbers and texts.

    Attributes:
        shared_traits: lets the aggregates count such results together.
        metrics: names of the metrics that have a value, in the order of the numbers.
        steps: what is counted of each step.
        outcomes: why the other metrics have no value.
        outcomes_of_error: the same for results that are errors.
    """

    shared_traits: SharedTraits
    metrics: tuple[str, ...]
    steps: tuple[StepKind, ...]
    outcomes: Outcomes
    outcomes_of_error: Outcomes


class FastPath:
    """Evaluates usual responses to the questions of a reference set."""

    def __init__(
        self,
        questions: Mapping[str, Question],
        *,
        comparators: Container[str],
        names: Mapping[str, str],
        known_names: Container[str],
        take_sample: Callable[[str], int | None],
        keeps_steps: bool,
    ) -> None:
        """Prepare for the questions of a reference set.

        Args:
            questions: the questions by id.
            comparators: names of reference steps that are compared by a function of the user.
                Questions with such a step take the slow path.
            names: names of reference steps by their other spellings and aliases.
            known_names: names of reference steps.
            take_sample: returns the number of the next sample of a question.
            keeps_steps: whether to keep decoded reference steps. Those of a large reference set are
                decoded anew for each response, since they would slow down the garbage collector.
        """
        self._questions: Mapping[str, Question] = questions
        if comparators:
            self._questions = {
                question.id: question
                for question in questions.values()
                if not _has_step_of(question, comparators)
            }
        self._names = names
        self._known_names = known_names
        self._take_sample = take_sample
        self._keeps_steps = keeps_steps
        # Caches: the first has the ids of questions as keys, the second the names of steps, and the
        # third the arguments of `_remember_shared`.
        self._expected: dict[str, _Expected] = {}
        self._kinds: dict[str, _KindsOfStep] = {}
        self._shared: dict[tuple[Any, ...], _Shared] = {}

    def evaluate(self, line: Line, source: dict[str, Any] | None) -> Evaluation | None:
        """Evaluate a line if its response is usual.

        Args:
            line: the line, of less than `LARGE_BYTES`.
            source: the line as results name it; None without a journal and `dedupe`.

        Returns:
            the evaluation; None if the response is unusual. Then no sample was taken.
        """
        # Read the response: its question, its answer, its tokens and seconds.
        try:
            response = line.response or decode_usual(line.data)
            question = self._questions[response.question_id]
        except (ValueError, RecursionError, LookupError):
            return None
        if not question.is_usual:
            return None
        failed = response.error is not None or response.status == "error"
        answer = response.actual_answer
        state = ABSENT if answer is None else answer_state(answer)
        resources, amounts = _resources(response)

        # Read its steps.
        steps = response.actual_steps
        usable: list[str | None] = []
        kinds: list[StepKind] = []
        if steps is not None and not self._collect_names_and_kinds(steps, usable, kinds):
            return None

        # Score its steps. The fast path knows two cases: each reference step of the last group
        # equals one of the steps, or none of them has the name of one.
        score: float | None = None
        failure = AGENT_ERROR if failed else None
        groups: list[list[Step]] | None = None
        metrics = resources
        numbers = amounts
        if question.data is not None:
            groups, tables = self._copy_expected_steps(question, question.data)
            if failed:
                pass  # Nothing is scored.
            elif steps is None:
                failure = "no_steps"
            else:
                is_matched = _match(groups[-1], tables, steps, usable)
                # Steps of an earlier group change the class of the failure.
                may_match_other_group = not is_matched and len(groups) > 1
                if is_matched is None or may_match_other_group:
                    return None
                if not is_matched:
                    failure = "no_steps"
                elif state != ANSWERED and answer_state(question.reference_answer) == ANSWERED:
                    failure = "no_answer"
                else:
                    failure = "none"
                score = float(is_matched)
                # Most responses list all resources. Then no tuple is made.
                has_all = metrics is RESOURCES
                metrics = _SCORE_AND_RESOURCES if has_all else ("steps_score", *metrics)
                numbers = (score, *numbers)

        # Look up what is counted of all results like this one.
        key = (
            question.template_id,
            question.tags,
            question.reference_answer is not None,
            groups is not None,
            failed,
            state,
            failure,
            metrics,
            tuple(kinds),
        )
        shared = self._shared.get(key) or self._remember_shared(*key)

        # Make the evaluation, with the result that the stream yields.
        sample = self._take_sample(question.id)
        result = _lay_out(
            question,
            response,
            groups=groups,
            failed=failed,
            score=score,
            failure=failure,
            resources=zip(resources, amounts, strict=True),
            sample=sample,
            source=source,
        )
        return Evaluation(
            question.template_id,
            question.id,
            failed,
            sample,
            shared.metrics,
            numbers,
            shared.steps,
            shared.outcomes,
            shared.outcomes_of_error,
            is_answered=state == ANSWERED,
            tags=question.tags,
            shared_traits=shared.shared_traits,
            source=source,
            result=result,
        )

    def _collect_names_and_kinds(
        self, steps: list[Step], usable: list[str | None], kinds: list[StepKind]
    ) -> bool:
        """Check that all steps are usual, and collect what is compared and counted of them.

        Args:
            steps: the steps.
            usable: gets the name of each step; None for a failed one, which matches no reference
                step.
            kinds: gets what is counted of each step.

        Returns:
            whether all steps are usual. Otherwise, the lists are incomplete.
        """
        kinds_by_name = self._kinds
        try:
            for step in steps:
                name = step["name"]
                status = step["status"]
                kinds_of_step = kinds_by_name.get(name) or self._remember_kinds(name)
                if kinds_of_step is None:
                    return False
                if status == "success":
                    output = step["output"]
                    if type(output) is not str:
                        return False
                    is_json = output[:1] == "{"
                    is_empty = has_no_rows(output) if is_json else returned_nothing(step)
                    usable.append(name)
                    if is_empty:
                        kinds.append(kinds_of_step.empty)
                    else:
                        kinds.append(kinds_of_step.returned)
                elif status == "error":
                    usable.append(None)
                    kinds.append(kinds_of_step.failed)
                else:
                    return False
        except (KeyError, TypeError):
            # A key is missing, or the name is a list or an object.
            return False
        return True

    def _remember_kinds(self, name: Any) -> _KindsOfStep | None:
        """Return what is counted of steps with a name, and cache it.

        Returns:
            what is counted; None if the name is unusual. It is not a text or too long, it is
            another spelling of a reference step's name, or its steps need a special comparison.
        """
        if type(name) is not str or len(name) > LONGEST_NAME or compares_by_name(name):
            return None
        is_other_spelling = name in self._names or plain_name(name) in self._names
        if is_other_spelling and name not in self._known_names:
            return None
        if len(self._kinds) >= MOST_REMEMBERED:
            self._kinds.clear()
        kinds = _KindsOfStep((name, RETURNED, 1), (name, EMPTY, 1), (name, FAILED, 1))
        self._kinds[name] = kinds
        return kinds

    def _copy_expected_steps(
        self, question: Question, data: bytes
    ) -> tuple[list[list[Step]], Tables]:
        """Return the reference steps of a question, and the tables of the last group.

        The steps are copies, since they become a part of the result, and `_match` changes them. The
        tables are shared, so that each is read only once.

        Args:
            question: the question.
            data: its reference steps as JSON.
        """
        if not self._keeps_steps:
            groups = decode_steps(data)
            return groups, [None] * len(groups[-1])
        expected = self._expected.get(question.id)
        if expected is None:
            groups = decode_steps(data)
            expected = _Expected(groups, [None] * len(groups[-1]))
            self._expected[question.id] = expected
        copies = [[*map(_copy_step, group)] for group in expected.groups]
        return copies, expected.tables

    def _remember_shared(
        self,
        template_id: str,
        tags: Tags,
        has_reference_answer: bool,
        has_reference_steps: bool,
        failed: bool,
        answer: int,
        failure: str | None,
        metrics: tuple[str, ...],
        steps: tuple[StepKind, ...],
    ) -> _Shared:
        """Compute and cache what is counted of all results that have these properties.

        Args:
            template_id: template of the question.
            tags: tags of the question.
            has_reference_answer: whether the question has a reference answer.
            has_reference_steps: whether the question has reference steps.
            failed: whether the response is an error.
            answer: the state of the answer, as `answer_state` returns it.
            failure: the class of the failure; None if the steps are not scored.
            metrics: names of the metrics that have a value.
            steps: what is counted of each step.
        """
        key = (
            template_id,
            tags,
            has_reference_answer,
            has_reference_steps,
            failed,
            answer,
            failure,
            metrics,
            steps,
        )
        took_steps = bool(steps)
        has_execution_failed = False  # The fast path runs no queries.
        # The function is cached, which is faster with positional arguments.
        metrics, outcomes, outcomes_of_error = outcomes_of(
            metrics,
            failed,
            answer,
            has_reference_answer,
            has_reference_steps,
            took_steps,
            failure,
            has_execution_failed,
        )
        shared_traits = SharedTraits(
            template_id=template_id,
            failed=failed,
            metrics=metrics,
            steps=steps,
            outcomes=outcomes,
            tags=tags,
        )
        shared = _Shared(shared_traits, metrics, steps, outcomes, outcomes_of_error)
        if len(steps) <= MOST_SHARED_STEPS:
            if len(self._shared) >= MOST_REMEMBERED:
                self._shared.clear()
            self._shared[key] = shared
        return shared


def _resources(response: UsualResponse) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return the names of the resources that a response lists, and their amounts.

    Resources are tokens and seconds.
    """
    amounts = (
        response.input_tokens,
        response.output_tokens,
        response.total_tokens,
        response.elapsed_sec,
    )
    if None not in amounts:
        return RESOURCES, amounts
    present = [amount for amount in amounts if amount is not None]
    names = [name for name, amount in zip(RESOURCES, amounts, strict=True) if amount is not None]
    return tuple(names), tuple(present)


def _match(
    expected: list[Step],
    tables: Tables,
    steps: Sequence[Step],
    usable: list[str | None],
) -> bool | None:
    """Match reference steps with the steps of a response, if that is simple.

    Each reference step is matched with the last unmatched step of its name. Its `matches` is set to
    the id of that step.

    Args:
        expected: the reference steps of the last group.
        tables: the tables in their outputs.
        steps: the steps of the response.
        usable: the name of each step of the response; None if it failed.

    Returns:
        True if all reference steps are matched; False if none is; None if that is not certain
        without the full comparison of the slow path.
    """
    matched_indexes: list[int] = []
    for place, step in enumerate(expected):
        name = step["name"]
        index = -1
        if name in usable:
            index = len(usable) - 1
        while index >= 0 and (usable[index] != name or index in matched_indexes):
            index -= 1
        if index >= 0:
            output = steps[index]["output"]
            if output != step["output"] and not _is_same_table(step, tables, place, output):
                return None
            step["matches"] = steps[index].get("id")
            matched_indexes.append(index)
        elif matched_indexes:
            # Only some reference steps are matched.
            return None
        elif None in usable and any(actual["name"] == name for actual in steps):
            # A failed step has the name, which decides how the failure is classed.
            return None
    if not matched_indexes:
        return False
    if len(matched_indexes) < len(expected):
        # Only some reference steps are matched.
        return None
    return True


def _is_same_table(expected: Step, tables: Tables, place: int, output: str) -> bool:
    """Return whether an output is a table with the same rows as that of a reference step.

    Args:
        expected: the reference step.
        tables: the tables of the reference steps; gets that of `expected` once it is read.
        place: index of the reference step.
        output: the output of a step of the response.

    Returns:
        True if the tables are the same. False if they are not, or if that takes a full comparison.
    """
    if expected.get("output_media_type") != SPARQL_RESULTS:
        return False
    table = tables[place]
    if table is None:
        table = read_typed_table(expected["output"]) or False
        tables[place] = table
    if table is False:
        return False
    actual_table = read_typed_table(output)
    return actual_table is not None and table.is_same(actual_table)


def _has_step_of(question: Question, names: Container[str]) -> bool:
    """Return whether a reference step in the last group of a question has one of these names."""
    groups = question.reference_steps or [[]]
    return any(step["name"] in names for step in groups[-1])


def _lay_out(  # noqa: C901 - one `if` for each key that may be absent
    question: Question,
    response: UsualResponse,
    groups: list[list[Step]] | None,
    failed: bool,
    score: float | None,
    failure: str | None,
    resources: Iterable[tuple[str, float]],
    sample: int | None,
    source: dict[str, Any] | None,
) -> dict[str, Any]:
    """Build the result of a usual response.

    Its keys come in the order of `Evaluation.as_dict`, which builds results on the slow path.

    Args:
        question: the question.
        response: the response.
        groups: the reference steps by group; None if the question has none.
        failed: whether the response is an error.
        score: the score of the steps; None if they are not scored.
        failure: the class of the failure; None if the steps are not scored.
        resources: names and amounts of the tokens and seconds that were spent.
        sample: number of the sample of the question; None if samples are not numbered.
        source: the line as results name it; None without a journal and `dedupe`.
    """
    # The question, and what it expects.
    result: dict[str, Any] = {
        "template_id": question.template_id,
        "question_id": question.id,
        "question_text": question.text,
    }
    if groups is not None:
        result["reference_steps"] = groups
    if question.reference_answer is not None:
        result["reference_answer"] = question.reference_answer

    # What the agent answered and did.
    result["status"] = "error" if failed else "success"
    if response.error is not None:
        result["error"] = response.error
    if response.actual_answer is not None:
        result["actual_answer"] = response.actual_answer
    if response.actual_steps is not None:
        result["actual_steps"] = response.actual_steps

    # How it was scored.
    result["steps_score"] = score
    result["failure"] = failure
    if failed:
        detail = error_line(response.error)
        if detail is not None:
            result["failure_detail"] = detail

    # What it spent.
    result.update(resources)

    # Which response it was.
    if sample is not None:
        result["sample"] = sample
    if response.id is not None:
        result["response_id"] = response.id
    if source is not None:
        result["source"] = source
    if question.tags:
        result["tags"] = dict(question.tags)
    return result
