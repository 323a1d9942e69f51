"""How an encoder is named: ``FOLDER_OR_HUB_ID[:LAYERS]``, such as ``roberta-base:-4..-1``, and what identifies it.

This imports nothing heavy.
"""

import json
import re
from typing import Annotated, NamedTuple, Self, TypedDict

from msgspec import Meta

from structviews.errors import InputError
from structviews.runtime.files import digest

LAYERS = r"-?\d+(?:\.\.-?\d+)?"
FORM = re.compile(rf"(?P<name>.+?)(?::(?P<layers>{LAYERS}(?:,{LAYERS})*))?", re.DOTALL)
# An OWNER/NAME of the Hub, or one of its old names without an owner.
HUB_ID = re.compile(r"(?:\w[\w.-]*/)?\w[\w.-]*", re.ASCII)
LAST = "-1"


class EncoderName(NamedTuple):
    """An encoder, by its folder or its id on the Hugging Face Hub, and which of its layers are read.

    These are numbers and ranges ``FIRST..LAST``, comma-separated; 0 are the embeddings, -1 is the last layer.
    """

    name: str
    layers: str

    @classmethod
    def of(cls, text: str) -> Self:
        """From what a user typed; the last layer if no layers are named, InputError if it is empty."""
        found = FORM.fullmatch(text)
        if not found:
            raise InputError(f"encoder = {text!r}: give a folder with a model, or its name on the Hugging Face Hub")
        return cls(found["name"], found["layers"] or LAST)

    def numbers(self, depth: int) -> tuple[int, ...]:
        """The layers' numbers, ascending, of an encoder with ``depth`` layers; InputError if it has not all of them."""
        chosen: set[int] = set()
        for part in self.layers.split(","):
            first, _, last = part.partition("..")
            ends = [number + (depth + 1 if number < 0 else 0) for number in (int(first), int(last or first))]
            if not 0 <= ends[0] <= ends[1] <= depth:
                own = f"it has 0 (its embeddings) to {depth}, the last one being -1 too"
                raise InputError(f"encoder = {self.name}:{self.layers}: {part} are not layers of it: {own}")
            chosen.update(range(ends[0], ends[1] + 1))
        return tuple(sorted(chosen))


class Identity(NamedTuple):
    """What decides the vectors of words: the digest of the encoder's files, and what is taken of its states.

    That is the mean of these ``layers``, ascending, and of a word's pieces the ``mean`` or the ``first``.
    """

    files: str
    layers: tuple[int, ...]
    pooling: str
    dim: int

    @property
    def digest(self) -> bytes:
        """Digest, 16 bytes, of all of these."""
        return bytes.fromhex(digest(json.dumps(self).encode()))


class TeacherModel(TypedDict, total=False):
    """The teacher of the objective ``teacher``: its name, digest of its files, dimension, and licence if it says."""

    name: str
    files: str
    dim: Annotated[int, Meta(ge=1, le=2**20)]
    licence: str
