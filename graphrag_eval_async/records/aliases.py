"""Renaming of response steps to the names in the reference set, since agents choose their own tool names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError, warn_caller
from graphrag_eval_async.records.response import set_metrics_aside

if TYPE_CHECKING:
    from graphrag_eval_async.records.response import Response

ALIAS = "alias"
"""Key of a renamed step that holds the agent's own name for it."""


def names_by_alias(aliases: object, reserved: Collection[str]) -> dict[str, str]:
    """A dict from each alias to the name of its step; names of reference steps are `reserved`.

    Raises:
        UsageError: `aliases` is not such a dict, or an alias has two meanings.
    """
    if not isinstance(aliases, Mapping):
        raise UsageError(f"step_aliases: expected a dict from a name to a list of names, got {aliases!r}")
    found: dict[str, str] = {}
    for name, others in aliases.items():
        _warn_of_typo(name, reserved)
        if not isinstance(others, Sequence) or isinstance(others, str | bytes):
            raise UsageError(f"step_aliases[{name!r}]: expected a list of names, got {others!r}")
        for other in others:
            place = f"step_aliases[{name!r}]"
            if not isinstance(name, str) or not isinstance(other, str) or not other:
                raise UsageError(f"{place}: expected non-empty names, got {other!r}")
            if other in reserved or other in aliases:
                raise UsageError(f"{place}: {other!r} is itself the name of a step")
            if found.setdefault(other, name) != name:
                raise UsageError(f"{place}: {other!r} is already an alias of {found[other]!r}")
    return found


def _warn_of_typo(name: Any, reserved: Collection[str]) -> None:
    """Warn of a name that is close to the name of a reference step but not equal.

    Other unknown names are fine: a file may serve many reference sets.
    """
    if isinstance(name, str) and reserved and name not in reserved:
        from difflib import get_close_matches  # Takes a millisecond to import, and few need it.

        if close := get_close_matches(name[:64], reserved, 1, 0.85):
            warn_caller(f"step_aliases: no reference step is named {name!r}; did you mean {close[0]!r}?")


def rename_steps(response: Response, names: Mapping[str, str]) -> None:
    """Rename the steps of a response by `names`; each keeps its original name under the key `ALIAS`."""
    usable = response.usable
    for index, step in enumerate(response.fields.get("actual_steps") or ()):
        name = step.get("name")
        if name in names:
            step["name"] = names[name]
            step.setdefault(ALIAS, name)
            if names[name] == "retrieval":
                set_metrics_aside(step)
            if usable[index] is not None and isinstance(usable, list):
                usable[index] = names[name]
