"""``structviews tasks``."""

from pathlib import Path
from typing import Annotated

from typer import Option, Typer

from structviews.cli import options
from structviews.cli.console import console, errors, explain, inform, say, stages, suggest, typeable
from structviews.errors import unknown
from structviews.runtime.terminal import Bar
from structviews.runtime.wording import counted

app = Typer()
tasks_app = Typer(help="Other tasks: retrieval, captions, analogies, probing.", no_args_is_help=True)
app.add_typer(tasks_app, name="tasks")


@tasks_app.command("retrieval")
def retrieve_neighbours(
    runs: options.OwnRuns,
    corpus: Annotated[Path | None, Option(help="Parsed corpus.", show_default="the runs'")] = None,
    candidates: Annotated[
        int | None,
        Option(min=2, help="Number of candidate sentences.", show_default="1000, or fewer for a small corpus"),
    ] = None,
    max_sentences: Annotated[int, Option(help="Most sentences to sample, in whole documents.")] = 20_000,
    similarity: options.ForSimilarity = False,
    precision: options.Precision = "auto",
) -> None:
    """Find each sentence's successor among candidates.

    The sentences are of documents that no run was trained on. All runs get the same queries and candidates. Writes
    scores to RUN/retrieval.json.

    Example: structviews tasks retrieval runs/dep-const runs/seq-seq
    """
    from structviews.evaluation.retrieval import next_sentence
    from structviews.evaluation.scores.results import save_entry

    opened = options.opened(corpus or next_sentence.corpus_of(runs))
    passages = next_sentence.read_passages(runs, opened, max_sentences)
    trials = passages.trials(candidates or next_sentence.CANDIDATES)
    drawn = trials.candidates.shape[1]
    if drawn < (candidates or next_sentence.CANDIDATES[0]):
        only = f"only {len(passages.sentences):,} sentences ({passages.chosen})"
        inform(f"{only}: {drawn} candidates each, so chance is {100 / drawn:g} % at 1")
    rows = []
    for run in runs:
        with Bar(errors, run.name, "sentences") as progress:
            embedder = options.loaded(run, progress, precision, similarity)
            scores = next_sentence.measure(embedder, passages, trials, progress)
        rows.append((run.name, scores))
        save_entry(run, next_sentence.entry(embedder.description, opened, passages, trials, scores))
    console.print(next_sentence.context_table(rows, trials, passages))


@tasks_app.command("captions")
def retrieve_captions(
    runs: options.OwnRuns,
    images: Annotated[
        Path, Option(help="Folder with train, dev and test, each as .npz and .jsonl (see docs/retrieval.md).")
    ],
    parsed: Annotated[
        Path | None, Option(help="Parsed corpus with the captions.", show_default="parse them first")
    ] = None,
    protocol: Annotated[
        str, Option(help="How the joint space is trained: senteval, or kiros (skip-thoughts, quick-thoughts).")
    ] = "senteval",
    precision: options.Precision = "auto",
) -> None:
    """Retrieve captions from images and images from captions.

    Maps features of images, and captions, to a joint space (COCO's task). Adds scores to those of eval in
    RUN/results.json, or by --protocol kiros in RUN/results.kiros.json.

    Example: structviews tasks captions runs/dep-const --images coco
    """
    from structviews.evaluation.retrieval import captions
    from structviews.evaluation.scores.results import CAPTION_TASK, save_results
    from structviews.evaluation.senteval.protocols import PROTOCOLS
    from structviews.evaluation.senteval.suite import Scored, results_of, scored_vectors
    from structviews.evaluation.senteval.task_trees import TaskTrees

    if protocol not in captions.CAPTION_PROTOCOLS:
        raise unknown("protocol", protocol, captions.CAPTION_PROTOCOLS)
    trained_by, scored_by = captions.CAPTION_PROTOCOLS[protocol], PROTOCOLS[protocol]
    data = captions.read_captions(images, trained_by.batch)
    trees = TaskTrees(parsed) if parsed else None
    scored = []
    for run in runs:
        choice = Scored(flags=f" --precision {precision}", precision=precision)
        embedder, vectors, file = scored_vectors(run, choice, scored_by)
        with stages(f"{run.name}: ") as tell:
            entry = captions.evaluate_captions(embedder, data, trained_by, trees, tell)
        results = results_of(scored_by, tasks={CAPTION_TASK: entry}) | {"dim": entry["dim"]}
        save_results(run, results | vectors, file)
        scored.append((run.name, entry))
    console.print(captions.caption_table(scored))


