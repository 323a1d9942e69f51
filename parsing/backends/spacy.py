"""spaCy pipelines: tags and dependencies of given tokens.

A pipeline is loaded from its folder even if it is an installed package, so the package's own code is
not run. Components must be registered by installed libraries.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.backends import PARSERS
from structviews.parsing.libraries import download_command, errors_of, hash_files, library, offline, sentence, surface
from structviews.parsing.parser import DEPENDENCY, Fault, Options, Parser, Unparsed
from structviews.parsing.treebank import as_token
from structviews.runtime.wording import reason

# A component is run if it assigns one of these: trees, tags, or the vectors that they are computed from.
NEEDED = frozenset({"token.head", "token.dep", "token.tag", "token.pos", "doc.tensor", "doc._.trf_data"})


def locate(name: str, options: Options) -> Path:
    """The folder with a pipeline's ``config.cfg``: a path, in the user's folder, or in an installed package."""
    folders = [Path(name)]
    if options.models:
        folders.append(options.models / name)
    elif name.isidentifier() and (package := find_spec(name)):
        folders += [Path(folder) for folder in package.submodule_search_locations or ()]
    for folder in folders:
        # A package contains the folder NAME-VERSION.
        for path in (folder, *sorted(folder.glob(f"{folder.name}-*"), reverse=True)):
            if (path / "config.cfg").is_file():
                return path
    raise InputError(
        f"--parser spacy:{name}: no such pipeline {f'in {options.models}' if options.models else 'is installed'}: "
        f"download it with: {download_command(options, 'spacy', name)}"
    )


@PARSERS.register("spacy")
class SpacyParser(Parser):
    """A spaCy pipeline, named or at a path, applied to given tokens.

    Raises InputError if the pipeline cannot be used, or has no dependency parser.
    """

    kinds = frozenset({DEPENDENCY})

    def __init__(self, argument: str, options: Options):
        spacy = library("spacy")
        if not argument:
            raise InputError("--parser spacy: no pipeline given: name one, for example spacy:en_core_web_sm")
        self.path = locate(argument, options)
        if options.device.startswith("cuda"):
            try:
                spacy.require_gpu(int(options.device.partition(":")[2] or 0))
            except ValueError as error:
                raise InputError(
                    f"--device {options.device}: spaCy cannot use it ({reason(error)}): leave --device out"
                ) from None
        try:
            with offline():
                config = spacy.util.load_config(self.path / "config.cfg")
                self.nlp = spacy.util.load_model_from_path(self.path, exclude=_needless(config))
        except Exception as error:
            raise InputError(
                f"{self.path}: not a pipeline that spaCy {spacy.__version__} can load ({reason(error)}): "
                f"download it again with: {download_command(options, 'spacy', self.path.name)}"
            ) from None
        # xx is spaCy's code for multilingual pipelines.
        if self.nlp.lang not in (options.language, "xx"):
            raise InputError(
                f"{self.path}: this pipeline is for {self.nlp.lang!r}, but --lang is {options.language!r}: "
                f"add --lang {self.nlp.lang}, or choose another pipeline"
            )
        if not any("token.head" in self.nlp.get_pipe_meta(name).assigns for name in self.nlp.pipe_names):
            raise InputError(
                f"{self.path}: this pipeline has no dependency parser (it has {', '.join(self.nlp.pipe_names)}): "
                "choose another"
            )

    def describe(self) -> dict[str, Any]:
        meta = self.nlp.meta
        settings = {"pipeline": f"{meta['lang']}_{meta['name']} {meta['version']}"}
        model = hash_files(self.path, [self.path])
        return {"name": "spacy", "version": library("spacy").__version__, "settings": settings, "model": model}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        from spacy.tokens import Doc  # noqa: PLC0415

        # Outside a memory zone spaCy keeps every word that it has seen.
        with self.nlp.memory_zone():
            with errors_of("spaCy"):
                # Each document is one sentence; otherwise the parser could split it.
                given = [
                    Doc(self.nlp.vocab, list(map(surface, tokens)), sent_starts=[i == 0 for i in range(len(tokens))])
                    for tokens in sentences
                ]
                documents = list(self.nlp.pipe(given))
            return [self._sentence(*each) for each in zip(sentences, documents, strict=True)]

    def _sentence(self, tokens: Sequence[str], document: Any) -> ParsedSentence | Unparsed:
        if len(document) != len(tokens):
            return Fault(f"spaCy returned {len(document)} words for {len(tokens)} tokens")
        tags = tuple(word.tag_ for word in document)
        if not all(tags):
            tags = tuple(word.pos_ for word in document)
        # spaCy's root is its own head.
        heads = tuple(0 if word.head.i == word.i else word.head.i + 1 for word in document)
        relations = tuple(word.dep_ for word in document)
        return sentence(tokens, tags=tags if all(tags) else (), heads=heads, relations=relations)

    def tokenise(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Tokenise texts with the pipeline's own rules."""
        with self.nlp.memory_zone():
            return [tuple(as_token(w.text) for w in self.nlp.make_doc(text) if not w.is_space) for text in texts]


def _needless(config: dict[str, Any]) -> list[str]:
    """Components that assign nothing that is needed, or that would change the tokens."""
    from spacy.language import Language  # noqa: PLC0415

    needless = []
    for name, component in config["components"].items():
        if not Language.has_factory(component.get("factory", "")):
            continue
        meta = Language.get_factory_meta(component["factory"])
        if meta.retokenizes or (meta.assigns and NEEDED.isdisjoint(meta.assigns)):
            needless.append(name)
    return needless
