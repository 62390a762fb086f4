"""Phrases of refusals, whose words for "no" and "one" count nothing: "I have no idea"."""

from __future__ import annotations

import re

from graphrag_eval_async.helpers.patterns import lazy_pattern

_REFUSALS = {
    "English": (
        r"(?:no|(?:\w{2,8}n't|not) (?:\w{1,15} )?any) (?:\w{1,15} ){0,2}?"
        r"(?:answer|response|reply|information|info|idea|clue|doubt|knowledge|way|reason|access"
        r"|ability|means|certainty|comment|guarantee|context|memory|possibility|problem|question"
        r"|matter|longer|need|indication|luck|success|data)"
        r"(?! (?:sets?|points?|centers?|centres?|bases?)(?!\w))"
        # The verb tells that the answer is not known: films that "could be found" are counted.
        r"|no (?:\w{1,20} ){1,4}(?:could|can|cannot) be (?:retrieved|obtained|determined|returned"
        r"|fetched|loaded|computed|calculated|given|provided|reached|established|accessed)"
        r"|no (?:\w{1,20} ){1,4}(?:is|are|was|were) (?:returned|retrieved|available)"
        r" (?:because|due)"
        r"|(?:no one|nobody) (?:knows|can|could)"
        r"|none of (?:the|my|these|those|our) (?:\w{1,15} )?"
        r"(?:tools?|queries|sources|endpoints?|attempts|searches|calls|requests|servers?|services)"
        r" (?:worked|works?|succeeded|succeeds?|returned|returns?|answered|responded|gave|helped"
        r"|could|can|was able|were able)"
        r"|(?:know|knows|say|tell) nothing|nothing (?:is known|about this|about that|can be said)"
        r"|(?<!only )(?<!just )(?<!exactly )one of (?:the|these|those|our|my|its|their)"
        r"|(?:\w{2,8}n't|not) (?:find|see|have|know|identify|locate|give|name)"
        r" one(?= ?(?:[.,;:!?]|$))"
        r"|one moment|(?:line|step|part|page|stage|phase|option|tool|query|attempt|number) one"
        r"|due to|at once|once (?:the|i|it|you|we|they|again|more|a|an)"
    ),
    "German": (
        r"keine[rnm]? (?:\w{1,20}e[nrs]? ){0,2}?(?:ahnung|angaben?|information(?:en)?|antwort"
        r"|auskunft|daten|idee|kenntnis|erkenntnisse|zugriff|möglichkeit|verbindung)"
        r"|kein (?:\w{1,20}e[nrs]? ){0,2}?(?:zugriff|zweifel|wissen|ergebnis)"
        r"|keine (?:\w{1,20} ){0,2}?(?:ergebnisse|resultate) (?:\w{1,20} ){0,3}?"
        r"(?:abgerufen|ermittelt|geladen|bestimmt|abrufen|ermitteln)"
        r"|eine? fehler|einen fehler|eine? moment|einen moment"
    ),
    "French": (
        r"aucune? (?:idée|information|réponse|donnée|connaissance|certitude|accès|moyen|doute)s?"
        r"|pas (?:de |d')(?:\w{1,15} )?(?:idée|information|réponse|donnée|accès|moyen|doute)s?"
        r"|une erreur|un problème|un instant|un moment"
    ),
    "Spanish": (
        r"(?:ningun[ao]|ningún|no hay|no existen?|no tengo|sin) (?:ningun[ao] |ningún )?"
        r"(?:idea|información|respuesta|datos?|duda|acceso|conocimiento)s?"
        r"|un error|un problema|un momento"
        # "Not" before a verb or a pronoun.
        r"|no (?:lo|la|los|las|se|sé|me|te|nos|es|está|estoy|soy|fue|he|ha|hemos|tengo|tiene"
        r"|tenemos|puedo|puede|podemos|pude|pudo|pudimos|sabe|sabemos|encontré|encuentro"
        r"|encontramos|dispongo|conozco|recuerdo|cuento|logré|logro|existe suficiente)"
    ),
    "Italian": (
        r"(?:nessuna?|nessun'|non ci sono|non c'è|non ho)(?: nessuna| alcuna)? ?"
        r"(?:idea|informazion[ei]|risposta|dat[oi]|dubbio|accesso)"
        r"|un errore|un problema|un momento|un attimo"
    ),
    "Portuguese": (
        r"(?:nenhuma?|não há|não tenho)(?: nenhuma?)? (?:ideia|informaç(?:ão|ões)|resposta|dados?"
        r"|dúvida|acesso)"
        r"|um erro|um problema|um momento"
    ),
    "Dutch": (
        r"geen (?:idee|informatie|antwoord|gegevens|toegang|data|kennis|twijfel)"
        r"|een fout|een probleem|een moment"
    ),
    "Polish, Czech": (
        r"(?:brak|nie ma|żadnych|żadnej|żadne) (?:\w{1,15} )?"
        r"(?:danych|informacji|odpowiedzi|pojęcia|dostępu)"
        r"|žádn(?:á|é|ou|ý) (?:informace|odpověď|data|představu|údaje)"
    ),
    "Swedish, Danish, Norwegian": (
        r"ing(?:en|et|a) (?:aning|information|svar|data|uppgifter|idé|adgang|åtkomst)"
    ),
    "Russian, Ukrainian": (
        r"нет (?:\w{1,15} )?(?:ответа|информации|данных|сведений|доступа|представления)"
        r"|немає (?:\w{1,15} )?(?:відповіді|інформації|даних|відомостей|доступу)"
    ),
    "Romanian, Greek": (
        r"nici ?o (?:idee|informație)|niciun răspuns"
        r"|κα(?:μία|μιά|νένα) (?:ιδέα|πληροφορία|στοιχείο|απάντηση)"
    ),
    "Turkish, Finnish, Hungarian": (
        r"(?:bilgi|bilgim|fikrim|cevap|cevabım|veri)(?: \w{1,15})? yok"
        r"|ei ole (?:tietoa|vastausta|tietoja|aavistustakaan)"
        r"|nincs (?:információm?|válasz|válaszom|adat|adatom|ötletem|fogalmam)"
    ),
    "Indonesian, Vietnamese": (
        r"tidak ada (?:informasi|jawaban|data)|không có (?:thông tin|câu trả lời|dữ liệu)"
    ),
}

