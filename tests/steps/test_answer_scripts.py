"""Answers in scripts without spaces, and in other spellings of the same characters."""

from __future__ import annotations

import pytest

from tests.steps.answer_support import score_of

FOUND = {
    "Chinese": ("北京", "中国的首都是北京。"),
    "Chinese number": ("五", "一共有五个"),
    "Chinese and digits": ("15", "共15座变电站"),
    "Chinese and Latin": ("Siemens", "由Siemens公司制造"),
    "Japanese": ("東京", "首都は東京です"),
    "Katakana": ("パリ", "首都はパリです"),
    "half-width katakana": ("パリ", "首都はﾊﾟﾘです"),
    "Japanese and Latin": ("Berlin", "首都はBerlinです"),
    "Thai": ("กรุงเทพ", "เมืองหลวงคือกรุงเทพมหานคร"),
    "Lao": ("ວຽງຈັນ", "ນະຄອນຫຼວງວຽງຈັນ"),
    "Khmer": ("ភ្នំពេញ", "រាជធានីគឺភ្នំពេញ។"),
    "Khmer with zero-width spaces": ("ភ្នំពេញ", "រាជធានី\u200bភ្នំ\u200bពេញ"),
    "Burmese": ("ရန်ကုန်", "မြို့တော်ရန်ကုန်ဖြစ်သည်"),
    "Korean topic": ("서울", "수도는 서울입니다"),
    "Korean place": ("부산", "부산에서 만들었다"),
    "Korean and Latin": ("Berlin", "수도는 Berlin이다"),
    "Korean and digits": ("12", "총12개"),
    "Arabic and": ("برلين", "باريس وبرلين"),
    "Arabic the": ("قاهرة", "هي القاهرة"),
    "Arabic and like": ("برلين", "كبرلين"),
    "Arabic comma in a name": ("واشنطن، د.ك", "هي واشنطن, د.ك"),
    "Arabic vowels": ("القاهرة", "القَاهِرَة"),
    "Arabic stretched": ("القاهرة", "القـــاهرة"),
    "Hebrew in": ("ירושלים", "הכנסת בירושלים"),
    "Hebrew vowels": ("שלום", "שָׁלוֹם"),
    "Hindi": ("भारत", "यह भारत है"),
    "Hindi stop": ("भारत", "यह भारत।"),
    "Arabic digits": ("12", "عددها ١٢"),
    "Thai digits": ("12", "มี๑๒แห่ง"),
    "full width": ("ABC 12", "ＡＢＣ　１２"),
}
NOT_FOUND = {
    "Chinese number in another": ("五", "一共有十五个"),
    "Chinese number before another": ("三", "三百个"),
    "digits before digits": ("5", "共15个"),
    "digits of 50,000": ("5", "5万人"),
    "half a Thai syllable": ("ก", "กิ"),
    "Thai digits in a number": ("๒", "มี๑๒แห่ง"),
    "Korean word before": ("울", "서울"),
    "Hindi word": ("भारत", "भारतीय"),
    "Hindi word before": ("ल", "काल"),
    "Latin word": ("cat", "concatenate"),
    "Cyrillic word": ("Рим", "Крым"),
    "Greek word": ("Άρης", "Παράρης"),
    "Arabic word": ("لين", "برلين"),
}


@pytest.mark.parametrize(("part", "answer"), FOUND.values(), ids=FOUND)
def test_words_are_found(part: str, answer: str) -> None:
    assert score_of("contains", part, answer) == 1


