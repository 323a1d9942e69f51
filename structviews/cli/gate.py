"""The command ``gate``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from structviews.cli.console import console, errors, say, suggest, typeable
from structviews.cli.options import ForSimilarity, OwnRun, Precision, Seed
from structviews.cli.setting_flags import NO_FLAGS, chosen_flags, with_flags
from structviews.runs.which_vectors import GATED, Representation

app = typer.Typer()


@app.command("gate")
@with_flags(chosen_flags(Representation, ("pooling", "remove_component", "normalise"), "the run's"))
def fit_a_gate(
    run: OwnRun,
    corpus: Annotated[Path | None, typer.Option(help="Parsed corpus to fit it on.", show_default="the run's")] = None,
    sentences: Annotated[
        int, typer.Option(min=2, help="Most sentences to fit it on, in whole documents; a fifth as many are held out.")
    ] = 50_000,
    similarity: ForSimilarity = False,
    seed: Seed = 1,
    precision: Precision = "auto",
    flags: Mapping[str, Any] = NO_FLAGS,
) -> None:
    """Fit a gate, which weighs a run's views for each sentence.

    Shows which view suits which sentence. The run itself stays as it is. Writes RUN/gate.safetensors, which --join gate
    and --similarity-join gate use.

    Example: structviews gate runs/dep-const

    Example: structviews gate runs/dep-const --corpus corpus.parsed --pooling mean
    """
    from structviews.corpus.parsed_corpus import ParsedCorpus
    from structviews.encoding.embedder import Embedder
    from structviews.encoding.view_gate import Purpose, save_gate
    from structviews.evaluation.gating import gate_fitting, gate_tables, trust
    from structviews.evaluation.gating.gate_sample import read_sample
    from structviews.evaluation.retrieval.next_sentence import corpus_of
    from structviews.runtime.files import writing
    from structviews.runtime.terminal import rate_bar

    opened = ParsedCorpus.open(corpus or corpus_of([run]))
    with writing(run):
        with rate_bar(errors, "encoding", "sentences") as progress:
            progress.stage("loading the run")
            embedder = Embedder.load(run, precision=precision)
            embedder = (embedder.for_similarity() if similarity else embedder).with_representation(**flags)
            gate_fitting.check_gateable(embedder)
            progress.stage("reading the corpus")
            sample = read_sample([run], opened, sentences, seed)
            fitting, held_out = gate_fitting.encoded_sample(embedder, sample, progress)
        purpose = Purpose(views=embedder.view_names, vectors=embedder.view_vectors)
        with rate_bar(errors, "fitting", "epochs") as progress:
            progress.stage("the average's temperature")
            fitted = gate_fitting.fit_gate(purpose, fitting, held_out, seed, progress)
        save_gate(run, fitted.gate)
    weights = fitted.gate.weights([units.numpy() for units in held_out.units.unbind(dim=1)])
    console.print(gate_tables.score_table(fitted.scores, sample))
    found = trust.trust_by_group(sample.held_out.sentences, weights)
    console.print(gate_tables.trust_table(found, embedder.view_names, fitted))
    for view, own in zip(embedder.view_names, weights.T, strict=True):
        for line in gate_tables.examples(view, trust.most_trusting(sample.held_out.sentences, own)):
            say(line)
    flag = f"--similarity-join {GATED}" if similarity else f"--join {GATED}"
    suggest("Next, score it:", f"structviews eval {typeable(run)} {flag} --senteval DIR")
