"""What errors call the settings of a model: as the user wrote them, or can write them."""

from __future__ import annotations

from typing import NamedTuple

CLIENT_BASE_URL = "the client's base_url"
CLIENT_API_KEY = "the client's api_key"


class SettingNames(NamedTuple):
    """The names of a model's settings in errors.

    Attributes:
        model: the name of the model.
        base_url: the address of its server.
        api_key: the key that the server wants.
        section: where the parameters of requests are.
    """

    model: str
    base_url: str
    api_key: str
    section: str

    @classmethod
    def of_section(cls, section: str, *, has_client: bool = False) -> SettingNames:
        """Return the names for a model of the configuration.

        Args:
            section: where the model is configured, such as "llm.generation".
            has_client: whether a client of the user sends the requests, with an address and a key
                of its own.
        """
        base_url = f"{section}.base_url"
        api_key = f"{section}.api_key"
        if has_client:
            base_url = CLIENT_BASE_URL
            api_key = CLIENT_API_KEY
        return cls(f"{section}.model", base_url, api_key, section)

    def parameter(self, name: str) -> str:
        """Return the name of a parameter of requests, such as "llm.generation.max_tokens"."""
        return f"{self.section}.{name}"


OF_JUDGE = SettingNames(
    model="OpenAIJudge.model",
    base_url=CLIENT_BASE_URL,
    api_key=CLIENT_API_KEY,
    section="OpenAIJudge",
)
"""The names for the model of an `OpenAIJudge` that the user made."""

OF_JUDGE_EMBEDDINGS = SettingNames(
    model="OpenAIJudge.embedding_model",
    base_url=CLIENT_BASE_URL,
    api_key=CLIENT_API_KEY,
    section="OpenAIJudge.embedding_parameters",
)
"""The names for the embedding model of an `OpenAIJudge` that the user made."""
