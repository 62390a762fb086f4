"""The judge on a client of the package openai."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import signature
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import warn

from msgspec import UNSET, UnsetType

from graphrag_eval_async.config.secrecy import environment_secrets
from graphrag_eval_async.errors import GraphragEvalWarning, JudgeError, UsageError
from graphrag_eval_async.judge.clients import address_of, check_client
from graphrag_eval_async.judge.dialect import (
    DESCRIPTIONS,
    Dialect,
    Format,
    Parameters,
    write_messages,
)
from graphrag_eval_async.judge.failures import DialectChanged, ServerError, connection_failure
from graphrag_eval_async.judge.replies import (
    EXCERPT,
    Completion,
    check_object,
    read_completion,
    read_embeddings,
)
from graphrag_eval_async.judge.scrubber import Scrubber

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from openai import APIConnectionError

    from graphrag_eval_async.judge.protocol import Message
    from graphrag_eval_async.records.token_usage import TokenUsage


class SentCompletion(NamedTuple):
    """A request for a completion, and how it was written."""

    request: Mapping[str, Any]
    dialect: Dialect
    prompt_characters: int


class OpenAIJudge:
    """A judge on your client of the package openai.

    The client may be an `AsyncOpenAI` or `AsyncAzureOpenAI`, also one that Langfuse, LangSmith,
    Braintrust, OpenInference or another tracer wraps: each request is a call of its
    ``chat.completions.create`` or ``embeddings.create``. Limits, retries, prices and the cache are
    those of the configuration, where the same settings give the same results. You close the client.

    Example:
        >>> judge = OpenAIJudge(AsyncOpenAI(max_retries=0), model="gpt-4o-mini")
        >>> stream = evaluate_stream(reference, responses, judge=judge)
    """

    def __init__(
        self,
        client: Any,
        model: str,
        *,
        embedding_model: str | None = None,
        embedding_parameters: Mapping[str, Any] | None = None,
        temperature: float | UnsetType | None = UNSET,
        max_tokens: int | UnsetType | None = UNSET,
        **parameters: Any,
    ) -> None:
        """Prepare a judge; sends nothing.

        Args:
            client: an asynchronous client. If it retries failed requests itself, as it does by
                default, a warning says so: these attempts are neither counted nor priced.
            model: name of the model that judges; for Azure, of the deployment.
            embedding_model: name of the embedding model, for metrics that need one.
            embedding_parameters: arguments or fields of each request for embeddings.
            temperature: from 0 to 2; None leaves it to the server. Default: 0, unless the server
                refuses it.
            max_tokens: limit of one reply, in tokens; None leaves it to the server. Default: 4096,
                unless the server refuses it.
            **parameters: arguments of ``chat.completions.create`` for each request, or fields that
                it does not know, which are added to the body.

        Raises:
            UsageError: `client` is not an asynchronous client of the package openai.
        """
        check_client(client)
        if not isinstance(model, str) or not model:
            raise UsageError(f"OpenAIJudge: model: expected the name of a model, got {model!r}")
        candidate: object = embedding_parameters
        if not isinstance(candidate, Mapping | None):
            problem = f"expected a mapping, got {candidate!r}"
            raise UsageError(f"OpenAIJudge: embedding_parameters: {problem}")
        self.client = client
        self.model = model
        self.embedding_model = embedding_model
        self.settings: dict[str, Any] = {"parameters": parameters}
        """What the section of a model in the configuration may have, by key."""
        if temperature is not UNSET:
            self.settings["temperature"] = temperature
        if max_tokens is not UNSET:
            self.settings["max_tokens"] = max_tokens
        self.embedding_settings: dict[str, Any] = {"parameters": dict(embedding_parameters or {})}
        self.dialect = Dialect()
        self.section = type(self).__name__
        """Where its settings are, as errors name it."""

        self._address = address_of(client)
        self._scrub = Scrubber({*environment_secrets(), _key_of(client)})
        self._parameters = Parameters.of_completions(model, temperature, max_tokens, parameters)
        self._embedding_parameters: Parameters | None = None
        if embedding_model is not None:
            self._embedding_parameters = Parameters.of_embeddings(
                embedding_model, self.embedding_settings["parameters"]
            )
        # Whether a reply in the format of the dialect was usable.
        self._is_format_proven = False
        # Whether a refusal without a reason may be about the format.
        self._may_guess_format = True
        # Why the dialect changed, by parameter or format, until a warning has said it.
        self._unannounced: dict[str, str] = {}

    def set_section(self, section: str, secrets: set[str]) -> None:
        """Name a section of the configuration in errors, in place of this class.

        Args:
            section: where the model is configured, such as "llm.generation".
            secrets: what else to hide in the texts of the server.
        """
        self.section = section
        self._scrub = Scrubber({*secrets, *environment_secrets(), _key_of(self.client)})

    @property
    def where(self) -> str:
        """The model and its server, as messages name them."""
        return self._scrub(f"{self.model} at {self._address}")

    async def complete(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, variation: int = 0
    ) -> tuple[Any, TokenUsage | None]:
        """Return the reply as a decoded JSON value, and the tokens used; see `Judge`."""
        completion = await self.request_completion(messages, schema, variation=variation)
        return completion.value, completion.usage

    async def request_completion(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, variation: int = 0
    ) -> Completion:
        """Return the reply to one request.

        Raises:
            DialectChanged: the server refuses how the request was written; it will be written in
                another way.
            JudgeError: there is no usable reply.
        """
        import openai

        dialect = self.dialect
        prompt_characters = sum(len(message["content"]) for message in messages)
        request = self._parameters.write(
            dialect, variation=variation, prompt_characters=prompt_characters
        )
        request |= write_messages(dialect.format, messages, schema)
        sent = SentCompletion(request, dialect, prompt_characters)
        try:
            # Looked up for each request: tracers replace these methods.
            create = self.client.chat.completions.create
            reply = await self._send(create, _completion_arguments(), request)
            check_object(reply, self._scrub)
            error = ServerError.in_reply(reply)
        except openai.APIStatusError as status_error:
            error = ServerError.of_exception(status_error)
        if error is not None:
            raise self._learn_from_refusal(error, sent)
        return self._read(reply, schema, dialect)

    async def embed(self, texts: Sequence[str]) -> tuple[list[Any], TokenUsage | None]:
        """Return one vector per text, in order, and the tokens used; see `Judge`."""
        import openai

        if self._embedding_parameters is None:
            problem = f"{self.section} has no embedding_model, which this metric needs"
            raise JudgeError("invalid_request", problem, final=True)
        request = self._embedding_parameters.write(self.dialect)
        request["input"] = [*texts]
        try:
            create = self.client.embeddings.create
            reply = await self._send(create, _embedding_arguments(), request)
            check_object(reply, self._scrub)
            error = ServerError.in_reply(reply)
        except openai.APIStatusError as status_error:
            error = ServerError.of_exception(status_error)
        if error is not None:
            failure = error.failure(self.section, self.where, self._scrub)
            parameter = self._embedding_parameters.find_refused(error, request, self.dialect)
            if parameter is not None:
                failure = self._name_parameter(failure, parameter)
            raise failure
        return read_embeddings(reply, self._scrub)

    async def _send(
        self,
        create: Callable[..., Awaitable[Any]],
        arguments: frozenset[str],
        request: Mapping[str, Any],
    ) -> Any:
        """Return what a method of the client returns.

        Args:
            create: the method.
            arguments: the names of its arguments; other fields go into the body.
            request: the fields of the body, and perhaps other arguments.

        Raises:
            openai.APIStatusError: the server replied with an error.
            JudgeError: any other failure. It does not chain the SDK's, whose request has the key.
        """
        import openai

        named = {name: value for name, value in request.items() if name in arguments}
        unnamed = {name: value for name, value in request.items() if name not in arguments}
        if unnamed:
            named["extra_body"] = {**named.get("extra_body", {}), **unnamed}
        try:
            return await create(**named)
        except openai.APIConnectionError as error:
            raise self._connection_failure(error) from None
        except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            excerpt = self._scrub(str(getattr(error, "doc", "")), EXCERPT)
            problem = f"not a JSON object: {error}: {excerpt}"
            raise JudgeError("invalid_reply", problem) from None
        except (TypeError, UnicodeEncodeError) as error:
            problem = self._scrub(f"the request cannot be encoded: {error}")
            raise JudgeError("invalid_request", problem) from None

    def _connection_failure(self, error: APIConnectionError) -> JudgeError:
        """Return the error for a request without a response."""
        cause: BaseException | None = error
        while cause is not None:
            # Raised while our client read a reply that is too long; older SDKs wrap it.
            if isinstance(cause, JudgeError):
                return cause
            cause = cause.__cause__
        failure = connection_failure(error, self._address)
        return type(failure)(failure.kind, self._scrub(failure.message))

    def _read(self, reply: Any, schema: Mapping[str, Any], dialect: Dialect) -> Completion:
        """Return the reply in a completion; learn whether the server honours the format."""
        limit = f"{self.section}.{self._parameters.reply_limit}"
        try:
            completion = read_completion(reply, self._scrub, limit)
        except JudgeError as error:
            is_prose = error.kind == "invalid_reply" and error.reply and "{" not in error.reply
            if is_prose and self._describe_layout(dialect, error.message):
                raise _ask_again(error) from None
            raise

        value = completion.value
        if isinstance(value, dict):
            missing = set(schema.get("required", ())) - value.keys()
            if missing:
                problem = f"the reply lacks {', '.join(sorted(missing))}"
                if self._describe_layout(dialect, problem):
                    raise DialectChanged("invalid_reply", problem, usage=completion.usage, reply="")
                return completion._replace(dialect=dialect)
            if value.keys() - schema["properties"].keys():
                completion = completion._replace(is_repaired=True)
        self._accept(dialect)
        return completion._replace(dialect=dialect)

    def _describe_layout(self, sent: Dialect, reason: str) -> bool:
        """Describe the layout of replies in words from now on, since the server ignored the format.

        Returns:
            Whether a request in the dialect `sent` is to be sent again.
        """
        if sent.format.is_in_words:
            return False
        if self.dialect.format is sent.format:
            if self._is_format_proven:
                return False
            self._change_format(Format.JSON_OBJECT, reason)
        return True

    def _learn_from_refusal(self, error: ServerError, sent: SentCompletion) -> JudgeError:
        """Return the error for a refused request; change the dialect if the server may accept
        requests in another one.
        """
        failure = error.failure(self.section, self.where, self._scrub)
        if error.is_too_long:
            is_shorter = self._parameters.shorten(
                sent.request, sent.dialect, sent.prompt_characters
            )
            return _ask_again(failure) if is_shorter else failure

        parameter = self._parameters.find_refused(error, sent.request, sent.dialect)
        if parameter is not None:
            if self._change_parameter(parameter, sent.dialect, error):
                return _ask_again(failure)
            return self._name_parameter(failure, parameter)

        if self._refuse_format(sent.dialect, error):
            return _ask_again(failure)
        return failure

    def _name_parameter(self, failure: JudgeError, parameter: str) -> JudgeError:
        """Return an error that says which parameter of the user the server refuses."""
        text = f"{failure.message}; change or remove {self.section}.{parameter}"
        return JudgeError(failure.kind, text, final=failure.final)

    def _change_parameter(self, parameter: str, sent: Dialect, error: ServerError) -> bool:
        """Rename a refused parameter or leave it out, unless this happened since the request.

        Returns:
            Whether to send the request again; not if the parameter is the user's.
        """
        changed = self._parameters.rename(parameter, sent)
        if changed is None:
            return False
        if self.dialect.sent_name(parameter) == sent.sent_name(parameter):
            names = {**self.dialect.names, parameter: changed.names[parameter]}
            self.dialect = Dialect(self.dialect.format, names)
            self._unannounced[parameter] = self._scrub(error.text)
        return True

    def _refuse_format(self, sent: Dialect, error: ServerError) -> bool:
        """Request replies in the next format, if the server refuses that of a request.

        Returns:
            Whether to send the request again.
        """
        is_guess = not error.names_format
        if is_guess and not (error.may_refuse_format and self._may_guess_format):
            return False
        if self.dialect.format is not sent.format:
            return True  # Another request was refused before.
        if is_guess and self._is_format_proven:
            return False
        next_format = sent.format.next
        if next_format is not None:
            self._change_format(next_format, self._scrub(error.text))
            return True
        if is_guess:
            # The server refuses every format, so it refuses something else.
            self._may_guess_format = False
            self._change_format(Format.STRICT_SCHEMA, "")
        return False

    def _change_format(self, format: Format, reason: str) -> None:  # noqa: A002
        """Request replies in a format from now on."""
        self.dialect = Dialect(format, self.dialect.names)
        self._is_format_proven = False
        self._unannounced["format"] = reason

    def _accept(self, sent: Dialect) -> None:
        """Learn that the server accepts a dialect, and warn once of what differs from the
        default.
        """
        if sent.format is self.dialect.format:
            self._is_format_proven = True
        if not self._unannounced or sent != self.dialect:
            return
        reasons = self._unannounced
        self._unannounced = {}
        for name, reason in reasons.items():
            if name == "format":
                if self.dialect.format is Format.STRICT_SCHEMA:
                    continue
                change = f"replies are requested as {DESCRIPTIONS[self.dialect.format]}"
            elif self.dialect.names[name] is None:
                change = f"{name} is left out"
            else:
                change = f"{name} is sent as {self.dialect.names[name]}"
            text = f"judge {self.where}: {change} ({reason})"
            warn(text, GraphragEvalWarning, stacklevel=2)


def _ask_again(error: JudgeError) -> DialectChanged:
    """Return an error after which the request is written in another way and sent again."""
    return DialectChanged(error.kind, error.message, reply=error.reply, usage=error.usage)


def _key_of(client: Any) -> str:
    """Return the key of a client, to hide it; "" if it has none that is a text."""
    key = getattr(client, "api_key", "")
    return key if isinstance(key, str) else ""


@cache
def _completion_arguments() -> frozenset[str]:
    """Return the names of the arguments of the SDK's method for completions."""
    from openai.resources.chat.completions import AsyncCompletions

    return frozenset(signature(AsyncCompletions.create).parameters)


@cache
def _embedding_arguments() -> frozenset[str]:
    """Return the names of the arguments of the SDK's method for embeddings."""
    from openai.resources.embeddings import AsyncEmbeddings

    return frozenset(signature(AsyncEmbeddings.create).parameters)
