from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.records.yaml_file import UnreadableFile, read_file
from tests.cases import each
from tests.cpu import affordable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(text: str | bytes, name: str = "reference.yaml") -> Any:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_file(str(path))

    return read


@pytest.fixture
def problem(read: Any) -> Any:
    def problem(text: str | bytes, name: str = "reference.yaml") -> str:
        with pytest.raises(UnreadableFile) as caught:
            read(text, name)
        found = str(caught.value)
        assert len(found) < 1000
        return found

    return problem


def bomb(first: str, layer: str, layers: str = "bcdefghi") -> str:
    """YAML in which each layer names the one before it nine times."""
    lines = [f"a: &a {first}"]
    for before, name in zip("a" + layers, layers, strict=False):
        lines.append(f"{name}: &{name} " + layer % ",".join([f"*{before}"] * 9))
    return "\n".join(lines)


def test_yaml_and_json(read: Any) -> None:
    assert read("- a: 1\n  b: [x, 'y', null]") == [{"a": 1, "b": ["x", "y", None]}]
    assert read("\ufeff- a: é") == [{"a": "é"}]
    assert read('\ufeff[{"a": 1}]', "reference.json") == [{"a": 1}]
    assert read("- a: 1\r\n- b: 2\r\n") == [{"a": 1}, {"b": 2}]


@each("text", ["", "\n", "# nothing\n", "---\n"])
def test_an_empty_file(read: Any, text: str) -> None:
    assert read(text) is None


@each("text", ["2024-05-06", "2024-05-06T07:08:09Z", "2024-05-06 07:08:09.5 +01:00", "2024-1-1 1:2:3"])
def test_timestamps_stay_text(read: Any, text: str) -> None:
    assert read(f"- {text}\n- {text}: 1") == [text, {text: 1}]


def test_aliases_and_merges_are_accepted(read: Any) -> None:
    text = "- &a {x: 1, y: 2}\n- *a\n- {<<: *a, y: 3}\n- {<<: [*a, {z: 4}]}"
    assert read(text) == [{"x": 1, "y": 2}, {"x": 1, "y": 2}, {"x": 1, "y": 3}, {"x": 1, "y": 2, "z": 4}]


@each(
    "text",
    [
        bomb("[x,x,x,x,x,x,x,x,x]", "[%s]"),
        bomb("{k: x}", "{<<: [%s]}"),
        bomb("{k: x, l: x, m: x}", "{<<: [%s]}"),
        bomb("lol", "{x: [%s]}"),
        f"a: &a {'x' * 200_000}\nb: [{','.join(['*a'] * 1000)}]",
    ],
)
def test_alias_bombs(problem: Any, text: str) -> None:
    assert "aliases expand to more than" in problem(text)


@each("text", ["&a [*a]", "&a {b: *a}", "a: &a {<<: *a}", "- &a [[{b: [*a]}]]"])
def test_an_alias_inside_its_own_value(problem: Any, text: str) -> None:
    assert "alias inside the value that it refers to" in problem(text)


@each(
    ("opening", "closing"), [("[", "]"), ("- ", ""), ("{a: ", "}"), ("? ", ""), ("[{a: ", "}]"), ("[? ", "]")]
)
def test_deep_yaml(problem: Any, opening: str, closing: str) -> None:
    for depth in (201, 100_000):
        assert "nests more than 200 deep" in problem(opening * depth + closing * depth)


def test_deep_json(problem: Any) -> None:
    assert problem("[" * 1_000_000 + "]" * 1_000_000, "reference.json").startswith("not JSON: ")


@each("name", ["reference.yaml", "reference.json"])
def test_duplicate_keys_in_flow(problem: Any, name: str) -> None:
    assert "duplicate key 'b'" in problem('[{"a": [{"b": 1, "c": 2, "b": 3}]}]', name)


def test_a_chain_of_aliases_is_no_recursion(read: Any) -> None:
    chain = "- &n0 [x]\n" + "\n".join(f"- &n{i} [*n{i - 1}]" for i in range(1, 1200))
    assert len(read(chain)) == 1200


@each("text", ["{a: 1, a: 2}", "a: 1\nb: 2\na: 1", "- {b: {'a': 1, a: 2}}", "{1: a, 1: b}"])
def test_duplicate_keys(problem: Any, text: str) -> None:
    assert "duplicate key" in problem(text)


@each(
    "text",
    [
        "a: b: c",
        "[",
        "'a",
        "\t a",
        "*a",
        "a\n---\nb",
        "%YAML 9.9\n---\na",
        "? [a]\n: b",
        "- <<",
        "x: [<<]",
        "x: !!seq {a: 1}",
        "<<: 5",
        "!!bool maybe",
        "!!int ''",
        "!!float ''",
        "!!int x",
        "!!timestamp x",
        "!!set [a]",
        "!!python/object/apply:os.system ['true']",
        "!unknown x",
        "9" * 10_000,
        "0x_",
        "a\0b",
        b"- \xff",
        b"\xd8\x00",
    ],
)
def test_invalid_yaml(problem: Any, text: str | bytes) -> None:
    assert problem(text).startswith("not YAML: ")


@each("text", ["", "{", "[NaN]", "[1e400]", '["\\ud800"]', b'["\xff"]', "- a: 1"])
def test_invalid_json(problem: Any, text: str | bytes) -> None:
    assert problem(text, "reference.json").startswith("not JSON: ")


@each("text", ["1:" * 400 + "1.5", "!!float " + "1:" * 400 + "1.5", "!!bool maybe", "!!int ''"])
def test_a_value_that_is_invalid_for_its_type(problem: Any, text: str) -> None:
    found = problem(f"- a: {text}")
    assert found.startswith("not YAML: not a value of type '")
    assert found.endswith("put strings in quotes, in line 1, column 6")


@each("text", ["1:" * 100_000 + "1.5", "1:" * 100_000 + "1", "9" * 100_000, "0x" + "f" * 100_000])
def test_a_number_too_long_to_read_in_time(problem: Any, text: str) -> None:
    with affordable(len(text)):
        found = problem(f"- a: {text}")
    assert found == "not YAML: number longer than 4300 characters; put strings in quotes, in line 1, column 6"


def test_many_long_numbers(read: Any) -> None:
    text = ",".join(["1:" * 2000 + "1"] * 250)
    with affordable(len(text)):
        assert read(f"[{text}]")[0] > 60**2000
