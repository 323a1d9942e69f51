"""A run's trained transformer by itself, as a model of sentence-transformers."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.trained import TrainedEmbedder
from structviews.errors import InputError
from structviews.pretrained.loading import without_notices
from structviews.runtime.files import new_folder
from structviews.runtime.machine import require
from structviews.views.transformer import Transformer
from structviews.words.word_settings import FIRST


def export_transformer(run: Path, out: Path, view: str = "") -> Path:
    """Save a run's trained transformer as a sentence-transformers model, which needs nothing of structviews.

    Of the same text it makes the same vectors as the run's view in fp32. The run reads a sentence's words with spaces
    between them, sentence-transformers the text as typed: to tokenisers that split off punctuation, as BERT's do, this
    is the same, but for words that structviews takes apart, such as "cannot" and "gonna", and texts without words.
    Raises InputError if the run has no transformer, or several and ``view`` names none of them; if its vectors are made
    in a way that sentence-transformers has no module for, or its transformer is half of an encoder-decoder; if
    sentence-transformers is not installed, or ``out`` exists.
    """
    require("sentence_transformers", "runs export", "sentence-transformers")
    import transformers  # noqa: PLC0415 - an extra
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    embedder = Embedder.load(run)
    if not isinstance(embedder, TrainedEmbedder):
        raise InputError(f"{run}: not a run that train made: give one that has the view 'transformer'")
    transformer = _chosen(run, embedder, view)
    with new_folder(out) as folder, without_notices(transformers):
        modules = _modules(embedder, transformer)
        own, loaded = transformer.network.state_dict(), modules[0].auto_model.state_dict()
        # Weights that a file lacks are loaded as random numbers.
        if own.keys() != loaded.keys() or not all(torch.equal(own[name].cpu(), loaded[name].cpu()) for name in own):
            raise InputError(
                f"{run}: its transformer is half of an encoder-decoder, which sentence-transformers does not load by "
                "itself: encode with structviews"
            )
        SentenceTransformer(modules=modules, device="cpu").save(str(folder), create_model_card=False)
        (folder / "README.md").write_text(_card(embedder), "utf-8")
    return out


def _chosen(run: Path, embedder: TrainedEmbedder, view: str) -> Transformer:
    encoders = [encoder for channels in embedder.model.by_view() for _, encoder in channels]
    named = zip(embedder.view_names, encoders, strict=True)
    found = {name: encoder for name, encoder in named if isinstance(encoder, Transformer)}
    if not found:
        raise InputError(f"{run}: has no view 'transformer', but {', '.join(embedder.view_names)}: give another run")
    if view not in found and (view or len(found) > 1):
        problem = f"view = {view}: not a transformer" if view else "has several transformers"
        raise InputError(f"{run}: {problem}: give --view {' or '.join(found)}")
    own = embedder.representation
    if own.pooling != "vector" or own.remove_component:
        raise InputError(
            f"{run}: its vectors are {own}, which sentence-transformers has no module for: train with another "
            "--pooling, or without --remove-component"
        )
    return found[view or next(iter(found))]


def _modules(embedder: TrainedEmbedder, transformer: Transformer) -> list[Any]:
    """The modules of the model: the transformer, its pooling, and whether its vectors have length 1."""
    from sentence_transformers.base.modules import Normalize  # noqa: PLC0415 - an extra
    from sentence_transformers.base.modules import Transformer as Encoder  # noqa: PLC0415
    from sentence_transformers.sentence_transformer.modules import Pooling  # noqa: PLC0415

    blueprint = embedder.blueprint
    assert blueprint  # there is a transformer
    with TemporaryDirectory() as name:
        blueprint.unpack(Path(name))
        transformer.network.save_pretrained(name)
        encoder = Encoder(name, max_seq_length=blueprint.aligner.longest)
    pooling = Pooling(transformer.dim, "cls" if transformer.pooling == FIRST else "mean")
    return [encoder, pooling, *([Normalize()] if embedder.representation.normalise else [])]


def _card(embedder: TrainedEmbedder) -> str:
    config = embedder.config
    beside = ", ".join(name for name in config.views.names if name != "transformer") or "no other view"
    return f"""---
library_name: sentence-transformers
tags: [sentence-similarity, structviews]
---

# A sentence encoder

This transformer began from `{Path(config.words.encoder).name}` and was trained with structviews: with the objective
`{config.objective.name}`, beside {beside}.

    from sentence_transformers import SentenceTransformer

    vectors = SentenceTransformer("FOLDER").encode(["A sentence.", "Another one."])
"""