@tasks_app.command("analogies")
def score_analogies(
    run: options.OwnRun,
    tuples: Annotated[Path, Option(help="Analogies, one per line: four tab-separated sentences.")],
    pool: Annotated[Path, Option(help="Other candidates: one sentence per line, or a parsed corpus.")],
    tokenised: options.Tokenised = False,
    similarity: options.ForSimilarity = False,
    precision: options.Precision = "auto",
) -> None:
    """Score sentence analogies: A is to B as C is to D.

    Finds the sentence nearest to v(C) + v(B) - v(A), with each of the four as the target in turn. Writes scores to
    RUN/retrieval.json. A parsed corpus as the pool goes with --tokenised.

    Example: structviews tasks analogies runs/dep-const --tuples analogies.tsv --pool corpus.parsed --tokenised
    """
    from structviews.evaluation.retrieval import analogy
    from structviews.evaluation.retrieval.candidates import Pool
    from structviews.evaluation.scores.results import save_entry

    opened = Pool(pool, tokenised)
    read = analogy.read_tuples(tuples, opened)
    with Bar(errors, f"encoding {pool}", "sentences") as progress:
        embedder = options.loaded(run, progress, precision, similarity)
        scores = analogy.answer(read, opened, run, embedder, progress)
    save_entry(run, analogy.entry(embedder.description, tuples, read, opened, scores))
    console.print(analogy.analogy_table(scores))


@tasks_app.command("make-probing")
def make_probing_tasks(
    corpus: options.Corpus,
    out: options.NewFolder,
    size: Annotated[
        int, Option(help="At most this many training examples per task; a tenth as many for dev and test.")
    ] = 100_000,
    sentences: Annotated[int, Option(help="Read at most this many sentences, from random shards.")] = 1_000_000,
    seed: options.Seed = 1,
) -> None:
    """Make probing tasks from a corpus's sentences and trees.

    These are SentEval's ten, and four about trees. Training, dev and test parts share no document. Tasks with too few
    examples are left out and reported.

    Example: structviews tasks make-probing corpus.parsed -o probing
    """
    from structviews.evaluation.probing.probing_tasks import make_tasks
    from structviews.runtime.terminal import number_table

    with stages() as tell:
        made = make_tasks(options.opened(corpus), out, size=size, sentences=sentences, seed=seed, progress=tell)
    table = number_table(["task"], ["train", "dev", "test", "classes"])
    for name, task in made["tasks"].items():
        table.add_row(name, *(f"{n:,}" for n in (*task["examples"].values(), len(task["labels"]))))
    console.print(table, f"in {out}", sep="\n")
    explain(*(f"{name} is left out: {reason}" for name, reason in made["left_out"].items()))
    suggest("Next, score runs on them:", f"structviews eval RUN --probing {typeable(out)}")


@tasks_app.command("sentences")
def write_sentences_of_tasks(
    out: Annotated[Path, options.out_option("Text file to write.")],
    senteval: options.Senteval = None,
    probing: options.Probing = None,
    tasks: options.Tasks = "",
) -> None:
    """Write the sentences of evaluation tasks, one per line.

    Encode them with another tool, and score its vectors with eval --vectors.

    Example: structviews tasks sentences --senteval senteval -o x.txt
    """
    from structviews.encoding.sentence_vectors import write_sentences

    options.check_writable(out)
    sentences = options.sentences_of_tasks(senteval, probing, tasks)
    write_sentences(out, sentences)
    say(f"{out}: {counted(len(sentences), 'sentence')}")
