"""Which tags count, in which order, and how they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.catalogue.tags import (
    MOST_KEYS,
    MOST_VALUES,
    Tag,
    counted_tags,
    parse_tag,
    read_tags,
    tag_name,
    tag_position,
)

if TYPE_CHECKING:
    from random import Random

TEXTS = st.text(st.characters(exclude_characters="=[]", codec="utf-8"), min_size=1).map(str.strip)
TAGS = st.sets(
    st.tuples(st.sampled_from([f"k{i}" for i in range(40)]), st.integers(0, 60).map(str)),
    max_size=400,
)


@given(TEXTS.filter(bool), TEXTS)
def test_tags_are_written_and_read_again(key: str, value: str) -> None:
    assert parse_tag(tag_name((key, value))) == (key, value)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        pytest.param({"hops": 2}, (("hops", "2"), ("level", "easy")), id="a number"),
        pytest.param({"level": " hard "}, (("level", "hard"),), id="in place of the template's"),
        pytest.param(["new"], (("level", "easy"), ("new", "true")), id="a list of names"),
        pytest.param({"new": True}, (("level", "easy"), ("new", "true")), id="a boolean"),
        pytest.param(None, (("level", "easy"),), id="none"),
    ],
)
def test_tags_of_questions_and_templates(tags: object, expected: tuple[Tag, ...]) -> None:
    assert read_tags(tags, of_template=(("level", "easy"),)) == expected


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param("hard", id="a string"),
        pytest.param([1], id="a list of numbers"),
        pytest.param({"a=b": 1}, id="a key with an equals sign"),
        pytest.param({" ": 1}, id="a blank key"),
        pytest.param({"a": None}, id="a null"),
        pytest.param({"a": 1, " a": 1}, id="a key that is given twice"),
    ],
)
def test_invalid_tags(tags: object) -> None:
    with pytest.raises(ValueError, match=r"^tags"):
        read_tags(tags)


def test_numbers_come_by_size_before_names() -> None:
    values = ["10", "9", "b", "nan", "-1", "a", "1.5"]
    ordered = sorted([("hops", value) for value in values], key=tag_position)
    assert [value for _, value in ordered] == ["-1", "1.5", "9", "10", "a", "b", "nan"]


@given(TAGS, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(tags: set[Tag], random: Random) -> None:
    arrivals = sorted(tags)
    random.shuffle(arrivals)
    counted: list[Tag] = []
    is_cut = False
    for start in range(0, len(arrivals), 25):
        known = {*counted, *arrivals[start : start + 25]}
        counted = counted_tags(known, has_dropped_tags=is_cut)
        is_cut |= len(counted) < len(known)

    assert counted == counted_tags(tags)
    assert len(counted) <= MOST_VALUES
    assert len({key for key, _ in counted}) <= MOST_KEYS
    if len(tags) <= MOST_VALUES and len({key for key, _ in tags}) <= MOST_KEYS:
        assert set(counted) == tags
