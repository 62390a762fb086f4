"""Posts changes of alerts to a URL in the background, as JSON that Slack understands, too."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import html
import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from graphrag_eval_async.config.secrecy import expand
from graphrag_eval_async.monitor.alerts import summary
from graphrag_eval_async.threads import run_abandonable
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from graphrag_eval_async.monitor.alerts import Change

SIGNATURE = "X-Graphrag-Eval-Signature"
"""Header with ``sha256=`` and the hexadecimal HMAC-SHA256 of the body."""

SECRET = "GRAPHRAG_EVAL_WEBHOOK_SECRET"  # noqa: S105
"""Environment variable of the secret that signs."""

ATTEMPTS = 5
BACKOFF_SECONDS = 0.5  # pause after the first failure; each later one is twice as long
ATTEMPT_SECONDS, TOTAL_SECONDS = 10.0, 25.0  # of one attempt, and of all with their pauses
PASSING = frozenset({408, 425, 429})  # statuses that another attempt may change, besides 500 and more


class Address(NamedTuple):
    """Where to post. Everything but `host` may be secret: Slack's hooks have their secret in the path."""

    host: str  # with its port, for messages
    url: str  # without user and password
    headers: Mapping[str, str]  # authorises by these, if there are any

    def __repr__(self) -> str:
        return f"<Address: {self.host}>"


def parse_address(text: str) -> Address:
    """Parse an http or https URL; ``${NAME}`` stands for an environment variable.

    Raises:
        ValueError: it is none, or a variable is not set. The message does not quote it.
    """
    try:
        text = expand(text.strip())
    except KeyError as error:
        raise ValueError(f"the environment variable {error.args[0]!r} is not set") from None
    try:
        url = urlsplit(text)
        is_usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_usable = False
    if not (is_usable and text.isascii() and text.isprintable() and " " not in text):
        raise ValueError("expected a URL in ASCII that begins with https:// or http://")
    login, _, host = url.netloc.rpartition("@")
    token = base64.b64encode(unquote(login).encode()).decode()
    headers = {"Authorization": f"Basic {token}"} if login else {}
    return Address(host, url._replace(netloc=host, fragment="").geturl(), headers)


class Webhook:
    """Posts changes of alerts to an address, signed if there is a secret.

    A post that fails in a way that may pass is tried again, with growing pauses, up to `ATTEMPTS` times
    within `TOTAL_SECONDS`. So a change may arrive twice. Redirects are not followed.
    """

    def __init__(self, address: Address, secret: bytes | None, *, backoff: float = BACKOFF_SECONDS) -> None:
        self._address, self._secret, self._backoff = address, secret, backoff

    async def __call__(self, change: Change) -> str | None:
        """Post a change; return what went wrong, if anything."""
        text = html.escape(summary(change), quote=False)  # As Slack wants it.
        body, problem, attempt = json.dumps({"text": text, **change}).encode(), "was not answered", 0
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                for attempt in range(1, ATTEMPTS + 1):
                    problem, may_pass = await self._try(body)
                    if not problem:
                        return None
                    if not may_pass:
                        break
                    if attempt < ATTEMPTS:
                        await asyncio.sleep(self._backoff * 2 ** (attempt - 1))
        except TimeoutError:
            pass
        return f"{problem} (attempt {attempt} of {ATTEMPTS})"

    async def _try(self, body: bytes) -> tuple[str, bool]:
        """Return what went wrong in one attempt, empty if nothing, and whether another may succeed."""
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                status = await run_abandonable(lambda: self._post(body))
        except OSError as error:
            reason = getattr(error, "reason", error)  # Of an error of urllib.
            if isinstance(reason, TimeoutError):
                return f"was not answered within {ATTEMPT_SECONDS:g} s", True
            return f"cannot be reached: {getattr(reason, 'strerror', None) or type(reason).__name__}", True
        if 200 <= status < 300:
            return "", False
        return f"was answered with status {status}", status >= 500 or status in PASSING

    def _post(self, body: bytes) -> int:
        """Return the status of the reply."""
        from http.client import HTTPException  # These take long to import.
        from urllib.error import HTTPError
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class NoRedirects(HTTPRedirectHandler):
            def redirect_request(self, *_: object) -> None:
                """Make a redirect an error, as any other status but 200."""

        headers = {"Content-Type": "application/json", "User-Agent": f"graphrag-eval-async/{version()}"}
        if self._secret is not None:
            headers[SIGNATURE] = f"sha256={hmac.new(self._secret, body, hashlib.sha256).hexdigest()}"
        url, headers = self._address.url, {**self._address.headers, **headers}
        request = Request(url, body, headers, method="POST")  # noqa: S310  (checked)
        try:
            with build_opener(NoRedirects).open(request, timeout=ATTEMPT_SECONDS) as reply:
                return int(reply.status)
        except HTTPError as error:
            with error:
                return error.code
        except HTTPException as error:
            raise ConnectionError(type(error).__name__) from None


DELIVERY_SECONDS = 30.0  # How long one delivery may take, and how long to wait for the last ones at the end.
MAX_WAITING = 100  # How many changes of one alert may wait for their delivery.


class Deliveries:
    """Delivers changes of one alert in order, and those of different alerts concurrently."""

    def __init__(
        self,
        name: str,
        deliver: Callable[[Change], Awaitable[str | None]],
        say: Callable[[str], object],
        *,
        seconds: float = DELIVERY_SECONDS,
    ) -> None:
        """`deliver` returns what went wrong, if anything, and `say` is told; `finish` waits for `seconds`."""
        self._name, self._deliver, self._say, self._seconds = name, deliver, say, seconds
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, change: Change) -> None:
        """Deliver a change soon; must be called on the event loop."""
        if self._waiting[change["alert"]] > MAX_WAITING:  # One of these is being delivered.
            self._complain(change, f"is skipped, since {MAX_WAITING} are waiting")
            return
        self._waiting[change["alert"]] += 1
        task = asyncio.create_task(self._work_off(change))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work_off(self, change: Change) -> None:
        async with self._turns[change["alert"]]:  # In the order in which they came.
            try:
                if (problem := await self._deliver(change)) is not None:
                    self._complain(change, problem)
            finally:
                self._waiting[change["alert"]] -= 1

    async def finish(self) -> None:
        """Wait for pending deliveries, at most for the timeout of one."""
        if self._tasks and (await asyncio.wait(self._tasks, timeout=self._seconds))[1]:
            self._say(f"{self._name}: not all were finished at the end")

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _complain(self, change: Change, what: str) -> None:
        self._say(f"{self._name} {what}: {change['alert']}, {change['state']}")
