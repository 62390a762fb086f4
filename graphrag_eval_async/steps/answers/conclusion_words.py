"""Words with which answers mark and conclude, by language. `|` separates them.

A space stands for one space of the text. The words of Chinese, Japanese and Korean stand apart,
since no space separates them from what follows.
"""

from __future__ import annotations

ANSWER_LABELS = {
    "English": (
        "answer|ans|solution|final (?:result|count|number|value|total)|result|tl;?dr|update|edit"
    ),
    "German": "antwort|ergebnis|lösung",
    "French": "réponse|résultat",
    "Spanish": "respuesta|resultado|solución",
    "Italian": "risposta|risultato|soluzione",
    "Portuguese": "resposta",
    "Dutch": "antwoord",
    "Polish": "odpowiedź",
    "Czech": "odpověď",
    "Russian, Ukrainian": "ответ|відповідь",
    "Swedish, Danish, Norwegian": "svar",
    "Finnish, Hungarian, Romanian": "vastaus|válasz|răspuns",
    "Turkish, Greek": "cevap|yanıt|απάντηση",
    "Indonesian, Vietnamese": "jawaban|jawapan|trả lời|đáp án",
    "Thai": "คำตอบ",
    "Hindi, Arabic, Hebrew": "उत्तर|الجواب|الإجابة|תשובה",
}
"""Labels of an answer, which a colon or a form of "is" follows."""

COPULAS = "is|would be|comes to|ist|lautet|est|es|è|é|brzmi|är|er|on|este"

UNSPACED_ANSWER_LABELS = (
    "(?:答案|正解|答え|回答|答|답|정답|결과|결론)(?:是|为|為|は|은|는)?[:\uff1a]?"
)

CONCLUSIONS = {
    "English": (
        "so(?! far| that| many| much| called)|therefore|thus|hence|consequently|accordingly|"
        "in conclusion|to conclude|in summary|in short|to sum up|"
        "in total|total|altogether|in all|all in all|overall|"
        "adding (?:them|these|it) up|that makes|this makes|which makes|that gives|this gives|"
        "that is|the total|the sum|finally"
    ),
    "German": "also|somit|daher|folglich|insgesamt|zusammen|das macht|das ergibt",
    "French": "donc|ainsi|par conséquent|au total|en tout",
    "Spanish": "en total|por lo tanto|por tanto|así que|entonces",
    "Italian": "quindi|dunque|pertanto|perciò|in totale",
    "Portuguese": "portanto|logo|no total|assim",
    "Dutch": "dus|daarom|in totaal|totaal",
    "Polish": "więc|zatem|łącznie|razem",
    "Czech": "takže|tedy|celkem",
    "Swedish": "alltså|därför|totalt|sammanlagt",
    "Russian": "итого|итак|значит|следовательно|таким образом|всего",
    "Ukrainian": "отже|разом",
    "Romanian, Turkish, Greek": "deci|prin urmare|dolayısıyla|toplam|άρα|συνολικά",
}
"""Words that begin the sentence which concludes."""

INNER_CONCLUSIONS = {
    "English": "so|therefore|thus|hence",
    "German": "also|somit|daher|folglich",
    "French": "donc|ainsi",
    "Spanish": "por lo tanto|por tanto|así que|entonces",
    "Italian": "quindi|dunque|pertanto|perciò",
    "Portuguese": "portanto|logo",
    "Dutch": "dus|daarom",
    "Polish, Czech": "więc|zatem|takže|tedy",
    "Swedish": "alltså|därför",
    "Russian, Ukrainian": "итого|значит|следовательно|отже",
}
"""Words that conclude inside a sentence if a number follows them: "40 lines, so 42"."""

BEFORE_CONCLUDED = (
    "there (?:are|is|were|was)|there're|there's|that is|that's|it is|it's|we (?:have|get)|i get"
    "|the (?:answer|result|total|count|number) is|only|just|exactly|about|around|a total of"
    "|in total|sind es|es sind|gibt es|nur|genau|il y en a|seulement|hay|son|solo|sono|são"
)
"""Words that may stand between these and their number."""

UNSPACED_CONCLUSIONS = (
    "所以|因此|故|总共|總共|共计|共計|一共|总计|總計|综上|"
    "したがって|よって|ゆえに|つまり|合計|全部で|따라서|그러므로|총|합계"
)

CORRECTIONS = "no|wait|oops|actually|correction|sorry|nein|moment|non|attendez|perdón|нет"
"""Words that begin a sentence which corrects the one before, with a mark after them."""

TOTALS = {
    "English": (
        "so|therefore|thus|hence|total|altogether|in all|overall|together|combined|sum|"
        "makes|making|equals|gives|giving|adds up|yields|yielding|comes to|amounts to|"
        "leaves|leaving|remain|remains|left"
    ),
    "German": "also|insgesamt|zusammen|gesamt",
    "French": "donc|total|somme",
    "Spanish, Portuguese": "suma|soma",
    "Italian": "totale|somma|quindi",
    "Dutch": "dus|totaal|samen",
    "Polish": "łącznie|razem",
    "Russian": "итого|всего|вместе",
}
"""Words before or beside a number that may be the total of those before it."""

UNSPACED_TOTALS = "=|→|⇒|≈|所以|共|总|總|合計|计|計|따라서|총"

NEGATIONS = {
    "English": "not|no longer|rather than|instead of|as opposed to",
    "German": "nicht|statt|anstatt",
    "French": "et non|pas|au lieu de",
    "Spanish": "en lugar de|en vez de",
    "Italian": "non|anziché|invece di",
    "Portuguese": "em vez de",
    "Dutch": "niet",
    "Polish, Russian": "a nie|а не",
}
"""Words before a number that an answer rules out."""

UNSPACED_NEGATIONS = "不是|而不是|而非|아니라 "

ALTERNATIVES = "or|oder|ou|eller|lub|или|або"
"""Words between two numbers of which an answer means the last."""

HEDGES = "maybe|perhaps|possibly|even|rather|vielleicht|sogar|peut-être|quizás|forse|talvez"
"""Words that may follow these."""

QUALIFIERS = frozenset(
    {
        *("a", "about", "approximately", "approx", "around", "roughly", "nearly", "almost", "over"),
        *(
            "exactly",
            "only",
            "just",
            "some",
            "total",
            "of",
            "in",
            "the",
            "is",
            "are",
            "was",
            "were",
        ),
        *("it", "there", "answer", "result", "sum", "equals", "final", "count", "minus"),
        *("ca", "circa", "etwa", "rund", "ungefähr", "genau", "insgesamt"),
        *("environ", "exactement", "moins", "unos", "aproximadamente", "alrededor", "menos"),
        *("cerca", "meno", "около", "примерно", "usd", "eur", "gbp", "us"),
        *(
            "约",
            "約",
            "大约",
            "共",
            "总共",
            "總共",
            "一共",
            "总计",
            "共计",
            "合計",
            "答案",
            "答案是",
        ),
        *("是", "为", "약", "총"),
    }
)
"""Words that may stand before a number in bold; after others, as in "**Line 7**", it is a name."""


def any_of(words_by_language: dict[str, str]) -> str:
    """Return a pattern for each of these words, as it stands between other words."""
    return rf"(?<!\w)(?:{'|'.join(words_by_language.values())})(?!\w)"
