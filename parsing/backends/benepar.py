"""benepar (Kitaev and Klein 2018; Kitaev, Cao and Klein 2019): constituents of given tokens.

Weights are loaded with ``torch.load``, which since PyTorch 2.6 runs no code from them.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.backends import PARSERS
from structviews.parsing.libraries import download_command, errors_of, hash_files, library, offline, sentence, surface
from structviews.parsing.parser import CONSTITUENCY, Options, Parser, Unparsed
from structviews.runtime.device import best_device
from structviews.runtime.wording import reason

# The newest models, see https://github.com/nikitakit/self-attentive-parser#available-models.
MODELS = {code: f"benepar_{code}2" for code in ("ar", "de", "en", "eu", "fr", "he", "hu", "ko", "pl", "sv", "zh")}
MODELS["en"] = "benepar_en3"
# The language in a released model's name.
RELEASED = re.compile(r"benepar_([a-z]{2})\d")


def model_name(argument: str, language: str) -> str:
    """The model that the user names, or the default for the language, if it is for this language."""
    if not argument and language not in MODELS:
        raise InputError(
            f"--lang {language}: benepar only has models for {', '.join(MODELS)}: give your own with "
            "--parser benepar:PATH"
        )
    name = argument or MODELS[language]
    released = RELEASED.match(Path(name).name)
    if released and released[1] != language:
        raise InputError(f"--parser benepar:{name}: this model is for {released[1]!r}, but --lang is {language!r}")
    return name


def locate(name: str, options: Options) -> Path:
    """Find a model by its path, in the user's folder, or in nltk's data folders."""
    import nltk.data  # noqa: PLC0415

    if Path(name).exists():
        return Path(name)
    if "/" in name:
        raise InputError(f"--parser benepar:{name}: no such file or folder: give the path of a model")
    folders = [options.models] if options.models else [Path(folder) for folder in nltk.data.path]
    for path in (folder / within / name for folder in folders for within in ("", "models")):
        if path.exists():
            return path
    command = download_command(options, "benepar", f"--lang {options.language}", name)
    where = str(options.models) if options.models else "nltk's folders"
    raise InputError(f"the benepar model {name} is not in {where}: download it with: {command}")


@PARSERS.register("benepar")
class BeneparParser(Parser):
    """benepar's ``Parser`` applied to given tokens, with a model by name or path, or the language's default.

    Raises InputError if benepar is not installed, or its model cannot be used.
    """

    kinds = frozenset({CONSTITUENCY})
    # The number of scores in a batch is padded tokens times longest sentence times labels.
    batch_tokens = 1024

    def __init__(self, argument: str, options: Options):
        self.benepar = library("benepar")
        self.language = options.language
        self.model = model_name(argument, options.language)
        self.path = locate(self.model, options)
        try:
            with offline():
                self.parser = _load(self.path, self.language, options.device or str(best_device()))
        except Exception as error:
            command = download_command(options, "benepar", f"--lang {options.language}", argument)
            raise InputError(
                f"{self.path}: not a benepar model, or damaged ({reason(error)}): download it again with: {command}"
            ) from None

    def describe(self) -> dict[str, Any]:
        settings = {"language": self.language, "model": self.path.name}
        model = hash_files(self.path.parent, [self.path])
        return {"name": "benepar", "version": version("benepar"), "settings": settings, "model": model}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        # The network reads ``words``; the trees' leaves are ``escaped_words``, the unchanged tokens.
        new = self.benepar.InputSentence
        inputs = [new(words=list(map(surface, tokens)), escaped_words=list(tokens)) for tokens in sentences]
        with errors_of("benepar"):
            trees = list(self.parser.parse_sents(inputs))
        # Some models are not trained to tag.
        tags = {} if self.parser._parser.tag_from_index else {"tags": ()}
        return [sentence(tokens, tree, **tags) for tokens, tree in zip(sentences, trees, strict=True)]


def _load(path: Path, language: str, where: str) -> Any:
    """benepar's ``Parser``, with three workarounds: benepar 0.2 is older than the libraries that it uses."""
    import benepar  # noqa: PLC0415
    import torch_struct  # noqa: PLC0415
    from benepar.parse_chart import ChartParser  # noqa: PLC0415

    # PyTorch warns about distributions without this attribute.
    torch_struct.StructDistribution.arg_constraints = {}

    class Model(ChartParser):  # type: ignore[misc]  # benepar has no types
        def load_state_dict(self, state: dict[str, Any], *args: Any, **options: Any) -> Any:
            # Positions used to be stored with the weights; now they are computed.
            weights = {key: value for key, value in state.items() if not key.endswith("embeddings.position_ids")}
            return super().load_state_dict(weights, *args, **options)

    class Parser(benepar.Parser):  # type: ignore[misc]  # benepar has no types
        def __init__(self) -> None:
            with transformers_as_benepar_knows_them():
                self._parser = Model.from_trained(str(path)).to(where)
            self._language_code = language
            # Only needed for text that is not tokenised.
            self._tokenizer_lang = None
            # Batches are formed by the caller.
            self.batch_size = 1 << 16

    return Parser()


@contextmanager
def transformers_as_benepar_knows_them() -> Iterator[None]:
    """Temporarily give tokenisers the method for special tokens that benepar needs and transformers 5.0 removed.

    See https://github.com/nikitakit/self-attentive-parser/issues/111.
    """
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    def build_inputs_with_special_tokens(tokeniser: Any, ids: list[int]) -> list[int]:
        bare, whole = (tokeniser.encode("a", add_special_tokens=special) for special in (False, True))
        before = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
        return whole[:before] + ids + whole[before + len(bare) :]

    name = build_inputs_with_special_tokens.__name__
    with ExitStack() as after:
        if not hasattr(PreTrainedTokenizerFast, name):
            setattr(PreTrainedTokenizerFast, name, build_inputs_with_special_tokens)
            after.callback(delattr, PreTrainedTokenizerFast, name)
        yield
