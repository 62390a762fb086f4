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
"""Maximum number of tools that a warning lists."""

UNNAMED = "unknown"
"""Name of a step of a trace that names no tool."""

BENCHMARK_STEP = "sparql"
"""The only step of questions of TEXT2SPARQL and QALD, and of answers to them."""

_SYNONYMS = {"sparql": "sparqlquery", "sparqlquery": "sparql"}
"""Plain names that mean the same step, unless the reference set has both."""

_IGNORED = str.maketrans("", "", "-_ ")


@remember(entries=1024)
def plain_name(name: str) -> str:
    """Return the part of a step's name that counts.

    Names match in any case, with or without `-`, `_` and spaces.
    """
    return name.casefold().translate(_IGNORED)


def names_by_alias(aliases: object, reserved: Collection[str]) -> dict[str, str]:
    """Return the name of a step by each of its aliases.

    Args:
        aliases: a dict from the name of a step to a list of its aliases; unchecked.
        reserved: the names of reference steps, which cannot be aliases.

    Raises:
        UsageError: `aliases` is something else, or an alias is ambiguous.
    """
    if not isinstance(aliases, Mapping):
        raise UsageError(
            f"step_aliases: expected a dict from a name to a list of names, got {aliases!r}"
        )
    name_by_alias: dict[str, str] = {}
    for name, aliases_of_name in aliases.items():
        place = f"step_aliases[{name!r}]"
        if not isinstance(aliases_of_name, Sequence) or isinstance(aliases_of_name, str | bytes):
            raise UsageError(f"{place}: expected a list of names, got {aliases_of_name!r}")
        for text in (name, *aliases_of_name):
            if not isinstance(text, str) or not text:
                raise UsageError(f"{place}: expected non-empty names, got {text!r}")
        for alias in aliases_of_name:
            if alias in reserved or alias in aliases:
                raise UsageError(f"{place}: {alias!r} is itself the name of a step")
            first_name = name_by_alias.setdefault(alias, name)
            if first_name != name:
                raise UsageError(f"{place}: {alias!r} is already an alias of {first_name!r}")
    return name_by_alias


def step_names(
    aliases: Mapping[str, str], reference_names: Collection[str], forbidden: Iterable[str]
) -> dict[str, str]:
    """Return the names of steps by all spellings that mean them.

    Args:
        aliases: names of steps by their aliases.
        reference_names: the names of reference steps.
        forbidden: the names of steps that questions forbid, which are never synonyms of others.

    Returns:
        names of steps by plain name of a synonym, by plain name of an alias, by plain name, and by
        alias. Where these are equal, a later one counts.
    """
    by_plain_name = {plain_name(name): name for name in sorted(reference_names)}
    by_plain_alias = {plain_name(alias): name for alias, name in aliases.items()}
    plain_forbidden = {plain_name(name) for name in forbidden}
    by_synonym = {
        synonym: by_plain_name[name]
        for name, synonym in _SYNONYMS.items()
        if name in by_plain_name and synonym not in plain_forbidden
    }
    return by_synonym | by_plain_alias | by_plain_name | dict(aliases)


def meant_name(name: str, names: Mapping[str, str]) -> str | None:
    """Return the name of the step that is meant by `name`; None if it is no spelling of one.

    `names` are the names of steps by all their spellings, as `step_names` returns them.
    """
    return names.get(name) or names.get(plain_name(name))


def rename_steps(
    response: Response, reference_names: Collection[str], names: Mapping[str, str]
) -> None:
    """Give the steps of a response the names of the reference steps that they mean, in place.

    A renamed step keeps its own name under the key `alias`.

    Args:
        response: the response.
        reference_names: the names of reference steps. Steps of these names stay as they are.
        names: the names of steps by all spellings that mean them, as `step_names` returns them.
    """
    for index, step in enumerate(response.fields.get("actual_steps") or ()):
        name = step.get("name")
        if name is None or name in reference_names:
            continue
        reference_name = meant_name(name, names)
        if reference_name is None or reference_name == name:
            continue
        step["name"] = reference_name
        step.setdefault("alias", name)
        if reference_name == "retrieval":
            set_metrics_aside(step)
        if response.usable[index] is not None and isinstance(response.usable, list):
            response.usable[index] = reference_name


def misnamed(unseen: Mapping[str, str], tools: Collection[str]) -> str:
    """Return a warning that the agent uses tools of other names than the reference steps have.

    Args:
        unseen: the names of reference steps that no step of the agent has, each with the name whose
            aliases the example gives.
        tools: the names of the agent's other tools.
    """
    listed = sorted(tools)[:MAX_LISTED]
    # An example, in which each tool is an alias of the name that it resembles most.
    free_tools = dict.fromkeys(listed)
    example: dict[str, list[str]] = {}
    for name in unseen.values():
        for tool in get_close_matches(name, free_tools, n=1, cutoff=0):
            example[name] = [tool]
            del free_tools[tool]

    tools_in_words = [_escaped(tool) for tool in listed]
    if len(tools) > MAX_LISTED:
        tools_in_words.append(f"{len(tools) - MAX_LISTED} more")
    return (
        "no step of the agent is named like these reference steps: "
        f"{', '.join(map(_escaped, unseen))}; its other tools: {', '.join(tools_in_words)}. "
        "If a tool is such a step, `aliases` in the configuration must say so, for example\n"
        f"aliases: {json.dumps(example)}"
    )


def _escaped(name: str) -> str:
    """Return a name without control characters and characters beyond ASCII."""
    return json.dumps(name)[1:-1]
