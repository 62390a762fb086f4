"""Results grouped by the tags of their questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates.group import Group
from graphrag_eval_async.aggregates.waiting import Batch
from graphrag_eval_async.catalogue.tags import counted_tags, tag_position
from graphrag_eval_async.records.evaluation import Traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphrag_eval_async.aggregates.waiting import Batches
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.catalogue.tags import Tag


class TagGroups:
    """The groups of the tags that count, over all templates.

    Attributes:
        groups: the group of each tag.
        are_cut: whether there were more tags than are counted.
    """

    def __init__(self, right_conditions: Iterable[Condition]) -> None:
        """Start without results; right ones meet those conditions that are on all templates."""
        self._right_conditions = [
            condition for condition in right_conditions if condition.template is None
        ]
        self.groups: dict[Tag, Group] = {}
        self.are_cut = False

    def add(self, tagged: Batches) -> None:
        """Add results with tags."""
        # Results of several templates are added to the group of a tag at once.
        batches: Batches = {}
        for traits, batch in tagged.items():
            for tag in traits.tags:
                traits_in_group = Traits(
                    template_id="",
                    failed=traits.failed,
                    metrics=traits.metrics,
                    steps=(),
                    outcomes=traits.outcomes,
                    tags=(tag,),
                )
                batches.setdefault(traits_in_group, Batch()).extend(batch)
        for traits, batch in batches.items():
            (tag,) = traits.tags
            self._group(tag).add(traits, batch, micro=None)
        self._cut()

    def _group(self, tag: Tag) -> Group:
        """Return the group of a tag; create it if needed."""
        group = self.groups.get(tag)
        if group is None:
            group = Group(right_conditions=self._right_conditions, ordered=False)
            self.groups[tag] = group
        return group

    def merge(self, other: TagGroups) -> None:
        """Add the results of `other`."""
        for tag, group in other.groups.items():
            self._group(tag).merge(group)
        self.are_cut |= other.are_cut
        self._cut()

    def snapshot(self, snapshot_of_group: Callable[[Group], dict[str, Any]]) -> dict[str, Any]:
        """Return what a snapshot shows of tags; nothing without any.

        `snapshot_of_group` returns what it shows of the group of a tag.
        """
        snapshot: dict[str, Any] = {}
        per_tag: dict[str, dict[str, Any]] = {}
        for tag in sorted(self.groups, key=tag_position):
            key, value = tag
            per_tag.setdefault(key, {})[value] = snapshot_of_group(self.groups[tag])
        if per_tag:
            snapshot["per_tag"] = per_tag
        if self.are_cut:
            snapshot["tags_are_cut"] = True
        return snapshot

    def _cut(self) -> None:
        """Drop the tags that do not count, if there are too many."""
        counted = counted_tags(self.groups, is_cut=self.are_cut)
        if len(counted) < len(self.groups):
            self.groups = {tag: self.groups[tag] for tag in counted}
            self.are_cut = True
