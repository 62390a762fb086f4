"""Renames the steps of responses to the names in the reference set.

Agents choose their own names of tools, so `aliases` in the configuration say what they mean.
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

CYPHER_STEP = "cypher_query"
"""The usual name of a step that runs a Cypher query."""

BENCHMARK_STEP = "sparql"
"""The only step of questions of TEXT2SPARQL and QALD, and of answers to them."""

CYPHER_STEPS = frozenset({"cypher", "cypherquery", "readneo4jcypher", "querygraph"})
"""Plain names of steps that run a Cypher query.

The last two are those of the MCP servers of Neo4j and FalkorDB.
"""

_SYNONYMS = (frozenset({"sparql", "sparqlquery"}), CYPHER_STEPS)
"""Groups of plain names that mean the same step, unless the reference set has several of them."""

_IGNORED = str.maketrans("", "", "-_ ")


@remember(entries=1024)
def plain_name(name: str) -> str:
    """Return a step's name in lower case, without `-`, `_` and spaces.

    Two names match if their plain names are equal.
    """
    return name.casefold().translate(_IGNORED)


def names_by_alias(aliases: object, reserved: Collection[str]) -> dict[str, str]:
    """Check the aliases of a configuration, and return the name of a step for each alias.

    Args:
        aliases: a dict from the name of a step to a list of its aliases. It may be anything else if
            the user made a mistake.
        reserved: the names of reference steps, which cannot be aliases.

    Raises:
        UsageError: `aliases` has another form, or an alias is ambiguous.
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
        for checked_name in (name, *aliases_of_name):
            if not isinstance(checked_name, str) or not checked_name:
                raise UsageError(f"{place}: expected non-empty names, got {checked_name!r}")
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
    """Return the name of a reference step for each spelling that means it.

    Args:
        aliases: the name of a step for each of its aliases.
        reference_names: the names of reference steps.
        forbidden: the names of steps that questions forbid. They are never synonyms of others.

    Returns:
        the name of a step for each plain name of a synonym, each plain name of an alias, each plain
        name, and each alias. If two of these spellings are equal, the latter counts.
    """
    by_plain_name = {plain_name(name): name for name in sorted(reference_names)}
    by_plain_alias = {plain_name(alias): name for alias, name in aliases.items()}
    plain_forbidden = {plain_name(name) for name in forbidden}
    by_synonym: dict[str, str] = {}
    for synonyms in _SYNONYMS:
        names_in_reference = synonyms & by_plain_name.keys()
        if len(names_in_reference) == 1:
            [name] = names_in_reference
            meant_synonyms = synonyms - plain_forbidden
            by_synonym |= dict.fromkeys(meant_synonyms, by_plain_name[name])
    return by_synonym | by_plain_alias | by_plain_name | dict(aliases)


def meant_name(name: str, names: Mapping[str, str]) -> str | None:
    """Return the reference step that an agent's name of a step means; None if it means none.

    Args:
        name: the name that the agent uses.
        names: the name of a reference step for each spelling, as `step_names` returns them.
    """
    return names.get(name) or names.get(plain_name(name))


def rename_steps(
    response: Response, reference_names: Collection[str], names: Mapping[str, str]
) -> None:
    """Rename the steps of a response, in place, to the reference steps that they mean.

    A renamed step keeps the agent's name under the key `alias`.

    Args:
        response: the response to change.
        reference_names: the names of reference steps. Steps with these names are not renamed.
        names: the name of a reference step for each spelling, as `step_names` returns them.
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
            # The agent's own scores of its retrieval must not count as metrics of this package.
            set_metrics_aside(step)
        is_usable = response.usable[index] is not None
        if is_usable and isinstance(response.usable, list):
            response.usable[index] = reference_name


def misnamed(alias_targets: Mapping[str, str], tools: Collection[str]) -> str:
    """Return a warning that no step of the agent has the name of some reference steps.

    The warning has an example of the `aliases` that the user may need.

    Args:
        alias_targets: for each of these reference steps, the name under which the configuration
            lists its aliases.
        tools: the names of the agent's tools that are not reference steps.
    """
    listed_tools = sorted(tools)[:MAX_LISTED]

    # In the example, each step has the most similar tool as its alias. A tool is used only once.
    unused_tools = [*listed_tools]
    example: dict[str, list[str]] = {}
    for target in alias_targets.values():
        most_similar = get_close_matches(target, unused_tools, n=1, cutoff=0)
        if most_similar:
            example[target] = most_similar
            unused_tools.remove(most_similar[0])

    steps_in_words = ", ".join(_escaped(name) for name in alias_targets)
    tools_in_words = ", ".join(_escaped(tool) for tool in listed_tools)
    if len(tools) > MAX_LISTED:
        tools_in_words += f", {len(tools) - MAX_LISTED} more"
    return (
        f"no step of the agent is named like these reference steps: {steps_in_words}; "
        f"its other tools: {tools_in_words}. "
        "If a tool is such a step, `aliases` in the configuration must say so, for example\n"
        f"aliases: {json.dumps(example)}"
    )


def _escaped(name: str) -> str:
    """Return a name without control characters and characters beyond ASCII."""
    return json.dumps(name)[1:-1]
