"""Draw the two trees of a sentence as SVG files, as the README shows them.

pip install svgling
python scripts/draw_trees.py "A black bird is sitting on a dead tree." docs/images
"""

import sys
from pathlib import Path

import svgling
from spacy import displacy

from structviews.parsing.backends import load
from structviews.parsing.binarise import unbinarise
from structviews.parsing.text import tokenise
from structviews.sentence import ParsedSentence


def dependency_svg(sentence: ParsedSentence) -> str:
    """Arcs from heads to dependents, drawn by displaCy."""
    arcs = [
        {
            "start": min(i, head - 1),
            "end": max(i, head - 1),
            "label": relation,
            "dir": "left" if i < head - 1 else "right",
        }
        for i, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True))
        if head
    ]
    words = [{"text": w, "tag": t} for w, t in zip(sentence.tokens, sentence.tags, strict=True)]
    options = {"distance": 110, "word_spacing": 30, "arrow_stroke": 1.5, "bg": "#ffffff"}
    return displacy.render({"words": words, "arcs": arcs}, style="dep", manual=True, jupyter=False, options=options)


def main() -> None:
    """Parse with the built-in parser and write dependency.svg and constituency.svg."""
    text, folder = sys.argv[1], Path(sys.argv[2])
    (sentence,) = load("builtin").parse([tokenise(text)])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dependency.svg").write_text(dependency_svg(sentence) + "\n", "utf-8")
    # A page in dark mode would show black lines on black.
    drawing = svgling.draw_tree(unbinarise(sentence)).get_svg().tostring()
    drawing = drawing.replace("<defs />", '<rect width="100%" height="100%" fill="#ffffff" />', 1)
    (folder / "constituency.svg").write_text(drawing + "\n", "utf-8")


if __name__ == "__main__":
    main()
