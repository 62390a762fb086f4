"""Results grouped by the tags of their questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates.group import Group
from graphrag_eval_async.aggregates.waiting import Batch
from graphrag_eval_async.catalogue.tags import counted_tags, tag_position
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.evaluation import Traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphrag_eval_async.aggregates.waiting import Batches
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.catalogue.tags import Tag


class TagGroups:
    """The results with each tag, over all templates.

    There is a limit to the number of tags.

    Attributes:
        groups: the group of results with each tag.
        first_keys: the keys that a user names, whose tags are dropped last.
        has_dropped_tags: whether some tags were dropped, since there were more than the limit.
        cut_keys: the keys of groups of which some values were dropped.
    """

    def __init__(
        self, right_conditions: Iterable[Condition], first_keys: Iterable[str] = ()
    ) -> None:
        """Start without results.

        Args:
            right_conditions: the conditions that a right result meets. Conditions on a single
                template are ignored, since results with a tag are of several templates.
            first_keys: the keys that a user names.
        """
        self._right_conditions = [
            condition for condition in right_conditions if condition.template is None
        ]
        self.groups: dict[Tag, Group] = {}
        self.first_keys = frozenset(first_keys)
        self.has_dropped_tags = False
        self.cut_keys: set[str] = set()

    def add(self, tagged: Batches) -> None:
        """Add batches of results that have tags."""
        # Join batches that differ only in what the group of a tag ignores: templates, steps and
        # other tags. Few large batches are faster than many small ones.
        batches_by_tag: Batches = {}
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
                batches_by_tag.setdefault(traits_in_group, Batch()).extend(batch)

        for traits, batch in batches_by_tag.items():
            (tag,) = traits.tags
            self._group(tag).add(traits, batch, micro=None)
        self._drop_excess_tags()

    def _group(self, tag: Tag) -> Group:
        """Return the group of a tag; add an empty one if there is none."""
        group = self.groups.get(tag)
        if group is None:
            group = Group(right_conditions=self._right_conditions, ordered=False)
            self.groups[tag] = group
        return group

    def merge(self, other: TagGroups) -> None:
        """Add the results of other groups of tags.

        Raises:
            UsageError: both have dropped tags, and other keys came first.
        """
        if other.has_dropped_tags and other.first_keys != self.first_keys:
            if self.has_dropped_tags:
                # A tag that only one of the two has may have been dropped from the other.
                raise UsageError(
                    "tags: these aggregates lack different tags, since different keys came first: "
                    f"{_list_keys(self.first_keys)} and {_list_keys(other.first_keys)}; use the "
                    "same --by and gates for both, or aggregate their results"
                )
            self.first_keys = other.first_keys
        for tag, group in other.groups.items():
            self._group(tag).merge(group)
        self.has_dropped_tags |= other.has_dropped_tags
        self.cut_keys |= other.cut_keys
        self._drop_excess_tags()

    def snapshot(self, snapshot_of_group: Callable[[Group], dict[str, Any]]) -> dict[str, Any]:
        """Return the keys of a snapshot that are about tags.

        Args:
            snapshot_of_group: returns the snapshot of the results with one tag.

        Returns:
            `per_tag`, with the snapshots by key and value of the tag, unless there are no tags;
            `tags_are_cut`, if some tags were dropped; and `cut_tag_keys`, the keys in `per_tag`
            that lack some values, if there are any.
        """
        snapshot: dict[str, Any] = {}
        per_tag: dict[str, dict[str, Any]] = {}
        for tag in sorted(self.groups, key=tag_position):
            key, value = tag
            per_tag.setdefault(key, {})[value] = snapshot_of_group(self.groups[tag])
        if per_tag:
            snapshot["per_tag"] = per_tag
        if self.has_dropped_tags:
            snapshot["tags_are_cut"] = True
        if self.cut_keys:
            snapshot["cut_tag_keys"] = sorted(self.cut_keys)
        return snapshot

    def _drop_excess_tags(self) -> None:
        """Drop the last tags if there are more than the limit."""
        counted = counted_tags(
            self.groups, first_keys=self.first_keys, has_dropped_tags=self.has_dropped_tags
        )
        if len(counted) == len(self.groups):
            return
        self.has_dropped_tags = True
        self.cut_keys.update(key for key, _ in self.groups.keys() - set(counted))
        self.groups = {tag: self.groups[tag] for tag in counted}
        self.cut_keys &= {key for key, _ in counted}


def _list_keys(keys: Iterable[str]) -> str:
    """Return keys of tags in words."""
    return ", ".join(sorted(keys)) or "none"
