"""Reading reference data from files."""

from __future__ import annotations

import os
from typing import Any

from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.records.yaml_file import UnreadableFile, read_file


def read_templates(path: str | os.PathLike[str]) -> Any:
    """What a YAML file holds, or a JSON file where the suffix is ``.json``.

    Raises:
        ReferenceDataError: it cannot be read or parsed, repeats a key in YAML, or is built to explode.
    """
    source = os.fspath(path)
    try:
        return read_file(source)
    except UnreadableFile as error:
        raise ReferenceDataError([str(error)], source) from error
