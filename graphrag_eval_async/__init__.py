"""Evaluate question-answering agents over knowledge graphs while they run."""

import re
from importlib import import_module

_FROM = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import (\w+)", __loader__.get_data(f"{__file__}i").decode(), re.MULTILINE
    )
}
__all__ = sorted(_FROM)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: most programs need few of them."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_FROM[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
