"""What earlier versions had is an error that says what to use instead."""

from __future__ import annotations

import pytest

from graphrag_eval_async import ConfigError, load_config


def test_shared_limits() -> None:
    with pytest.raises(ConfigError, match=r"llm\.limits\.shared is gone; .* divide them"):
        load_config({"llm": {"limits": {"shared": "redis://host"}}})
