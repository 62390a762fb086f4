"""Evaluate question-answering agents over knowledge graphs while they run."""

import re
from importlib import import_module

_FROM = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (?:\(\s*)?(\w+)",
        __loader__.get_data(f"{__file__}i").decode(),
        re.MULTILINE,
    )
}
__all__ = sorted(_FROM)

# Where to find public names that are not here.
_ELSEWHERE = {
    r"\w*Config": "config",
    "assert_evaluation": "testing",
    "EvaluatedFile|evaluate_dataset": "scale",
    "Lag": "sources",
    r"TraceFormat|response_from_\w+|responses_from_otlp": "traces",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: most programs need few of them."""
    if name in _FROM:
        value = globals()[name] = getattr(import_module(_FROM[name]), name)
        return value
    for names, room in _ELSEWHERE.items():
        if re.fullmatch(names, name) and hasattr(import_module(f"{__name__}.{room}"), name):
            raise ImportError(f"import {name} from {__name__}.{room}", name=__name__)
    if message := import_module(f"{__name__}.removed").explain_removed(f"{name}()"):
        raise ImportError(message, name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
