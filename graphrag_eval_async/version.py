"""The version of the package."""

from __future__ import annotations

import importlib.metadata

PACKAGE = "graphrag-eval-async"


def version() -> str:
    """As it is installed; from a checkout that is not, "(not installed)"."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
