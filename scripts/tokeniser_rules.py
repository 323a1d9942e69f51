"""Write the tokeniser's rules for English from those of the installed spaCy.

    python scripts/tokeniser_rules.py

They are data: patterns and tables, with spaCy's licence beside them. Other rules may give other words, so manifests and
runs hold the version of spaCy that they are from.
"""

from importlib.metadata import distribution

import spacy
from spacy.attrs import ORTH
from spacy.tokenizer import Tokenizer

from structviews.parsing.tokenising import RULES, RulesFile
from structviews.runtime.documents import write_json
from structviews.runtime.files import write_whole


def exported() -> RulesFile:
    """spaCy's rules for English."""
    nlp = spacy.blank("en")
    full = nlp.tokenizer
    bare = Tokenizer(
        nlp.vocab,
        prefix_search=full.prefix_search,
        suffix_search=full.suffix_search,
        infix_finditer=full.infix_finditer,
        url_match=full.url_match,
    )
    special = {text: [part[ORTH] for part in parts] for text, parts in sorted(full.rules.items())}
    finders = (full.find_prefix, full.find_suffix, full.find_infix)
    return RulesFile(
        source=f"spaCy {spacy.__version__}, MIT licence: see LICENSE",
        version=spacy.__version__,
        prefix=full.prefix_search.__self__.pattern,
        suffix=full.suffix_search.__self__.pattern,
        infix=full.infix_finditer.__self__.pattern,
        url=full.url_match.__self__.pattern,
        special=special,
        split={
            text: [token.text for token in bare(text)]
            for text in special
            if text == " " or any(find(text) for find in finders)
        },
    )


def main() -> None:
    """Write the rules and the licence."""
    write_json(RULES, exported(), sealed=False)
    (licence,) = (path for path in distribution("spacy").files or () if path.name == "LICENSE")
    write_whole(RULES.with_name("LICENSE"), licence.read_binary())


if __name__ == "__main__":
    main()
