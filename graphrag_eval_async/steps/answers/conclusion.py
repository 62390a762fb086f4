"""Which numbers of an answer are what it answers: marked ones, or those of its conclusion.

People who judged real answers accept a number wherever it stands in prose, since most answers state
it first and explain it then. So only what clearly comes before a conclusion does not count.
"""

from __future__ import annotations

import re
from math import isclose
from typing import TYPE_CHECKING

from graphrag_eval_async.steps.numbers import Number, numbers_in, uncertain_numbers_in

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_SIGNALS = 8
"""How many words such as "so" are tried, from the last one on; each costs a reading of the text."""

MAX_ADDENDS = 12
"""How many numbers before a total may be its addends."""

_BOX = re.compile(r"\\(?:boxed|fbox)\s{0,3}\{")
MAX_BOX_CHARACTERS = 300

# The label of an answer, in the languages of many users. `[*_\s]` are marks of emphasis.
_LABEL = re.compile(
    r"(?<!\w)(?:"
    r"(?:answer|antwort|réponse|respuesta|risposta|resposta|antwoord|odpowiedź|odpověď|ответ|"
    r"відповідь|svar|vastaus|válasz|răspuns|cevap|απάντηση|उत्तर|الجواب|الإجابة|תשובה|"
    r"final (?:result|count|number|value|total)|result|ergebnis|résultat|resultado|risultato)"
    r"[*_\s]{0,4}"
    r"(?:[:=：]|(?:is|would be|comes to|ist|lautet|est|es|è|é|to|brzmi|är|er|on|este)(?!\w)[ :]?)"
    r"|(?:答案|正解|答え|回答|답|정답)(?:是|为|為|は|은|는)?[:：]?"
    r"|\#{4})",
    re.IGNORECASE,
)
_LINE_WITH_TEXT = re.compile(r"[^\n]*[^\W_][^\n]*")
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？;；\n]|\s?[(（]")
_WORD = re.compile(r"[^\W\d_]+")
MAX_WORDS_BEFORE = 4
"""How many words may stand between the label of an answer and its number: "about the same, 5"."""

_BOLD = re.compile(
    r"\*\*(?P<stars>[^*\n]{1,200})\*\*|__(?P<lines>[^_\n]{1,200})__"
    r"|<(?P<tag>b|strong|mark)>(?P<html>[^<\n]{1,200})</(?P=tag)>",
    re.IGNORECASE,
)
_UNIT = re.compile(r" ?(?:%|[^\W\d_]{1,15}(?!\w))")
_QUALIFIERS = frozenset(
    "a about approximately approx around roughly nearly almost over exactly only just some total of "
    "in the is are was were it there answer result sum equals final count ca circa etwa rund "
    "ungefähr genau insgesamt environ exactement unos aproximadamente alrededor cerca около примерно "
    "usd eur gbp us minus moins menos meno 约 約 大约 共 总共 總共 一共 总计 共计 合計 答案 答案是 是 为 약 총".split()
)
"""Words that may stand before a number in bold; after others, as in "**Line 7**", it is a name."""

_SENTENCE_START = r"(?:^|[.!?。！？:;](?=\s)|[。！？\n])[\s*_#>-]{0,6}"
_CONCLUDES = re.compile(
    rf"{_SENTENCE_START}(?P<signal>"
    r"(?:and |und |et |y |e )?(?:(?:so(?! far| that| many| much| called)|therefore|thus|hence|"
    r"consequently|accordingly|in conclusion|to conclude|in summary|in total|total|altogether|"
    r"in all|all in all|overall|adding (?:them|these|it) up|that makes|this makes|which makes|"
    r"that gives|this gives|that is|the total|the sum|finally|"
    r"also|somit|daher|folglich|insgesamt|zusammen|das macht|das ergibt|"
    r"donc|ainsi|par conséquent|au total|en tout|en total|por lo tanto|por tanto|así que|entonces|"
    r"quindi|dunque|pertanto|perciò|in totale|portanto|logo|no total|assim|"
    r"dus|daarom|in totaal|totaal|więc|zatem|łącznie|razem|takže|tedy|celkem|"
    r"alltså|därför|totalt|sammanlagt|итого|итак|значит|следовательно|таким образом|всего|"
    r"отже|разом|deci|prin urmare|dolayısıyla|toplam|άρα|συνολικά"
    r")(?!\w)|所以|因此|故|总共|總共|共计|共計|一共|总计|總計|综上|"
    r"したがって|よって|ゆえに|つまり|合計|全部で|따라서|그러므로|총|합계)"
    # Corrections.
    r"|(?:no|wait|actually|correction|sorry|nein|moment|non|attendez|perdón|нет)[,:.—-]"
    r")",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"(?<!\w)(?:(?:no, |hmm, )?wait[,:.—-]|correction:|scratch that|i mean,?"
    r"|(?:thought|guessed|assumed|believed|expected|suspected|counted|estimated|said)(?!\w)"
    r"[^.\n]{0,80}?(?<!\w)but(?!\w)"
    r"|but[^.,\n]{0,30} actually(?!\w))",
    re.IGNORECASE,
)
_ADDS_UP = re.compile(
    r"(?:(?<!\w)(?:so|therefore|thus|hence|total|altogether|in all|overall|together|combined|sum|"
    r"makes|making|equals|gives|giving|adds up|also|insgesamt|zusammen|gesamt|donc|total|totale|"
    r"total de|somme|suma|soma|somma|quindi|dus|totaal|samen|łącznie|razem|итого|всего|вместе)(?!\w)"
    r"|=|→|⇒|≈|所以|共|总|總|合計|计|計|따라서|총)",
    re.IGNORECASE,
)
_EQUATION = re.compile(
    r"\d[\d.,]{0,20}[)}%]{0,3}[ '$]{0,2}(?:[^\W\d_]{1,12} ?)?(?:[-+*/×÷·−–]|\\times|\\cdot|plus|minus)"
    r"[ '$]{0,2}[({$€£]{0,3}\d[^=\n]{0,100}(?P<equals>=)"
)

_NEGATED = re.compile(
    r"(?<!\w)(?:not|rather than|instead of|as opposed to|nicht|statt|anstatt|et non|pas|"
    r"au lieu de|en lugar de|en vez de|non|anziché|invece di|em vez de|niet|a nie|а не)"
    r" (?:just |the )?\d[\d.,]*(?!\w)",
    re.IGNORECASE,
)
_FIRST_OF_TWO = re.compile(
    r"(?<![\w.,])\d[\d.,]*(?:\s[^\W\d_]{1,15})?(?= (?:or|oder|ou|eller|lub|или|або) (?:\w{1,12} )?\d)",
    re.IGNORECASE,
)


def concluding_numbers(answer: str) -> list[Number]:
    """Return the numbers that may be what an answer answers.

    These are the numbers in `\\boxed{}`, after "Answer:" or in bold; without these, the numbers
    from its conclusion on; without a conclusion, all. Words such as "one" count only in an answer
    without another number.
    """
    for region in (_boxed(answer), _labelled(answer), _bold(answer), _conclusion(answer)):
        numbers = _numbers_asserted(region)
        if numbers:
            return numbers
    return _numbers_asserted(answer) or uncertain_numbers_in(answer)


def _numbers_asserted(text: str) -> list[Number]:
    """Return the numbers of a text without those that it negates, as in "42, not 40"."""
    asserted = _FIRST_OF_TWO.sub(" ", _NEGATED.sub(" ", text))
    return numbers_in(asserted) or numbers_in(text)


def _boxed(text: str) -> str:
    r"""Return what stands in the last `\boxed{}` of a text; "" if there is none."""
    box = None
    for box in _BOX.finditer(text):
        pass
    if box is None:
        return ""
    depth = 1
    for position, character in enumerate(text[box.end() : box.end() + MAX_BOX_CHARACTERS]):
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        if depth == 0:
            return text[box.end() : box.end() + position]
    return ""


def _labelled(text: str) -> str:
    """Return what follows the last label such as "Answer:"; "" if no number follows one."""
    labels = [*_LABEL.finditer(text)]
    for label in labels[: -MAX_SIGNALS - 1 : -1]:
        line = _LINE_WITH_TEXT.search(text, label.end())
        if line is None:
            continue
        statement = _SENTENCE_END.split(line[0].strip(), maxsplit=1)[0]
        numbers = _numbers_asserted(statement)
        if numbers and len(_WORD.findall(_before(statement, numbers[0]))) <= MAX_WORDS_BEFORE:
            return _conclusion(statement) or statement
        if _numbers_asserted(line[0]):
            rest = text[line.start() :]
            return _conclusion(rest) or line[0]
    return ""


def _before(text: str, number: Number) -> str:
    """Return what stands before a number, which may be written in another way than it was read."""
    return text.partition(number.text)[0] if number.text in text else ""


def _bold(text: str) -> str:
    """Return all numbers in bold, with what stands beside them; "" if there are none."""
    regions = []
    for bold in _BOLD.finditer(text):
        content = bold["stars"] or bold["lines"] or bold["html"]
        is_label = content.rstrip().endswith((":", "：")) or text[bold.end() :][:1] in (":", "：")
        if is_label:
            continue
        numbers = numbers_in(content)
        if numbers:
            words = _WORD.findall(_before(content, numbers[0]).casefold())
            if _QUALIFIERS.issuperset(words):
                regions.append(content + _unit_after(text, bold.end()))
    return "\n".join(regions)


def _unit_after(text: str, position: int) -> str:
    """Return what follows a number in bold, if it may be "million" or "%"; else ""."""
    unit = _UNIT.match(text, position)
    return unit[0] if unit else ""


def _conclusion(text: str) -> str:
    """Return a text from its conclusion on; "" if none is found."""
    starts = [match.start("signal") for match in _CONCLUDES.finditer(text)]
    starts += [match.end() for match in _CORRECTS.finditer(text)]
    starts += [match.end("equals") for match in _EQUATION.finditer(text)]
    starts.sort()
    for start in starts[: -MAX_SIGNALS - 1 : -1]:
        if start > 0 and numbers_in(text[start:]):
            return text[start:]
    return _from_total(text)


def _from_total(text: str) -> str:
    """Return a text from the last total of its numbers on, as in "12 and 15, so 27"."""
    signals = [*_ADDS_UP.finditer(text)]
    for signal in signals[: -MAX_SIGNALS - 1 : -1]:
        addends = [_value(number) for number in numbers_in(text[: signal.start()])]
        numbers = numbers_in(text[signal.end() :])
        if numbers and _is_sum(_value(numbers[0]), addends[-MAX_ADDENDS:]):
            return text[signal.end() :]
    return ""


def _value(number: Number) -> float:
    return number.readings[0].value


def _is_sum(total: float, numbers: Iterable[float]) -> bool:
    """Whether a total is the sum of the last two or more numbers, or the difference of the last."""
    values = [*numbers]
    if len(values) >= 2 and isclose(total, values[-2] - values[-1]):
        return True
    addends = 0.0
    for count, value in enumerate(reversed(values), start=1):
        addends += value
        if count >= 2 and isclose(total, addends):
            return True
    return False
