"""Renaming of response steps to the names in the reference set, since agents choose their own
tool names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.response import set_metrics_aside

if TYPE_CHECKING:
    from graphrag_eval_async.records.response import Response

MAX_LISTED = 20
"""Maximum tools listed in a warning."""

UNNAMED = "unknown"
"""Name of a step of a trace that names no tool."""

BENCHMARK_STEP = (
    "sparql"  # The only step of questions of TEXT2SPARQL and QALD, and of answers to them.
)
_SAME = {"sparql": "sparqlquery", "sparqlquery": "sparql"}  # Unless the reference set has both.

_IGNORED = str.maketrans("", "", "-_ ")


@remember(entries=1024)
def plain_name(name: str) -> str:
    """The part of a step's name that counts: names match in any case, with or without `-`, `_`
    and spaces.
    """
    return name.casefold().translate(_IGNORED)


def names_by_alias(aliases: object, reserved: Collection[str]) -> dict[str, str]:
    """A dict from each alias to the name of its step; names of reference steps are `reserved`."""
    if not isinstance(aliases, Mapping):
        raise UsageError(
            f"step_aliases: expected a dict from a name to a list of names, got {aliases!r}"
        )
    found: dict[str, str] = {}
    for name, others in aliases.items():
        place = f"step_aliases[{name!r}]"
        if not isinstance(others, Sequence) or isinstance(others, str | bytes):
            raise UsageError(f"{place}: expected a list of names, got {others!r}")
        for other in (name, *others):
            if not isinstance(other, str) or not other:
                raise UsageError(f"{place}: expected non-empty names, got {other!r}")
        for other in others:
            if other in reserved or other in aliases:
                raise UsageError(f"{place}: {other!r} is itself the name of a step")
            if found.setdefault(other, name) != name:
                raise UsageError(f"{place}: {other!r} is already an alias of {found[other]!r}")
    return found


def step_names(
    aliases: Mapping[str, str], known: Collection[str], others: Iterable[str]
) -> dict[str, str]:
    """The `known` name of a step by its plain name, and by its aliases, which may be plain or
    not.
    """
    plain = {plain_name(alias): name for alias, name in aliases.items()}
    own = {plain_name(name): name for name in sorted(known)}
    same = {
        _SAME[name]: own[name]
        for name in own.keys() & _SAME
        if _SAME[name] not in map(plain_name, others)
    }
    return same | plain | own | {**aliases}


def meant_name(name: str, names: Mapping[str, str]) -> str | None:
    """The known name of a step that is called `name`, by `step_names`, if there is one."""
    return names.get(name) or names.get(plain_name(name))


def rename_steps(response: Response, known: Collection[str], names: Mapping[str, str]) -> None:
    """Rename steps without a `known` name by `step_names`; they keep their own name under the
    key `alias`.
    """
    usable = response.usable
    for index, step in enumerate(response.fields.get("actual_steps") or ()):
        name = step.get("name")
        if name is None or name in known:
            continue
        meant = meant_name(name, names)
        if meant is not None and meant != name:
            step["name"] = meant
            step.setdefault("alias", name)
            if meant == "retrieval":
                set_metrics_aside(step)
            if usable[index] is not None and isinstance(usable, list):
                usable[index] = meant


def misnamed(unseen: Mapping[str, str], tools: Collection[str]) -> str:
    """What to say if the agent used `tools`, but no name that `unseen` has by name of the
    reference step.
    """
    listed = sorted(tools)[:MAX_LISTED]
    free, aliases = dict.fromkeys(listed), {}
    for name in unseen.values():
        for tool in get_close_matches(name, free, 1, 0):
            aliases[name] = [tool]
            del free[tool]
    names, shown = ([json.dumps(name)[1:-1] for name in each] for each in (unseen, listed))
    more = [f"{len(tools) - MAX_LISTED} more"] if len(tools) > MAX_LISTED else []
    return (
        f"no step of the agent is named like these reference steps: {', '.join(names)}; its other "
        f"tools: {', '.join(shown + more)}. If a tool is such a step, `aliases` in the "
        f"configuration must say so, for example\naliases: {json.dumps(aliases)}"
    )
