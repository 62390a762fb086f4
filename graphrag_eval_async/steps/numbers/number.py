"""A number in a text, and the values that it may have."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDING = 1 + 1e-9
"""Widens half a unit, so that a rounding error of a float does not count."""


class Reading(NamedTuple):
    """A value that a number may have, and what rounds to it."""

    value: float  # Finite.
    half: float  # Half a unit of its last digit.
    least: float  # The minimum of what rounds to it: a whole number has two digits for that.


class Number(NamedTuple):
    """A number in a text."""

    text: str  # As it is written, without what follows it.
    readings: tuple[Reading, ...]  # 12.345 and 12,345 may be German; 45 % is both 45 and 0.45.
    unscaled: tuple[Reading, ...]  # Without the word after it: 1.5 of 1.5 million.
    is_percentage: bool
    is_sure: bool  # Whether it is not written as a word, and no letters follow at once, as in 3D.

    def pairs(self, other: Number) -> Iterator[tuple[float, float]]:
        """Yield the values of both to compare: 45 % may be 45 or 0.45, but 1 % is not 100 %."""
        readings = self.readings
        other_readings = other.readings
        if self.is_percentage and other.is_percentage:
            readings = self.unscaled
            other_readings = other.unscaled
        for reading in readings:
            for other_reading in other_readings:
                yield reading.value, other_reading.value


class PlacedNumber(NamedTuple):
    """A number and where it stands, with the words that belong to it."""

    start: int
    end: int
    number: Number


def number_of_value(text: str, value: Fraction) -> Number:
    """Return a number that is written in words, or as a fraction."""
    if value.denominator == 1:
        reading = Reading(float(value), half=ROUNDING / 2, least=10.0)
    else:
        reading = Reading(float(value), half=0.0, least=0.0)
    return Number(
        text=text,
        readings=(reading,),
        unscaled=(reading,),
        is_percentage=False,
        is_sure=False,
    )


def number_of_scaled_value(text: str, value: Fraction, exponent: int) -> Number:
    """Return a number in words that a power of ten follows; -2 makes a percentage."""
    unscaled = number_of_value(text, value)
    if exponent == 0:
        return unscaled
    scaled = number_of_value(text, value * Fraction(10) ** exponent)
    if exponent > 0:
        return scaled._replace(unscaled=unscaled.readings)
    return scaled._replace(
        readings=scaled.readings + unscaled.readings,
        unscaled=unscaled.readings,
        is_percentage=True,
    )
