"""Words for numbers and for powers of ten, in the languages that `numbers` reads.

A table of our own serves better than a library: text2num must be told the language of each text,
and knows no "lakh", "none" or "half".
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, which are separated by spaces."""
    return frozenset(text.split())


_TO_TWENTY = {
    "English": (
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty"
    ),
    "German": (
        "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
        "fünfzehn sechzehn siebzehn achtzehn neunzehn zwanzig"
    ),
    "French": (  # The words from 17 to 19 are two: dix-sept.
        "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
        "seize - - - vingt"
    ),
    "Spanish": (
        "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
        "dieciséis diecisiete dieciocho diecinueve veinte"
    ),
    "Italian": (
        "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici "
        "quattordici quindici sedici diciassette diciotto diciannove venti"
    ),
    "Portuguese": (
        "zero um dois três quatro cinco seis sete oito nove dez onze doze treze quatorze quinze "
        "dezesseis dezessete dezoito dezenove vinte"
    ),
    "Dutch": (
        "nul een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien "
        "vijftien zestien zeventien achttien negentien twintig"
    ),
    "Polish": (
        "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć jedenaście "
        "dwanaście trzynaście czternaście piętnaście szesnaście siedemnaście osiemnaście "
        "dziewiętnaście dwadzieścia"
    ),
    "Czech": (
        "nula jeden dva tři čtyři pět šest sedm osm devět deset jedenáct dvanáct třináct čtrnáct "
        "patnáct šestnáct sedmnáct osmnáct devatenáct dvacet"
    ),
    "Swedish": (
        "noll ett två tre fyra fem sex sju åtta nio tio elva tolv tretton fjorton femton sexton "
        "sjutton arton nitton tjugo"
    ),
    "Romanian": (
        "zero unu doi trei patru cinci șase șapte opt nouă zece unsprezece doisprezece "
        "treisprezece paisprezece cincisprezece șaisprezece șaptesprezece optsprezece "
        "nouăsprezece douăzeci"
    ),
    "Russian": (
        "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать "
        "тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать "
        "двадцать"
    ),
    "Ukrainian": (
        "нуль один два три чотири п'ять шість сім вісім дев'ять десять одинадцять дванадцять "
        "тринадцять чотирнадцять п'ятнадцять шістнадцять сімнадцять вісімнадцять дев'ятнадцять "
        "двадцять"
    ),
    "Greek": (
        "μηδέν ένα δύο τρία τέσσερα πέντε έξι επτά οκτώ εννέα δέκα έντεκα δώδεκα δεκατρία "
        "δεκατέσσερα δεκαπέντε δεκαέξι δεκαεπτά δεκαοκτώ δεκαεννέα είκοσι"
    ),
}
"""The words from zero to twenty."""

_TENS = {
    "English": "thirty forty fifty sixty seventy eighty ninety",
    "German": "dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "French": "trente quarante cinquante soixante septante huitante nonante",
    "Spanish": "treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "Italian": "trenta quaranta cinquanta sessanta settanta ottanta novanta",
    "Portuguese": "trinta quarenta cinquenta sessenta setenta oitenta noventa",
    "Dutch": "dertig veertig vijftig zestig zeventig tachtig negentig",
    "Polish": (
        "trzydzieści czterdzieści pięćdziesiąt sześćdziesiąt siedemdziesiąt osiemdziesiąt "
        "dziewięćdziesiąt"
    ),
    "Czech": "třicet čtyřicet padesát šedesát sedmdesát osmdesát devadesát",
    "Swedish": "trettio fyrtio femtio sextio sjuttio åttio nittio",
    "Romanian": "treizeci patruzeci cincizeci șaizeci șaptezeci optzeci nouăzeci",
    "Russian": "тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
    "Ukrainian": "тридцять сорок п'ятдесят шістдесят сімдесят вісімдесят дев'яносто",
    "Greek": "τριάντα σαράντα πενήντα εξήντα εβδομήντα ογδόντα ενενήντα",
}
"""The words for 30, 40 ... 90."""

