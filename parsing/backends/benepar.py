"""benepar (Kitaev and Klein 2018; Kitaev, Cao and Klein 2019): constituents of given tokens.

Weights are read by ``torch.load``, which since PyTorch 2.6 runs no code from them.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from structviews.errors import InputError
from structviews.sentence import ParsedSentence

from . import CONSTITUENCY, Options, Parser, Unparsed
from .libraries import (
    device,
    download_command,
    errors_of,
    files_of,
    hash_files,
    library,
    offline,
    one_line,
    sentence,
    surface,
)

# The models of the newest generation, https://github.com/nikitakit/self-attentive-parser#available-models.
MODELS = {
    "ar": "benepar_ar2",
    "de": "benepar_de2",
    "en": "benepar_en3",
    "eu": "benepar_eu2",
    "fr": "benepar_fr2",
    "he": "benepar_he2",
    "hu": "benepar_hu2",
    "ko": "benepar_ko2",
    "pl": "benepar_pl2",
    "sv": "benepar_sv2",
    "zh": "benepar_zh2",
}
# How a released model's name tells its language.
RELEASED = re.compile(r"benepar_([a-z]{2})\d")


def model_name(argument: str, language: str) -> str:
    """The model that a user names, or the one of the language.

    Raises:
        InputError: if there is none for the language, or it is of another one.
    """
    if not argument and language not in MODELS:
        raise InputError(
            f"--lang {language}: benepar has models for {', '.join(MODELS)}: name one of your own with "
            "--parser benepar:PATH"
        )
    name = argument or MODELS[language]
    released = RELEASED.match(Path(name).name)
    if released and released[1] != language:
        raise InputError(f"--parser benepar:{name}: a model for {released[1]!r}, and --lang says {language!r}")
    return name


def locate(name: str, options: Options) -> Path:
    """A model by its path, in the user's folder, or where nltk keeps its data.

    Raises:
        InputError: if it is in none of them.
    """
    import nltk.data  # noqa: PLC0415

    if Path(name).exists():
        return Path(name)
    if "/" in name:
        raise InputError(f"--parser benepar:{name}: there is no such file or folder: give the path of a model")
    folders = [options.models] if options.models else [Path(folder) for folder in nltk.data.path]
    for folder in folders:
        for path in (folder / name, folder / "models" / name):
            if path.exists():
                return path
    command = download_command("benepar", f"--lang {options.language}", name, options.models)
    where = str(options.models) if options.models else "nltk's folders"
    raise InputError(f"benepar's model {name} is not in {where}: fetch it with: {command}")


class BeneparParser(Parser):
    """benepar's ``Parser`` on given tokens.

    Args:
        argument: name or path of a model; empty for the one of the language.
        options: language, folder of models and device.

    Raises:
        InputError: if benepar is not installed, or its model cannot be used.
    """

    kinds = frozenset({CONSTITUENCY})
    # The scores of a batch are as many as its padded tokens times its longest sentence times the labels.
    batch_tokens = 1024

    def __init__(self, argument: str, options: Options):
        self.benepar = library("benepar")
        self.language = options.language
        self.model = model_name(argument, options.language)
        self.path = locate(self.model, options)
        try:
            with offline():
                self.parser = _load(self.path, self.language, device(options))
        except InputError:
            raise
        except Exception as error:
            command = download_command("benepar", f"--lang {options.language}", argument, options.models)
            raise InputError(
                f"{self.path}: not a model of benepar's, or damaged ({one_line(error)}): fetch it again with: {command}"
            ) from None

    def describe(self) -> dict[str, Any]:
        from importlib.metadata import version  # noqa: PLC0415

        return {
            "name": "benepar",
            "version": version("benepar"),
            "settings": {"language": self.language, "model": self.path.name},
            "model": hash_files(self.path.parent, files_of(self.path)),
        }

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ParsedSentence | Unparsed]:
        # The leaves of the trees are the tokens as they are; the words are what the network reads.
        given = [
            self.benepar.InputSentence(words=[surface(token) for token in tokens], escaped_words=list(tokens))
            for tokens in sentences
        ]
        with errors_of("benepar"):
            trees = list(self.parser.parse_sents(given))
        # A model that was not trained to tag says so.
        tags = {} if self.parser._parser.tag_from_index else {"tags": ()}
        return [sentence(tokens, tree, **tags) for tokens, tree in zip(sentences, trees, strict=True)]


def _load(path: Path, language: str, where: str) -> Any:
    """benepar's ``Parser`` with the model at ``path``.

    benepar 0.2 is older than the libraries that it runs on: three things have changed since.
    """
    import benepar  # noqa: PLC0415
    import torch_struct  # noqa: PLC0415
    from benepar.parse_chart import ChartParser  # noqa: PLC0415

    # PyTorch warns of distributions without.
    torch_struct.StructDistribution.arg_constraints = {}

    class Model(ChartParser):
        def load_state_dict(self, state: dict[str, Any], *args: Any, **options: Any) -> Any:
            # Positions were stored with the weights, and now are counted.
            kept = {key: value for key, value in state.items() if not key.endswith("embeddings.position_ids")}
            return super().load_state_dict(kept, *args, **options)

    class Parser(benepar.Parser):
        def __init__(self) -> None:
            with transformers_as_benepar_knows_them():
                self._parser = Model.from_trained(str(path)).to(where)
            self._language_code = language
            # Only for text that is not tokenised.
            self._tokenizer_lang = None
            # Batches are formed before.
            self.batch_size = 1 << 16

    return Parser()


@contextmanager
def transformers_as_benepar_knows_them() -> Iterator[None]:
    """Give transformers' tokenisers the method that benepar asks for their special tokens, and that they lost in 5.0.

    See https://github.com/nikitakit/self-attentive-parser/issues/111.
    """
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415

    def build_inputs_with_special_tokens(tokeniser: Any, ids: list[int]) -> list[int]:
        bare, whole = (tokeniser.encode("a", add_special_tokens=special) for special in (False, True))
        before = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
        return whole[:before] + ids + whole[before + len(bare) :]

    name = build_inputs_with_special_tokens.__name__
    if hasattr(PreTrainedTokenizerFast, name):
        yield
        return
    setattr(PreTrainedTokenizerFast, name, build_inputs_with_special_tokens)
    try:
        yield
    finally:
        delattr(PreTrainedTokenizerFast, name)
