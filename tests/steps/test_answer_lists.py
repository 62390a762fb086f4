"""Lists as people and models write them."""

from __future__ import annotations

import pytest

from tests.steps.answer_support import score_of

CONJUNCTIONS = {
    "Afrikaans": "en",
    "Albanian": "dhe",
    "Amharic": "እና",
    "Armenian": "և",
    "Azerbaijani": "və",
    "Basque": "eta",
    "Belarusian": "і",
    "Bengali": "এবং",
    "Bosnian": "i",
    "Breton": "ha",
    "Bulgarian": "и",
    "Catalan": "i",
    "Croatian": "i",
    "Czech": "a",
    "Danish": "og",
    "Dutch": "en",
    "English": "and",
    "English ampersand": "&",
    "English as well as": "as well as",
    "Esperanto": "kaj",
    "Estonian": "ja",
    "Filipino": "at",
    "Finnish": "ja",
    "French": "et",
    "Galician": "e",
    "Georgian": "და",
    "German": "und",
    "German sowie": "sowie",
    "Greek": "και",
    "Gujarati": "અને",
    "Hindi": "और",
    "Hungarian": "és",
    "Icelandic": "og",
    "Indonesian": "dan",
    "Irish": "agus",
    "Italian": "e",
    "Kannada": "ಮತ್ತು",
    "Kazakh": "және",
    "Korean": "및",
    "Kyrgyz": "жана",
    "Latvian": "un",
    "Lithuanian": "ir",
    "Macedonian": "и",
    "Malay": "dan",
    "Maltese": "u",
    "Marathi": "आणि",
    "Nepali": "र",
    "Norwegian": "og",
    "Pashto": "او",
    "Persian": "و",
    "Polish": "i",
    "Polish oraz": "oraz",
    "Portuguese": "e",
    "Punjabi": "ਅਤੇ",
    "Romanian": "și",
    "Russian": "и",
    "Serbian": "и",
    "Sinhala": "සහ",
    "Slovak": "a",
    "Slovenian": "in",
    "Spanish": "y",
    "Swahili": "na",
    "Swedish": "och",
    "Tajik": "ва",
    "Tamil": "மற்றும்",
    "Telugu": "మరియు",
    "Turkish": "ve",
    "Ukrainian": "та",
    "Ukrainian і": "і",
    "Urdu": "اور",
    "Uzbek": "va",
    "Vietnamese": "và",
    "Welsh": "a",
}


@pytest.mark.parametrize("word", CONJUNCTIONS.values(), ids=CONJUNCTIONS)
def test_and_in_many_languages(word: str) -> None:
    assert score_of("list", "Berlin, Bonn, Rom", f"Rom, Berlin {word} Bonn") == 1
    assert score_of("list", f"Berlin {word} Bonn", "Bonn; Berlin") == 1