_OTHER_SPELLINGS = {
    0: (
        "none nil nought naught keine keiner keines aucun aucune ninguno ninguna ningún nessuno "
        "nessuna nessun nenhum nenhuma geen żaden żadna żadne żadnych žádný žádná žádné ingen "
        "inga inget niciunul niciuna κανένα καμία"
    ),
    2: "zwo duas dwie dvě două две дві",
    3: "τρεις",
    4: "τέσσερις",
    5: "fuenf",
    7: "εφτά",
    8: "οχτώ",
    9: "εννιά",
    12: "zwoelf douăsprezece",
    14: "catorze",
    15: "fuenfzehn",
    16: "dieciseis dezasseis",
    17: "dezassete",
    19: "dezanove",
    20: "vingts",
    21: "veintiún",
    22: "veintidós",
    23: "veintitrés ventitré",
    26: "veintiséis",
    30: "dreissig",
    40: "fourty",
    50: "fuenfzig",
    80: "octante",
}
"""Other spellings, other genders, and the words for "not one"."""

_HUNDREDS = {
    100: "cien ciento cento cem sto сто εκατό",
    200: "doscientos doscientas duzentos duzentas dwieście двести двісті διακόσια διακόσιες",
    300: "trescientos trescientas trezentos trezentas trzysta триста τριακόσια τριακόσιες",
    400: (
        "cuatrocientos cuatrocientas quatrocentos quatrocentas czterysta четыреста чотириста "
        "τετρακόσια"
    ),
    500: "quinientos quinientas quinhentos quinhentas pięćset пятьсот п'ятсот πεντακόσια",
    600: "seiscientos seiscientas seiscentos seiscentas sześćset шестьсот шістсот εξακόσια",
    700: "setecientos setecientas setecentos setecentas siedemset семьсот сімсот επτακόσια",
    800: "ochocientos ochocientas oitocentos oitocentas osiemset восемьсот вісімсот οκτακόσια",
    900: "novecientos novecientas novecentos novecentas dziewięćset девятьсот дев'ятсот εννιακόσια",
}
"""The words for 100, 200 ... 900 that are not made of other words by a space."""

FRENCH_HUNDREDS = _words("cent cents")
"""Words for a hundred, after those of `FRENCH_DIGITS`: "five cents" are no number of hundreds."""

FRENCH_DIGITS = _words("deux trois quatre cinq sept huit neuf")

BARE_HUNDREDS = _words("hundert honderd hundra")
"""Words that mean 100 without a number before them."""

BARE_THOUSANDS = _words("mille mil tausend duizend tusen tysiąc tisíc тысяча тисяча χίλια")
"""Words that mean 1,000 without a number before them."""

COMPOUND_POWERS = {
    "tausend": 1000,
    "duizend": 1000,
    "mila": 1000,
    "mille": 1000,
    "hundert": 100,
    "honderd": 100,
    "cento": 100,
}
"""Powers of ten by the words of which German, Dutch and Italian make compounds."""

UNCERTAIN = {
    0: "no nothing null nul нет немає brak",
    1: (
        "one ein eine einen einem einer eins un une uno una um uma een één ett jeden jedna jedno "
        "один одна одно одне unu ένα μία"
    ),
    2: "due dos",
    6: "sei sex",
    7: "sept",
    8: "opt",
    9: "neuf",
    10: "dez",
    11: "once elf",
    15: "quince",
    16: "seize",
}
"""Words that often mean something else, as English "one", "once" and "due".

By themselves they are numbers only where a text has no other; inside a longer number, as in
"thirty-one", they are certain.
"""

