"""Numbers from 1 on that are given out once each."""

from __future__ import annotations


class Numbers:
    """Which numbers are taken; those without a gap from 1 on are one count.

    Attributes:
        upto: all from 1 to this one are taken.
    """

    __slots__ = ("_beyond", "upto")

    def __init__(self) -> None:
        self.upto = 0
        self._beyond: set[int] = set()

    def __contains__(self, number: int) -> bool:
        return number <= self.upto or number in self._beyond

    def take(self) -> int:
        """The lowest number that is free; it is taken then."""
        number = self.upto + 1
        self.add(number)
        return number

    def add(self, number: int) -> None:
        """Take a number, free or not."""
        if number == self.upto + 1:
            self.upto = number
            while self._beyond and self.upto + 1 in self._beyond:
                self.upto += 1
                self._beyond.remove(self.upto)
        elif number > self.upto:
            self._beyond.add(number)
