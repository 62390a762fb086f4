"""The calls for one result and its metrics: deduplicates, checks, corrects and prices them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from functools import partial
from math import fsum, hypot, inf
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import orjson
from anyio import CancelScope

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.call import Call
from graphrag_eval_async.judge.pricing import estimate_prompt, estimate_tokens
from graphrag_eval_async.judge.protocol import check_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.judge.client import JudgeClient
    from graphrag_eval_async.judge.protocol import Message, ResponseFormat, Send
    from graphrag_eval_async.judge.session import JudgeSession

T = TypeVar("T")

MAX_QUOTED = 2000
"""Maximum characters of an invalid reply that are quoted to the judge."""

MAX_DIMENSIONS = 20_000
"""Maximum length of a vector; embedding models use a few thousand."""


Outcome: TypeAlias = "tuple[Any, Mapping[str, Any]] | JudgeError"
"""The reply to a call and how the request was written, or why there is none."""


class ResultCalls:
    """The calls for one result; its clock starts with the first request sent.

    Attributes:
        order: position among the results; calls of the earliest go first.
        written: how the requests were written whose replies it has, those of equal calls and of earlier runs,
            too; of failed calls, how they would be written now. By the judge's name in the configuration and
            the kind of call; see `Dialect.written`.
        completions: outcomes of its completions so far, by key: metrics that ask the same share the reply,
            or the error.
        is_dropped: whether the session dropped the result before any request was sent.
    """

    def __init__(self, session: JudgeSession) -> None:
        self.session = session
        self.order = next(session.orders)
        self.written: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        self.completions: dict[bytes, Outcome] = {}
        self._deadlines = session.deadlines
        self.scope = CancelScope()
        self.is_dropped = False

    def __enter__(self) -> CancelScope:
        self._deadlines.wait(self.scope)
        return self.scope.__enter__()

    def __exit__(self, *exc_info: Any) -> bool | None:
        self.is_dropped = self._deadlines.is_dropped(self.scope)
        self._deadlines.stop(self.scope)
        return self.scope.__exit__(*exc_info)


class MetricCalls:
    """The calls of one metric for one result to one judge: what the metric asks with.

    Attributes:
        calls: number of calls made, except those answered by the cache or by an equal call in flight.
        costs: cost of each reply to these calls, in US dollars; None if unknown.
        outcome: the keys of the metric, or why there are none.
    """

    def __init__(self, result: ResultCalls, client: JudgeClient | None = None) -> None:
        """Prepare calls to a judge; by default, to the first."""
        self._result = result
        self._session = result.session
        self._client = client or result.session.first
        self.calls = 0
        self.costs: list[float | None] = []
        self.outcome: Mapping[str, Any] | JudgeError = {}
        self._of_all = result.order, self.costs, result.session.deadlines

    @property
    def cost(self) -> float | None:
        """Total cost in US dollars; None if a price or a token count is unknown."""
        known = [cost for cost in self.costs if cost is not None]
        if len(known) < len(self.costs) or self._client.retry.prices.input is None:
            return None
        return fsum(known)

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        """Return the parsed reply.

        Args:
            prompt: returns the conversation; called once the call is admitted; may raise `JudgeError`.
            form: the format of the reply.
            repeat: distinguishes intentionally equal calls; other equal calls are made only once.

        Raises:
            JudgeError: there is no usable reply.
        """
        client = self._client

        def make() -> Call:
            messages = prompt()
            texts = (text for message in messages for text in (message["role"], message["content"]))
            written: dict[str, Any] = {}
            key = client.key("complete", form.schema, str(repeat), *texts)

            def request(correction: Sequence[Message]) -> tuple[Send, int]:
                asked = [*messages, *correction]
                send = partial(client.judge.complete, asked, form.schema, **client.options(written, repeat))
                return send, estimate_prompt(asked, form.schema)

            check = partial(_checked_reply, form)
            return Call("completion", key, request, check, written, *self._of_all)

        return form.read(await self._call("completion", client, make, form.schema, repeat))

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text: finite, nonzero, all of the same length.

        Raises:
            JudgeError: there are no usable vectors.
        """
        client = self._session.first
        written: dict[str, Any] = {}

        def request(_: Sequence[Message]) -> tuple[Send, int]:
            send = partial(client.judge.embed, texts, **client.options(written))
            return send, sum(map(estimate_tokens, texts))

        def make() -> Call:
            key = client.key("embed", None, *texts)
            check = partial(_checked_vectors, len(texts))
            return Call("embedding", key, request, check, written, *self._of_all)

        vectors: list[list[float]] = await self._call("embedding", client, make, None)
        return vectors

    async def _call(
        self,
        kind: str,
        client: JudgeClient,
        make: Callable[[], Call],
        schema: Mapping[str, Any] | None,
        repeat: int = 0,
    ) -> Any:
        """Return the reply to a call once admitted: from the judge, the cache or an equal call."""
        session, result = self._session, self._result
        how: Mapping[str, Any] | None = None
        await session.throttle.turn(result.order)
        try:
            call = make()
            outcome = result.completions.get(call.key)
            if outcome is not None:
                session.usage.shared_calls += 1
            else:
                outcome = await self._outcome(client, call)
                if kind == "completion":
                    result.completions[call.key] = outcome
            if isinstance(outcome, JudgeError):
                raise outcome.with_traceback(None)
            reply, how = outcome
            return reply
        finally:
            how = client.expected(schema, repeat) if how is None else how
            result.written[client.name, kind].append(how)
            session.throttle.release()

    async def _outcome(self, client: JudgeClient, call: Call) -> Outcome:
        """Make a call, unless an equal one is in flight."""
        single_flight = self._session.single_flight
        try:
            outcome: Outcome = await single_flight.call(
                call, self._result.scope, partial(self._cached, client)
            )
        except JudgeError as error:
            return error
        return outcome

    async def _cached(self, client: JudgeClient, call: Call) -> tuple[Any, Mapping[str, Any]]:
        """Return the reply, and how the request was written."""
        session = self._session
        await session.open()
        cache, usage = session.cache, session.usage
        if cache is not None and (kept := await cache.get(call.key)) is not None:
            # A cached reply may be corrupt, or from a version with weaker checks.
            with suppress(JudgeError, orjson.JSONDecodeError):
                text, _, how = kept.partition(b"\n")
                reply = call.check(orjson.loads(text))
                written = orjson.loads(how) if how else {}
                usage.cache_hits += 1
                return reply, written
        usage.calls += 1
        self.calls += 1
        breaker = client.retry.breakers[call.kind]
        await breaker.admit()
        try:
            reply = await self._checked(client, call)
        except asyncio.CancelledError:
            breaker.failed(JudgeError("timeout", "no reply in the time of the result"))
            raise
        except JudgeError as error:
            failure = breaker.failed(error)
            if failure is error:
                raise
            raise failure from error
        breaker.succeeded()
        usage.repaired += call.written.pop("repaired", False)
        if cache is not None:
            how = b"\n" + orjson.dumps(call.written) if call.written else b""
            await cache.put(call.key, orjson.dumps(reply) + how)
            await client.remember(cache)
            usage.cache_errors = cache.failures
        return reply, call.written

    async def _checked(self, client: JudgeClient, call: Call) -> Any:
        """Return a usable reply; if the first is unusable, ask the judge once to correct it."""
        send = client.retry.send
        try:
            return call.check(await send(call, []))
        except JudgeError as error:
            if error.kind != "invalid_reply" or error.final:
                raise
            self._session.usage.retries[error.kind] += 1
            correction = _correction(error)
        return call.check(await send(call, correction))


