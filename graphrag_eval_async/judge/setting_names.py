"""What errors call the settings of a model: as the user wrote them, or can write them."""

from __future__ import annotations

from typing import NamedTuple

CLIENT_BASE_URL = "the client's base_url"
CLIENT_API_KEY = "the client's api_key"


class SettingNames(NamedTuple):
    """The names by which errors call the settings of a model.

    Attributes:
        model: what errors call the setting of the model's name.
        base_url: what errors call the setting of the server's address.
        api_key: what errors call the setting of the key that the server wants.
        section: what errors call the place of the parameters of requests.
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
            has_client: whether a client of the user sends the requests. Then errors name the
                address and the key of the client.
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
