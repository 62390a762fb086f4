"""Checks of the keys of one object in a reference set, and of the types of their values."""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import ValidationError, convert, inspect

from graphrag_eval_async.catalogue.tags import read_tags
from graphrag_eval_async.errors import describe
from graphrag_eval_async.reference.kinds import (
    ALTERNATIVE,
    MAX_NAME_CHARACTERS,
    QUESTION,
    TEMPLATE,
    Kind,
    Suggestion,
    simple_name,
    suggest_key,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphrag_eval_async.reference.mistakes import Mistakes

NOTHING: Mapping[str, str] = MappingProxyType({})

MAX_QUOTED = 20
"""Longest text, in characters, that a message repeats in the form in which it should be written."""


class CheckedKeys(NamedTuple):
    """The keys of an object that were checked.

    Attributes:
        values: the valid values by key, converted to the types of the kind of object.
        is_valid: whether there is no problem.
    """

    values: dict[str, Any]
    is_valid: bool


class KeyCheck:
    """Checks the keys of objects, and adds what is wrong to `problems` and `doubts`.

    A problem makes the reference set invalid; a doubt is probably a mistake.
    """

    def __init__(self, problems: Mistakes, doubts: Mistakes, *, is_json: bool = False) -> None:
        """Prepare to check; `is_json` is whether the objects are from a file in JSON."""
        self._is_json = is_json
        self._problems = problems
        self._doubts = doubts

    def check(
        self,
        members: Mapping[Any, Any],
        kind: Kind,
        place: str,
        *,
        required: Mapping[str, str] = NOTHING,
        unchecked: Collection[str] = (),
        may_have_any_key: bool = False,
    ) -> CheckedKeys:
        """Check the keys of an object and their values.

        Args:
            members: the keys and values of the object.
            kind: which kind of object it is.
            place: its place, for messages.
            required: keys that this object must have, besides those that the kind requires, each
                with the reason, or with what to write.
            unchecked: keys whose values the caller checks.
            may_have_any_key: whether unknown keys are no mistake.

        Returns:
            The keys whose values are valid, without `unchecked`.
        """
        problems_before = self._problems.total
        checked = {key: members[key] for key in members if key in kind.type_by_key}
        for key in unchecked:
            checked.pop(key, None)

        has_all = all(members.get(key) is not None for key in required)
        has_only_known_keys = may_have_any_key or members.keys() <= kind.type_by_key.keys()
        if has_all and has_only_known_keys:
            # To convert the whole object is quicker than to convert each value.
            with suppress(ValidationError, UnicodeError):
                shaped = convert(checked, kind.shape)
                return CheckedKeys({key: getattr(shaped, key) for key in checked}, is_valid=True)

        if not may_have_any_key:
            self._check_names(members, kind, place, required)
        values = {}
        for key, value in checked.items():
            try:
                values[key] = convert(value, kind.type_by_key[key])
            except (ValidationError, UnicodeError):
                kind_of_value = inspect.type_info(kind.type_by_key[key])
                self._add_wrong_value(value, kind_of_value, f"{place}.{key}", key)
        return CheckedKeys(values, is_valid=self._problems.total == problems_before)

    def _check_names(
        self, members: Mapping[Any, Any], kind: Kind, place: str, required: Mapping[str, str]
    ) -> None:
        """Add the mistakes in the names of keys: unknown keys and missing keys; see `check`."""
        missing = {key for key in kind.required if key not in members}
        missing |= {key for key in required if members.get(key) is None}
        for key in members:
            if key not in kind.type_by_key:
                missing_key = self._add_unknown_key(key, members, kind, place, missing)
                missing.discard(missing_key)
        for key in sorted(missing):
            advice = required.get(key, f"a {kind.name} needs it")
            if key in members and not self._is_json:
                advice += "; YAML reads text that begins with # as a comment, so put it in quotes"
            self._problems.add(f"{place}.{key}", f"missing; {advice}")

    def _add_unknown_key(
        self,
        key: Any,
        members: Mapping[Any, Any],
        kind: Kind,
        place: str,
        missing: Collection[str],
    ) -> str:
        """Add an unknown key to the problems or to the doubts.

        It is a problem if it stands for a key that is missing, or if steps would be ignored.

        Returns:
            The missing key for which the unknown key stands; "" if it stands for none.
        """
        shown_key = str(key)[:MAX_NAME_CHARACTERS]
        key_place = f"{place}.{shown_key}"
        suggestion = suggest_key(shown_key, kind)
        if suggestion.kind is kind and suggestion.key in missing:
            self._problems.add(key_place, f"unknown key; {suggestion.advice} It is required")
            return str(suggestion.key)
        if kind is ALTERNATIVE:
            self._problems.add(key_place, f"unknown key; {suggestion.advice}")
            return ""
        if ignores_steps(members, key, kind, suggestion):
            message = f"unknown key, so these steps would be ignored; {suggestion.advice}"
            self._problems.add(key_place, message)
            return ""
        self._doubts.add(key_place, f"unknown key, ignored; {suggestion.advice}")
        return ""

    def _add_wrong_value(self, value: Any, kind: inspect.Type, place: str, key: str) -> None:
        """Add the problem of a value of a wrong type; for a list, add the problems of its items."""
        if key == "tags":
            self._problems.add_text(place.removesuffix(key) + _problem_of_tags(value))
            return

        types = _types_without_none(kind)
        if isinstance(value, list) and value:
            for possible_type in types:
                if isinstance(possible_type, inspect.ListType):
                    self._add_wrong_items(value, possible_type.item_type, place, key)
                    return

        expected = " or ".join(_in_words(possible_type) for possible_type in types)
        cure = _cure(value, types[0], key, is_json=self._is_json)
        # A file often has many ids that are numbers, for example. They are one mistake, but each
        # misspelt choice is a mistake of its own.
        choice = value if isinstance(types[0], inspect.LiteralType) else None
        self._problems.add(
            place,
            f"expected {expected}, got {describe_value(value)}{cure}",
            like=(key, expected, type(value), str(choice)),
        )

    def _add_wrong_items(
        self, items: list[Any], item_kind: inspect.Type, place: str, key: str
    ) -> None:
        """Add a problem for each item of a list that lacks the type of the items."""
        for index, item in enumerate(items):
            if not _fits(item, item_kind):
                self._add_wrong_value(item, item_kind, f"{place}[{index}]", key)


def ignores_steps(members: Mapping[Any, Any], key: Any, kind: Kind, suggestion: Suggestion) -> bool:
    """Return whether an unknown key of a template or question holds steps that would be ignored."""
    stands_for_steps = suggestion.kind is QUESTION and suggestion.key == "reference_steps"
    has_steps = bool(members[key]) and isinstance(members[key], list | dict)
    if not stands_for_steps or not has_steps:
        return False
    return kind is TEMPLATE or not members.get("reference_steps")


def _types_without_none(kind: inspect.Type) -> list[inspect.Type]:
    """Return the types that a value may have besides None, without their descriptions."""
    if isinstance(kind, inspect.Metadata):
        return _types_without_none(kind.type)
    if not isinstance(kind, inspect.UnionType):
        return [kind]
    types = []
    for member in kind.types:
        if not isinstance(member, inspect.NoneType):
            types += _types_without_none(member)
    return types


def _fits(value: Any, kind: inspect.Type) -> bool:
    """Return whether an item of a list has the type of the items, which are texts or objects."""
    if isinstance(kind, inspect.Metadata):
        return _fits(value, kind.type)
    if isinstance(kind, inspect.StrType):
        return isinstance(value, str) and len(value) >= (kind.min_length or 0)
    return isinstance(value, dict)


def _problem_of_tags(tags: Any) -> str:
    """Return what is wrong with tags, as "tags: message" or, for one tag, "tags.KEY: message"."""
    try:
        read_tags(tags)
    except ValueError as error:
        problem = str(error)
        if problem.startswith("tags: expected an object"):
            problem += "; write {key: value} or [name]"
        return problem
    return f"tags: expected keys with values or a list of names, got {describe_value(tags)}"


def _in_words(kind: inspect.Type) -> str:
    """Return what a value of a type is, in words."""
    match kind:
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "a whole number of 0 or more"
        case inspect.FloatType():
            return "a number of 0 or more"
        case inspect.LiteralType():
            choices = [str(choice) for choice in kind.values]
            if len(choices) == 1:
                return choices[0]
            return f"{', '.join(choices[:-1])} or {choices[-1]}"
        case inspect.ListType():
            is_of_texts = isinstance(_types_without_none(kind.item_type)[0], inspect.StrType)
            return "a list of texts" if is_of_texts else "a list"
    return "keys with values"


def describe_value(value: Any) -> str:
    """Return what a value of JSON or YAML is, in a few words."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "keys with values" if value else "an empty mapping"
    if isinstance(value, int | float):
        return f"the number {describe(value)}"
    return describe(value) if value else "empty text"


def _cure(value: Any, expected_type: inspect.Type, key: str, *, is_json: bool) -> str:
    """Return what to do about a value of a wrong type, as the end of a message; "" if unknown.

    Args:
        value: the value.
        expected_type: the type that it should have.
        key: its key.
        is_json: whether it is from a file in JSON.
    """
    if key == "order":
        return "; for the order of rows, write ordered: true in the step"
    match expected_type:
        case inspect.LiteralType():
            return _cure_for_choice(value, expected_type)
        case inspect.StrType():
            return _cure_for_text(value, is_json=is_json)
        case inspect.BoolType() if isinstance(value, str):
            return "; write true or false without quotes"
        case inspect.IntType() | inspect.FloatType() if isinstance(value, str):
            return _cure_for_number(value)
        case inspect.ListType() if isinstance(value, str) and len(value) <= MAX_QUOTED:
            return f"; write [{value}]"
        case inspect.DictType() if key == "args":
            return "; write {argument: value}, such as {query: ...}"
    return ""


def _cure_for_text(value: Any, *, is_json: bool) -> str:
    """Return how to write a text where there is another value, as the end of a message.

    It is "" if there is no advice.
    """
    if value is None and not is_json:
        return "; write the text; put it in quotes if it begins with #"
    if value is None or value == "":
        return "; write the text"
    if isinstance(value, bool) and not is_json:
        return "; YAML reads yes, no, on and off as true and false; put it in quotes"
    if isinstance(value, int | float):
        return "; put it in quotes"
    return ""


def _cure_for_choice(value: Any, kind: inspect.LiteralType) -> str:
    """Return the choice that a wrong value may stand for, as the end of a message."""
    if isinstance(value, str):
        choice_by_name = {simple_name(str(choice)): choice for choice in kind.values}
        similar = get_close_matches(simple_name(value), choice_by_name, n=1)
        if similar:
            return f"; did you mean {choice_by_name[similar[0]]}?"
    return "; write one of these, or leave it out"


def _cure_for_number(value: str) -> str:
    """Return how to write a number that stands as text, such as "5" or "5%".

    It is the end of a message; "" if the text is not a number.
    """
    try:
        float(value)
    except ValueError:
        pass
    else:
        return f"; write {value.strip()} without quotes"
    # A reference set has shares as numbers: 5% is 0.05.
    try:
        share = float(value.strip().removesuffix("%")) / 100
    except ValueError:
        return ""
    return f"; write {share:g} for {value.strip()}"