@pytest.mark.parametrize(("part", "answer"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_parts_of_words_are_not_found(part: str, answer: str) -> None:
    assert score_of("contains", part, answer) == 0


SAME = {
    "apostrophe": ("O'Brien", "O\u2019Brien"),
    "okina": ("Hawai'i", "Hawai\u02bbi"),
    "acute accent": ("O'Brien", "O\u00b4Brien"),
    "quotes": ('the "A" line', "the \u201cA\u201d line"),
    "German quotes": ('the "A" line', "the \u201eA\u201c line"),
    "guillemets": ('the "A" line', "the \u00abA\u00bb line"),
    "Japanese quotes": ('"A"線', "「A」線"),
    "feet": ("5' 10\"", "5\u2032 10\u2033"),
    "hyphen": ("co-op", "co\u2010op"),
    "non-breaking hyphen": ("co-op", "co\u2011op"),
    "en dash": ("1914-1918", "1914\u20131918"),
    "spaces around a dash": ("1914-1918", "1914 \u2013 1918"),
    "em dash": ("a - b", "a \u2014 b"),
    "minus": ("-5 kV", "\u22125 kV"),
    "full-width hyphen": ("co-op", "co\uff0dop"),
    "maqaf": ("תל-אביב", "תל\u05beאביב"),
    "no-break space": ("5 kV", "5\u00a0kV"),
    "thin space": ("5 kV", "5\u2009kV"),
    "narrow no-break space": ("5 kV", "5\u202fkV"),
    "ideographic space": ("5 kV", "5\u3000kV"),
    "soft hyphen": ("cooperation", "co\u00adoperation"),
    "zero-width space": ("cooperation", "co\u200boperation"),
    "zero-width joiner": ("cooperation", "co\u200doperation"),
    "word joiner": ("cooperation", "co\u2060operation"),
    "byte order mark": ("Berlin", "\ufeffBerlin"),
    "direction marks": ("Berlin", "\u200eBerlin\u200f"),
    "isolates": ("Berlin", "\u2068Berlin\u2069"),
    "variation selector": ("\u2764", "\u2764\ufe0f"),
    "decomposed": ("K\u00f6ln", "Ko\u0308ln"),
    "ligature": ("Nordnett fin", "Nordnett \ufb01n"),
    "sharp s": ("Stra\u00dfe", "STRASSE"),
    "Turkish capital": ("istanbul", "\u0130stanbul"),
    "Turkish i": ("Isparta", "\u0131sparta"),
    "sigma": ("\u03bf\u03b4\u03cc\u03c2", "\u039f\u0394\u038c\u03a3"),
    "ellipsis": ("a...b", "a\u2026b"),
    "entity": ("AT&T", "AT&amp;T"),
    "entity of a space": ("5 kV", "5&nbsp;kV"),
    "numeric entity": ("O'Brien", "O&#39;Brien"),
    "Markdown escape": ("KRISTIA_HVDC", "KRISTIA\\_HVDC"),
    "fraction slash": ("1/2", "1\u20442"),
    "wave dash": ("10-20 kV", "10\uff5e20 kV"),
    "tilde operator": ("~5 kV", "\u223c5 kV"),
    "asterisk operator": ("2*3", "2\u22173"),
    "Persian kaf": ("\u06a9\u062a\u0627\u0628", "\u0643\u062a\u0627\u0628"),
    "Persian ye": ("\u0628\u06cc\u062a", "\u0628\u064a\u062a"),
    "hamza": ("\u0627\u062d\u0645\u062f", "\u0623\u062d\u0645\u062f"),
}


@pytest.mark.parametrize("match", ["exact", "contains", "list"])
@pytest.mark.parametrize(("reference", "answer"), SAME.values(), ids=SAME)
def test_other_characters_for_the_same_text(match: str, reference: str, answer: str) -> None:
    assert score_of(match, reference, answer) == 1
    assert score_of(match, answer, reference) == 1


BARE = {
    "stop": "Paris.",
    "quotes": '"Paris"',
    "curly quotes": "\u201cParis\u201d",
    "single quotes": "\u2018Paris\u2019",
    "guillemets and stop": "\u00ab Paris \u00bb.",
    "stop in quotes": '"Paris."',
    "bold": "**Paris**",
    "bold stop": "**Paris.**",
    "italics": "*Paris*",
    "underlines": "__Paris__",
    "struck out": "~~Paris~~",
    "code": "`Paris`",
    "fence": "```\nParis\n```",
    "named fence": "```text\nParis\n```",
    "bold italics": "***Paris***",
    "bold quotes": "**\u201cParis.\u201d**",
    "HTML": "<strong>Paris</strong>",
    "Chinese": "「Paris」。",
    "book title": "《Paris》",
    "Hindi stop": "Paris।",
    "heading": "# Paris",
    "bold heading": "## **Paris**",
    "answer tag": "<answer>Paris</answer>",
    "response tag": "<response>\nParis\n</response>",
    "box": r"\boxed{Paris}",
    "box in dollars": r"$\boxed{\text{Paris}}$",
    "box and stop": r"\boxed{Paris}.",
}


@pytest.mark.parametrize("answer", BARE.values(), ids=BARE)
def test_exact_ignores_quotes_emphasis_and_a_final_stop(answer: str) -> None:
    assert score_of("exact", "Paris", answer) == 1
    assert score_of("exact", answer, "Paris") == 1


NOT_EXACT = {
    "more": "It is Paris.",
    "mark": "Paris!",
    "one quote": '"Paris',
    "accent": "P\u00e2ris",
    "brackets": "(Paris)",
}


@pytest.mark.parametrize("answer", NOT_EXACT.values(), ids=NOT_EXACT)
def test_exact_stays_exact(answer: str) -> None:
    assert score_of("exact", "Paris", answer) == 0


EMPHASIZED = {
    "bold": "It is **120** km long",
    "italics": "It is *120* km long",
    "underlines": "It is _120_ km long",
    "code": "It is `120` km long",
    "HTML": "It is <b>120</b> km long",
}


@pytest.mark.parametrize("answer", EMPHASIZED.values(), ids=EMPHASIZED)
def test_contains_ignores_emphasis(answer: str) -> None:
    assert score_of("contains", "120 km", answer) == 1


def test_emphasis_that_is_expected_is_found() -> None:
    assert score_of("contains", "f(*args, **options)", "Call f(*args, **options) there") == 1
