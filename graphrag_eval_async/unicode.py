"""Text that UTF-8 can encode, whatever an agent, a model or a file name holds."""

from __future__ import annotations


def in_utf8(text: str) -> str:
    """Return text in which each lone surrogate is spelt out, such as ``\\ud800``.

    UTF-8 cannot encode lone surrogates, so no result and no file can hold them.
    """
    # Most text is ASCII, for which the check is all that is needed.
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode()
