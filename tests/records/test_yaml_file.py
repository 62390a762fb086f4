"""YAML and JSON files that people write, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.records.yaml_file import UnreadableFile, read_file, read_yaml

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


WRONG: dict[str, str | bytes] = {
    "mapping in a value": "a: b: c",
    "open list": "[",
    "open quote": "'a",
    "tab": "\t a",
    "unknown alias": "*a",
    "two documents": "a\n---\nb",
    "version": "%YAML 9.9\n---\na",
    "list as a key": "? [a]\n: b",
    "merge key alone": "- <<",
    "merge of a number": "<<: 5",
    "no boolean": "!!bool maybe",
    "empty integer": "!!int ''",
    "no integer": "!!int x",
    "no timestamp": "!!timestamp x",
    "set of a list": "!!set [a]",
    "unknown tag": "!secret x",
    "long integer": "9" * 10_000,
    "Python object": "!!python/object/apply:os.system ['true']",
    "hexadecimal without digits": "0x_",
    "null byte": "a\0b",
    "text after text": "key: 'secret' 'secret'",
    "deep flow lists": "[" * 100_000 + "]" * 100_000,
    "deep lists": "- " * 100_000,
    "deep mappings": "{a: " * 100_000 + "}" * 100_000,
    "not UTF-8": b"- \xff",
    "not UTF-16": b"\xd8\x00",
}
ALIASES = "aliases expand too far, or are inside their own value"
ENDLESS = {
    "bomb of aliases": BOMB,
    "list inside itself": "&a [*a]",
    "merge of itself": "a: &a {<<: *a}",
    "deep inside itself": "- &a [[{b: [*a]}]]",
}
DUPLICATES = {
    "duplicate in one line": "{a: 1, a: 2}",
    "duplicate after another": "a: 1\nb: 2\na: 1",
    "duplicate with quotes": "- {b: {'a': 1, a: 2}}",
}


@pytest.mark.parametrize(
    ("file_name", "text", "message"),
    [
        *(pytest.param("r.yaml", text, "", id=name) for name, text in WRONG.items()),
        *(pytest.param("r.yaml", text, ALIASES, id=name) for name, text in ENDLESS.items()),
        *(
            pytest.param("r.yaml", text, "duplicate key 'a' in a mapping, in line ", id=name)
            for name, text in DUPLICATES.items()
        ),
        *(
            pytest.param(
                "r.json",
                f'[[{{"b": {value},\n "b"  : 1}}]]',
                "duplicate key 'b' in a mapping, in line 2",
                id=f"JSON duplicate after {name}",
            )
            for name, value in (
                ("an emoji", '"\\ud83d\\ude00"'),
                ("infinity", "1e999"),
                ("a long number", "9" * 5000),
            )
        ),
        pytest.param("r.json", "", "", id="JSON empty"),
        pytest.param("r.json", "{", "", id="JSON open"),
        pytest.param("r.json", "[NaN]", "", id="JSON NaN"),
        pytest.param("r.json", "[1e400]", "", id="JSON infinity"),
        pytest.param("r.json", '["\\ud800"]', "", id="JSON surrogate"),
        pytest.param("r.json", b'["\xff"]', "", id="JSON not UTF-8"),
        pytest.param("r.json", "- a: 1", "", id="JSON YAML"),
        pytest.param("r.json", "[" * 100_000 + "]" * 100_000, "", id="JSON deep"),
    ],
)
def test_problems(tmp_path: Path, file_name: str, text: str | bytes, message: str) -> None:
    path = tmp_path / file_name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UnreadableFile) as caught:
        read_file(str(path))
    found = str(caught.value)
    assert found.startswith(f"not {'JSON' if file_name.endswith('json') else 'YAML'}: ")
    assert message in found
    assert len(found) < 1000
    assert "secret" not in found
