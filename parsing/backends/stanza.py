"""stanza (Qi et al. 2020): tags and dependencies, and constituents where it has a model for the language.

Its checkpoints are loaded with ``torch.load(weights_only=True)``, which runs no code.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.backends import PARSERS
from structviews.parsing.binarise import Tree
from structviews.parsing.libraries import download_command, errors_of, hash_files, library, offline, sentence, surface
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, Fault, Options, Parser, Unparsed
from structviews.parsing.treebank import as_token
from structviews.runtime.device import best_device
from structviews.runtime.wording import reason

TOKENISING = ("tokenize", "mwt")
TAGGER, PARSER, CONSTITUENTS = "pos", "depparse", "constituency"
PARSING = (TAGGER, "lemma", PARSER, CONSTITUENTS)


class Catalogue:
    """The models in a folder's ``resources.json``, stanza's list; OSError or ValueError if that cannot be read."""

    def __init__(self, folder: Path):
        from stanza.resources.common import load_resources_json  # noqa: PLC0415

        self.resources: dict[str, Any] = load_resources_json(str(folder))

    def language(self, code: str) -> str:
        """stanza's own code for a language."""
        while isinstance(self.resources.get(code), dict) and "alias" in self.resources[code]:
            code = self.resources[code]["alias"]
        if not isinstance(self.resources.get(code), dict):
            raise InputError(
                f"--lang {code}: stanza has no models for this language: choose one from "
                "https://stanfordnlp.github.io/stanza/available_models.html"
            )
        return code

    def processors(self, language: str, package: str) -> dict[str, str]:
        """The model of each processor: ``{"depparse": "combined_charlm", ...}``; of the default package if empty."""
        package = package or "default"
        packages = self.resources[language]["packages"]
        if package not in packages:
            choice = ", ".join(sorted(packages))
            raise InputError(f"--parser stanza:{package}: no such package for {language!r}: choose one of {choice}")
        models = {**packages[package].get("optional", {}), **packages[package]}
        if PARSER not in models:
            raise InputError(f"--parser stanza:{package}: this package has no parser: choose another")
        return {processor: models[processor] for processor in (*TOKENISING, *PARSING) if processor in models}

    def models(self, language: str, processors: dict[str, str]) -> list[tuple[str, str]]:
        """Kind and name of each model, including the word vectors and language models that processors use."""
        from stanza.pipeline.core import filter_variants  # noqa: PLC0415
        from stanza.resources import common  # noqa: PLC0415

        listed = common.maintain_processor_list(self.resources, language, None, processors, maybe_add_mwt=False)
        listed = filter_variants(common.add_dependencies(self.resources, language, listed))
        return sorted((kind, name) for kind, name in common.flatten_processor_list(listed))


