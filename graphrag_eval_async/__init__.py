"""Evaluate question-answering agents over knowledge graphs while they run."""

import re
from importlib import import_module

# `__init__.pyi`, which type checkers read, is the only list of the public names.
_STUB = __loader__.get_data(f"{__file__}i").decode()
_IMPORT = re.compile(r"^from (\S+) import (?:\(\s*)?(\w+)", re.MULTILINE)

_MODULES = {name: module for module, name in _IMPORT.findall(_STUB)}
"""The module of each public name."""

__all__ = sorted(_MODULES)

_MODULES_OF_OTHER_NAMES = {
    r"\w*Config": "config",
    "assert_evaluation": "testing",
    "EvaluatedFile|evaluate_dataset": "scale",
    "Lag": "sources",
    r"TraceFormat|response_from_\w+|responses_from_otlp": "traces",
}
"""Where public names are that this module does not have, by a pattern of the names."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: most programs need few of them."""
    if name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
        # Python finds the name here from now on, and does not call this function for it again.
        globals()[name] = value
        return value
    for names, module in _MODULES_OF_OTHER_NAMES.items():
        if re.fullmatch(names, name) and hasattr(import_module(f"{__name__}.{module}"), name):
            raise ImportError(f"import {name} from {__name__}.{module}", name=__name__)
    message = import_module(f"{__name__}.removed").explain_removed(f"{name}()")
    if message is not None:
        raise ImportError(message, name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
