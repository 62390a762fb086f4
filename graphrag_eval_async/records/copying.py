"""Copies of JSON values and of questions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.records.decoding import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    return [*map(copy_json, value)] if type(value) is list else value


class AmbiguousObject(dict[str, Any]):
    """A JSON object whose text has some keys, `repeated`, more than once."""

    __slots__ = ("repeated",)

    def __init__(self, members: dict[str, Any], repeated: Sequence[str]) -> None:
        super().__init__(members)
        self.repeated = repeated


class QuestionCopier:
    """Copies questions; calls `problem` with the place and description of whatever JSON cannot represent.

    A copy has None in place of a refused value and omits refused keys.

    Attributes:
        refused: places that `problem` was called with.
        incomplete: refused places, and all places that contain one.
    """

    def __init__(self, problem: Callable[[str, str], None]) -> None:
        self._problem = problem
        self.refused: set[str] = set()
        self.incomplete: set[str] = set()

    def copy(self, value: Any, *path: str) -> Any:
        """A copy of a question or a part of it. `path`, joined, is its place, beginning with the question."""
        if not isinstance(value, dict | list | tuple):
            return self._copy_scalar(value, path)
        if len(path) > MAX_DEPTH:
            raise RecursionError
        try:
            if isinstance(value, dict):
                self.check_keys(value, *path)
                self._copy_scalar(dict.fromkeys(value), path)  # Refuses keys that are not strings.
                return {
                    key: self.copy(item, *path, f".{key}")
                    for key, item in value.items()
                    if isinstance(key, str)
                }
            return [self.copy(item, *path, f"[{index}]") for index, item in enumerate(value)]
        except RecursionError:
            if not _is_unit(path):
                raise
            self._refuse(path, f"nests more than {MAX_DEPTH} deep, or contains itself")
            return None

    def check_keys(self, members: dict[str, Any], *path: str) -> None:
        """Refuse a mapping that repeats a key."""
        if isinstance(members, AmbiguousObject):
            self._refuse(path, f"repeats a key: {', '.join(map(repr, members.repeated))}")

    def _copy_scalar(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, float) and not math.isfinite(value):  # orjson would write null.
            self._refuse(path, f"{value} is not a finite number")
            return None
        try:
            return orjson.loads(orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS))
        except TypeError as error:
            self._refuse(path, f"cannot be written as JSON: {error}")
            return None

    def _refuse(self, path: tuple[str, ...], what: str) -> None:
        place = "".join(path)
        self._problem(place, what)
        self.refused.add(place)
        while place not in self.incomplete and path:
            self.incomplete.add(place)
            path = path[:-1]
            place = "".join(path)


def _is_unit(path: tuple[str, ...]) -> bool:
    """Whether a path leads to a step or other member of a question; if too deep, both are refused whole."""
    return len(path) == (4 if path[1:2] == (".reference_steps",) else 2)
