"""Helps to write reference sets: steps from SPARQL results, and files that load back equal."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.catalogue.media_types import SPARQL_RESULTS
from graphrag_eval_async.errors import MalformedStep, UsageError, describe
from graphrag_eval_async.reference import Reference
from graphrag_eval_async.steps import check_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.reference import Templates

_BREAKS = re.compile("[\\x85\\u2028\\u2029\\ufeff]")
"""Text that PyYAML writes as is but reads as something else, unless it is in double quotes."""


def reference_step_from_sparql(
    name: str,
    results: Any,
    *,
    query: str | None = None,
    required_columns: Sequence[str] | None = None,
    ordered: bool = False,
    ignore_duplicates: bool = True,
) -> dict[str, Any]:
    """Return a reference step whose output is the results of a SPARQL query.

    Args:
        name: of the step, such as ``sparql_query``.
        results: what rdflib's ``Graph.query()`` or SPARQLWrapper's ``query()`` returns; SPARQL JSON
            as a dict, text or bytes; or the `Path` of a file of it.
        query: the query, which becomes the step's argument of that name.
        required_columns: the variables that must match; None means all.
        ordered: whether the order of the rows matters.
        ignore_duplicates: whether equal rows count once.

    Raises:
        UsageError: the results are no SPARQL JSON, or lack a required column.
        OSError: the file cannot be read.
    """
    step: dict[str, Any] = {
        "name": name,
        "args": None if query is None else {"query": query},
        "output": _sparql_json(results),
        "output_media_type": SPARQL_RESULTS,
        "required_columns": None if required_columns is None else [*required_columns],
        "ordered": ordered or None,
        "ignore_duplicates": None if ignore_duplicates else False,
    }
    step = {key: value for key, value in step.items() if value is not None}
    try:
        check_step(step)
    except MalformedStep as error:
        raise UsageError(f"no reference step {name!r} can be made: {error}") from None
    return step


def _sparql_json(results: Any) -> str:
    if isinstance(results, Path):
        results = results.read_bytes()
    elif hasattr(results, "bindings") and hasattr(results, "serialize"):  # rdflib's
        results = results.serialize(format="json")
    elif callable(getattr(results, "convert", None)):  # SPARQLWrapper's
        results = results.convert()
    try:
        document = dict(results) if isinstance(results, Mapping) else orjson.loads(results)
        return orjson.dumps(document).decode()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"results: expected SPARQL JSON, got {describe(results)}: {error}"
        ) from None


def save_reference(reference: Reference | Templates, path: str | os.PathLike[str]) -> None:
    """Write a reference set that loads back equal, as YAML or, by the suffix ``.json``, as JSON.

    What is at the path is replaced at once; readers see the old file or the new one.

    Raises:
        ReferenceDataError: the set is invalid.
        UsageError: the path has another suffix than ``.yaml``, ``.yml`` or ``.json``.
        OSError: the file cannot be written.
    """
    target = Path(path)
    if target.suffix not in {".yaml", ".yml", ".json"}:
        raise UsageError(
            f"path: expected a name that ends in .yaml, .yml or .json, got {str(path)!r}"
        )
    if isinstance(reference, Reference):
        templates = _templates_of(reference)
    else:  # Unknown keys are written, too.
        Reference(reference)
        templates = orjson.loads(orjson.dumps(reference))
    is_json = target.suffix == ".json"
    text = (
        orjson.dumps(templates, option=orjson.OPT_INDENT_2) + b"\n"
        if is_json
        else to_yaml(templates)
    )
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(text)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _templates_of(reference: Reference) -> list[dict[str, Any]]:
    templates: dict[str, list[dict[str, Any]]] = {name: [] for name in reference.templates}
    for question in reference:
        keys = {"id": question.id, "question_text": question.text}
        names = ("reference_answer", "match", "tolerance", "reference_steps")
        more = {name: getattr(question, name) for name in names} | question.limits
        more["tags"] = dict(question.tags) or None
        templates[question.template_id].append(
            keys | {k: v for k, v in more.items() if v is not None}
        )
    return [{"template_id": name, "questions": questions} for name, questions in templates.items()]


def to_yaml(templates: Any) -> bytes:
    """YAML with multi-line texts as blocks, and without aliases."""
    import yaml  # which takes long to import

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        style = '"' if _BREAKS.search(value) else "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(
        templates, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110, encoding="utf-8"
    )
