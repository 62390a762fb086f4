"""Each command declares the types of its options, which must agree with the table of options."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.cli.command_table import COMMANDS, OptionValues
from graphrag_eval_async.cli.options import options

if TYPE_CHECKING:
    from graphrag_eval_async.cli.options import Option

CASES = [
    pytest.param(command, key, id=f"{command}-{key}")
    for command, entry in COMMANDS.items()
    for key in entry.option_keys
]


def annotations_of(command: str) -> dict[str, str]:
    """Return the annotations of the fields of a command's class, by name."""
    module_name, _, _ = COMMANDS[command].runs.partition(":")
    module = import_module(f"graphrag_eval_async.cli.commands.{module_name}")
    options_class = getattr(module, COMMANDS[command].options_class)
    annotations = {field.name: str(field.type) for field in fields(options_class)}
    for field in fields(OptionValues):
        del annotations[field.name]
    return annotations


def type_of_value(option: Option) -> str:
    """Return the type of one value of an option, as the function that parses it declares."""
    if option.is_flag:
        return "bool"
    if option.choices:
        return f"Literal[{', '.join(repr(choice) for choice in option.choices)}]"
    if option.parser is None:
        return "str"
    module_name, _, function_name = option.parser.partition(":")
    parse = getattr(import_module(f"graphrag_eval_async.{module_name}"), function_name)
    return str(parse.__annotations__["return"])


@pytest.mark.parametrize("command", COMMANDS)
def test_fields_are_the_options_of_the_command(command: str) -> None:
    expected = {options()[key].field for key in COMMANDS[command].option_keys}
    assert annotations_of(command).keys() == expected


@pytest.mark.parametrize(("command", "key"), CASES)
def test_type_is_what_the_parser_returns(command: str, key: str) -> None:
    option = options()[key]
    declared = annotations_of(command)[option.field].replace('"', "'")
    value = type_of_value(option)
    if option.is_repeated:
        assert declared == f"list[{value}]"
    elif option.is_flag:
        assert declared == "bool"
    elif option.is_needed or option.default is not None:
        # A class that several commands share may allow None for the other commands.
        assert declared in {value, f"{value} | None"}
    else:
        assert declared == f"{value} | None"
