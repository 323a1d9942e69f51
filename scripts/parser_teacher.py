"""Fine-tune a transformer as a parser, and let it parse text that the built-in parser's network learns from.

    python scripts/parser_teacher.py train all-MiniLM-L6-v2 gum/train.conllu gum/train.ptb ewt/train.conllu \\
        --dev gum/dev.conllu gum/dev.ptb -o teacher
    python scripts/parser_teacher.py parse teacher text.txt.zst -o silver.parsed --workers 2
    structviews parser train ... --silver silver.parsed

The teacher is the built-in network (docs/parser.md) with the transformer in place of its encoder. The transformer is
BERT, or like it, in a folder of safetensors. Needs the extra ``contextual``.
"""

import argparse
import random
import sys
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer

from structviews.errors import InputError
from structviews.parsing.backends import PARSERS
from structviews.parsing.backends.builtin import BuiltinParser, ParserSettings
from structviews.parsing.neural import ParserConfig, ParserNetwork
from structviews.parsing.parser import Options
from structviews.parsing.pipeline import parse_corpus
from structviews.parsing.sources import open_source
from structviews.runtime.device import multiplies_half
from structviews.runtime.documents import read_sealed, write_json
from structviews.runtime.files import digest, new_folder
from structviews.runtime.terminal import Bar, Terminal
from structviews.training.parser_training import batched, encoded, listed, loss_of, read_treebanks, score, vocabularies

WEIGHTS, SETTINGS, AGAIN = "model.safetensors", "teacher.json", "train the teacher again"
# Pieces of a word that the transformer sees; words of the longest sentence, so that all pieces have a position.
PIECES, MAX_TOKENS = 4, 120
# The layers whose mean, with learnt weights, represents a word.
LAYERS = 3
# AdamW's highest rates for the transformer and for what is new, the steps in which they are reached, and the largest
# norm of a gradient.
RATE, NEW_RATE, WARM_UP, LARGEST = 2e-4, 2e-3, 200, 5.0


class Pieces:
    """Maps words to the ids of their first pieces, ``(n, PIECES)``, filled with -1."""

    def __init__(self, tokeniser: Any):
        self.tokeniser = tokeniser
        self._rows: dict[str, list[int]] = {}

    def __call__(self, words: Iterable[str]) -> np.ndarray:
        rows = []
        for word in words:
            if word not in self._rows:
                ids = self.tokeniser.encode(word, add_special_tokens=False)[:PIECES] or [self.tokeniser.unk_token_id]
                self._rows[word] = ids + [-1] * (PIECES - len(ids))
            rows.append(self._rows[word])
        return np.array(rows, dtype=np.int32).reshape(-1, PIECES)


class Teacher(ParserNetwork):
    """The built-in network, with states from a transformer: those of each word's first piece.

    ``ends`` are the ids of the pieces before and after a sentence.
    """

    def __init__(self, config: ParserConfig, transformer: nn.Module, ends: tuple[int, int]):
        super().__init__(config)
        del self.blocks, self.norm
        self.words = nn.Identity()  # type: ignore[assignment]
        self.transformer = transformer
        self.layers = nn.Parameter(torch.zeros(LAYERS))
        self.ends = ends

    def encode(self, words: Tensor, mask: Tensor) -> Tensor:
        """``(B, n, PIECES)`` ids and ``(B, n)`` mask -> ``(B, n, D)`` states."""
        batch, n, _ = words.shape
        real = ((words >= 0) & mask[..., None]).flatten(1)
        place = real.cumsum(1)  # after the first end
        last = place[:, -1:] + 1
        pieces = words.new_zeros(batch, int(last.max()) + 1)
        pieces[:, 0] = self.ends[0]
        pieces.scatter_(1, last, self.ends[1])
        sentence, position = real.nonzero(as_tuple=True)
        pieces[sentence, place[real]] = words.flatten(1)[sentence, position]
        seen = torch.arange(pieces.shape[1]) <= last
        found = self.transformer(input_ids=pieces, attention_mask=seen.long(), output_hidden_states=True)
        shares = self.layers.softmax(0)
        states = sum(share * each for share, each in zip(shares, found.hidden_states[-LAYERS:], strict=True))
        first = place.view(batch, n, PIECES)[..., :1]
        return self.dropout(torch.gather(states, 1, first.expand(-1, -1, states.shape[-1])))


class TeacherParser(BuiltinParser):
    """The built-in parser with a teacher for its network."""

    def __init__(self, network: Teacher, settings: ParserSettings, tokeniser: Any, model: str = ""):
        super().__init__(network, settings, model)
        self.featuriser = Pieces(tokeniser)  # type: ignore[assignment]

    @classmethod
    def make(cls, folder: Path, transformer: nn.Module, settings: ParserSettings, model: str = "") -> "TeacherParser":
        """A parser with a transformer, and the tokeniser in its folder; what else it has is not trained."""
        dim = transformer.config.hidden_size
        sizes = [len(settings[key]) for key in ("words", "tags", "relations", "labels")]
        config = ParserConfig(*sizes, dim=dim, blocks=1, arc_dim=dim, relation_dim=128, span_dim=256)
        tokeniser = AutoTokenizer.from_pretrained(folder)
        network = Teacher(config, transformer, (tokeniser.cls_token_id, tokeniser.sep_token_id))
        return cls(network, {**settings, "config": asdict(config)}, tokeniser, model)

    def save_teacher(self, folder: Path) -> None:
        """Write all that ``load_teacher`` reads."""
        self.network.transformer.config.save_pretrained(folder)
        self.featuriser.tokeniser.save_pretrained(folder)
        save_file({name: each.contiguous() for name, each in self.network.state_dict().items()}, folder / WEIGHTS)
        write_json(folder / SETTINGS, {**self.settings, "weights": digest((folder / WEIGHTS).read_bytes())})


