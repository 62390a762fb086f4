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
from graphrag_eval_async.judge.failures import (
    DialectChanged,
    ServerError,
    connection_failure,
    unusable_client_failure,
)
from graphrag_eval_async.judge.replies import (
    EXCERPT,
    Completion,
    check_object,
    read_completion,
    read_embeddings,
)
from graphrag_eval_async.judge.scrubber import Scrubber
from graphrag_eval_async.judge.setting_names import OF_JUDGE, OF_JUDGE_EMBEDDINGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from graphrag_eval_async.judge.protocol import Message
    from graphrag_eval_async.judge.setting_names import SettingNames
    from graphrag_eval_async.records.token_usage import TokenUsage


class SentCompletion(NamedTuple):
    """A request for a completion, how it was written, and the length of its prompt."""

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
        """Prepare a judge, without sending a request.

        Args:
            client: an asynchronous client. If it retries failed requests itself, as it does by
                default, a warning says so: these attempts are neither counted nor priced.
            model: name of the model that judges; for Azure, of the deployment.
            embedding_model: name of the embedding model, for metrics that need one.
            embedding_parameters: arguments of ``embeddings.create`` for each request, or fields to
                add to the body.
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
        # The type of the argument may be wrong, since not every caller checks types.
        candidate: object = embedding_parameters
        if not isinstance(candidate, Mapping | None):
            problem = f"expected a mapping, got {candidate!r}"
            raise UsageError(f"OpenAIJudge: embedding_parameters: {problem}")

        self.client = client
        self.model = model
        self.embedding_model = embedding_model
        self.settings: dict[str, Any] = {"parameters": parameters}
        """The settings of the model, as a section of the configuration has them."""
        if temperature is not UNSET:
            self.settings["temperature"] = temperature
        if max_tokens is not UNSET:
            self.settings["max_tokens"] = max_tokens
        self.embedding_settings: dict[str, Any] = {"parameters": dict(embedding_parameters or {})}
        self.dialect = Dialect()
        """How requests are written now."""
        self.names = OF_JUDGE
        """What errors call the settings of the model."""
        self.embedding_names = OF_JUDGE_EMBEDDINGS
        """What errors call the settings of the embedding model."""

        self._address = address_of(client)
        self._scrub = Scrubber({*environment_secrets(), _key_of(client)})
        self._parameters = Parameters.of_completions(model, temperature, max_tokens, parameters)
        self._embedding_parameters: Parameters | None = None
        if embedding_model is not None:
            self._embedding_parameters = Parameters.of_embeddings(
                embedding_model, self.embedding_settings["parameters"]
            )
        # Whether the server has given a usable reply in the format of `dialect`.
        self._is_format_proven = False
        # Whether to take a refusal that names no reason for a refusal of the format.
        self._may_guess_format = True
        # The reasons why the dialect has changed. A warning that says them removes them.
        self._reasons_by_parameter: dict[str, str] = {}
        self._reason_of_format: str | None = None

    def name_settings(self, names: SettingNames, secrets: set[str]) -> None:
        """Set the names of the model's settings in errors, and the texts that errors hide.

        Args:
            names: the names of the settings, such as those of a section of the configuration.
            secrets: texts to hide in the server's messages, besides the client's key.
        """
        self.names = names
        self.embedding_names = names
        self._scrub = Scrubber({*secrets, *environment_secrets(), _key_of(self.client)})

    @property
    def where(self) -> str:
        """The name of the model and the address of its server, for messages."""
        return self._scrub(f"{self.model} at {self._address}")

    @property
    def where_embedding(self) -> str:
        """The name of the embedding model and the address of its server, for messages."""
        return self._scrub(f"{self.embedding_model} at {self._address}")

    async def complete(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, variation: int = 0
    ) -> tuple[Any, TokenUsage | None]:
        """Return the reply as a decoded JSON value, and the tokens used; see `Judge`."""
        completion = await self.request_completion(messages, schema, variation=variation)
        return completion.value, completion.usage

    async def request_completion(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, variation: int = 0
    ) -> Completion:
        """Send one request for a completion, and return the JSON in the reply.

        Args:
            messages: the conversation.
            schema: the JSON Schema that the reply must fit.
            variation: 0; a higher number asks for another reply to the same messages.

        Raises:
            DialectChanged: the server refuses the format or a parameter of the request; the next
                request will be written in another way.
            JudgeError: there is no usable reply.
        """
        # Other requests may change `self.dialect` while this one waits for its reply.
        dialect = self.dialect
        prompt_characters = sum(len(message["content"]) for message in messages)
        request = self._parameters.write(
            dialect, variation=variation, prompt_characters=prompt_characters
        )
        request |= write_messages(dialect.format, messages, schema)

        # The method is looked up for each request, since tracers replace it.
        create = self.client.chat.completions.create
        reply = await self._send(create, _completion_arguments(), request)
        if isinstance(reply, ServerError):
            sent = SentCompletion(request, dialect, prompt_characters)
            raise self._learn_from_refusal(reply, sent)
        return self._read(reply, schema, dialect)

    async def embed(self, texts: Sequence[str]) -> tuple[list[Any], TokenUsage | None]:
        """Return one vector for each text, in order, and the tokens used; see `Judge`."""
        if self._embedding_parameters is None:
            problem = f"{self.names.section} has no embedding_model, which this metric needs"
            raise JudgeError("invalid_request", problem, final=True)
        request = self._embedding_parameters.write(self.dialect)
        request["input"] = [*texts]

        # The method is looked up for each request, since tracers replace it.
        create = self.client.embeddings.create
        reply = await self._send(create, _embedding_arguments(), request)
        if isinstance(reply, ServerError):
            failure = reply.failure(self.embedding_names, self.where_embedding, self._scrub)
            parameter = self._embedding_parameters.find_refused(reply, request, self.dialect)
            if parameter is not None:
                failure = _blame_parameter(failure, self.embedding_names.parameter(parameter))
            raise failure
        return read_embeddings(reply, self._scrub)

    async def _send(
        self,
        create: Callable[..., Awaitable[Any]],
        arguments: frozenset[str],
        request: Mapping[str, Any],
    ) -> Any:
        """Send a request by a method of the client, and return the reply.

        The result is a `ServerError` if the server replies with an error.

        Args:
            create: the method of the client, such as `chat.completions.create`.
            arguments: the names of the method's arguments.
            request: the arguments, by name, and fields of the body that are not arguments.

        Raises:
            JudgeError: there is no reply. The SDK's exception is not chained, since the request in
                that exception holds the key.
        """
        import openai

        if not request.keys() <= arguments:
            request = _move_into_extra_body(request, arguments)
        try:
            reply = await create(**request)
        except openai.APIStatusError as error:
            return ServerError.of_exception(error)
        except openai.APIConnectionError as error:
            raise connection_failure(error, self._address, self._scrub) from None
        except (JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            # The SDK could not decode the reply as JSON.
            excerpt = self._scrub(str(getattr(error, "doc", "")), EXCERPT)
            problem = f"not a JSON object: {error}: {excerpt}"
            raise JudgeError("invalid_reply", problem) from None
        except RuntimeError as error:
            # Newer versions of the SDK do not turn this error into an `APIConnectionError`.
            client_failure = unusable_client_failure(error)
            if client_failure is not None:
                raise client_failure from None
            raise
        except TypeError as error:
            # The method of a wrapped client may not take an argument.
            problem = self._scrub(f"the client does not take the request: {error}")
            raise JudgeError("invalid_request", problem) from None
        except UnicodeEncodeError as error:
            problem = self._scrub(f"the request cannot be encoded: {error}")
            raise JudgeError("invalid_request", problem) from None

        check_object(reply, self._scrub)
        # Some servers send errors with status 200.
        server_error = ServerError.in_reply(reply)
        if server_error is not None:
            return server_error
        return reply

    def _read(self, reply: Any, schema: Mapping[str, Any], dialect: Dialect) -> Completion:
        """Return the JSON in a reply, and record whether the server honours the requested format.

        Args:
            reply: what the SDK returned.
            schema: the JSON Schema that the reply must fit.
            dialect: how the request was written.

        Raises:
            DialectChanged: the server ignored the requested format; the next request will describe
                the layout of the reply in words.
            JudgeError: there is no usable reply.
        """
        limit_name = self.names.parameter(self._parameters.reply_limit)
        try:
            completion = read_completion(reply, self._scrub, limit_name)
        except JudgeError as error:
            text = error.reply or ""
            # A text without any brace shows that the model does not know of the format.
            is_prose = error.kind == "invalid_reply" and text != "" and "{" not in text
            if is_prose and self._try_to_ask_in_words(dialect, error.message):
                raise _ask_again(error) from None
            raise
        completion = completion._replace(dialect=dialect)

        if isinstance(completion.value, dict):
            keys = completion.value.keys()
            missing = set(schema.get("required", ())) - keys
            if missing:
                problem = f"the reply lacks {', '.join(sorted(missing))}"
                if self._try_to_ask_in_words(dialect, problem):
                    raise DialectChanged("invalid_reply", problem, usage=completion.usage, reply="")
                # The caller finds the same problem, and asks the model to correct the reply.
                return completion
            has_unknown_keys = not keys <= schema["properties"].keys()
            if has_unknown_keys:
                completion = completion._replace(is_repaired=True)
        self._accept(dialect)
        return completion

    def _try_to_ask_in_words(self, sent: Dialect, reason: str) -> bool:
        """Try to describe the layout of replies in words from now on, since a reply ignored it.

        Nothing changes if the request described the layout already, or if an earlier reply proved
        that the server honours the format.

        Args:
            sent: how the request was written whose reply ignored the layout.
            reason: what is wrong with the reply, for a warning.

        Returns:
            whether to send the request again, as it will be written differently.
        """
        if sent.format.is_in_words:
            return False
        has_changed_since = self.dialect.format is not sent.format
        if has_changed_since:
            # Another reply has changed the format already.
            return True
        if self._is_format_proven:
            return False
        # With this format, the messages describe the layout.
        self._change_format(Format.JSON_OBJECT, reason)
        return True

    def _learn_from_refusal(self, error: ServerError, sent: SentCompletion) -> JudgeError:
        """Return the exception for a refused request, and change how later requests are written.

        The exception is a `DialectChanged` if the server may accept the request in its new form.

        Args:
            error: the refusal.
            sent: the request, and how it was written.
        """
        failure = error.failure(self.names, self.where, self._scrub)
        # Was the request too long? It may fit without the default `max_tokens`.
        if error.is_too_long:
            may_fit_now = self._parameters.try_to_shorten(
                sent.request, sent.dialect, sent.prompt_characters
            )
            if may_fit_now:
                return _ask_again(failure)
            return failure

        # Does the server refuse a parameter?
        parameter = self._parameters.find_refused(error, sent.request, sent.dialect)
        if parameter is not None:
            if self._try_to_change_parameter(parameter, sent.dialect, error):
                return _ask_again(failure)
            return _blame_parameter(failure, self.names.parameter(parameter))

        # Does the server refuse the format of replies?
        if self._try_to_change_format(sent.dialect, error):
            return _ask_again(failure)
        return failure

    def _try_to_change_parameter(self, parameter: str, sent: Dialect, error: ServerError) -> bool:
        """Try to rename a refused parameter in later requests, or to leave it out.

        Nothing changes if the user configured the parameter and it has no newer name.

        Args:
            parameter: the name of the parameter.
            sent: how the refused request was written.
            error: the refusal.

        Returns:
            whether to send the request again, as it will be written differently.
        """
        changed = self._parameters.rename(parameter, sent)
        if changed is None:
            return False
        # Another refusal may have changed the parameter already.
        has_changed_since = self.dialect.sent_name(parameter) != sent.sent_name(parameter)
        if not has_changed_since:
            names = {**self.dialect.names, parameter: changed.names[parameter]}
            self.dialect = Dialect(self.dialect.format, names)
            self._reasons_by_parameter[parameter] = self._scrub(error.text)
        return True

    def _try_to_change_format(self, sent: Dialect, error: ServerError) -> bool:
        """Try to ask for the next format of replies from now on, if a server refuses the format.

        An error that does not mention the format may have another cause. If a server refuses every
        format with such errors, the first format is used again, and these errors no longer change
        the format.

        Args:
            sent: how the refused request was written.
            error: the refusal.

        Returns:
            whether to send the request again, as it will be written differently.
        """
        is_guess = not error.names_format
        may_guess = error.may_refuse_format and self._may_guess_format
        if is_guess and not may_guess:
            return False
        has_changed_since = self.dialect.format is not sent.format
        if has_changed_since:
            # Another refusal has changed the format already.
            return True
        if is_guess and self._is_format_proven:
            return False

        next_format = sent.format.next
        if next_format is not None:
            self._change_format(next_format, self._scrub(error.text))
            return True
        if is_guess:
            # The server refused all formats, so the format is not the cause.
            self._may_guess_format = False
            self._change_format(Format.STRICT_SCHEMA, "")
        return False

    def _change_format(self, format: Format, reason: str) -> None:  # noqa: A002
        """Ask for replies in `format` from now on, and keep `reason` for a later warning."""
        self.dialect = Dialect(format, self.dialect.names)
        self._is_format_proven = False
        self._reason_of_format = reason

    def _accept(self, sent: Dialect) -> None:
        """Record that the server gave a usable reply to a request written in the dialect `sent`.

        If requests are still written in this dialect, warn how it differs from the default, and
        why. Each difference is said once.
        """
        if sent.format is self.dialect.format:
            self._is_format_proven = True
        if sent != self.dialect:
            # The dialect has changed since the request, and may not be accepted.
            return

        for parameter, reason in self._reasons_by_parameter.items():
            sent_name = sent.sent_name(parameter)
            if sent_name is None:
                self._warn(f"{parameter} is left out", reason)
            else:
                self._warn(f"{parameter} is sent as {sent_name}", reason)
        self._reasons_by_parameter = {}

        # The format may have changed back to the default.
        is_default_format = sent.format is Format.STRICT_SCHEMA
        if self._reason_of_format is not None and not is_default_format:
            change = f"replies are requested as {DESCRIPTIONS[sent.format]}"
            self._warn(change, self._reason_of_format)
        self._reason_of_format = None

    def _warn(self, change: str, reason: str) -> None:
        """Warn how requests to the model are written differently, and for what reason."""
        text = f"judge {self.where}: {change} ({reason})"
        warn(text, GraphragEvalWarning, stacklevel=2)


def _move_into_extra_body(request: Mapping[str, Any], arguments: frozenset[str]) -> dict[str, Any]:
    """Return a request as arguments of the SDK's method.

    The argument `extra_body` gets all fields that are not arguments of their own; the SDK adds them
    to the body of the request.

    Args:
        request: the fields of the request, by name.
        arguments: the names of the method's arguments.
    """
    named = {name: value for name, value in request.items() if name in arguments}
    unnamed = {name: value for name, value in request.items() if name not in arguments}
    named["extra_body"] = {**named.get("extra_body", {}), **unnamed}
    return named


def _ask_again(error: JudgeError) -> DialectChanged:
    """Return an error as a `DialectChanged`: the request is to be written anew and sent again."""
    return DialectChanged(error.kind, error.message, reply=error.reply, usage=error.usage)


def _blame_parameter(failure: JudgeError, parameter: str) -> JudgeError:
    """Return `failure` with the advice to change or remove the refused parameter.

    Args:
        failure: the error of the server.
        parameter: the name of the parameter, as the user wrote it.
    """
    text = f"{failure.message}; change or remove {parameter}"
    return JudgeError(failure.kind, text, final=failure.final)


def _key_of(client: Any) -> str:
    """Return the API key of a client, to hide it in messages; "" if the client has no key.

    A key that is not a text, such as a function that returns keys, counts as none.
    """
    key = getattr(client, "api_key", "")
    if not isinstance(key, str):
        return ""
    return key


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
