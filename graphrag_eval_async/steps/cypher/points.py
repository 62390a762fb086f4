"""Reads points: well-known text, GeoJSON, Cypher's maps of coordinates, objects of drivers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.cypher.calls import CARTESIAN, SRIDS_BY_CLASS, WGS_84
from graphrag_eval_async.steps.cypher.literals import read_literal
from graphrag_eval_async.steps.cypher.values import Point

POINT_KEYS = frozenset(
    {"srid", "crs", "x", "y", "z", "longitude", "latitude", "height", "type", "coordinates"}
)
"""Keys that an object of a point may have."""

SRIDS_BY_NAME = {"wgs-84": WGS_84, "cartesian": CARTESIAN}
"""Numbers of reference systems by their names in Cypher, then by the number of coordinates."""

_NUMBER = r"(-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
_is_point = re.compile(
    rf"(?:SRID=(\d+);\s*)?POINT ?Z? ?\({_NUMBER},? {_NUMBER}(?:,? {_NUMBER})?\)",
    re.ASCII | re.IGNORECASE,
).fullmatch
"""A point as extended well-known text, such as ``SRID=4326;POINT (10.7 59.9)``."""


def may_be_point(text: str) -> bool:
    """Return whether a text begins like a point."""
    return text[:5].upper() in ("POINT", "SRID=") or text.startswith(tuple(SRIDS_BY_CLASS))


def point_of_text(text: str) -> Point | None:
    """Read a point in well-known text or as Neo4j's driver shows it; None if it is no point."""
    match = _is_point(text)
    if match is None:
        return _point_of_driver(text)
    srid, *numbers = match.groups()
    coordinates = tuple(float(number) for number in numbers if number is not None)
    return Point(coordinates, None if srid is None else int(srid))


def _point_of_driver(text: str) -> Point | None:
    """Read a point such as ``WGS84Point(10.7, 59.9)``, as Neo4j's driver shows it.

    Returns:
        None if the text is no such call.
    """
    if not text.startswith(tuple(SRIDS_BY_CLASS)):
        return None
    try:
        point = read_literal(text)
    except MalformedStep:
        return None
    return point if isinstance(point, Point) else None


def point_of_object(raw: Mapping[str, Any]) -> Point | None:
    """Read a point in GeoJSON or in Cypher's map of coordinates; None if the object is no point.

    A map of coordinates must name its reference system, since any map may have a key `x` or `y`.
    """
    has_mark = not raw.keys().isdisjoint(("crs", "srid", "coordinates"))
    if not has_mark or not raw.keys() <= POINT_KEYS:
        return None
    numbers = _coordinates(raw)
    # The keys of `WGS_84` are the numbers of coordinates that a point may have.
    if not isinstance(numbers, list) or len(numbers) not in WGS_84:
        return None
    if not all(isinstance(number, int | float) for number in numbers):
        return None
    coordinates = tuple(float(number) for number in numbers)
    return Point(coordinates, _srid(raw, len(coordinates)))


def _coordinates(raw: Mapping[str, Any]) -> Any:
    """Return the coordinates in an object, which are not checked and may be any JSON.

    Returns:
        None if it is a geometry of GeoJSON, but no point.
    """
    if "coordinates" in raw:
        if raw.get("type") != "Point":
            return None
        return raw["coordinates"]
    keys = ("longitude", "latitude", "height")
    if "x" in raw:
        keys = ("x", "y", "z")
    return [raw[key] for key in keys if raw.get(key) is not None]


def _srid(raw: Mapping[str, Any], width: int) -> int | None:
    """Return the number of a point's reference system; None if its object does not tell.

    Args:
        raw: the object of the point.
        width: how many coordinates the point has.
    """
    srid = raw.get("srid")
    name = raw.get("crs")
    if isinstance(name, Mapping):
        # In GeoJSON, the reference system is an object.
        srid = name.get("srid")
        name = name.get("name")
    if isinstance(srid, int):
        return srid
    if not isinstance(name, str):
        return None
    # Some write the name of the plane, such as wgs-84, for a point in space, too.
    srids = SRIDS_BY_NAME.get(name.lower().removesuffix("-3d"))
    return None if srids is None else srids[width]