def _checked_reply(form: ResponseFormat[Any], reply: Any) -> Any:
    """Return the reply if it fits the format, else raise `JudgeError`."""
    try:
        text = orjson.dumps(reply)
    except TypeError as error:
        raise JudgeError("invalid_reply", f"the reply is not JSON: {error}") from None
    try:
        check_size(text)
        form.read(reply)
    except ValueError as error:
        raise JudgeError("invalid_reply", str(error), reply=text.decode()) from None
    return reply


def _checked_vectors(count: int, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the vectors if there is one per text, all finite, nonzero, and of one valid length."""
    try:
        lengths = {len(vector) for vector in vectors}
        if len(vectors) != count or len(lengths) != 1:
            raise JudgeError("invalid_reply", f"expected {count} vectors of the same length")
        if max(lengths) > MAX_DIMENSIONS:
            problem = f"vectors of {max(lengths)} numbers, more than {MAX_DIMENSIONS}"
            raise JudgeError("invalid_reply", problem)
        checked = [[float(x) for x in vector] for vector in vectors]
    except (TypeError, ValueError, OverflowError) as error:
        raise JudgeError("invalid_reply", f"the reply has no vectors: {error}") from None
    if not all(0 < hypot(*vector) < inf for vector in checked):
        raise JudgeError("invalid_reply", "a vector is zero or has a number that is not finite")
    return checked


def _correction(problem: JudgeError) -> list[Message]:
    if not problem.reply:
        return []
    mend = f"This reply cannot be used: {problem.message}. Reply once more, whole and mended."
    return [
        {"role": "assistant", "content": problem.reply[:MAX_QUOTED]},
        {"role": "user", "content": mend},
    ]