HALVES = {
    1: (
        "half hälfte halb moitié mitad metà metade helft połowa połowę polovina hälften jumătate "
        "половина половину μισά"
    ),
    3: "anderthalb eineinhalb anderhalf półtora полтора полторы півтора",
    5: "zweieinhalb",
    7: "dreieinhalb",
}
"""Words by how many halves they mean."""

DENOMINATORS = {
    2: "half halves",
    3: "third thirds drittel tiers tercio tercios terzi terço terços",
    4: "quarter quarters fourth fourths viertel quart quarts cuartos quarti quartos",
    5: "fifth fifths fünftel",
    6: "sixth sixths",
    7: "seventh sevenths",
    8: "eighth eighths achtel",
    9: "ninth ninths",
    10: "tenth tenths zehntel",
}
"""The words that make a fraction of the number before them, as in "two thirds"."""

SINGULAR_DENOMINATORS = _words("half third quarter fourth fifth sixth seventh eighth ninth tenth")
"""English words that are ordinals after another number than one: twenty-fifth is not 20/5."""

COMMON_DENOMINATORS = _words("drittel viertel fünftel achtel zehntel tiers quart tercio terço")
"""Words that stand after one and other numbers: ein Drittel, zwei Drittel."""

DECIMAL_POINTS = _words("point komma virgule coma virgola vírgula punto")
"""Words for the decimal point in numbers in words: two point five."""

DOZENS = _words("dozen dozens dutzend douzaine docena dozzina dúzia dozijn tuzin дюжина")

ARTICLES = _words("a an one ein eine un une uno una um uma een ett")
"""Words that mean one before a power of ten or before "third of": a hundred, eine Million."""

JOINERS = _words("and und et y e en och i și и і και")
"""Words for "and" inside a number: two hundred and five, treinta y dos."""

SPACED_SCALES = {
    2: "hundred hundreds hundert honderd hundra",
    3: (
        "thousand thousands thd tausend tsd mille mila mil duizend tysiąc tysiące tysięcy tys "
        "tisíc tisíce tis tusen tusind tuhat tuhatta ezer mie mii bin hiljada hiljade tisuća "
        "tisuće ribu nghìn ngàn тысяча тысячи тысяч тыс тисяча тисячі тисяч тис хиляди χίλια "
        "χιλιάδες ألف آلاف אלף هزار hazar milliers"
    ),
    5: "lakh lakhs lac lacs لاکھ",
    6: (
        "million millions mio mln mn millionen millón millones millon milione milioni milhão "
        "milhões miljoen miljoenen milion miliony milionów milionu milionů milión milióny "
        "miljon miljoner millioner miljoona miljoonaa millió milioane milijun milijuna milijuni "
        "milijon milijonov milijonai milijonų miljoni miljonit milyon juta triệu миллион миллиона "
        "миллионов млн мільйон мільйони мільйонів мільйона милион милиона εκατομμύριο "
        "εκατομμύρια εκατομμυρίων εκατ مليون ملايين מיליון میلیون"
    ),
    7: "crore crores cr کروڑ",
    9: (
        "billion billions bn milliarde milliarden mrd milliard milliards md mds mdr mld "
        "miliardo miliardi miljard miljarden miliard miliardy miliardów miliarda miliardu "
        "bilhão bilhões miljarder milliarder mia miljardi miljardia milliárd miliarde miliar "
        "milijarda milijarde milijardi milijardų millardo millardos milyar tỷ tỉ миллиард "
        "миллиарда миллиардов млрд мільярд мільярди мільярдів мільярда милиард милиарда "
        "δισεκατομμύριο δισεκατομμύρια δισεκατομμυρίων δισ مليار مليارات מיליארד میلیارد"
    ),
    12: (
        "trillion trillions trn billionen billón billones bilione bilioni bilião biliões biljoen "
        "biljon biljoner billioner biljoona biljoonaa billió bilion biliony bilionów bilionů "
        "trilhão trilhões trilioane trilyon triliun триллион триллиона триллионов трлн трильйон "
        "трильйони трильйонів τρισεκατομμύριο τρισεκατομμύρια تريليون"
    ),
    18: "trillionen trillones",
    -2: "percent pct prozent procent procenta procenten prosent percento procente",
    -3: "permille promille",
}
"""Powers of ten by the words after a number. "Billion" is that of English."""

