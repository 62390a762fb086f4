"""The section `execute`, and the keys of `steps` about queries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.config import ExecuteConfig, load_config, secrets
from tests.cases import each
from tests.config.support import problems

if TYPE_CHECKING:
    import pytest

URL = "https://example.org/sparql"


def test_defaults() -> None:
    assert load_config({}).execute is None
    execute = load_config({"execute": {"endpoint": URL}}).execute
    assert execute == ExecuteConfig(endpoint=URL)
    assert (execute.timeout_sec, execute.max_in_flight, execute.actual, execute.allow_from) == (
        30,
        4,
        True,
        False,
    )
    steps = load_config({}).steps
    assert (steps.check_queries, steps.query_similarity) == (False, False)


PROBLEMS: list[tuple[Any, str]] = [
    ({}, "execute: expected either endpoint or graph"),
    ({"endpoint": URL, "graph": "data.ttl"}, "execute: expected either endpoint or graph"),
    ({"endpoint": "example.org"}, "execute.endpoint: expected a URL that begins with http:// or https://"),
    (
        {"endpoint": "https://me:secret@example.org/"},
        "execute.endpoint: may hold no user, password, query or fragment; a key belongs in headers",
    ),
    ({"endpoint": URL, "username": "me"}, "execute: expected username and password, or neither"),
    (
        {"endpoint": URL, "headers": {"X": "a\nb"}},
        "execute.headers.X: expected printable ASCII, without line breaks",
    ),
    ({"endpoint": URL, "headers": {"X": 5}}, "execute.headers.X: expected a string, got a number"),
    (
        {"endpoint": URL, "password": 12345},
        "execute.password: expected a string that is not empty, got a number",
    ),
    (
        {"endpoint": URL, "prefixes": {"a:": "urn:x"}},
        "execute.prefixes['a:']: expected a prefix without its colon, and an absolute IRI",
    ),
    (
        {"endpoint": URL, "prefixes": {"a": "x>"}},
        "execute.prefixes.a: expected a prefix without its colon, and an absolute IRI",
    ),
    ({"endpoint": URL, "timeout_sec": 0}, "execute.timeout_sec: expected a number above 0, got 0"),
    ({"endpoint": URL, "max_rows": 0}, "execute.max_rows: expected an integer of 1 or more, got 0"),
    ({"endpoint": URL, "timeout": 5}, "execute.timeout: unknown key; did you mean timeout_sec?"),
    (
        {"endpoint": "${NOT_SET_ANYWHERE}"},
        "execute.endpoint: the environment variable NOT_SET_ANYWHERE is not set",
    ),
    ({"graph": "missing.ttl"}, "execute.graph: there is no such file"),
    (
        {"graph": "data.txt"},
        "execute.graph: expected a file that ends in .ttl, .nt, .nq, .trig, .rdf, .jsonld, .n3",
    ),
    ({"graph": "data.ttl", "headers": {"X": "y"}}, "execute.headers: is for an endpoint, not for a graph"),
    ({"graph": "data.ttl", "allow_from": True}, "execute.allow_from: is for an endpoint, not for a graph"),
]


def test_problems_name_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.ttl").touch()
    for section, problem in PROBLEMS:
        assert problem in problems({"execute": section}), section


def test_secrets_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "s3cret-token")
    monkeypatch.setenv("HOST", "s3cret-host")
    section = {
        "endpoint": "https://${HOST}/sparql",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Key": "literal-key"},
        "username": "me",
        "password": "literal-word",
    }
    config = load_config({"execute": section})
    assert config.execute is not None
    assert config.execute.endpoint == "https://s3cret-host/sparql"
    text = repr(config)
    assert not any(word in text for word in ("s3cret", "literal"))
    assert {"s3cret-token", "s3cret-host", "literal-key", "literal-word"} <= secrets(config)


@each("suffix", [".ttl", ".NT", ".jsonld"])
def test_files_by_their_suffix(suffix: str) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        config = load_config({"execute": {"graph": file.name}})
    assert config.execute is not None
    assert config.execute.graph == file.name
