"""What earlier versions had, and what to use instead.

`REMOVED` is the only place that knows removed names; each entry stays for one release. Its keys are
written as users wrote them:

- ``--option``, or ``command --option`` if other commands still have the option,
- ``command NAME`` for a command,
- ``--option value`` for a value of an option,
- ``scheme://`` and ``.suffix`` for addresses and files that were read,
- ``section.key`` for a key of the configuration,
- ``function()`` and ``argument=`` for names in Python.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from graphrag_eval_async.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_FROM_TRACE = "use response_from_trace(), which recognises the format"

REMOVED: dict[str, str] = {
    "--fail-under": "write --gate 'METRIC >= VALUE'",
    "--fail-over": "write --gate 'METRIC <= VALUE'",
    "compare --fail-under": "write --max-drop METRIC=X",
    "compare --fail-over": "write --max-drop METRIC=X",
    "watch --interval": "write --every TIME",
    "--results": "write -o OUTPUT",
    "scale ray --results": (
        "write -o OUTPUT, a JSONL file; finished shards stay in OUTPUT.shards/ meanwhile"
    ),
    "scale ray --resume": (
        "run the same command again; it evaluates only the shards that are missing"
    ),
    "scale ray --batch-size": "files are cut into shards; their size needs no option",
    "aggregate --jobs": "write --aggregates FILE.aggregates in the runs, and merge these files",
    "DatasetEvaluation()": "evaluate_dataset returns an EvaluatedFile",
    "resume=": "call again with the same `results`; only the shards that are missing are evaluated",
    "batch_size=": "files are cut into shards; their size needs no argument",
    "advance=": "`scale ray` on the command line shows the progress",
    "--embedding": "write llm.embedding into a configuration, and pass it with --config",
    "--escape-formulas": (
        "leave it out: cells that a spreadsheet could run always get an apostrophe"
    ),
    "--no-escape-formulas": "remove the apostrophe where a program reads the table",
    "--max-reject-bytes": "leave it out: beyond 1 GiB, rejects are written without content",
    "--poll-interval": "leave it out: logs are looked at every 50 ms",
    "--steps-groups": "write steps.groups into a configuration, and pass it with --config",
    "response_from_llamaindex()": _FROM_TRACE,
    "response_from_mcp()": _FROM_TRACE,
    "redis://": "read the stream in Python, as examples/redis_stream.py does",
    "rediss://": "read the stream in Python, as examples/redis_stream.py does",
    "redis_stream()": "read the stream with redis-py, as examples/redis_stream.py does",
    "redis_results()": "the results are in the journal, as in examples/redis_stream.py",
    "watch_redis()": "give the stream of examples/redis_stream.py to Dashboard",
    "llm.limits.shared": (
        "the workers of --jobs and of Ray runs divide the rates, the concurrency and the budget "
        "of a configuration; if you start workers yourself, divide them in the configuration of "
        "each"
    ),
    "--fsync": "results are flushed to disk once a second",
    "--max-line-bytes": "lines have at most 32 MiB, and results 128 MiB",
    "max_line_bytes=": "lines have at most 32 MiB, and results 128 MiB",
    "fsync=": "results are flushed to disk once a second",
    "fsync_interval=": "results are flushed to disk once a second",
    ".parquet": (
        "read responses with pandas and pass the DataFrame to evaluate_stream, or convert them "
        "to JSON "
        'lines: frame.to_json("FILE.jsonl", orient="records", lines=True)'
    ),
    "--otlp-json": "write --otel, and let a collector write files",
    "--otlp-metrics": "write watch --metrics [HOST:]PORT, for Prometheus",
    "--otel-metric": "--otel sends all scores; let a collector filter them",
    "metrics=": "OtelSink sends all scores; let a collector filter them",
    "aggregates=": "OtelSink sends results only; register a PrometheusCollector for means",
    "watch --baseline": "compare BASELINE RESULTS at any time; watch -o RESULTS writes them",
    "baseline=": "a Dashboard shows one run; compare its results with `compare`",
    "level=": "Prometheus has no intervals; pages and snapshots have them",
    "--on-alert-url": "write --on-alert with a command that posts, such as 'curl --json @- URL'",
    "--include-errors": (
        "only compute_aggregates(results, include_errors=True) counts the values of errors"
    ),
    "include_errors=": (
        "only compute_aggregates(results, include_errors=True) counts the values of errors"
    ),
    "--rejudge": "give the metric two `judges` with the same model in the configuration",
    "compare --labels": (
        "run `calibrate` on each run: it corrects the mean of one run by its labels"
    ),
    "labels=": "call `calibrate` with each run: it corrects the mean of one run by its labels",
    "rejudge=": "give the metric two `judges` with the same model in the configuration",
    "steps.query_similarity": "`score: f1` in a reference step gives partial credit for its rows",
}


def explain_removed(*names: str) -> str | None:
    """Return what to use instead of the first of `names` that earlier versions had.

    None if they had none of them.
    """
    for name in names:
        if name in REMOVED:
            return f"{name} is gone; {REMOVED[name]}"
    return None


def explain_removed_address(path: str) -> str | None:
    """Return what to use instead of an address if only earlier versions read its kind.

    None if `path` is no address, or of another kind.
    """
    scheme, separator, _ = path.partition("://")
    if not separator:
        return None
    return explain_removed(scheme.lower() + separator)


def without_removed(
    *arguments: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator for a function that once had these keyword arguments.

    A call with one of them raises a `UsageError` that says what to use instead.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        """Return a function that checks its arguments before it calls `function`."""

        @wraps(function)
        def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            for name in arguments:
                if name in kwargs:
                    raise UsageError(explain_removed(f"{name}="))
            return function(*args, **kwargs)

        return checked

    return decorate
