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

_CHANGED_BY_YAML = re.compile("[\\x85\\u2028\\u2029\\ufeff]")
"""Characters that PyYAML writes as they are but reads as others, unless in double quotes."""

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})


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
        name: name of the step, such as ``sparql_query``.
        results: what rdflib's ``Graph.query()`` or SPARQLWrapper's ``query()`` returns; SPARQL JSON
            as a dict, text or bytes; or the `Path` of a file with SPARQL JSON.
        query: the query, which becomes the step's argument ``query``.
        required_columns: the variables that must match; None means all.
        ordered: whether the order of the rows matters.
        ignore_duplicates: whether equal rows count once.

    Raises:
        UsageError: the results are no SPARQL JSON, or lack a required column.
        OSError: the file cannot be read.
    """
    step: dict[str, Any] = {"name": name}
    if query is not None:
        step["args"] = {"query": query}
    step["output"] = _sparql_json(results)
    step["output_media_type"] = SPARQL_RESULTS

    # Keys with their default values are left out.
    if required_columns is not None:
        step["required_columns"] = [*required_columns]
    if ordered:
        step["ordered"] = ordered
    if not ignore_duplicates:
        step["ignore_duplicates"] = False

    try:
        check_step(step)
    except MalformedStep as error:
        raise UsageError(f"no reference step {name!r} can be made: {error}") from None
    return step


def _sparql_json(results: Any) -> str:
    """Return SPARQL results as JSON text; see `reference_step_from_sparql` for the types.

    Raises:
        UsageError: the results are not JSON.
        OSError: the file of the results cannot be read.
    """
    is_of_rdflib = hasattr(results, "bindings") and hasattr(results, "serialize")
    is_of_sparqlwrapper = callable(getattr(results, "convert", None))
    if isinstance(results, Path):
        document = results.read_bytes()
    elif is_of_rdflib:
        document = results.serialize(format="json")
    elif is_of_sparqlwrapper:
        document = results.convert()
    else:
        document = results

    try:
        fields = dict(document) if isinstance(document, Mapping) else orjson.loads(document)
        return orjson.dumps(fields).decode()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"results: expected SPARQL JSON, got {describe(document)}: {error}"
        ) from None


def save_reference(reference: Reference | Templates, path: str | os.PathLike[str]) -> None:
    """Write a reference set to a file, from which an equal set can be loaded.

    The file is YAML or JSON, by its suffix. An old file at the path is replaced at once, so readers
    see either the old file or the new one.

    Raises:
        ReferenceDataError: the set is invalid.
        UsageError: the path does not end in ``.yaml``, ``.yml`` or ``.json``.
        OSError: the file cannot be written.
    """
    target = Path(path)
    if target.suffix not in _SUFFIXES:
        raise UsageError(
            f"path: expected a name that ends in .yaml, .yml or .json, got {str(path)!r}"
        )

    if isinstance(reference, Reference):
        templates = _templates_of(reference)
    else:
        # This raises an error if the set is invalid. The dicts themselves are written, since they
        # may have unknown keys, which a `Reference` does not keep.
        Reference(reference)
        templates = orjson.loads(orjson.dumps(reference))
    if target.suffix == ".json":
        text = orjson.dumps(templates, option=orjson.OPT_INDENT_2) + b"\n"
    else:
        text = to_yaml(templates)

    # A complete draft replaces the file, so that a crash never leaves half a file.
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(text)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _templates_of(reference: Reference) -> list[dict[str, Any]]:
    """Return a reference set as template dicts.

    Tags and limits of a template are written to each of its questions.
    """
    questions_by_template: dict[str, list[dict[str, Any]]] = {
        template_id: [] for template_id in reference.templates
    }
    for question in reference:
        optional_keys = {
            "reference_answer": question.reference_answer,
            "match": question.match,
            "tolerance": question.tolerance,
            "reference_steps": question.reference_steps,
            **question.limits,
            "tags": dict(question.tags) or None,
        }
        # Keys without a value are left out.
        present_keys = {key: value for key, value in optional_keys.items() if value is not None}
        questions_by_template[question.template_id].append(
            {"id": question.id, "question_text": question.text, **present_keys}
        )
    return [
        {"template_id": template_id, "questions": questions}
        for template_id, questions in questions_by_template.items()
    ]


def to_yaml(templates: Any) -> bytes:
    """Return templates as YAML in UTF-8, in which texts of several lines are blocks.

    An object that is used in several places is written in full at each place, without aliases.
    """
    import yaml  # The import takes long.

    class Dumper(yaml.SafeDumper):
        """A dumper that never writes aliases."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

    def represent_text(dumper: Any, text: str) -> Any:
        """Return the node of a text: in quotes, as a block of lines, or as PyYAML chooses."""
        style = None
        if _CHANGED_BY_YAML.search(text):
            style = '"'
        elif "\n" in text:
            style = "|"
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_text)
    return yaml.dump(
        templates, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110, encoding="utf-8"
    )