UNSPACED_SCALES = {
    1: "十 拾 십",
    2: "百 佰 백 ร้อย",
    3: "千 仟 천 พัน हज़ार हजार হাজার",
    4: "万 萬 만 หมื่น",
    5: "แสน लाख লাখ লক্ষ લાખ ਲੱਖ லட்சம் లక్షలు లక్ష ಲಕ್ಷ ലക്ഷം ලක්ෂ",
    6: "ล้าน मिलियन",
    7: "करोड़ करोड কোটি કરોડ ਕਰੋੜ கோடி కోట్లు కోటి ಕೋಟಿ കോടി",
    8: "億 亿 억",
    12: "兆 조",
    -2: "% パーセント 퍼센트 प्रतिशत เปอร์เซ็นต์",
    -3: "‰",
}
"""Powers of ten by words that another word may follow at once, or that end in a vowel sign."""

CJK_DIGITS = {
    **{character: value for value, character in enumerate("〇一二三四五六七八九")},
    "零": 0,
    "两": 2,
    "兩": 2,
}
"""Chinese digits."""

CJK_SCALES = {"十": 1, "百": 2, "千": 3, "万": 4, "萬": 4, "億": 8, "亿": 8, "兆": 12}
"""Exponents of ten by Chinese characters."""


def by_word(words_by_value: dict[int, str]) -> dict[str, int]:
    """Return the value of each word of a table, which has words separated by spaces.

    The words are in the case in which words are compared: ς becomes σ.
    """
    return {
        word.casefold(): value for value, words in words_by_value.items() for word in words.split()
    }


def certain_words() -> dict[str, int]:
    """Return the value of each word that is a number wherever it stands, unlike "one"."""
    values = _compound_words() | by_word(_OTHER_SPELLINGS) | by_word(_HUNDREDS)
    for language, words in _TO_TWENTY.items():
        for value, word in enumerate(words.split()):
            values[word.casefold()] = value
        for digit, word in enumerate(_TENS[language].split(), start=3):
            values[word.casefold()] = 10 * digit

    for word in by_word(UNCERTAIN):
        values.pop(word, None)
    # In the tables, a dash takes the place of a number that is not one word.
    values.pop("-")
    return values


def _compound_words() -> dict[str, int]:
    """Return the value of each word from 21 to 99 in German, Dutch, Italian and Spanish.

    There, a ten and a digit are one word.
    """
    values = {}
    for language in ("German", "Dutch", "Italian", "Spanish"):
        to_twenty = _TO_TWENTY[language].split()
        tens = [to_twenty[20], *_TENS[language].split()]
        for tens_digit, tens_word in enumerate(tens, start=2):
            for digit, digit_word in enumerate(to_twenty[1:10], start=1):
                compound = _compound(language, tens_word, digit_word)
                values[compound] = 10 * tens_digit + digit
    return values


def _compound(language: str, tens_word: str, digit_word: str) -> str:
    """Return the word for a ten and a digit, such as "dreiundzwanzig" for 20 and 3."""
    if language == "German":
        return f"{digit_word}und{tens_word}"
    if language == "Dutch":
        # A diaeresis separates two vowels: tweeëntwintig.
        joiner = "ën" if digit_word.endswith("e") else "en"
        return f"{digit_word}{joiner}{tens_word}"
    if language == "Spanish":
        # Veintiuno. From 31 on, nobody writes one word, and such words do no harm.
        return tens_word[:-1] + "i" + digit_word
    # Italian drops a vowel before another: ventuno, trentotto.
    if digit_word[0] in "uo":
        return tens_word[:-1] + digit_word
    return tens_word + digit_word
