"""What an output tells of its values, and the detail that two outputs have in common.

Forms differ in what they keep of a node, a relationship, a path or a point. The rows of
`record.data()`, for example, hold the properties of a node without its labels. Two outputs are
compared by what both tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.steps.cypher.moments import read_moment
from graphrag_eval_async.steps.cypher.values import (
    PLAIN_TYPES,
    CypherTable,
    Node,
    Path,
    PathEnds,
    Point,
    Relationship,
    walk,
)
from graphrag_eval_async.steps.tables.temporal import DATE, DATE_TIME, DURATION, TIME

if TYPE_CHECKING:
    from graphrag_eval_async.steps.budget import Budget

STEPS_PER_VALUE = 20
"""Steps of a budget for a value that is looked at."""

DIGITS = 12
"""Significant digits of numbers inside lists, maps and the like.

Sums and averages of different stores differ in the last of the 16 or 17 digits of a double.
"""

RELATIONSHIP_PARTS = 3
"""Length of the list of start, type and end that `record.data()` makes of a relationship."""


class Form(Enum):
    """Which parts of relationships, or of paths, an output tells."""

    FULL = "full"
    """All parts."""

    ENDS = "ends"
    """Of a path, its first node, its last node and its length."""

    CHAIN = "chain"
    """A list in which properties of nodes and types of relationships take turns."""

    MAPS = "maps"
    """Nothing but properties, as maps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTraits:
    """Traits of an output: what its values are, and how much it tells of them.

    Attributes:
        tells_kinds: whether its form always distinguishes nodes, relationships, points and maps.
        has_nodes: whether any value is a node.
        has_relationships: whether any value is a relationship outside a path.
        has_paths: whether any value is a path with its relationships.
        has_path_ends: whether any value is a path without its relationships.
        has_points: whether any value is a point.
        coordinates_of_points: the coordinates of each point, as `coordinates_by_size` returns them.
        sizes_of_paths: the number of nodes and relationships of each path, together.
        has_chains: whether any value is a list of maps and types in turns; see `is_chain`.
        has_maps: whether any value is a map or a list.
        has_durations: whether any value is a duration.
        has_dates: whether any value is a date without a time.
        ends: whether it holds the nodes at the ends of all its relationships outside paths.
        directions: whether it tells in which direction its paths pass all relationships.
        reference_systems: whether it tells the reference systems of all its points.
        zones: True if any of its times has a time zone, and False if any has none; empty without
            times.
    """

    tells_kinds: bool
    has_nodes: bool
    has_relationships: bool
    has_paths: bool
    has_path_ends: bool
    has_points: bool
    coordinates_of_points: frozenset[tuple[float, ...]]
    sizes_of_paths: frozenset[int]
    has_chains: bool
    has_maps: bool
    has_durations: bool
    has_dates: bool
    ends: bool
    directions: bool
    reference_systems: bool
    zones: frozenset[bool]

    @property
    def nodes(self) -> bool:
        """Whether nodes are distinguished from maps."""
        return self.tells_kinds or self.has_nodes

    @property
    def points(self) -> bool:
        """Whether points are distinguished from lists."""
        return self.tells_kinds or self.has_points

    @property
    def relationships(self) -> Form:
        """Which parts of relationships the output tells."""
        if self.tells_kinds or self.has_relationships or self.has_paths:
            return Form.FULL
        if self.has_chains:
            return Form.CHAIN
        return Form.MAPS

    @property
    def paths(self) -> Form:
        """Which parts of paths the output tells."""
        if self.has_path_ends:
            return Form.ENDS
        if self.tells_kinds or self.has_paths:
            return Form.FULL
        if self.has_chains:
            return Form.CHAIN
        return Form.MAPS


@dataclass(frozen=True, slots=True)
class Detail:
    """The detail in which the values of two outputs are compared.

    Attributes:
        labels: whether the labels of nodes count; otherwise nodes are maps.
        relationships: what counts of relationships.
        paths: what counts of paths.
        ends: whether the nodes at the ends of relationships count.
        directions: whether the directions of relationships in paths count.
        points: whether points are more than lists of coordinates.
        coordinates_of_points: if points are lists, the coordinates of each, as
            `coordinates_by_size` returns them. The order of such a list counts.
        sizes_of_paths: if paths are lists of maps, the length of each. The order of such a list
            counts.
        reference_systems: whether the reference systems of points count.
        durations_from_lists: whether a list of four integers is a duration.
        midnights_are_dates: whether a time at midnight is a date, as pandas writes it.
        zones: whether the time zones of dates with a time count.
        is_ordered: whether the order of items in lists counts.
        types: whether texts, numbers and booleans are different, even if written alike.
    """

    labels: bool = True
    relationships: Form = Form.FULL
    paths: Form = Form.FULL
    ends: bool = True
    directions: bool = True
    points: bool = True
    coordinates_of_points: frozenset[tuple[float, ...]] = frozenset()
    sizes_of_paths: frozenset[int] = frozenset()
    reference_systems: bool = True
    durations_from_lists: bool = False
    midnights_are_dates: bool = False
    zones: bool = True
    is_ordered: bool = False
    types: bool = False


