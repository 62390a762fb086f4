"""Warning if agents seem to call the steps of a reference set by other names."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.aliases import UNNAMED, misnamed, plain_name
from graphrag_eval_async.reference.contents import names_in_last_group
from graphrag_eval_async.steps import accepted_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from graphrag_eval_async.reference.reference_set import Reference


class StepNames:
    """Names of the reference steps in results, for `misnamed_steps` without a `Reference`."""

    def __init__(self) -> None:
        self.step_names: set[str] = set()
        # Names of the steps in the last groups of a template's questions.
        self.last_names: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, result: Mapping[str, Any]) -> None:
        """Add the names of a result's reference steps.

        The result may come from another program. At the first step that has another form, the rest
        of the result is skipped without an error.
        """
        with suppress(AttributeError, TypeError):
            names_in_group: set[str] = set()
            for group in result.get("reference_steps") or ():
                names = [step.get("name") for step in group]
                names_in_group = {name for name in names if isinstance(name, str)}
                self.step_names |= names_in_group
            # After the loop, `names_in_group` has the names in the last group.
            self.last_names[result["template_id"]] |= names_in_group


def misnamed_steps(
    reference: Reference | StepNames, seen: Mapping[str, tuple[Collection[str], Collection[str]]]
) -> str | None:
    """Return a warning if agents seem to call reference steps by other names.

    The warning names each reference step that

    - no actual step matches by name, and
    - is in the last group of a question that was answered, in a template for which agents used
      tools that are no reference steps.

    Args:
        reference: the reference set, or the names of steps in results.
        seen: by template, the names of actual steps, and the ids of answered questions.

    Returns:
        None if there is no such reference step.
    """
    # The reference steps that no agent executed, each with the names that actual steps may have to
    # match it.
    actual_names = {plain_name(name) for names, _ in seen.values() for name in names}
    accepted_by_unseen_step: dict[str, frozenset[str]] = {}
    for step_name in sorted(reference.step_names):
        accepted = accepted_names(step_name)
        if actual_names.isdisjoint(map(plain_name, accepted)):
            accepted_by_unseen_step[step_name] = accepted
    if not accepted_by_unseen_step:
        return None

    # Choose the steps that an answered question expects, in a template for which agents used tools
    # that are no reference steps.
    reference_names = {UNNAMED, *map(plain_name, reference.step_names)}
    tools: set[str] = set()
    alias_targets: dict[str, str] = {}
    for template_id, (names, answered_questions) in seen.items():
        tools_of_template = [name for name in names if plain_name(name) not in reference_names]
        if not tools_of_template:
            continue
        tools.update(tools_of_template)
        for step_name, accepted in accepted_by_unseen_step.items():
            if _is_expected(step_name, reference, template_id, answered_questions):
                alias_targets[step_name] = min(accepted)
    if not alias_targets:
        return None
    return misnamed(dict(sorted(alias_targets.items())), tools)


def _is_expected(
    step_name: str,
    reference: Reference | StepNames,
    template_id: str,
    answered_questions: Iterable[str],
) -> bool:
    """Return whether an answered question of a template expects a step of this name.

    Only the last group of a question's steps counts. `StepNames` has no names by question, so there
    any question of the template counts as answered.
    """
    if isinstance(reference, StepNames):
        return step_name in reference.last_names[template_id]

    # The names of the whole template are kept. They exclude most steps without decoding questions.
    if step_name not in reference.prepared.last_names(template_id):
        return False
    for question_id in answered_questions:
        question = reference.questions.get(question_id)
        if question is not None and step_name in names_in_last_group(question):
            return True
    return False
