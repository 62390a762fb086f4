"""Everything that goes wrong with servers, by name, and what becomes of a call that meets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from zlib import crc32

from tests.support.judge_server.replies import (
    NEVER,
    Reply,
    Request,
    chat,
    completion,
    embeddings,
    error,
    json_reply,
    reply_to,
    vector,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Maker: TypeAlias = Callable[[Request], Reply]

ATTEMPTS = 3
INVALID = "invalid_request_error"
HTML = Reply(
    b"<!DOCTYPE html>\n<html><body>It works!</body></html>", content_type="text/html; charset=utf-8"
)


@dataclass(frozen=True)
class Fault:
    """What a server does, and what becomes of a call of at most `ATTEMPTS` attempts.

    If it always meets the fault, it sends `always` requests, and its error is of the kind; if only
    once, it sends `once` requests and succeeds, unless that is a single one.
    """

    answer: Reply | Maker
    kind: str
    once: int
    always: int

    def __call__(self, request: Request) -> Reply:
        return self.answer if isinstance(self.answer, Reply) else self.answer(request)


def again(answer: Reply | Maker, kind: str = "unavailable") -> Fault:
    """The request is sent again as long as there are attempts."""
    return Fault(answer, kind, 2, ATTEMPTS)


def limited(**headers: str) -> Fault:
    """A 429 that may say when to come back."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return again(
        error(429, "Rate limit reached", code="rate_limit_exceeded", headers=named), "rate_limited"
    )


def unusable(answer: Reply | Maker) -> Fault:
    """The judge is asked once for a better reply."""
    return Fault(answer, "invalid_reply", 2, 2)


def final(answer: Reply | Maker, kind: str = "invalid_request") -> Fault:
    return Fault(answer, kind, 1, 1)


def _unauthorised(request: Request) -> Reply:
    given = request.headers
    key = given.get("api-key") or given.get("authorization", "").removeprefix("Bearer ")
    return error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key", type=INVALID)


def _cut(request: Request) -> Reply:
    return replace(reply_to(request), how="cut")


def _truncated(request: Request) -> Reply:
    body = reply_to(request).body
    return Reply(body[: len(body) // 2])


def _vectors(request: Request) -> list[list[float]]:
    return [vector(text) for text in request.body["input"]]


def _infinite(request: Request) -> Reply:
    reply = embeddings([[12345.5]] * len(request.body["input"]))
    return replace(reply, body=reply.body.replace(b"12345.5", b"1e999"))


DENIED: Mapping[str, Fault] = {
    "401": final(_unauthorised),
    "403": final(
        error(403, "Country, region, or territory not supported", code="unsupported_country")
    ),
    "404": final(error(404, "The model `x` does not exist", code="model_not_found", type=INVALID)),
}
"""They end a run only if they come ten times in a row, or no request succeeds."""

FATAL: Mapping[str, Fault] = {
    **DENIED,
    "402": final(error(402, "Insufficient credits", code=402), "unavailable"),
    "quota": final(error(429, "You exceeded your quota", code="insufficient_quota"), "unavailable"),
}
HTTP_FAULTS: Mapping[str, Fault] = {
    "429": limited(),
    "500": again(error(500, "The server had an error", type="server_error")),
    "503": again(error(503, "The engine is overloaded", headers={"Retry-After": "3"})),
    "408": again(error(408, "Request timeout"), "timeout"),
    "reset": again(Reply(how="reset")),
    "reset mid-body": again(_cut),
    "never": again(NEVER, "timeout"),
    "html": unusable(HTML),
    "truncated": unusable(_truncated),
    "400": final(error(400, "Unrecognised parameter", type=INVALID)),
    "422": final(
        json_reply({"detail": [{"loc": ["body", "seed"], "msg": "not a number"}]}, status=422)
    ),
    "redirect": final(Reply(b"", 308, (("Location", "/elsewhere"),))),
}
"""Those of any request, but for those that are `FATAL`."""

CHAT_FAULTS: Mapping[str, Fault] = {
    "truncated content": unusable(completion('{"value": ')),
    "wrong schema": unusable(completion({"unexpected": [None]})),
    "null content": unusable(completion(None)),
    "no choices": unusable(chat([])),
    "refusal": final(completion(None, refusal="I cannot help with that."), "refused"),
    "content filter": final(completion(None, finish_reason="content_filter"), "refused"),
    "length": final(completion('{"value": ', finish_reason="length"), "invalid_reply"),
}
"""Those of completions."""

EMBEDDING_FAULTS: Mapping[str, Fault] = {
    "count": unusable(lambda request: embeddings(_vectors(request)[1:])),
    "infinite number": unusable(_infinite),
    "lengths": unusable(
        lambda request: embeddings([v[: i + 1] for i, v in enumerate(_vectors(request))])
    ),
    "no numbers": unusable(lambda request: embeddings([[] for _ in request.body["input"]])),
}
"""Those of embeddings."""

FAULTS: Mapping[str, Fault] = {
    **FATAL,
    **HTTP_FAULTS,
    **CHAT_FAULTS,
    **EMBEDDING_FAULTS,
    "429 long": limited(Retry_After="300"),
}


def random_faults(share: float, names: Sequence[str], otherwise: Maker) -> Maker:
    """A script in which that share of the requests meets one of the named faults.

    Which request meets which follows from its body and how often it was seen.
    """
    of_chat = [name for name in names if name not in EMBEDDING_FAULTS]
    of_embeddings = [name for name in names if name not in CHAT_FAULTS]

    def script(request: Request) -> Any:
        number = crc32(b"%d " % request.attempt + request.raw)
        if number % 10_000 >= share * 10_000:
            return otherwise(request)
        possible = of_chat if request.is_chat else of_embeddings
        return FAULTS[possible[number // 10_000 % len(possible)]](request)

    return script
