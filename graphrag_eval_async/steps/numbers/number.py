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
    half_unit: float  # Half a unit of its last digit, by which a number may be rounded to it.
    min_rounded: float  # The least number that may be rounded to it: 10 for a whole number.


class Number(NamedTuple):
    """A number in a text."""

    text: str  # As it is written, without what follows it.
    readings: tuple[Reading, ...]  # 12.345 and 12,345 may be German; 45 % is both 45 and 0.45.
    unscaled: tuple[Reading, ...]  # Without the word after it: 1.5 of 1.5 million.
    is_percentage: bool
    is_sure: bool  # Whether it is not written as a word, and no letters follow at once, as in 3D.

    def pairs(self, other: Number) -> Iterator[tuple[float, float]]:
        """Yield each value of this number with each of the other one, for a comparison.

        45 % may be 45 or 0.45. Two percentages are compared as they are written: 1 % is not 100 %.
        """
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
    """Return the number that a text writes in words or as a fraction.

    Args:
        text: the words.
        value: their exact value. Only whole numbers may be rounded.
    """
    if value.denominator == 1:
        reading = Reading(float(value), half_unit=ROUNDING / 2, min_rounded=10.0)
    else:
        reading = Reading(float(value), half_unit=0.0, min_rounded=0.0)
    return Number(
        text=text,
        readings=(reading,),
        unscaled=(reading,),
        is_percentage=False,
        is_sure=False,
    )


def number_of_scaled_value(text: str, value: Fraction, exponent: int) -> Number:
    """Return the number that words and a power of ten after them write, such as "five percent".

    Args:
        text: the words, without the power.
        value: the value without the power.
        exponent: the exponent of ten: 6 for a million, -2 for percent, 0 if no power follows.
    """
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
