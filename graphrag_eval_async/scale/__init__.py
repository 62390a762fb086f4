"""Evaluates on all cores, or on a Ray cluster."""

from importlib import import_module
from typing import TYPE_CHECKING

from graphrag_eval_async.removed import explain_removed

if TYPE_CHECKING:
    from graphrag_eval_async.scale.files import EvaluatedFile as EvaluatedFile
    from graphrag_eval_async.scale.files import evaluate_file as evaluate_file
    from graphrag_eval_async.scale.ray import evaluate_dataset as evaluate_dataset

_MODULES = {
    "EvaluatedFile": "files",
    "evaluate_dataset": "ray",
    "evaluate_file": "files",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: most programs need one."""
    if name not in _MODULES:
        message = explain_removed(f"{name}()")
        if message is not None:
            raise ImportError(message, name=__name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