def coordinates_by_size(numbers: Iterable[float]) -> tuple[float, ...]:
    """Return the coordinates of a point, rounded as numbers are in comparisons, and sorted.

    They are equal for a point and for a list of its coordinates in any order.
    """
    rounded = [
        float(f"{number:.{DIGITS}g}") if isinstance(number, float) else number for number in numbers
    ]
    return tuple(sorted(rounded))


def is_chain(items: list[Any]) -> bool:
    """Return whether a list is what `record.data()` makes of a relationship or a path.

    In such a list, the properties of nodes and the types of relationships take turns: map, text,
    map, ...
    """
    # It begins and ends with a node, so its length is odd.
    if len(items) < RELATIONSHIP_PARTS or len(items) % 2 == 0:
        return False
    has_maps = all(isinstance(item, Mapping) for item in items[::2])
    return has_maps and all(isinstance(item, str) for item in items[1::2])


def is_backward(path: Path, index: int) -> bool | None:
    """Return whether a path passes a relationship from its end to its start; None if unknown.

    Args:
        path: the path.
        index: the position of the relationship in it.
    """
    relationship = path.relationships[index]
    before = path.nodes[index]
    after = path.nodes[index + 1]

    # Find out with which of the two nodes the relationship starts. Internal ids are surest.
    if relationship.start_id is not None and before.id is not None:
        starts_before = relationship.start_id == before.id
        starts_after = relationship.start_id == after.id
    elif relationship.start is not None:
        starts_before = _is_same_node(relationship.start, before)
        starts_after = _is_same_node(relationship.start, after)
    else:
        return None

    # If both nodes are equal, the direction makes no difference, and counts as forward.
    if starts_before:
        return False
    if starts_after:
        return True
    return None


def _is_same_node(one: Node, other: Node) -> bool:
    """Return whether two nodes are equal, whatever their internal ids."""
    return one.labels == other.labels and one.properties == other.properties


def find_traits(table: CypherTable, budget: Budget) -> OutputTraits:
    """Return the traits of an output.

    Args:
        table: the table in the output.
        budget: what may be spent.

    Raises:
        ComparisonBudgetExceeded: the table is too large for the budget.
    """
    # Collect all values by their types.
    values = _all_values(table, budget)
    relationships = _relationships_outside_paths(table)
    paths = [value for value in values if isinstance(value, Path)]
    points = [value for value in values if isinstance(value, Point)]
    lists = [value for value in values if isinstance(value, list)]
    chains = [items for items in lists if is_chain(items)]
    moments = [read_moment(value) for value in values if isinstance(value, str)]
    temporals = [moment.value for moment in moments if moment is not None]

    # Find out of which of them the output does not tell everything.
    chains_without_ends = [chain for chain in chains if _lacks_ends(chain)]
    directions = [
        is_backward(path, index) for path in paths for index in range(len(path.relationships))
    ]
    return OutputTraits(
        tells_kinds=table.tells_kinds,
        has_nodes=any(isinstance(value, Node) for value in values),
        has_relationships=bool(relationships),
        has_paths=bool(paths),
        has_path_ends=any(isinstance(value, PathEnds) for value in values),
        has_points=bool(points),
        coordinates_of_points=frozenset(coordinates_by_size(point.coordinates) for point in points),
        sizes_of_paths=frozenset(len(path.nodes) + len(path.relationships) for path in paths),
        has_chains=bool(chains),
        has_maps=bool(lists) or any(isinstance(value, Mapping) for value in values),
        has_durations=any(temporal.kind == DURATION for temporal in temporals),
        has_dates=any(temporal.kind == DATE for temporal in temporals),
        ends=not chains_without_ends and all(item.has_ends for item in relationships),
        directions=None not in directions,
        reference_systems=all(point.srid is not None for point in points),
        zones=frozenset(
            temporal.has_zone for temporal in temporals if temporal.kind in (DATE_TIME, TIME)
        ),
    )


def _all_values(table: CypherTable, budget: Budget) -> list[Any]:
    """Return the values in all cells, and the values inside these at any depth.

    Raises:
        ComparisonBudgetExceeded: there are too many values for the budget.
    """
    values: list[Any] = []
    for row in table.rows:
        for cell in row:
            values_of_cell: list[Any] = [cell]
            if not isinstance(cell, PLAIN_TYPES):
                values_of_cell = list(walk(cell))
            budget.spend(STEPS_PER_VALUE * len(values_of_cell))
            values += values_of_cell
    return values