PROSE = {
    "Arabic": ("برلين, باريس, لندن", "برلين، باريس ولندن"),
    "Arabic and twice": ("برلين, باريس, لندن", "برلين وباريس ولندن"),
    "Arabic and after a comma": ("برلين, باريس", "برلين، وباريس"),
    "Arabic semicolon": ("برلين, باريس", "برلين؛ باريس"),
    "Arabic name with the letter": ("واشنطن, باريس", "باريس، واشنطن"),
    "Hebrew": ("ברלין, פריז, לונדון", "ברלין, פריז ולונדון"),
    "Chinese": ("北京, 上海, 广州", "北京、上海和广州"),
    "Chinese commas": ("北京, 上海", "北京，上海。"),
    "Chinese semicolon": ("北京, 上海", "北京；上海"),
    "Chinese name with the word": ("呼和浩特, 北京", "北京、呼和浩特"),
    "Chinese introduction": ("北京, 上海", "城市有：北京、上海。"),
    "Japanese": ("東京, 大阪, 京都", "東京、大阪と京都"),
    "Japanese や": ("東京, 大阪", "東京や大阪"),
    "Japanese および": ("東京, 大阪", "東京および大阪"),
    "Japanese points": ("東京, 大阪", "東京・大阪"),
    "Korean particle": ("서울, 부산", "서울과 부산"),
    "Korean other particle": ("대구, 부산", "대구와 부산"),
    "Thai": ("กรุงเทพ, เชียงใหม่", "กรุงเทพและเชียงใหม่"),
    "Lao": ("ວຽງຈັນ, ປາກເຊ", "ວຽງຈັນ ແລະ ປາກເຊ"),
    "Khmer": ("ភ្នំពេញ, សៀមរាប", "ភ្នំពេញ និងសៀមរាប"),
    "Burmese": ("ရန်ကုန်, မန္တလေး", "ရန်ကုန် နှင့် မန္တလေး"),
    "Oxford comma": ("A, B, C", "A, B, and C"),
    "German Oxford comma": ("A, B, C", "A, B, und C"),
    "and on a new line": ("A, B", "A,\nand B"),
    "no-break spaces": ("Berlin, Bonn", "Berlin\u00a0und\u00a0Bonn"),
    "quotes": ("Berlin, Bonn", "\u201eBerlin\u201c, \u201eBonn\u201c"),
    "slash": ("Berlin, Bonn", "Berlin / Bonn"),
    "entity": ("Siemens, AEG", "Siemens &amp; AEG"),
    "name with and": ("Trinidad and Tobago\nCuba", "Cuba and Trinidad and Tobago"),
    "name with in": ("Alice in Chains, Rome", "Rome, Alice in Chains"),
    "name with a": ("Once upon a Time, Rome", "Rome, Once upon a Time"),
    "Finnish sekä": ("Turku, Oulu", "Turku sekä Oulu"),
    "Hungarian valamint": ("Pécs, Eger", "Pécs, valamint Eger"),
    "German bzw.": ("Berlin, Bonn", "Berlin bzw. Bonn"),
    "French ainsi que": ("Lyon, Nice", "Lyon ainsi que Nice"),
    "Spanish así como": ("Lugo, Vigo", "Lugo así como Vigo"),
    "Dutch evenals": ("Delft, Breda", "Delft evenals Breda"),
    "Indonesian serta": ("Medan, Solo", "Medan serta Solo"),
    "Turkish ile": ("Ankara, Bursa", "Ankara ile Bursa"),
    "Vietnamese cùng": ("Huế, Vinh", "Huế cùng Vinh"),
    "Hebrew and also": ("חיפה, עכו", "חיפה וגם עכו"),
    "English along with": ("Berlin, Bonn", "Berlin along with Bonn"),
    "English plus": ("Berlin, Bonn", "Berlin plus Bonn"),
    "or after a comma": ("A, B, C", "A, B, or C"),
    "open end": ("Berlin, Bonn", "Berlin, Bonn, etc."),
    "Japanese brackets": ("東京, 大阪", "「東京」「大阪」"),
    "Thai spaces": ("กรุงเทพ, เชียงใหม่, ภูเก็ต", "กรุงเทพ เชียงใหม่ และภูเก็ต"),
    "Burmese stop": ("ရန်ကုန်, မန္တလေး", "ရန်ကုန်၊ မန္တလေး။"),
    "braces": ("Berlin, Bonn", "{Berlin, Bonn}"),
    "brackets": ("Berlin, Bonn", "(Berlin, Bonn)"),
    "Python's set": ("Berlin, Bonn", "{'Berlin', 'Bonn'}"),
    "flags": ("Italy\nSpain", "🇮🇹 Italy\n🇪🇸 Spain"),
    "Indian number": ("1,00,000\n5", "5; 100000"),
}


@pytest.mark.parametrize(("reference", "answer"), PROSE.values(), ids=PROSE)
def test_lists_in_prose(reference: str, answer: str) -> None:
    assert score_of("list", reference, answer) == 1
    assert score_of("list", answer, reference) == 1 or "：" in answer