def load_teacher(argument: str, options: Options) -> TeacherParser:
    """The teacher in a folder, in bf16 where that is faster."""
    folder = Path(argument)
    check_there(folder / SETTINGS)
    check_there(folder / WEIGHTS)
    settings, weights = read_sealed(folder / SETTINGS, ParserSettings, AGAIN), (folder / WEIGHTS).read_bytes()
    if settings["weights"] != digest(weights):
        raise InputError(f"{folder / WEIGHTS}: damaged: {AGAIN}")
    transformer = AutoModel.from_config(AutoConfig.from_pretrained(folder))
    parser = TeacherParser.make(folder, transformer, settings, settings["weights"])
    parser.network.load_state_dict(load(weights))
    parser.network.eval().to(torch.bfloat16 if multiplies_half(torch.device("cpu")) else torch.float32)
    return parser


def train(model: Path, treebanks: list[Path], dev: list[Path], out: Path, epochs: int) -> None:
    """Fine-tune on treebanks; the last epoch reads the first alone, whose conventions it is to follow."""
    check_there(model / "config.json")
    banks, gold = read_treebanks(treebanks), read_treebanks(dev)
    settings = vocabularies([each for bank in banks for each in bank.sentences], [], "en")
    settings["words"] = settings["words"][:1]  # not used
    torch.manual_seed(1)
    parser = TeacherParser.make(model, AutoModel.from_pretrained(model, use_safetensors=True), settings)
    network = parser.network
    fit = [[each for each in bank.sentences if len(each.tokens) <= MAX_TOKENS] for bank in banks]
    data = [encoded(each, parser.settings, parser.featuriser) for each in fit]
    rng = random.Random(1)
    plan = [[b for part in parts for b in batched(part, rng)] for parts in [data] * (epochs - 1) + [data[:1]]]
    new = [each for name, each in network.named_parameters() if not name.startswith("transformer.")]
    groups = [{"params": network.transformer.parameters(), "lr": RATE}, {"params": new, "lr": NEW_RATE}]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    n_steps = sum(map(len, plan))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, partial(rate_at, n_steps=n_steps))
    with new_folder(out) as folder, Bar(Terminal(stderr=True), out.name, "batches") as bar:
        for epoch, batches in enumerate(plan, 1):
            network.train()
            for batch in rng.sample(batches, len(batches)):
                optimiser.zero_grad(set_to_none=True)
                with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_half(torch.device("cpu"))):
                    loss = loss_of(network, batch, torch.device("cpu"), word_dropout=0)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), LARGEST)
                optimiser.step()
                schedule.step()
                bar(schedule.last_epoch, n_steps)
            network.eval()
            for each in gold:
                print(f"epoch {epoch} of {epochs}: {each.name}: {listed(score(parser, each.sentences))}", flush=True)
        parser.save_teacher(folder)


def check_there(file: Path) -> None:
    """Raise InputError unless a folder has the file that shows what it is; the Hub would be asked for it otherwise."""
    if not file.is_file():
        raise InputError(f"{file}: no such file: give the folder that has it")


def rate_at(step: int, n_steps: int) -> float:
    """What the highest rates are multiplied by: linear warm-up, then linear decay to zero."""
    return min((step + 1) / WARM_UP, (n_steps - step) / max(n_steps - WARM_UP, 1))


def parse(teacher: Path, text: Path, out: Path, workers: int) -> None:
    """Parse a text of one sentence per line; the same command again resumes."""
    PARSERS.register("teacher", load_teacher)
    how: dict[str, Any] = {"layout": "lines", "tokenised": False, "max_tokens": MAX_TOKENS}
    source = open_source([str(text)], parser=f"teacher:{teacher}", **how)
    parse_corpus(source, out, workers=workers, console=Terminal(stderr=True))


def main() -> None:
    """Train a teacher, or parse with one."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = flags.add_subparsers(required=True)
    one = commands.add_parser("train", help="fine-tune a transformer on treebanks")
    one.set_defaults(function=train)
    one.add_argument("model", type=Path, help="folder of the transformer and its tokeniser")
    one.add_argument("treebanks", type=Path, nargs="+", help="as those of structviews parser train")
    one.add_argument("--dev", type=Path, nargs="+", required=True, help="their development parts")
    one.add_argument("--epochs", type=int, default=4, help="the last reads the first treebank alone (default 4)")
    other = commands.add_parser("parse", help="parse a text into a corpus for --silver")
    other.set_defaults(function=parse)
    other.add_argument("teacher", type=Path, help="folder that train wrote")
    other.add_argument("text", type=Path, help="one sentence per line")
    other.add_argument("--workers", type=int, default=1, help="processes (default 1)")
    for command in (one, other):
        command.add_argument("-o", "--out", type=Path, required=True, help="folder to write")
    args = vars(flags.parse_args())
    try:
        args.pop("function")(**args)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
