"""The words for "and" before the last item of a list, from CLDR's list patterns."""

from __future__ import annotations

SPACED = {
    "Afrikaans, Dutch, Frisian": "en evenals alsook",
    "Albanian": "dhe edhe",
    "Armenian": "և ու եւ",
    "Assamese": "আৰু",
    "Asturian, Spanish": "y e así\\scomo",
    "Azerbaijani": "və",
    "Bashkir, Tatar": "һәм",
    "Basque": "eta",
    "Belarusian": "і ды",
    "Bengali": "এবং ও আর",
    "Bosnian, Catalan, Croatian, Polish": "i",
    "Bulgarian, Macedonian, Russian, Serbian": "и",
    "Danish, Faroese, Icelandic, Norwegian": "og",
    # `items` splits at "and" in any case.
    "English": "as\\swell\\sas along\\swith together\\swith",
    "Esperanto": "kaj",
    "Estonian, Finnish": "ja sekä",
    "French, Latin": "et ainsi\\sque",
    "Galician, Italian, Portuguese": "e ed assim\\scomo nonché",
    "Georgian": "და",
    "German": "und sowie als\\sauch bzw\\.",
    "Greek": "και κι",
    "Gujarati": "અને",
    "Hindi": "और तथा एवं",
    "Hungarian": "és valamint",
    "Indonesian, Malay": "dan serta",
    "Irish, Scottish Gaelic": "agus",
    "Kannada": "ಮತ್ತು",
    "Kazakh": "және",
    "Korean": "및 그리고",
    "Kurdish": "û",
    "Kyrgyz": "жана",
    "Lithuanian": "ir bei",
    "Marathi": "आणि",
    "Nepali": "र",
    "Odia": "ଓ",
    "Pashto": "او",
    "Persian, Arabic": "و",
    "Punjabi": "ਅਤੇ",
    "Romanian": "și şi",
    "Sindhi": "۽",
    "Sinhala": "සහ",
    "Swedish": "och samt",
    "Tajik": "ва",
    "Tamil": "மற்றும்",
    "Telugu": "మరియు",
    "Turkish": "ve",
    "Ukrainian": "та й",
    "Urdu": "اور",
    "Vietnamese": "và cùng\\svới",
    "Amharic": "እና",
    "Yiddish": "און",
    "Polish (also)": "oraz",
    "Malayalam": "കൂടാതെ",
    "Ossetian": "ӕмӕ æмæ",
    "Mongolian": "болон ба",
    "Chuvash": "тата",
    "Maltese": "u",
    "Breton": "ha hag",
}
"""Words between spaces, by language. They are conjunctions only in lower case."""

UNSPACED = ("และ", "ແລະ", "និង", "နှင့်", "및", "及び", "および", "ならびに", "以及")
"""Words of scripts without spaces, which have no other meaning."""

DOUBTFUL = (
    # Czech and Slovak, Welsh, Slovenian, Filipino, Latvian.
    *(rf"\s{word}\s" for word in ("a", "ac", "in", "at", "un")),
    # Swahili, Hausa, Cebuano, Uzbek, Turkmen, Luxembourgish, Javanese, Somali, Igbo, Tongan.
    *(rf"\s{word}\s" for word in ("na", "da", "ug", "va", "we", "an", "lan", "iyo", "mo")),
    "[和与與及跟同]",  # Chinese.
    "[とや]",  # Japanese.
    r"(?<=[\uac00-\ud7a3])(?:와|과|하고|이랑|랑)\s",  # Korean.
    r"(?:^|\s)و(?=[\u0620-\u064a\u06a9\u06cc])",  # Arabic.
    r"\sו?גם\s",  # Hebrew "and also".
    r"(?:^|\s)ו-?(?=[\u05d0-\u05ea])",  # Hebrew.
    r"[\s.]\(?\d{1,2}[.)]\s",  # 1. Berlin 2. Bonn
    r"\s-\s",
    "[・·]",
    r"\s?/\s?",
    r"\s\+\s",
    r"\.\s",
    r"(?:^|\s)or\s",
    *(rf"\s{word}\s" for word in ("plus", "ile", "cùng")),
    r"(?<=[\u0e00-\u0eff\u1780-\u17ff])\s+(?=[\u0e00-\u0eff\u1780-\u17ff])",  # Thai, Lao, Khmer.
)
"""Patterns of what separates items in some lists, but is a part of names and words in others."""

SENTENCE_BEGINNING = (
    r"^.{1,60}?\s(?:are|is|were|was|include|includes|namely|sind|ist|waren|sont|est|son|es|sono|è|"
    r"são|é|zijn|waren|är|er|sú|jsou|su|sunt|ovat)\s"
    r"|^(?:both|either|sowohl|tanto|sia|zowel|både|это)\s"
    r"|^.{1,30}?(?:は|是|有|包括|는|은|คือ|ได้แก่)\s?"
)
"""A pattern for the words before the first item of a list in a sentence."""

SENTENCE_END = (
    "(?:です|でした|である|だ|などがある|があります|など|等|"
    "(?:이|가) 있습니다|(?:이|가) 있다|입니다|이다|이에요|예요|등|등이 있다|ครับ|ค่ะ)$"
)
"""A pattern for the words after the last item of a list in a sentence."""

OPEN_ENDS = frozenset({"etc", "usw", "u. a", "u.a", "et cetera", "и т. д", "и др", "..", "..."})
"""What may stand as the last item of a list that is not complete."""
