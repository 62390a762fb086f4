"""Results grouped by the tags of their questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates.group import Group
from graphrag_eval_async.catalogue.tags import counted_tags, tag_position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphrag_eval_async.aggregates.window import Alike, Row
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.catalogue.tags import Tag


class Tagged:
    """The groups of the tags that count, and whether there were more; `right` is as in `Group`."""

    def __init__(self, right: Iterable[Condition]) -> None:
        self._right = [each for each in right if each.template is None]
        self.groups: dict[Tag, Group] = {}
        self.are_cut = False

    def add(self, results: Mapping[Alike, Sequence[Row]]) -> None:
        """Add results with tags."""
        waiting: dict[Alike, list[Row]] = {}  # The same tag of several templates at once.
        for (_, failed, metrics, _, outcomes, tags), rows in results.items():
            for tag in tags:
                waiting.setdefault(("", failed, metrics, (), outcomes, (tag,)), []).extend(rows)
        for alike, rows in waiting.items():
            self.group(*alike[-1]).add(alike, rows, None)
        self._limit()

    def group(self, tag: Tag) -> Group:
        """Return the group of a tag; create it if needed."""
        if (group := self.groups.get(tag)) is None:
            group = self.groups[tag] = Group((), self._right, ordered=False)
        return group

    def merge(self, other: Tagged) -> None:
        for tag, group in other.groups.items():
            self.group(tag).merge(group)
        self.are_cut |= other.are_cut
        self._limit()

    def show(self, show: Callable[[Group], dict[str, Any]]) -> dict[str, Any]:
        """Return what a snapshot shows of tags: nothing without any."""
        per_tag: dict[str, dict[str, Any]] = {}
        for key, value in sorted(self.groups, key=tag_position):
            per_tag.setdefault(key, {})[value] = show(self.groups[key, value])
        return ({"per_tag": per_tag} if per_tag else {}) | (
            {"tags_are_cut": True} if self.are_cut else {}
        )

    def _limit(self) -> None:
        counted = counted_tags(self.groups, is_cut=self.are_cut)
        if len(counted) < len(self.groups):
            self.groups = {tag: self.groups[tag] for tag in counted}
            self.are_cut = True
