"""Runs and checks queries as a configuration says."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import ConfigError
from graphrag_eval_async.execution.session import ExecutionSession

if TYPE_CHECKING:
    from graphrag_eval_async.config import ExecuteConfig

INSTALL = 'pip install "graphrag-eval-async[{}]"'


class Executing:
    """Runs queries, or only parses them, as a configuration says.

    Attributes:
        config: where queries are run; None if they are only parsed.
        checks: whether the agent's queries are parsed.
    """

    def __init__(self, config: ExecuteConfig | None, *, checks: bool) -> None:
        """Check that the packages are there.

        Raises:
            ConfigError: one is not installed.
        """
        self.config = config
        self.checks = checks
        needs = [("steps.check_queries", "pyoxigraph", "rdf")] if checks else []
        if config is not None:
            package = "pyoxigraph" if config.endpoint is None else "httpx"
            needs.append(("execute", package, "execute"))
        problems = [
            f"{key}: needs the package {package}: {INSTALL.format(extra)}"
            for key, package, extra in needs
            if find_spec(package) is None
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def fingerprint(self) -> list[Any]:
        """Settings that change the results of equal data."""
        config = self.config
        if config is None:
            return [self.checks]
        source = [config.endpoint, config.graph, sorted(config.prefixes.items())]
        return [self.checks, *source, config.actual, config.allow_from, config.max_rows, config.max_bytes]

    def session(self) -> ExecutionSession:
        """Return a session for one stream."""
        return ExecutionSession(self.config, checks=self.checks)
