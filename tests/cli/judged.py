"""A judge behind HTTP for command lines: a server in a thread, and answers whose claims anybody
can count.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.support.deadlines import join, wait
from tests.support.judge_server import JudgeServer, completion, reply_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.judge_server import Reply, Request, Script

KEY = "sk-secret-0123456789"
MODEL = "gpt-4o-mini"
PRICES = {
    "input_usd_per_million": 1.0,
    "output_usd_per_million": 10.0,
    "embedding_usd_per_million": 0.5,
}

BLOCK = re.compile(r"<(\w+) (\w+)>\n(.*?)\n</\1 \2>", re.DOTALL)


def claims(question: str, reference: str, actual: str) -> dict[str, Any]:
    """What the judge finds: a claim for each distinct word."""
    known, given = (list(dict.fromkeys(text.split())) for text in (reference, actual))
    pairs = [
        {"reference": known.index(word), "actual": given.index(word)}
        for word in known
        if word in given
    ]
    reason = f'of "{question}":\n\tcommon are {len(pairs)} \N{BULLET} claims'
    return {"reference_claims": known, "actual_claims": given, "reason": reason, "matches": pairs}


def blocks(request: Request) -> dict[str, str]:
    """The data that the judge is shown."""
    found = BLOCK.findall(request.body["messages"][-1]["content"])
    return {name: text for name, _, text in found}


def honest(request: Request) -> Reply:
    """Judges answer correctness by `claims`, all documents as useful, and all else somehow."""
    form = json.dumps(request.body.get("response_format"))
    if any(title in form for title in ("RetrievedDocuments", "RetrievedForBoth", "RatedDocuments")):
        ids = [document["id"] for document in json.loads(blocks(request)["documents"])]
        useful = dict.fromkeys(("useful", "useful_for_answer", "useful_for_texts"), True)
        verdicts = [{"id": number, "reason": "r", "rating": 2, **useful} for number in ids]
        parts = ("statements", "answer_statements", "texts_statements")
        statements = [{"statement": "s", "documents": ids}]
        return completion({"documents": verdicts, **dict.fromkeys(parts, statements)})
    if "AnswerClaims" not in form:
        return reply_to(request)
    data = blocks(request)
    return completion(claims(data["question"], data["reference_answer"], data["actual_answer"]))


def failing(word: str, fault: Any) -> Script:
    """A script by which requests that hold the word meet a fault."""

    def script(request: Request) -> Reply:
        is_hit = word.encode() in request.raw
        answer: Reply = (
            (fault(request) if callable(fault) else fault) if is_hit else honest(request)
        )
        return answer

    return script


@contextmanager
def serving(script: Script = honest, **more: Any) -> Iterator[JudgeServer]:
    """A server in a thread of its own."""
    started = threading.Event()
    loop = asyncio.new_event_loop()
    server = JudgeServer(script, **more)
    done = asyncio.Event()

    async def serve() -> None:
        async with server:
            started.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    wait(started, "the server")
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(done.set)
        join(thread)
        loop.close()


def config(folder: Path, server: JudgeServer | None, *, llm: Any = None, **metrics: Any) -> str:
    """The path of a configuration; without metrics, it is answer correctness."""
    url = {} if server is None else {"base_url": server.base_url, "api_key": KEY}
    models = {
        "generation": {"provider": "openai", "model": MODEL, **url},
        "embedding": {"provider": "openai", "model": "text-embedding-3-small", **url},
        "pricing": PRICES,
    }
    path = folder / "config.yaml"
    path.write_text(
        json.dumps({"llm": models | (llm or {}), **(metrics or {"answer_correctness": {}})})
    )
    return str(path)