MARKED = {
    "hyphens": "- Berlin\n- Bonn",
    "stars": "* Berlin\n* Bonn",
    "plus signs": "+ Berlin\n+ Bonn",
    "dashes": "\u2013 Berlin\n\u2014 Bonn",
    "bullets": "• Berlin\n• Bonn",
    "bullets without spaces": "•Berlin\n•Bonn",
    "bullets in a line": "• Berlin • Bonn",
    "other bullets": "‣ Berlin\n▪ Bonn",
    "indented": "  - Berlin\n    - Bonn",
    "numbers": "1. Berlin\n2. Bonn",
    "numbers in brackets": "(1) Berlin\n(2) Bonn",
    "letters": "a) Berlin\nb) Bonn",
    "Roman numbers": "(i) Berlin\n(ii) Bonn",
    "bold numbers": "**1.** Berlin\n**2.** Bonn",
    "Chinese numbers": "1、Berlin\n2、Bonn",
    "numbers in Chinese": "一、Berlin\n二、Bonn",
    "full-width brackets": "（1）Berlin\n（2）Bonn",
    "circled numbers": "①Berlin\n②Bonn",
    "tasks": "- [x] Berlin\n- [ ] Bonn",
    "quotation": "> - Berlin\n> - Bonn",
    "bold": "- **Berlin**\n- **Bonn**",
    "links": "- [Berlin](https://example.org/a,b)\n- [Bonn](https://example.org/c)",
    "introduction and note": "Here are the cities\n\n- Berlin\n- Bonn\n\nAsk me for more!",
    "introduction with a colon": "The cities are:\n- Berlin\n- Bonn",
    "explained": "- **Berlin** \u2013 the capital, 3.7 million people\n- **Bonn** (until 1990)",
    "explained after a colon": "1. **Berlin**: the capital\n2. **Bonn:** a city",
    "explained without emphasis": "- Berlin (3.7 million)\n- Bonn: a city",
    "table": "| City |\n|------|\n| Berlin |\n| Bonn |",
    "rule": "Berlin\n---\nBonn",
    "fence": "```\nBerlin\nBonn\n```",
    "unordered HTML": "<ul><li>Berlin</li><li>Bonn</li></ul>",
    "ordered HTML": '<ol start="1">\n  <li class="a">Berlin</li>\n  <li>Bonn</li>\n</ol>',
    "HTML without closing tags": "<ol><li>Berlin<li>Bonn</ol>",
    "HTML in capitals": "<UL><LI>Berlin</LI><LI>Bonn</LI></UL>",
    "HTML with an introduction": "<p>The cities:</p><ul><li><b>Berlin</b></li><li>Bonn</li></ul>",
    "HTML lines": "Berlin<br>Bonn<br/>",
    "HTML paragraphs": "<p>Berlin</p><p>Bonn</p>",
    "HTML table": "<table><tr><td>Berlin</td></tr><tr><td>Bonn</td></tr></table>",
    "HTML terms": "<dl><dt>Berlin</dt><dt>Bonn</dt></dl>",
    "entities": "&bull; Berlin<br/>&bull; Bonn",
    "JSON": '["Berlin", "Bonn"]',
    "JSON object": '{"cities": ["Berlin", "Bonn"]}',
    "JSON objects": '[{"city": "Berlin"}, {"city": "Bonn"}]',
    "JSON in a fence": '```json\n["Berlin", "Bonn"]\n```',
    "numbers without spaces": "1.Berlin\n2.Bonn",
    "keycaps": "1\ufe0f\u20e3 Berlin\n2\ufe0f\u20e3 Bonn",
    "emoji": "🔹 Berlin\n🔹 Bonn",
    "headings": "### Berlin\nThe capital, with a river.\n### Bonn\nOn the Rhine, a town.",
    "table of two columns": "| City | Million |\n|---|---|\n| Berlin | 3.7 |\n| Bonn | 0.3 |",
    "table without outer lines": "City | Land\n--- | ---\nBerlin | DE\nBonn | DE",
    "numbered table": "| # | City |\n|---|---|\n| 1 | Berlin |\n| 2 | Bonn |",
    "last line": "Berlin, Bonn\n\nLet me know if you need more!",
    "sources": "- Berlin [1]\n- Bonn [2]",
    "sources without spaces": "Berlin[1], Bonn[2]",
    "footnotes": "- Berlin[^1]\n- Bonn[^2]",
    "sources of ChatGPT": "- Berlin【4†source】\n- Bonn【5†source】",
    "LaTeX": r"$\{\text{Berlin}, \text{Bonn}\}$",
    "LaTeX box": r"\boxed{\text{Berlin}, \text{Bonn}}",
    "LaTeX items": "\\begin{itemize}\n\\item Berlin\n\\item Bonn\n\\end{itemize}",
    "boxes of HTML": '<ul><li><input type="checkbox"> Berlin</li><li>Bonn</li></ul>',
    "numbers in a line": "1. Berlin 2. Bonn",
    "bracketed numbers in a line": "1) Berlin 2) Bonn",
    "tabulator": "Berlin\tBonn",
    "hyphen": "Berlin - Bonn",
    "sentence": "The cities are Berlin and Bonn.",
    "German sentence": "Die Städte sind Berlin und Bonn.",
    "both": "both Berlin and Bonn",
    "German both": "sowohl Berlin als auch Bonn",
    "Dutch sentence": "De steden zijn Berlin en Bonn.",
    "Russian sentence": "Это Berlin и Bonn.",
    "Thai sentence": "เมืองคือ Berlin และ Bonn",
    "Korean sentence with a verb": "Berlin 및 Bonn이 있습니다.",
    "French sentence": "Les villes sont Berlin et Bonn.",
    "Japanese sentence": "都市はBerlinとBonnです。",
    "Chinese sentence": "城市是Berlin和Bonn。",
    "Korean sentence": "도시는 Berlin 및 Bonn입니다.",
}