_UNSPACED_REFUSALS = (
    # Chinese.
    "[没沒]有(?:相关|相關|任何|足够|足夠|具体|具體|关于[^。，]{0,20}的|找到){0,3}"
    "(?:的)?(?:信息|資訊|资料|資料|答案|数据|數據|办法|辦法|权限|權限|头绪|頭緒|把握|能力)"
    "|一[个個](?:错误|錯誤|问题|問題)|再[试試]一次|再[试試]一下"
    # Japanese: "sorry", "do not know", "cannot", "no information".
    "|申し訳(?:ない|ありません|ございません)|(?:わか|分か|判)(?:らない|りません)"
    "|知らない|でき(?:ない|ません)|られない|えない|問題(?:ない|ありません)"
    "|(?:情報|回答|データ|答え|資料)(?:が|は|も)?(?:ない|なし|ありません)"
    "|もう一[度回]"
    # Korean: "cannot" and "no information".
    "|수(?:가|는|도)? ?없|(?:정보|답|답변|데이터|자료|권한)(?:가|이|은|는|도)? ?없"
    # Thai.
    "|ไม่มี(?:ข้อมูล|คำตอบ)"
)

_REFUSAL = lazy_pattern(
    rf"(?<!\w)(?:{'|'.join(_REFUSALS.values())})(?!\w)"
    rf"|{_UNSPACED_REFUSALS}",
    re.IGNORECASE,
)


def without_refusals(text: str) -> str:
    """Return a text without phrases of refusals in which "no" or "one" counts nothing.

    Semicolons and spaces stand instead, so that all other words keep their positions.
    """
    return _REFUSAL.sub(lambda phrase: ";".center(len(phrase[0])), text)
