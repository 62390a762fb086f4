"""Everything that goes wrong with servers, by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

from tests.judge_server.messages import CutOff, Drip, Never, Reply, Reset
from tests.judge_server.replies import chat, completion, embeddings, error, json_reply, reply_to, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.judge_server.messages import Fault, Request

Maker: TypeAlias = "Callable[[Request], Reply | Fault]"

HTML = b"<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body>It works!</body></html>"
INVALID = "invalid_request_error"


def _always(answer: Reply | Fault) -> Maker:
    return lambda _: answer


def _html(status: int) -> Maker:
    return _always(Reply(HTML, status, content_type="text/html; charset=utf-8"))


def rate_limited(**headers: str) -> Reply:
    """A 429 that may say when to come back."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    message = "Rate limit reached for requests"
    return error(429, message, code="rate_limit_exceeded", type="requests", headers=named)


def _in_a_while(_: Request) -> Reply:
    return rate_limited(Retry_After=format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True))


def _unauthorised(request: Request) -> Reply:
    given = request.headers
    key = given.get("api-key") or given.get("authorization", "").removeprefix("Bearer ")
    return error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key", type=INVALID)


def _schema_refused(request: Request) -> Reply | Fault:
    """What servers do that know JSON mode only."""
    if (request.body.get("response_format") or {}).get("type") != "json_schema":
        return reply_to(request)
    message = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
    return error(400, message, type=INVALID)


def _cut_json(request: Request) -> Reply:
    body = reply_to(request).body
    return Reply(body[: len(body) // 2])


def _without_usage(request: Request) -> Reply:
    return (
        completion('{"value": 1}', usage=None)
        if _is_chat(request)
        else embeddings(_vectors(request), usage=None)
    )


def _is_chat(request: Request) -> bool:
    return request.path.endswith("/chat/completions")


def _vectors(request: Request) -> list[list[float]]:
    return [vector(text) for text in request.body["input"]]


def _with_number(request: Request, number: str) -> Reply:
    """A number of the first vector is something else."""
    reply = embeddings([[12345.5, 1.0], *([1.0, 1.0] for _ in request.body["input"][1:])])
    return Reply(
        reply.body.replace(b"12345.5", number.encode()), usage=reply.usage if number == "null" else None
    )


HTTP_FAULTS: Mapping[str, Maker] = {
    "429": _always(rate_limited()),
    "429 seconds": _always(rate_limited(Retry_After="2")),
    "429 fraction": _always(rate_limited(Retry_After="0.25")),
    "429 milliseconds": _always(rate_limited(Retry_After_ms="1500", Retry_After="2")),
    "429 date": _in_a_while,
    "429 past date": _always(rate_limited(Retry_After="Fri, 31 Dec 1999 23:59:59 GMT")),
    "429 nonsense": _always(rate_limited(Retry_After="soon")),
    "429 long": _always(rate_limited(Retry_After="300")),
    "500": _always(error(500, "The server had an error", type="server_error")),
    "502": _always(error(502, "Bad gateway")),
    "503": _always(error(503, "The engine is overloaded", headers={"Retry-After": "3"})),
    "408": _always(error(408, "Request timeout")),
    "409": _always(error(409, "Conflict")),
    "reset": _always(Reset()),
    "reset mid-body": lambda request: CutOff(reply_to(request)),
    "never": _always(Never()),
    "drip": lambda request: Drip(reply_to(request)),
    "html": _html(200),
    "html 502": _html(502),
    "truncated": _cut_json,
    "400": _always(error(400, "Unrecognised parameter", type=INVALID)),
    "413": _always(error(413, "Payload too large", type=INVALID)),
    "422": _always(json_reply({"detail": [{"loc": ["body", "seed"], "msg": "not a number"}]}, status=422)),
    "401": _unauthorised,
    "402": _always(error(402, "Insufficient credits", code=402)),
    "403": _always(error(403, "Country, region, or territory not supported", code="unsupported_country")),
    "404": _always(error(404, "The model `x` does not exist", code="model_not_found", type=INVALID)),
    "quota": _always(
        error(429, "You exceeded your quota", code="insufficient_quota", type="insufficient_quota")
    ),
    "redirect": _always(Reply(b"", 308, (("Location", "/elsewhere"),))),
    "no usage": _without_usage,
}
"""Those of any request."""

CHAT_FAULTS: Mapping[str, Maker] = {
    "truncated content": _always(completion('{"value": ')),
    "wrong schema": _always(completion({"unexpected": [None]})),
    "out of range": _always(completion({"value": 1e6})),
    "nan": _always(completion('{"value": NaN}')),
    "null content": _always(completion(None)),
    "no choices": _always(chat([])),
    "refusal": _always(completion(None, refusal="I cannot help with that.")),
    "content filter": _always(completion(None, finish_reason="content_filter")),
    "length": _always(completion('{"value": ', finish_reason="length")),
    "400 content filter": _always(error(400, "The prompt was filtered", code="content_filter")),
    "schema refused": _schema_refused,
}
"""Those of completions."""

EMBEDDING_FAULTS: Mapping[str, Maker] = {
    "count": lambda request: embeddings(_vectors(request)[1:]),
    "null number": lambda request: _with_number(request, "null"),
    "nan number": lambda request: _with_number(request, "NaN"),
    "infinite number": lambda request: _with_number(request, "1e999"),
    "lengths": lambda request: embeddings([v[: i + 1] for i, v in enumerate(_vectors(request))]),
    "unordered": lambda request: embeddings(
        reversed(_vectors(request)), indexes=range(len(request.body["input"]) - 1, -1, -1)
    ),
    "index twice": lambda request: embeddings(_vectors(request), indexes=[0] * len(request.body["input"])),
    "no numbers": lambda request: embeddings([[] for _ in request.body["input"]]),
}
"""Those of embeddings."""

FAULTS: Mapping[str, Maker] = {**HTTP_FAULTS, **CHAT_FAULTS, **EMBEDDING_FAULTS}

FATAL = {"401", "402", "403", "404", "quota"}
SLOW = {"429 seconds", "429 date", "429 milliseconds", "429 long", "503", "never", "drip"}
"""Those that make a client wait for seconds, or for ever."""


def random_faults(
    share: float,
    *,
    seed: int = 0,
    names: Sequence[str] | None = None,
    otherwise: Maker = reply_to,
) -> Maker:
    """A script in which that share of the requests meets one of the named faults.

    Which request meets which follows from `seed`, its body and how often it was seen. Without names, it is
    any fault that is neither fatal nor slow.
    """
    chosen = [name for name in FAULTS if name not in FATAL | SLOW] if names is None else names
    of_both = [name for name in chosen if name in HTTP_FAULTS]
    of_chat = of_both + [name for name in chosen if name in CHAT_FAULTS]
    of_embeddings = of_both + [name for name in chosen if name in EMBEDDING_FAULTS]

    def script(request: Request) -> Any:
        number = crc32(b"%d %d " % (seed, request.attempt) + request.raw)
        if number % 10_000 >= share * 10_000:
            return otherwise(request)
        possible = of_chat if _is_chat(request) else of_embeddings
        return FAULTS[possible[number // 10_000 % len(possible)]](request)

    return script
