"""Scripts whose words are not separated by spaces, as ranges for regular expressions; digits."""

from __future__ import annotations

import re
from unicodedata import decimal

WITHOUT_SPACES = (
    "\u0e00-\u0eff"  # Thai, Lao.
    "\u0f00-\u109f"  # Tibetan, Burmese.
    "\u1780-\u17ff"  # Khmer.
    "\u1950-\u19df\u1a20-\u1aad\ua9e0-\ua9ff\uaa60-\uaadf"  # Tai scripts, more Burmese.
    "\u1b00-\u1b7f\ua980-\ua9df"  # Balinese, Javanese.
    "\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese.
    "\u3100-\u312f\u31a0-\u31bf"  # Bopomofo.
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"  # Chinese characters.
)

HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
"""Korean has spaces between words, but writes particles at their ends without one."""

CHINESE_NUMERALS = "〇零一二三四五六七八九十百千万萬億亿兆两兩"

_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")


def with_ascii_digits(text: str) -> str:
    """Return a text with the digits of all scripts, such as Arabic or Thai, as 0 to 9."""
    return _FOREIGN_DIGIT.sub(lambda digit: str(decimal(digit[0])), text)
