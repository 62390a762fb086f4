"""Reading of the reference steps of questions, which finds all mistakes in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.media_types import (
    CSV,
    SPARQL_RESULTS,
    TSV,
    plain_type,
)
from graphrag_eval_async.catalogue.reference_steps import ALTERNATIVES, KEYS_OF_EVALUATIONS
from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.reference.doubts import doubt_about_media_type, doubts_about_step
from graphrag_eval_async.reference.key_checks import KeyCheck, describe_value
from graphrag_eval_async.reference.kinds import (
    ALTERNATIVE,
    GROUP,
    MAX_NAME_CHARACTERS,
    STEP,
    suggest_key,
)
from graphrag_eval_async.steps import compares_by_name

if TYPE_CHECKING:
    from graphrag_eval_async.records.document import Document
    from graphrag_eval_async.reference.contents import Contents
    from graphrag_eval_async.reference.mistakes import Mistakes

_LAYOUT_OF_STEP = "{name: ..., output: ...}"
_HINT_FOR_FLAT_STEPS = (
    "the steps of a group are a list of their own: [[{name: ...}]], or under steps"
)
_FOLDED = (
    "folded text (>, or text without |) joins its lines, so the table has one line; "
    "write the output as a block: `output: |`"
)

_WORDS_FOR_BOOLEANS = ("yes", "no", "on", "off")
"""Words, in lower case, that YAML reads as true or false."""


class StepsReader:
    """Reads the groups of steps of one question after another into the contents of a set."""

    def __init__(
        self,
        contents: Contents,
        keys: KeyCheck,
        problems: Mistakes,
        doubts: Mistakes,
        document: Document | None,
    ) -> None:
        """Prepare to read steps.

        Args:
            contents: the contents to which valid steps are added.
            keys: checks the keys of groups and steps.
            problems: the collection to which problems are added.
            doubts: the collection to which probable mistakes are added.
            document: the file of the steps; None if they are from no file.
        """
        self._contents = contents
        self._keys = keys
        self._problems = problems
        self._doubts = doubts
        self._document = document
        self._is_json = document is not None and document.is_json

    def read_groups(self, groups: Any, place: str) -> list[list[dict[str, Any]]] | None:
        """Return the groups of steps of a question, and add the steps to the contents.

        The steps are changed: keys that an evaluation has left are removed, and the first step
        of a group gets its order.

        Returns:
            None if there is a problem, which is added to `problems`.
        """
        if groups is None:
            return []
        problems_before = self._problems.total
        read = []
        if isinstance(groups, list):
            for index, group in enumerate(groups):
                read.append(self._read_group(group, f"{place}[{index}]"))
        else:
            self._problems.add(
                place,
                f"expected a list of groups of steps, got {describe_value(groups)}; "
                f"write [[{_LAYOUT_OF_STEP}]]",
            )
            if isinstance(groups, dict):
                self._read_step(groups, place, is_first=True)
        return read if self._problems.total == problems_before else None

    def _read_group(self, group: Any, place: str) -> list[dict[str, Any]]:
        """Return the steps of a group; add them to the contents, and their problems to `problems`.

        A group is a list of steps, or an object with its list of `steps` and an `order`.
        """
        if isinstance(group, dict):
            if _is_step(group):
                self._problems.add(
                    place, f"expected a list of steps, got a step; {_HINT_FOR_FLAT_STEPS}"
                )
                self._read_step(group, place, is_first=True)
                return []
            return self._read_group_with_order(group, place)
        if isinstance(group, list):
            return self._read_steps(group, place)
        self._problems.add(
            place,
            f"expected a list of steps, got {describe_value(group)}; write [{_LAYOUT_OF_STEP}]",
        )
        return []

    def _read_group_with_order(self, group: dict[str, Any], place: str) -> list[dict[str, Any]]:
        """Return the steps of a group that is an object with `steps` and an `order`."""
        self._keys.check(group, GROUP, place, unchecked=["steps"])
        if "steps" not in group:
            return []
        steps = self._read_steps(group["steps"], f"{place}.steps")
        order = group.get("order")
        if steps and order is not None:
            # The order of a group is kept on its first step.
            steps[0]["order"] = order
        return steps

    def _read_steps(self, steps: Any, place: str) -> list[dict[str, Any]]:
        """Return the steps in a list; add them to the contents, or their problems to `problems`."""
        if not isinstance(steps, list) or not steps:
            self._problems.add(
                place,
                f"expected a list of at least one step, got {describe_value(steps)}; "
                f"write [{_LAYOUT_OF_STEP}]",
            )
            return []
        read = []
        for index, step in enumerate(steps):
            step_place = f"{place}[{index}]"
            if isinstance(step, dict):
                self._read_step(step, step_place, is_first=index == 0)
                read.append(step)
            else:
                message = f"expected a step, got {describe_value(step)}; write {_LAYOUT_OF_STEP}"
                if isinstance(step, list):
                    surplus = "a pair of brackets" if self._is_json else "a `-`"
                    message = (
                        f"expected a step, got a list; it is too deep by one, so remove {surplus}"
                    )
                self._problems.add(step_place, message)
        return read

    def _read_step(self, step: dict[str, Any], place: str, *, is_first: bool) -> None:
        """Add a step to the contents, or its problems to `problems`.
        Keys that an evaluation has left are removed from the step.
        """
        problems_before = self._problems.total
        for key in KEYS_OF_EVALUATIONS:
            step.pop(key, None)

        name = step.get("name")
        has_comparator = isinstance(name, str) and name in self._contents.comparators
        checked = self._keys.check(
            step,
            STEP,
            place,
            required={} if has_comparator else _missing_keys(step),
            unchecked=[ALTERNATIVES],
            may_have_any_key=has_comparator,
        )
        self._check_alternatives(step, place)
        if not is_first and step.get("order") is not None:
            # The order of a group is kept on its first step, so no other step may have one.
            self._problems.add(
                f"{place}.order", "is the group's; write {order: strict, steps: [...]}"
            )
        if not has_comparator:
            self._check_output_in_file(step, f"{place}.output")

        media_type_doubt = None
        if not has_comparator:
            media_type_doubt = doubt_about_media_type(checked.values.get("output_media_type"))
        if media_type_doubt is not None:
            # It is told even if the step cannot be compared.
            self._doubts.add(f"{place}.output_media_type", media_type_doubt)

        if self._problems.total == problems_before:
            self._add_step(step, place, has_comparator=has_comparator)
        elif "name" in checked.values and not _missing_keys(checked.values):
            # Check the valid keys together, to list all problems of the step at once.
            self._add_step(checked.values, place, has_comparator=has_comparator)

    def _add_step(self, step: dict[str, Any], place: str, *, has_comparator: bool) -> None:
        """Add a step whose keys have the right types to the contents; add its mistakes."""
        try:
            self._contents.add_step(step)
        except MalformedStep as error:
            self._add_malformed(step, error.problems[0], place)
            return
        if not has_comparator:
            for doubt in doubts_about_step(step):
                self._doubts.add(f"{place}.{doubt.key}", doubt.message)

    def _check_output_in_file(self, step: dict[str, Any], place: str) -> None:
        """Add mistakes of an output that come from YAML: folded lines, and yes read as true.

        Args:
            step: the step, or an alternative of a step, with its output.
            place: place of the output.
        """
        if self._document is None:
            return
        if _is_table_of_one_line(step) and self._document.is_folded(place):
            self._problems.add(place, _FOLDED)
        output = step.get("output")
        if isinstance(output, bool):
            written = self._document.scalar_at(place) or ""
            if written.casefold() in _WORDS_FOR_BOOLEANS:
                value = "true" if output else "false"
                self._doubts.add(place, f"YAML reads {written} as {value}; put it in quotes")

    def _check_alternatives(self, step: dict[str, Any], place: str) -> None:
        """Check the alternatives of a step, which are other outputs that are right, too."""
        alternatives = step.get(ALTERNATIVES)
        if alternatives is None:
            return
        place = f"{place}.{ALTERNATIVES}"
        if not isinstance(alternatives, list):
            self._problems.add(
                place,
                f"expected a list, got {describe_value(alternatives)}; write [{{output: ...}}]",
            )
            return
        for index, alternative in enumerate(alternatives):
            item_place = f"{place}[{index}]"
            if isinstance(alternative, dict):
                self._keys.check(alternative, ALTERNATIVE, item_place)
                variant = {"output_media_type": step.get("output_media_type"), **alternative}
                self._check_output_in_file(variant, f"{item_place}.output")
            else:
                self._problems.add(
                    item_place,
                    f"expected {{output: ...}}, got {describe_value(alternative)}",
                )

    def _add_malformed(self, step: dict[str, Any], problem: str, place: str) -> None:
        """Add the problem of a step that cannot be compared, with the cure.

        Args:
            step: the step.
            problem: what is wrong, beginning with the key.
            place: place of the step.
        """
        output_place = f"{place}.output"
        is_about_output = problem.startswith("output: ")
        is_folded = self._document is not None and self._document.is_folded(output_place)
        if is_about_output and is_folded and _is_table(step):
            # A table of one line is a problem already.
            if not _is_table_of_one_line(step):
                self._problems.add(output_place, _FOLDED)
            return
        media_type_doubt = doubt_about_media_type(step.get("output_media_type"))
        if problem.startswith("match_columns: ") and media_type_doubt is not None:
            # The output is probably meant as a table, so this key may stay.
            problem = "match_columns: only for outputs that are tables; correct output_media_type"
        cure = _cure_for_output(step, is_json=self._is_json) if is_about_output else ""
        self._problems.add_text(f"{place}.{problem}{cure}")


def _is_step(group: dict[str, Any]) -> bool:
    """Return whether a dict in place of a group is a step."""
    if "steps" in group:
        return False
    meant_keys = {suggest_key(key[:MAX_NAME_CHARACTERS], STEP).key for key in group}
    return not meant_keys.isdisjoint({"name", "output", "args"})


def _missing_keys(step: dict[str, Any]) -> dict[str, str]:
    """Return the key that a step needs so that it can be compared, and what to write there.

    The dict is empty if the step has an output, a query that returns it, or compared arguments,
    or if steps of its name are compared in a way of their own.
    """
    name = step.get("name")
    if isinstance(name, str) and compares_by_name(name):
        return {}
    compares_args = step.get("args_match") not in (None, "none")
    if compares_args or "output" in step or step.get("reference_query") is not None:
        return {}
    # An unknown key may stand for the query that returns the output.
    meant_keys = {suggest_key(key[:MAX_NAME_CHARACTERS], STEP).key for key in step}
    missing_key = "reference_query" if "reference_query" in meant_keys else "output"
    return {missing_key: "write the expected output, or a reference_query that returns it"}


def _is_table(step: dict[str, Any]) -> bool:
    """Return whether the output of a step is a table in lines.

    The media type may be under a wrong key, which is a mistake of its own.
    """
    for key, value in step.items():
        meant_key = suggest_key(key[:MAX_NAME_CHARACTERS], STEP).key
        if meant_key == "output_media_type" and plain_type(value) in (CSV, TSV):
            return True
    return False


def _is_table_of_one_line(step: dict[str, Any]) -> bool:
    """Return whether the output of a step is a table in CSV or TSV that has no rows."""
    output = step.get("output")
    return _is_table(step) and isinstance(output, str) and "\n" not in output.strip()


def _cure_for_output(step: dict[str, Any], *, is_json: bool) -> str:
    """Return what to do about an output that is not of its media type, as the end of a message."""
    media_type = plain_type(step.get("output_media_type"))
    output = step.get("output")
    if output is None:
        return "; write the expected output, or a reference_query that returns it"
    if _is_table(step):
        if isinstance(output, str):
            return "; put cells with a separator in double quotes"
        if is_json:
            return "; write its lines as one text with \\n, or leave output_media_type out"
        return "; write its lines as text below `output: |`, or leave output_media_type out"
    has_json = isinstance(output, list | dict) or str(output).lstrip().startswith(("{", "["))
    if media_type == SPARQL_RESULTS and isinstance(output, list):
        return "; for a list of rows, write output_media_type: application/json, compare: table"
    if isinstance(output, str) and not has_json:
        return "; for a table in lines, write output_media_type: text/csv"
    return ""
