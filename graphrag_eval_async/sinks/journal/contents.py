"""Which contents of lines there were, and how often, in 16 bytes for each."""

from __future__ import annotations

from graphrag_eval_async.sinks.journal.numbers import Numbers

DIGEST_BYTES = 16
"""Of 10^12 lines, two that differ have the same with a probability of 10^-15."""

BUCKETS = 1 << 14
"""A bucket is searched from its start; of a million lines it has a kilobyte."""


class Contents:
    """Digests of lines, each with the numbers of its occurrences, counted from 1.

    A digest of which only the first occurrence is there, as of nearly all, lies in a bucket with others
    that begin alike; the others have a place of their own.
    """

    def __init__(self) -> None:
        self._buckets: list[bytearray | None] = [None] * BUCKETS
        self._numbers: dict[bytes, Numbers] = {}

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._numbers or self._is_single(digest)

    def has(self, digest: bytes, number: int) -> bool:
        """Whether that occurrence is there."""
        numbers = self._numbers.get(digest)
        return number in numbers if numbers is not None else number == 1 and self._is_single(digest)

    def take(self, digest: bytes) -> int:
        """The lowest number that no occurrence has; it is there then."""
        numbers = self._numbers.get(digest)
        if numbers is None:
            if self._add_single(digest):
                return 1
            numbers = self._of_its_own(digest)
        return numbers.take()

    def add(self, digest: bytes, number: int) -> None:
        """Note an occurrence that is not there."""
        numbers = self._numbers.get(digest)
        if numbers is None:
            if number == 1:
                self._append(digest)
                return
            numbers = self._of_its_own(digest)
        numbers.add(number)

    def _of_its_own(self, digest: bytes) -> Numbers:
        numbers = self._numbers[digest] = Numbers()
        if self._is_single(digest):
            numbers.add(1)
        return numbers

    def _is_single(self, digest: bytes) -> bool:
        bucket = self._buckets[_bucket(digest)]
        return bucket is not None and _is_in(bucket, digest)

    def _add_single(self, digest: bytes) -> bool:
        """Whether it was not there."""
        if self._is_single(digest):
            return False
        self._append(digest)
        return True

    def _append(self, digest: bytes) -> None:
        key = _bucket(digest)
        bucket = self._buckets[key]
        if bucket is None:
            self._buckets[key] = bytearray(digest)
        else:
            bucket += digest


def _bucket(digest: bytes) -> int:
    return (digest[0] << 8 | digest[1]) % BUCKETS


def _is_in(bucket: bytearray, digest: bytes) -> bool:
    place = bucket.find(digest)
    while place > 0 and place % DIGEST_BYTES:
        place = bucket.find(digest, place + 1)
    return place >= 0
