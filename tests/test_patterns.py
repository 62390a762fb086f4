"""No regular expression of the package takes more than linear time, as it is used, on hostile text."""

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
from graphrag_eval_async.records import yaml_file

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(graphrag_eval_async.__file__).parent
METHODS = ("match", "fullmatch", "search", "sub", "split", "finditer", "findall")
Use: TypeAlias = "tuple[str, str, re.Pattern[Any]]"
SIZE = 100_000
LIMIT = 1.0
"""Seconds of CPU time for one call: ten times 0.1 s, since 1 MiB may take one second."""

SHORT: dict[tuple[str, str], int] = {
    ("_AT_THE_END", "fullmatch"): 255,
    ("_BEFORE_THE_SUFFIX", "fullmatch"): 255,
    (r"\s*\n\s*", "sub"): 1000,
}
"""How long the text can be at most, where that is bounded: a file name, or an error cut for a terminal."""

FRAGMENTS = [
    "0",
    "1:",
    "1_",
    " ",
    "\t\n",
    "a",
    "A:",
    "[",
    "]",
    "[ ",
    '"',
    '\\"',
    "'",
    "${",
    "(",
    ")",
    ".",
    "e",
    "-",
    "+",
]
ENDS = ["", "+", "!", "\0"]


def modules() -> Iterator[tuple[Any, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        if "re." in text and "ragas" not in path.name:
            names = path.relative_to(ROOT.parent).with_suffix("").parts
            yield import_module(".".join(names).removesuffix(".__init__")), ast.parse(text)


def bound(module: Any) -> Iterator[Use]:
    """Methods that were taken from patterns."""
    for name, value in vars(module).items():
        if isinstance(getattr(value, "__self__", None), re.Pattern):
            yield name, value.__name__, value.__self__


def called(module: Any, tree: ast.Module) -> Iterator[Use]:
    """Methods of patterns that have a name, and functions of `re` on patterns that have none."""
    for node in ast.walk(tree):
        if not (
            isinstance(node, ast.Attribute) and node.attr in METHODS and isinstance(node.value, ast.Name)
        ):
            continue
        found = vars(module).get(node.value.id)
        if isinstance(found, re.Pattern):
            yield node.value.id, node.attr, found
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str(text)), *_],
            ) if method in METHODS:
                yield text, method, re.compile(text)


def used() -> Iterator[Use]:
    """The name, method and pattern of each use that the source has of a regular expression."""
    for module, tree in modules():
        yield from bound(module)
        yield from called(module, tree)
    for resolvers in yaml_file._Loader.yaml_implicit_resolvers.values():
        for tag, pattern in resolvers:
            yield tag, "match", pattern


USES = {(name, method, pattern.pattern): (name, method, pattern) for name, method, pattern in used()}


@pytest.mark.parametrize("use", USES.values(), ids=lambda use: use[0][:20])
def test_no_group_is_repeated_possessively(use: Use) -> None:
    """Python 3.11.0 to 3.11.4 match ``(?:...)*+`` wrongly; ``(?>(?:...)*)`` does the same."""
    text = use[2].pattern if isinstance(use[2].pattern, str) else use[2].pattern.decode("latin-1")
    assert not re.search(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+", text)


def alphabet(pattern: re.Pattern[Any]) -> list[str]:
    """The characters that stand in the pattern, and some that its classes may take."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return [*dict.fromkeys([*text.replace("\\", "")[:40:3], "0", "a", " "])][:10]


def adversarial(pattern: re.Pattern[Any], size: int) -> Iterator[Any]:
    letters = alphabet(pattern)
    pumps = [*FRAGMENTS, *map("".join, product(letters, letters))]
    for pump in pumps:
        for end in ENDS:
            text = pump * (size // len(pump)) + end
            yield text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")


def call(pattern: re.Pattern[Any], method: str, text: Any) -> None:
    if method == "sub":
        pattern.sub(text[:0], text)
    else:
        found = getattr(pattern, method)(text)
        if method == "finditer":
            for _ in found:
                pass


def test_the_patterns_are_found() -> None:
    names = {name for name, _, _ in USES}
    assert {"VARIABLE", "_IRI", "_QUOTATION", "FORMAT_WORDS"} <= names
    compiled = sum(path.read_text().count("re.compile(") for path in ROOT.rglob("*.py"))
    assert len(USES) >= compiled


def check(pattern: re.Pattern[Any], method: str, size: int) -> None:
    for text in adversarial(pattern, size):
        start = process_time()
        call(pattern, method, text)
        spent = process_time() - start
        assert spent < LIMIT, (
            f"{pattern.pattern!r}: {spent:.1f} s for {text[:40]!r}..., {len(text)} characters"
        )


@pytest.mark.parametrize(("name", "method", "pattern"), USES.values(), ids=lambda part: str(part)[:20])
def test_a_pattern_takes_linear_time(name: str, method: str, pattern: re.Pattern[Any]) -> None:
    check(pattern, method, SHORT.get((name, method), SIZE))


def test_a_pattern_that_backtracks_is_found() -> None:
    """At a size that depends on how fast the machine is, so that it takes no longer than it must."""

    def check_sizes() -> None:
        for size in (16_000, 32_000, 64_000, 128_000):
            check(re.compile("[0-9]*[0-9]*[+-]?"), "fullmatch", size)

    with pytest.raises(AssertionError, match="characters"):
        check_sizes()
