"""The LLM and the embeddings that metrics of ragas get: they ask the judge of the metric that runs.

Imports ragas, so it is imported on demand, after `load_ragas`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from langchain_core.outputs import Generation, LLMResult
from pydantic import BaseModel
from ragas.embeddings.base import BaseRagasEmbedding
from ragas.llms.base import InstructorBaseRagasLLM

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.ragas_bridge import format_of_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.metrics.metric import Calls


class MetricRun:
    """One run of a metric of ragas on one result.

    Attributes:
        replies: the replies so far, as the output models of the prompts.
        error: the first error of a call; None if no call has failed. A metric of ragas may turn an
            error into a number, or repeat the call, so the metric need not raise the error.
        texts_without_vectors: texts for which the metric wanted vectors without waiting. The metric
            must run again when these vectors are known.
    """

    def __init__(self, calls: Calls, vectors: dict[str, list[float]]) -> None:
        """Prepare a run that has made no call.

        Args:
            calls: asks the judge.
            vectors: the vectors of texts that are embedded already, by text; used without waiting.
        """
        self._calls = calls
        self._vectors = vectors
        self._times_asked: Counter[str] = Counter()
        self._calls_in_flight: set[asyncio.Future[None]] = set()
        self.replies: list[Any] = []
        self.error: JudgeError | None = None
        self.texts_without_vectors: list[str] = []

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Return a context in which `LLM` and `EMBEDDINGS` ask the judge of this run."""
        token = _current_run.set(self)
        try:
            yield
        finally:
            _current_run.reset(token)

    async def ask(self, prompt: str, response_model: Any) -> Any:
        """Ask the judge, add the reply to `replies`, and return the reply.

        Args:
            prompt: the text for the judge.
            response_model: the class of the reply, a pydantic class.

        Raises:
            JudgeError: this call or an earlier one failed.
        """
        self._raise_first_error()
        # A metric that sends a prompt again wants another reply, so count the times.
        repeat = self._times_asked[prompt]
        self._times_asked[prompt] += 1

        messages = [{"role": "user", "content": prompt}]
        # This future is done when the call has ended, so that `finish` can wait for the call.
        ended = asyncio.get_running_loop().create_future()
        self._calls_in_flight.add(ended)
        try:
            reply = await self._calls.ask(
                lambda: messages, format_of_model(response_model), repeat=repeat
            )
        except JudgeError as error:
            if self.error is None:
                self.error = error
            raise
        finally:
            self._calls_in_flight.discard(ended)
            ended.set_result(None)
        self.replies.append(reply)
        return reply

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text, in the order of the texts.

        Raises:
            JudgeError: this call or an earlier one failed.
        """
        self._raise_first_error()
        try:
            return await self._calls.embed(texts)
        except JudgeError as error:
            if self.error is None:
                self.error = error
            raise

    def _raise_first_error(self) -> None:
        """Raise the first error of a call, if a call has failed."""
        if self.error is not None:
            # Several tasks may raise this error, and each would lengthen its traceback.
            raise self.error.with_traceback(None)

    def embed_without_waiting(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text, from the vectors that are known already.

        Raises:
            JudgeError: some vectors are not known. Their texts are added to
                `texts_without_vectors`, and the metric must run again with these vectors.
        """
        unknown = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if unknown:
            self.texts_without_vectors += unknown
            raise JudgeError("invalid_request", "the vectors of some texts are not known yet")
        return [self._vectors[text] for text in texts]

    async def finish(self) -> None:
        """Wait for calls that are still running after the metric has ended.

        The replies are paid for anyway.
        """
        while self._calls_in_flight:
            await asyncio.wait(self._calls_in_flight)


_current_run: ContextVar[MetricRun] = ContextVar("graphrag_eval_async_ragas_run")


class TextReply(BaseModel):
    """A reply that a metric reads as text."""

    text: str


class JudgeLLM(InstructorBaseRagasLLM):
    """The LLM of all metrics of ragas: the judge of the metric that runs."""

    is_async = True
    """What the older metrics of ragas look for."""

    def generate(self, prompt: str, response_model: Any) -> Any:  # noqa: ARG002
        """Raise a `JudgeError`, since waiting for the reply here would block the event loop."""
        raise JudgeError("invalid_request", "the metric asks its LLM without awaiting the reply")

    async def agenerate(self, prompt: str, response_model: Any) -> Any:
        """Ask the judge, and return the reply as an object of `response_model`."""
        return await _current_run.get().ask(str(prompt), response_model)

    async def agenerate_text(self, prompt: Any, **_: Any) -> LLMResult:
        """Ask the judge, and return the reply as text, which older metrics of ragas read."""
        reply = await _current_run.get().ask(prompt.to_string(), TextReply)
        return LLMResult(generations=[[Generation(text=reply.text)]])


class JudgeEmbeddings(BaseRagasEmbedding):
    """The embeddings of all metrics of ragas: those of the judge of the metric that runs.

    The names of methods are those of newer and of older metrics.
    """

    def embed_text(self, text: str, **_: Any) -> list[float]:
        """Return the vector of a text without waiting; raise a `JudgeError` if it is not known."""
        return _current_run.get().embed_without_waiting([text])[0]

    def embed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
        """Return the vectors of texts without waiting; raise a `JudgeError` if one is not known."""
        return _current_run.get().embed_without_waiting(texts)

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        """Ask the judge for the vector of a text, and return the vector."""
        vectors = await _current_run.get().embed([text])
        return vectors[0]

    async def aembed_texts(self, texts: list[str], **_: Any) -> list[list[float]]:
        """Ask the judge for the vectors of texts, and return them in the same order."""
        return await _current_run.get().embed(texts)

    embed_query = embed_text
    embed_documents = embed_texts
    aembed_query = aembed_text
    aembed_documents = aembed_texts


LLM = JudgeLLM()
EMBEDDINGS = JudgeEmbeddings()
