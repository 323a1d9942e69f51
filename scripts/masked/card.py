"""The model card of a small encoder."""

from collections.abc import Mapping, Sequence

from transformers import BertForMaskedLM

from masked.texts import HELD_OUT, Texts
from masked.training import Score, Settings
from structviews.hub.portable import Source, summed
from structviews.runtime.wording import as_text, counted

# What all of the modern texts allow for their adaptations; scripts/bundled_models/about.md has the reasons.
LICENCE = "cc-by-sa-4.0"
CARD = """\
---
language:
- en
library_name: transformers
{licence}pipeline_tag: fill-mask
tags:
- bert
---

# {name}

A small BERT (Devlin et al., 2019), trained from random weights as a masked language model of English. It is made for
studies of how encoders represent sentences; models trained on a hundred times as much text represent them much better.

- {layers} layers of {dim} dimensions, {heads} heads, {inner:,} inner dimensions, {positions} positions
- {vocabulary:,} pieces (WordPiece, lower case), learnt on the same texts
- {size:,} parameters

## Use

```python
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM

tokenizer = AutoTokenizer.from_pretrained("{name}")
encoder = AutoModel.from_pretrained("{name}", add_pooling_layer=False)  # states ({dim} numbers a piece)
masked = BertForMaskedLM.from_pretrained("{name}")  # with the output layer
```

It was trained on single sentences, and of each tenth document on runs of sentences; on pairs of texts it was not.

## Data

It read {read} once; {held_out} were held out.

{sources}

## Training

{steps} of about {batch:,} pieces. 15 % of the pieces are guessed; of these, 80 % are hidden and 10 % replaced. AdamW,
with a learning rate of up to {rate:g}, which rises in the first twentieth of the steps and then falls linearly to 0. It
had no dropout; the configuration sets 10 % for further training. `scripts/small_encoder.py` has the rest.

## Held-out figures

Guesses of 15 % of the pieces of each held-out sentence, read alone (every {every}th document is held out):

| guessed by | accuracy | perplexity |
|---|--:|--:|
{scores}
"""
SOURCES = """\
The texts, by source and licence, as a whole. `sources.tsv` names every title, with its year, licence and attribution;
if you pass the model on, pass this list on too. The weights are under CC BY-SA 4.0.

| texts | licence | documents | sentences |
|---|---|--:|--:|
"""
UNKNOWN = "For the contents of the texts and their licence, ask whoever trained it."


def card(
    name: str,
    model: BertForMaskedLM,
    settings: Settings,
    texts: Texts,
    steps: int,
    scores: Mapping[str, Score],
    sources: Sequence[Source],
) -> str:
    """The card as Markdown; ``scores`` by what guessed."""
    rows = [
        f"| {as_text(row.titles)} | {as_text(row.licence)} | {row.documents:,} | {row.sentences:,} |\n"
        for row in summed(sources)
    ]
    return CARD.format(
        **vars(settings) | {"vocabulary": model.config.vocab_size},
        name=as_text(name),
        licence=f"license: {LICENCE}\n" if sources else "",
        size=model.num_parameters(),
        read=texts.part(~texts.held_out).told(),
        held_out=texts.part(texts.held_out).told(),
        sources=(SOURCES + "".join(rows)).rstrip() if sources else UNKNOWN,
        steps=counted(steps, "step"),
        every=HELD_OUT,
        scores="\n".join(f"| {what} | {each.accuracy:.1%} | {each.perplexity:,.1f} |" for what, each in scores.items()),
    )
