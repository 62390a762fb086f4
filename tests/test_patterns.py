"""No regular expression of the package takes more than linear time, as it is used, on hostile
text.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from itertools import product
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

import graphrag_eval_async
from graphrag_eval_async.helpers.patterns import LazyPattern

if TYPE_CHECKING:
    from collections.abc import Iterator

Use: TypeAlias = "tuple[str, str, re.Pattern[Any]]"
ROOT = Path(graphrag_eval_async.__file__).parent
METHODS = ("match", "fullmatch", "search", "sub", "split", "finditer", "findall")
SIZE = 4000
LIMIT = 0.003
"""Seconds of CPU time for one call. What takes more must be below the square of `LONGER` for
longer text.
"""

LONGER = 4

QUICK_SIZE = SIZE // 4
QUICK = LIMIT / 4**3
"""What takes less for `QUICK_SIZE` takes less than `LIMIT` for `SIZE`, unless its time grows faster
than the third power of the length. Nearly every call is that quick.
"""

SHORT = {"_AT_THE_END": 255, "_BEFORE_THE_SUFFIX": 255, r"\s*\n\s*": 1000}
"""How long the text can be at most, where that is bounded: a file name, or an error cut for a
terminal.
"""

FRAGMENTS = [*"0a[]\"'(). -+e", "1:", "1_", "A:", "[ ", '\\"', "${", "\t\n"]
ENDS = ["", "+", "!", "\0"]


def compiled(value: Any) -> Any:
    """The pattern itself if a value is a pattern that is compiled when it is used."""
    if isinstance(value, LazyPattern):
        return re.compile(value.pattern, value.flags)
    return value


def used() -> Iterator[Use]:
    """The name, method and pattern of each use that the source has of a regular expression."""
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        if ("re." not in text and "lazy_pattern" not in text) or "ragas" in path.name:
            continue
        names = path.relative_to(ROOT.parent).with_suffix("").parts
        module = import_module(".".join(names).removesuffix(".__init__"))
        known = {name: compiled(value) for name, value in vars(module).items()}
        for name, value in known.items():  # Methods that were taken from patterns.
            if isinstance(getattr(value, "__self__", None), re.Pattern):
                yield name, value.__name__, value.__self__
            elif isinstance(value, re.Pattern):  # It may be given to a function that matches it.
                yield name, "match", value
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                    args=[ast.Constant(value=str(constant)), *_],
                ) if method in METHODS:
                    yield constant, method, re.compile(constant)
                case ast.Attribute(value=ast.Name(id=name), attr=method) if method in METHODS:
                    if isinstance(pattern := known.get(name), re.Pattern):
                        yield name, method, pattern


def text_of(pattern: re.Pattern[Any]) -> str:
    return (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    )


def pumps(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str]]:
    """What to repeat, and what to end with: some fragments, and pairs of characters of the
    pattern.
    """
    letters = [*dict.fromkeys([*text_of(pattern).replace("\\", "")[:40:3], "0", "a", " "])][:10]
    return product([*FRAGMENTS, *map("".join, product(letters, letters))], ENDS)


def seconds(pattern: re.Pattern[Any], method: str, pump: str, end: str, size: int) -> float:
    text: Any = pump * (size // len(pump)) + end
    if isinstance(pattern.pattern, bytes):
        text = text.encode("latin-1", "replace")
    start = process_time()
    found = getattr(pattern, method)(*([text[:0], text] if method == "sub" else [text]))
    if method == "finditer":
        for _ in found:
            pass
    return process_time() - start


def check(pattern: re.Pattern[Any], method: str, size: int) -> None:
    for pump, end in pumps(pattern):
        if size == SIZE and seconds(pattern, method, pump, end, QUICK_SIZE) < QUICK:
            continue
        if seconds(pattern, method, pump, end, size) > LIMIT:
            longer = size * LONGER if size == SIZE else size
            spent = min(seconds(pattern, method, pump, end, longer) for _ in range(2))
            assert spent < LIMIT * LONGER**2, (
                f"{method} of {pattern.pattern!r}: {spent:.2f} s for {longer} characters of "
                f"{pump!r}"
            )


def test_patterns_take_linear_time() -> None:
    uses = {
        (name, method, pattern.pattern): (name, method, pattern) for name, method, pattern in used()
    }
    texts = [path.read_text() for path in ROOT.rglob("*.py")]
    written = sum(text.count("re.compile(") + text.count("= lazy_pattern(") for text in texts)
    assert len(uses) >= written
    checked: set[tuple[str, Any, int]] = set()
    for name, method, pattern in uses.values():
        # Python 3.11.0 to 3.11.4 match `(?:...)*+` wrongly; `(?>(?:...)*)` does the same.
        assert not re.search(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+", text_of(pattern)), name
        size = SHORT.get(name, SIZE)
        # Some patterns have several names.
        if (method, pattern.pattern, size) not in checked:
            checked.add((method, pattern.pattern, size))
            check(pattern, method, size)


def test_a_pattern_that_backtracks_is_found() -> None:
    with pytest.raises(AssertionError, match="characters"):
        check(re.compile("[01]+!"), "search", SIZE)
