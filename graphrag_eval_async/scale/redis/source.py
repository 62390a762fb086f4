"""Responses from a stream of a Redis server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError, check_boolean, check_integer
from graphrag_eval_async.redis_client import check_redis, is_redis, redis_address
from graphrag_eval_async.scale.redis.group import (
    FLAGS,
    MAX_DELIVERIES,
    MAX_OUTAGE_SEC,
    NUMBERS,
    OPTIONS,
    SHAPE,
    Settings,
    keys_of,
    server_address,
)
from graphrag_eval_async.scale.redis.worker import RedisWorker

if TYPE_CHECKING:
    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.redis_client import RedisAddress
    from graphrag_eval_async.stream.options import StreamOptions


class RedisStream:
    """Responses from a stream of a Redis server; made by `redis_stream`."""

    is_part = True
    size = None
    consumed = 0

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def __str__(self) -> str:
        return str(self.settings)

    def begin(
        self, evaluator: Evaluator, options: StreamOptions, *, include_errors: bool, result_timeout_sec: float
    ) -> RedisWorker:
        if evaluator.in_code is not None:
            evaluator.in_code.paths("a Redis stream")
        return RedisWorker(self.settings, evaluator, options, include_errors, result_timeout_sec)


def redis_stream(
    url: str,
    stream: str,
    *,
    group: str,
    results: str | None = None,
    consumer: str | None = None,
    drain: bool = False,
    claim_after_sec: float | None = None,
    max_deliveries: int = MAX_DELIVERIES,
    max_results: int | None = None,
    max_outage_sec: float | None = MAX_OUTAGE_SEC,
    force: bool = False,
) -> RedisStream:
    """Read responses from a stream of a Redis or Valkey server, as one worker of a consumer group.

    Each entry has one field, `response` or any other name, with a response as JSON. It goes to one worker of
    the group. One script on the server acknowledges entries, and stores their results and the change of the
    aggregates: all or nothing. The result is yielded after that. So each entry counts once, even if two
    workers evaluated it because the first seemed dead. Results have no `sample`.

    A worker that is stopped releases its entries at once. Entries that were deleted from the stream after a
    worker took them count as lost. If the server refuses a write, its entries stay in the stream.

    The server keeps keys with the prefix ``{STREAM}:GROUP:``: the streams `results` and `rejects`, the
    aggregates in `parts` (24 bytes for each value of a metric), `counts` and `answered`. They are never
    deleted: begin another group before they outgrow the server. If the server has access control, this user
    may evaluate and watch; add the key of `results` if you name one:

        ACL SETUSER worker on >PASSWORD ~responses ~{responses}:*
        ACL SETUSER worker +@read +@write +@connection +@scripting +@transaction -@dangerous

    Needs the extra ``redis``, and Redis 7.0, Valkey 7.2, or later.

    Args:
        url: address of the server, such as ``redis://host:6379/0``, or ``rediss://`` for TLS, with the
            certificates of the system or of SSL_CERT_FILE. A user and a password that it lacks come from the
            environment variables REDIS_USERNAME and REDIS_PASSWORD.
        stream: name of the stream of responses.
        group: name of the consumer group. If it does not exist, it is created and begins with the first
            entry.
        results: name of the stream that results are added to. Default: ``{STREAM}:GROUP:results``.
        consumer: name of this worker, different from those of all others. Default: host, process and a random
            part.
        drain: whether to end when all entries are evaluated. Default: wait for more until stopped.
        claim_after_sec: seconds after which other workers take over an entry whose worker shows no sign of
            life. Default: 60, plus `result_timeout_sec` if there are judges.
        max_deliveries: number of times an entry is delivered before it is rejected as `poison`.
        max_results: minimum number of results that the server keeps; older ones are deleted. Default: all.
        max_outage_sec: seconds without the server after which the stream of results ends; None never ends it.
        force: whether to resume a group that began with another reference set or configuration.

    Raises:
        UsageError: an argument has an invalid value, or the extra is not installed.
    """
    given = dict(locals())
    return _stream(server_address(given.pop("url")), **given)


def stream_at(text: str, results: str | None = None) -> RedisStream:
    """Return the stream at an address such as ``redis://host/responses?group=eval``; see `redis_stream`.

    `results` is the address of the results on the same server, such as ``redis://host/results``.
    """
    try:
        address = redis_address(text, SHAPE, OPTIONS)
        given = dict(address.options)
        if not address.name or not given.get("group"):
            raise ValueError(f"expected {SHAPE}")
        more = {name: _read(name, given[name]) for name in (*FLAGS, *NUMBERS) if name in given}
    except ValueError as error:
        raise UsageError(f"{_shown(text)}: {error}") from None
    name = given.get("results") if results is None else _name_on(address, results)
    return _stream(address, address.name, given["group"], name, consumer=given.get("consumer"), **more)


def results_at(text: str) -> tuple[RedisAddress, str]:
    """Return the server and the name of a stream of results, from ``redis://host/results``."""
    shape = "redis://HOST[:PORT]/[DB/]RESULTS"
    try:
        address = redis_address(text, shape)
        if not address.name:
            raise ValueError(f"expected {shape}")
    except ValueError as error:
        raise UsageError(f"{_shown(text)}: {error}") from None
    check_redis()
    return address, address.name


def _name_on(address: RedisAddress, results: str) -> str:
    if not is_redis(results):
        raise UsageError(f"{results}: expected an address on the server of the responses")
    other, name = results_at(results)
    if other.server != address.server:
        raise UsageError(
            f"results: {other} is another server or database than {address}; results are stored together "
            "with the acknowledgement of their responses, so both must be in one"
        )
    return name


def _stream(address: RedisAddress, stream: Any, group: Any, results: Any, **more: Any) -> RedisStream:
    """Return a stream; `more` are other fields of `Settings`."""
    check_redis()
    for name, text in {"stream": stream, "group": group}.items():
        if not isinstance(text, str) or not text:
            raise UsageError(f"{name}: expected a name, got {text!r}")
    for name in FLAGS:
        check_boolean(name, more.get(name, False))
    for name in NUMBERS:
        if (number := more.get(name)) is None and (name != "max_deliveries" or name not in more):
            continue
        if not name.endswith("_sec"):
            check_integer(name, number)
        if not (isinstance(number, int | float) and 0 < number < 1e9):
            raise UsageError(f"{name}: expected a number above 0 and below 1e9, got {number!r}")
    if results == stream:
        raise UsageError(f"results: {results!r} is the stream of responses; name another")
    return RedisStream(Settings(address=address, keys=keys_of(stream, group, results), **more))


def _read(name: str, text: str) -> float:
    """The value of an option, which `_stream` checks."""
    if name in FLAGS:
        if text not in ("yes", "no"):
            raise ValueError(f"{name}: expected yes or no, got {text!r}")
        return text == "yes"
    try:
        return float(text) if name.endswith("_sec") else int(text)
    except ValueError:
        raise ValueError(f"{name}: expected a number above 0, got {text!r}") from None


def _shown(text: str) -> str:
    """An address without what may be a password."""
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"