@pytest.mark.parametrize("answer", MARKED.values(), ids=MARKED)
def test_lists_in_markdown_and_html(answer: str) -> None:
    assert score_of("list", "Berlin, Bonn", answer) == 1


PARTLY = {
    "one of three": ("Madrid, Sevilla y Bilbao", "Madrid", 1 / 2),
    "two of three each": ("A, B y C", "a, B y D", 2 / 3),
    "Czech": ("Praha, Brno a Plzeň", "Praha, Brno a Olomouc", 2 / 3),
    "a wrong item": ("Berlin, Bonn", "- Berlin\n- Bonn\n- Rom", 4 / 5),
    "a wrong item first": ("Berlin, Bonn", "- Rom: no\n- Berlin: yes", 1 / 2),
    "reasoning": ("Berlin, Bonn", "<think>Berlin, Bonn, Rom</think>Berlin", 2 / 3),
    "other items": ("Berlin, Bonn", "- Rom\n- Paris", 0),
    "a wrong row": ("Berlin, Bonn", "| City |\n|---|\n| Berlin |\n| Rom |", 1 / 2),
    "a wrong value of JSON": ("Berlin, Bonn", '["Berlin", "Rom"]', 1 / 2),
}


@pytest.mark.parametrize(("reference", "answer", "f1"), PARTLY.values(), ids=PARTLY)
def test_items_that_differ_cost(reference: str, answer: str, f1: float) -> None:
    assert score_of("list", reference, answer) == pytest.approx(f1)


NESTED = {
    "dashes": "- Berlin\n  - on the Spree\n- Bonn\n  - on the Rhine",
    "numbers": "1. Berlin\n   - Germany\n   - 3.7 million\n2. Bonn\n   - Germany",
    "tabs": "* Berlin\n\t* Germany\n* Bonn",
    "introduced": "The cities are:\n\n- Berlin\n  - Germany\n- Bonn\n",
    "inner list": "- Germany\n  - Berlin\n  - Bonn",
}


@pytest.mark.parametrize("answer", NESTED.values(), ids=NESTED)
def test_the_outer_list_may_be_the_answer(answer: str) -> None:
    expected = 4 / 5 if answer.startswith("- Germany") else 1
    assert score_of("list", "Berlin, Bonn", answer) == pytest.approx(expected)
