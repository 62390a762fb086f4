"""Tags of questions: pairs of a key and a value, by which results are grouped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from graphrag_eval_async.errors import describe

if TYPE_CHECKING:
    from collections.abc import Collection

Tag: TypeAlias = tuple[str, str]
"""A key and its value as text."""

Tags: TypeAlias = tuple[Tag, ...]
"""The tags of a question, sorted by key. Each key occurs only once."""

MOST_KEYS = 20
"""Maximum number of keys by which results are grouped."""

MOST_VALUES = 200
"""Maximum number of values of all keys together by which results are grouped."""

LIMIT_IN_WORDS = f"results are grouped by at most {MOST_KEYS} keys and {MOST_VALUES} values"

TRUE = "true"
"""The value of a tag that consists of a name only."""

ALL_TAGS = "tags"
"""Stands for all keys of tags where a user names the key by which results are grouped."""


def read_tags(tags: Any, of_template: Tags = ()) -> Tags:
    """Return the tags of a question or a result, which it has as a dict or as a list of names.

    Values that are not strings become JSON text. Spaces around keys and values are removed.

    Args:
        tags: a dict of keys and values; or a list of names, each of which becomes a key with the
            value `TRUE`; or None for no tags.
        of_template: the tags of the template. They are added, unless `tags` has the same key.

    Raises:
        ValueError: `tags` is something else. The message begins with "tags".
    """
    if tags is None:
        return of_template
    raw_value_by_key = tags
    if isinstance(tags, list | tuple) and all(isinstance(name, str) for name in tags):
        raw_value_by_key = dict.fromkeys(tags, TRUE)
    if not isinstance(raw_value_by_key, Mapping):
        raise ValueError(f"tags: expected an object or a list of names, got {describe(tags)}")

    value_by_key: dict[str, str] = {}
    for raw_key, value in raw_value_by_key.items():
        if not _is_valid_key(raw_key):
            raise ValueError(f"tags: expected a key without =, [ and ], got {describe(raw_key)}")
        if not isinstance(value, str | int | float):
            problem = f"expected a string, a number or a boolean, got {describe(value)}"
            raise ValueError(f"tags.{raw_key}: {problem}")
        key = raw_key.strip()
        if key in value_by_key:
            raise ValueError(f"tags.{key}: given twice; spaces around it do not count")
        if not isinstance(value, str):
            value = json.dumps(value)
        value_by_key[key] = value.strip()
    return tuple(sorted((dict(of_template) | value_by_key).items()))


def _is_valid_key(key: Any) -> bool:
    """Return whether a key can be part of a gate, such as ``steps_score[hops=2] >= 0.8``."""
    return isinstance(key, str) and bool(key.strip()) and {*"=[]"}.isdisjoint(key)


def tag_name(tag: Tag) -> str:
    """Return a tag as text: ``hops=2``, or only its key if its value is `TRUE`."""
    key, value = tag
    if value == TRUE:
        return key
    return f"{key}={value}"


def parse_tag(text: str) -> Tag:
    """Return the tag with this text: ``hops=2``, or only a key, whose value is `TRUE`."""
    key, equals_sign, value = text.partition("=")
    if not equals_sign:
        return key.strip(), TRUE
    return key.strip(), value.strip()


def tag_position(tag: Tag) -> tuple[str, float, str]:
    """Return a sort key that sorts tags by key and then by value, numbers first and by size."""
    key, value = tag
    try:
        number = float(value)
    except ValueError:
        number = inf
    # NaN cannot be compared. With it as the second argument, `min` returns infinity.
    return key, min(inf, number), value


class _RankOfKey(NamedTuple):
    """The place of a key of tags; keys of the lowest ranks are counted.

    Attributes:
        is_unnamed: whether no user names the key.
        has_no_value: whether the tags consist of a name only, which is the key.
        key: the key.
    """

    is_unnamed: bool
    has_no_value: bool
    key: str


def counted_tags(
    tags: Collection[Tag], *, first_keys: Collection[str] = (), has_dropped_tags: bool = False
) -> list[Tag]:
    """Return the tags by which results are grouped, sorted.

    These are all tags, unless they exceed `MOST_KEYS` or `MOST_VALUES`. Then only the first keys
    count, and of each key the same number of first values. The keys that a user names come first,
    with as many values as if there were no others. Then come keys with values, and then tags that
    consist of a name only: a set of questions may have many of these.

    Args:
        tags: the tags of all results.
        first_keys: the keys that a user names.
        has_dropped_tags: whether some tags were dropped before. Then the limit of values for each
            key applies however few tags there are. So a dropped tag never returns, and the order of
            results does not matter.
    """
    ordered = sorted(tags, key=tag_position)
    # A key may have the value `TRUE` and others. Its place must not depend on which come first, so
    # the tag that is a name only counts as a key of its own.
    tags_by_rank: dict[_RankOfKey, list[Tag]] = {}
    for key, value in ordered:
        is_unnamed = key not in first_keys
        rank = _RankOfKey(is_unnamed=is_unnamed, has_no_value=is_unnamed and value == TRUE, key=key)
        tags_by_rank.setdefault(rank, []).append((key, value))
    is_within_limits = len(tags) <= MOST_VALUES and len(tags_by_rank) <= MOST_KEYS
    if is_within_limits and not has_dropped_tags:
        return ordered

    counted: set[Tag] = set()
    counted_ranks = sorted(tags_by_rank)[:MOST_KEYS]
    number_of_named_keys = sum(not rank.is_unnamed for rank in counted_ranks)
    for rank in counted_ranks:
        values_per_key = MOST_VALUES // len(counted_ranks)
        if not rank.is_unnamed:
            values_per_key = MOST_VALUES // number_of_named_keys
        counted.update(tags_by_rank[rank][:values_per_key])
    return [tag for tag in ordered if tag in counted]