@PARSERS.register("stanza")
class StanzaParser(Parser):
    """A stanza pipeline, of a package or of the language's default one, applied to given tokens.

    Raises InputError if stanza is not installed or has no such language or package, or its models cannot be used.
    """

    def __init__(self, argument: str, options: Options):
        library("stanza")
        from stanza.resources.common import DEFAULT_MODEL_DIR  # noqa: PLC0415

        self.folder = Path(options.models or DEFAULT_MODEL_DIR)
        command = download_command(options, "stanza", f"--lang {options.language}", argument)
        self.remedy = f"download the models with: {command}"
        try:
            self.catalogue = Catalogue(self.folder)
        except OSError:
            raise InputError(
                f"{self.folder}/resources.json, stanza's list of models, is missing: {self.remedy}"
            ) from None
        except ValueError as error:
            raise InputError(f"{self.folder}/resources.json is damaged ({reason(error)}): {self.remedy}") from None
        self.language = self.catalogue.language(options.language)
        self.processors = self.catalogue.processors(self.language, argument)
        unwanted = ["lemma", PARSER] if CONSTITUENTS in self.processors and DEPENDENCY not in options.wanted else []
        if CONSTITUENCY not in options.wanted:
            unwanted.append(CONSTITUENTS)
        self.processors = {name: model for name, model in self.processors.items() if name not in unwanted}
        kinds = {PARSER: DEPENDENCY, CONSTITUENTS: CONSTITUENCY}
        self.kinds = frozenset(kind for processor, kind in kinds.items() if processor in self.processors)
        self.models = self.catalogue.models(self.language, self.processors)
        self.files = [self.folder / self.language / kind / f"{name}.pt" for kind, name in self.models]
        for file in self.files:
            if not file.is_file():
                raise InputError(f"{file}: this stanza model is missing: {self.remedy}")
        # Its words are the given tokens: without the mwt processor, none is split.
        self.device = options.device or str(best_device())
        self.pipeline = self._load(("tokenize", *PARSING), tokenize_pretokenized=True)
        for name in (TAGGER, PARSER, CONSTITUENTS):
            if processor := self.pipeline.processors.get(name):
                trained = getattr(processor.trainer, "args", None) or processor.trainer.model.args
                if trained.get("lang") not in (None, self.language):
                    raise InputError(
                        f"{processor.config['model_path']} is a model for {trained['lang']!r}, but --lang is "
                        f"{self.language!r}: {self.remedy}"
                    )
        self._tokeniser: Any = None

    def _load(self, processors: Sequence[str], **settings: Any) -> Any:
        """A ``stanza.Pipeline`` of some of the processors, loaded from disk only."""
        stanza = library("stanza")
        # stanza logs each sentence that it gives up on; here such sentences are skipped and counted.
        logging.getLogger("stanza").setLevel(logging.CRITICAL)
        models = {name: self.processors[name] for name in processors if name in self.processors}
        settings |= {"dir": str(self.folder), "device": self.device, "download_method": None}
        try:
            with offline():
                return stanza.Pipeline(self.language, package=None, processors=models, **settings)
        except Exception as error:
            raise InputError(f"{self._fault()} ({reason(error)}): {self.remedy}") from None

    def _fault(self) -> str:
        """Why models cannot be loaded: the first file that is not as published, if there is one."""
        from stanza.resources.common import get_md5  # noqa: PLC0415

        for (kind, name), file in zip(self.models, self.files, strict=True):
            entry = self.catalogue.resources[self.language].get(kind, {}).get(name, {})
            published = {entry[key] for key in ("md5", "alternate_md5") if entry.get(key)}
            if published and get_md5(str(file)) not in published:
                return f"{file} is damaged or not the version in resources.json"
        return f"{self.folder / self.language}: stanza {library('stanza').__version__} cannot load its models"

    def describe(self) -> dict[str, Any]:
        settings = {"language": self.language, "models": self.processors}
        model = hash_files(self.folder, self.files)
        return {"name": "stanza", "version": library("stanza").__version__, "settings": settings, "model": model}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        if not sentences:
            return []
        with errors_of("stanza"):
            document = self.pipeline([[surface(token) for token in tokens] for tokens in sentences])
            return [self._sentence(*each) for each in zip(sentences, document.sentences, strict=True)]

    def _sentence(self, tokens: Sequence[str], found: Any) -> ParsedSentence | Unparsed:
        words = found.words
        if len(words) != len(tokens):
            return Fault(f"stanza returned {len(words)} words for {len(tokens)} tokens")
        tags = tuple(word.xpos for word in words)
        # Treebanks without language-specific tags only have universal ones.
        fields = {"tags": tags if all(tags) else tuple(word.upos for word in words)}
        if DEPENDENCY in self.kinds:
            fields |= {"heads": tuple(word.head for word in words), "relations": tuple(word.deprel for word in words)}
        return sentence(tokens, _bracket_tree(found.constituency) if CONSTITUENCY in self.kinds else None, **fields)

    def tokenise(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Tokenise texts of one sentence each; multiword tokens are split into their words."""
        if self._tokeniser is None:
            self._tokeniser = self._load(TOKENISING, foundation_cache=self.pipeline.foundation_cache)
        documents = self._tokeniser.bulk_process(list(texts))
        return [tuple(as_token(word.text) for part in each.sentences for word in part.words) for each in documents]


def _bracket_tree(tree: Any) -> Tree:
    """Convert stanza's tree to ours."""
    if tree.is_preterminal():
        return Tree(tree.label, [tree.children[0].label])
    return Tree(tree.label, [_bracket_tree(child) for child in tree.children])
