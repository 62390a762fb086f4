"""YAML and JSON files that people write, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.records.yaml_file import UnreadableFile, read_file, read_yaml
from tests.support.cases import each

if TYPE_CHECKING:
    from pathlib import Path

TEXT = st.text("ab é1:#'\"\n-{[&*!,")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda children: st.lists(children) | st.dictionaries(TEXT, children),
)
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@settings(max_examples=50)
@given(VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    assert read_yaml(yaml.safe_dump(value, allow_unicode=True).encode()) == value


def test_files_and_what_yaml_adds(tmp_path: Path) -> None:
    for name, text in (
        ("r.yaml", "\ufeff- a: é\r\n- b: 2\r\n"),
        ("r.json", '\ufeff[{"a": "é"}, {"b": 2}]'),
    ):
        (tmp_path / name).write_bytes(text.encode())
        assert read_file(str(tmp_path / name)) == [{"a": "é"}, {"b": 2}]
    with pytest.raises(UnreadableFile, match="cannot be read: No such file"):
        read_file(str(tmp_path / "absent.yaml"))
    assert read_yaml(b"# nothing\n") is None
    # They stay text.
    for text in (
        "2024-05-06",
        "2024-05-06T07:08:09Z",
        "2024-05-06 07:08:09.5 +01:00",
    ):
        assert read_yaml(f"- {text}\n- {text}: 1".encode()) == [text, {text: 1}]
    merged = b"- &a {x: 1, y: 2}\n- *a\n- {<<: *a, y: 3}\n- {<<: [*a, {z: 4}]}"
    pair = {"x": 1, "y": 2}
    assert read_yaml(merged) == [pair, pair, pair | {"y": 3}, pair | {"z": 4}]


WRONG = [
    "a: b: c",
    "[",
    "'a",
    "\t a",
    "*a",
    "a\n---\nb",
    "%YAML 9.9\n---\na",
    "? [a]\n: b",
    "- <<",
    "<<: 5",
]
WRONG += [
    "!!bool maybe",
    "!!int ''",
    "!!int x",
    "!!timestamp x",
    "!!set [a]",
    "!secret x",
    "9" * 10_000,
]
WRONG += ["!!python/object/apply:os.system ['true']", "0x_", "a\0b", "key: 'secret' 'secret'"]
WRONG += [
    opening * 100_000 + closing * 100_000 for opening, closing in ("[]", ("- ", ""), ("{a: ", "}"))
]


@each(
    ("name", "text", "message"),
    [
        *(("r.yaml", text, "") for text in (*WRONG, b"- \xff", b"\xd8\x00")),
        *(
            ("r.yaml", text, "aliases expand too far, or are inside their own value")
            for text in (BOMB, "&a [*a]", "a: &a {<<: *a}", "- &a [[{b: [*a]}]]")
        ),
        *(
            ("r.yaml", text, "duplicate key 'a' in a mapping, in line ")
            for text in ("{a: 1, a: 2}", "a: 1\nb: 2\na: 1", "- {b: {'a': 1, a: 2}}")
        ),
        *(
            (
                "r.json",
                f'[[{{"b": {value},\n "b"  : 1}}]]',
                "duplicate key 'b' in a mapping, in line 2",
            )
            for value in ('"\\ud83d\\ude00"', "1e999", "9" * 5000)
        ),
        *(
            ("r.json", text, "")
            for text in ("", "{", "[NaN]", "[1e400]", '["\\ud800"]', b'["\xff"]', "- a: 1")
        ),
        ("r.json", "[" * 100_000 + "]" * 100_000, ""),
    ],
)
def test_problems(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UnreadableFile) as caught:
        read_file(str(path))
    found = str(caught.value)
    assert found.startswith(f"not {'JSON' if name.endswith('json') else 'YAML'}: ")
    assert message in found
    assert len(found) < 1000
    assert "secret" not in found
