"""Notice text that is not in a run's language: by its function words, or by letters that are not Latin.

Function words are evidence for a language. Names, headlines, code and rare words are evidence for none, so nothing is
said of them; by the share of words that a run does not know, they look like another language.
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterable
from itertools import islice

# Frequent function words of two letters or more, by the code that ``parse --lang`` takes.
FUNCTION_WORDS = {
    "ca": (
        "Catalan",
        "el la els les de en un una que no és amb per del al als com més aquest aquesta són però si què seu seva "
        "seus dels dins fins molt quan on hi ho va ja fa ser han",
    ),
    "cs": (
        "Czech",
        "je na se že to do jsem jste jsou ale jak za po pro by co si ve jako ten tak už který která které jeho "
        "její byl byla bylo není když nebo také jen až aby při pod nad před mezi kde mi mu ho",
    ),
    "da": (
        "Danish",
        "og at er det en den til på de med som for ikke af der et har var jeg vi fra han men så kan skal blev "
        "under over efter uden sin sine sit denne disse eller meget mere alle skulle havde ved mod op hun sig jer "
        "blive blevet",
    ),
    "de": (
        "German",
        "der die das und ist in zu den nicht von mit sich auf für ein eine dem des im auch als an es ich sie er "
        "wir war aus bei wie oder aber einen einer nach wo was du bist sind hat haben werden wird kann noch nur "
        "sehr dass über zum durch ihr ihm ihn ihre ihren uns ja doch diese dieser dieses alle alles hier dann denn "
        "vor bis unter mein meine dein sein seine seinen schon wenn wurde wurden hatte gegen ohne mehr ins beim "
        "vom zur jetzt immer wieder etwas ganz",
    ),
    "en": (
        "English",
        "the of and to in is was that it for on with as at by be this are from or have not you an which we they "
        "what who how his her she he but do does did has had will would can there been were its our my your if so "
        "no up out about",
    ),
    "es": (
        "Spanish",
        "de la el que en los las un una es se no por con para del al lo su como más pero sus le ya este esta son "
        "está qué muy cuando también ha fue ser hay entre hasta desde mi te nos donde esto eso ella ellos era "
        "había todo todos porque así solo ni cada quien dónde estaba",
    ),
    "fi": (
        "Finnish",
        "ja on ei se että hän oli en mutta niin kun myös ovat tai minä joka olen mitä kuin nyt sen jos ole ollut "
        "kanssa vain jo sitä siitä tämä ne he me sinä kaikki mukaan sekä jonka olivat",
    ),
    "fr": (
        "French",
        "de la le les et des en un une du est que qui dans pour pas sur au aux avec il elle je ne se ce cette par "
        "plus sont mais ou où nous vous ont ses son sa leur été être très tout comme quel quelle était ils elles "
        "vers sans chez mon ma mes tes nos votre notre fait faire peut bien même aussi après avant encore quand "
        "rien peu toujours jamais avait étaient cet ces",
    ),
    "hr": (
        "Croatian",
        "je se na da su za od ne što kao to koji koja koje iz će bi ili ali biti sam smo nije ovo gdje",
    ),
    "hu": (
        "Hungarian",
        "az és hogy nem egy is ez van volt de csak meg mint már ha el ki még azt vagy ezt minden én kell",
    ),
    "id": (
        "Indonesian",
        "yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena bisa ada adalah",
    ),
    "it": (
        "Italian",
        "di il la che in un una è per non del della dei delle con le lo gli al alla si da come più sono ma anche "
        "nel nella ha questo questa era essere mi ti ci vi loro suo sua mio dopo prima verso tra perché quando "
        "dove chi tutto tutti erano stato sempre ancora ai agli alle negli sul sulla dal dalla lei lui noi",
    ),
    "nb": (
        "Norwegian",
        "og er det som en på til av for at med han de ikke den har jeg var et vi men så seg fra kan ble under over "
        "etter uten sin sine sitt denne disse eller mye mer alle skulle hadde ved mot opp hun dette bli blitt hva",
    ),
    "nl": (
        "Dutch",
        "de het een en van in is dat op te zijn voor met niet aan er om ook als maar dan bij naar door uit wat ik "
        "je hij haar hun mijn onze dit deze die daar hier wie waar werd worden hebben heeft kan moet zal tot onder "
        "tegen zonder nog wel veel geen meer over ze we",
    ),
    "pl": (
        "Polish",
        "na się nie do to że jest jak po co ale za od jego tak przez czy są ma był była było tylko już dla który "
        "która które oraz jej ich tym tego bardzo kiedy gdzie może ze pod nad przed więc",
    ),
    "pt": (
        "Portuguese",
        "de que do da em um uma para com não os as no na por mais dos das ao se como mas foi ele ela seu sua ou "
        "são está pela pelo muito quando onde nos nas eu isso este esta até sem já seus suas ser foram tem",
    ),
    "ro": (
        "Romanian",
        "și de în la cu nu pe un să care din este mai că ce pentru sunt ale al au fi dar prin era foarte",
    ),
    "sv": (
        "Swedish",
        "och att det som en på är av för med den till inte om ett han var jag de så men har vi från kan nu hon sig "
        "där ska under över efter utan sina sitt sin detta denna dessa eller mycket mer alla skulle hade vid mot "
        "upp",
    ),
    "tr": (
        "Turkish",
        "ve bir bu da de için ile çok ne mi daha var ama olarak gibi ben kadar sonra en değil olan nasıl her şey "
        "ki yok ya bana sen biz onun benim mı oldu",
    ),
}
# The languages that have a word.
LANGUAGES_OF: dict[str, list[str]] = {}
for _code, (_, _words) in FUNCTION_WORDS.items():
    for _word in _words.split():
        LANGUAGES_OF.setdefault(_word, []).append(_code)
# What is read of a call's sentences, for a bounded cost.
SENTENCES, CHARACTERS = 30, 500
# Another language needs so many function words, such a share of all words, and so many times the run's own. So, of
# 45,279 single sentences of English tasks, treebanks and corpora 26 are noticed, 25 of which are in another language.
LEAST, SHARE, TIMES = 3, 0.1, 2
WORD = re.compile(r"[^\W\d_]{2,}")
LATIN = re.compile(r"[A-Za-zªºÀ-ɏḀ-ỿ]")
OTHER_SCRIPT = "not Latin"
_told: set[str] = set()


def warn_once(line: str | None, stacklevel: int) -> None:
    """Warn, if there is a line and the process has not yet said the same; ``stacklevel`` as for ``warnings.warn``."""
    if line and line not in _told:
        _told.add(line)
        warnings.warn(line, stacklevel=stacklevel + 1)


def remark(sentences: Iterable[str], language: str) -> str | None:
    """A line on sentences that are not in a run's language, and what to do; None if nothing shows that.

    Args:
        sentences: the first thirty are read.
        language: the run's, as ``parse --lang`` takes it; nothing is said if its function words are not known here.
    """
    own = language.partition("-")[0]
    other = other_language(sentences, own) if own in FUNCTION_WORDS else None
    if other is None:
        return None
    seems, one, code = "is not in Latin script", "its language", "CODE"
    if other != OTHER_SCRIPT:
        seems, one, code = f"looks like {FUNCTION_WORDS[other][0]}", FUNCTION_WORDS[other][0], other
    return (
        f"this text {seems}, but the run was trained on {FUNCTION_WORDS[own][0]}, so its vectors say little: train a "
        f"run on {one}, parsed with --lang {code} --parser stanza "
        f"(in Python, open_source(..., parser='stanza', options=Options('{code}')))"
    )


def other_language(sentences: Iterable[str], own: str) -> str | None:
    """The code of the language that sentences are in, if it is not ``own``; ``OTHER_SCRIPT``; or None."""
    # A word counts once in a sentence: "ha ha ha" is no evidence.
    words = [
        word for text in islice(sentences, SENTENCES) for word in dict.fromkeys(WORD.findall(text[:CHARACTERS].lower()))
    ]
    letters = "".join(words)
    if not letters.isascii() and len(LATIN.findall(letters)) < len(letters) / 2:
        return OTHER_SCRIPT
    counts = Counter(code for word in words for code in LANGUAGES_OF.get(word, ()))
    best, found = counts.most_common(1)[0] if counts else (own, 0)
    enough = found >= max(LEAST, SHARE * len(words), TIMES * counts[own])
    return best if enough and best != own else None