def _lacks_ends(chain: list[Any]) -> bool:
    """Return whether a list is a relationship of `record.data()` with an unknown node at an end.

    An empty map stands for the properties of such a node.
    """
    if len(chain) != RELATIONSHIP_PARTS:
        return False
    start = chain[0]
    end = chain[-1]
    return not start or not end


def _relationships_outside_paths(table: CypherTable) -> list[Relationship]:
    """Return all relationships of a table that are in no path."""
    relationships: list[Relationship] = []
    waiting: list[Any] = [cell for row in table.rows for cell in row]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Relationship):
            relationships.append(value)
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return relationships


def common_detail(
    expected: OutputTraits, actual: OutputTraits, *, is_ordered: bool, has_types: bool
) -> Detail:
    """Return the parts of values that both outputs tell, which are those to compare.

    Args:
        expected: the traits of the reference output.
        actual: the traits of the agent's output.
        is_ordered: whether the order of items in lists counts.
        has_types: whether texts, numbers and booleans are different, even if written alike.
    """
    # Time zones count unless all times of one output have them and no time of the other one does.
    all_have_zones = frozenset({True})
    none_has_zones = frozenset({False})
    only_one_has_zones = {expected.zones, actual.zones} == {all_have_zones, none_has_zones}

    # If only one output has points or paths, the lists that stand for them in the other have an
    # order.
    points = expected.points and actual.points
    coordinates_of_points: frozenset[tuple[float, ...]] = frozenset()
    if not points:
        coordinates_of_points = expected.coordinates_of_points | actual.coordinates_of_points
    paths = _least(expected.paths, actual.paths)
    sizes_of_paths: frozenset[int] = frozenset()
    if paths is Form.MAPS:
        sizes_of_paths = expected.sizes_of_paths | actual.sizes_of_paths
    return Detail(
        labels=expected.nodes and actual.nodes,
        relationships=_least(expected.relationships, actual.relationships),
        paths=paths,
        ends=expected.ends and actual.ends,
        directions=expected.directions and actual.directions,
        points=points,
        coordinates_of_points=coordinates_of_points,
        sizes_of_paths=sizes_of_paths,
        reference_systems=expected.reference_systems and actual.reference_systems,
        durations_from_lists=expected.has_durations != actual.has_durations,
        midnights_are_dates=expected.has_dates != actual.has_dates,
        zones=not only_one_has_zones,
        is_ordered=is_ordered,
        types=has_types,
    )


def _least(expected: Form, actual: Form) -> Form:
    """Return the one of two forms that tells less, to which the other form can be reduced."""
    # These are in order of how much they tell. Ends come first, since a path of which only the ends
    # are known cannot be reduced to another form.
    for form in (Form.ENDS, Form.MAPS, Form.CHAIN):
        if form in (expected, actual):
            return form
    return Form.FULL


def describe_missing_detail(expected: OutputTraits, actual: OutputTraits) -> str | None:
    """Return a sentence about the parts of values that were not compared.

    These are the parts that only one of the two outputs tells.

    Returns:
        the text for `failure_detail`; None if all parts were compared.
    """
    missing_in_actual = _missing_parts(poorer=actual, richer=expected)
    missing_in_reference = _missing_parts(poorer=expected, richer=actual)
    sentences = []
    if missing_in_actual:
        sentences.append(f"the agent's output does not tell {', '.join(missing_in_actual)}")
    if missing_in_reference:
        sentences.append(f"the reference output does not tell {', '.join(missing_in_reference)}")
    if not sentences:
        return None
    return f"compared by what both outputs tell: {'; '.join(sentences)}"


def _missing_parts(*, poorer: OutputTraits, richer: OutputTraits) -> list[str]:
    """Return the parts of values that one output tells and another does not.

    Args:
        poorer: the traits of the output that may lack them. If it has no values of which these may
            be parts, they are not returned: without maps, it does not lack the labels of nodes.
        richer: the traits of the output that may tell them.
    """
    # Compare what they tell of nodes, relationships and paths.
    missing = []
    if richer.has_nodes and not poorer.nodes and poorer.has_maps:
        missing.append("the labels of nodes")
    if richer.has_relationships and poorer.relationships is Form.CHAIN:
        missing.append("the properties of relationships")
    if richer.has_relationships and poorer.relationships is Form.MAPS and poorer.has_maps:
        missing.append("the types of relationships")
    if richer.has_paths and poorer.paths is Form.ENDS:
        missing.append("the relationships of paths")
    if richer.has_paths and poorer.paths is Form.CHAIN:
        missing.append("the properties of relationships in paths")
    if richer.has_relationships and richer.ends and not poorer.ends:
        missing.append("the nodes at the ends of relationships")

    # Compare what they tell of points.
    has_systems = richer.has_points and richer.reference_systems
    lacks_systems = poorer.has_points and not poorer.reference_systems
    has_lists_for_points = not poorer.points and poorer.has_maps
    if has_systems and (lacks_systems or has_lists_for_points):
        missing.append("the reference systems of points")
    return missing
