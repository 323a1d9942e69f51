"""In what a reproduction differs from the row of the paper, a line each."""

from collections.abc import Iterator

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.evaluation.scores.results import Results
from structviews.recipes.reproduction import Reproduction
from structviews.runtime.wording import counted
from structviews.words import FIXED
from structviews.words.vector_files import WordVectors


def differences(job: Reproduction, results: Results) -> list[str]:
    """All that is known to differ; what the paper leaves open is no difference, see ``Source.open``."""
    found = [*_of_corpus(job), *_of_words(job), *_of_settings(job), *_of_tasks(job, results)]
    own = [job.recipe, *(run for run, _ in job.recipe.runs.values())]
    return list(dict.fromkeys([*found, *(line for recipe in own for line in recipe.source.differs)]))


def _of_corpus(job: Reproduction) -> Iterator[str]:
    corpus, paper = ParsedCorpus.open(job.parsed), job.recipe.corpus
    theirs = f"{paper.name} ({counted(paper.sentences, 'sentence')})" if paper.sentences else paper.name
    yield f"corpus: {job.corpus.name} ({counted(len(corpus), 'sentence')}), not {theirs}"
    if job.sentences:
        yield f"sentences: at most {job.sentences:,}, whole documents from the beginning (--sentences)"
    if job.reads_trees:
        yield f"trees: by the parser {corpus.parser['name']}"


def _of_words(job: Reproduction) -> Iterator[str]:
    if not job.recipe.reads_vectors:
        return
    runs = [run for run, _ in job.recipe.runs.values() if run.vectors]
    names = " and ".join(dict.fromkeys(run.vectors.name for run in runs if run.vectors))
    if job.vectors:
        file = WordVectors.open(job.vectors)
        yield f"word vectors: {job.vectors.name} ({counted(len(file), 'word')}, {file.dim} numbers), for {names}"
    elif job.word_file:
        yield f"word vectors: learnt from the corpus, {job.word_dim} numbers, not {names} (--vectors)"
    if not job.vectors and any(run.vectors and run.vectors.expand for run in runs):
        yield f"vocabulary: not expanded to the words of {names} (--vectors)"


def _of_settings(job: Reproduction) -> Iterator[str]:
    for name, value in job.scale.items():
        for folder, config in job.configs.items():
            theirs = job.recipe.runs[folder.name][0].config(
                corpus="", **({"vectors": "x"} if FIXED in config.words.channels else {})
            )
            if (own := theirs.flat()[name]) != value:
                yield f"{name} = {value}, not {own} (--{name})"


def _of_tasks(job: Reproduction, results: Results) -> Iterator[str]:
    wanted = job.recipe.evaluation.tasks
    found, unavailable = job.tasks
    if left_out := [task for task in wanted if job.chosen_tasks and task not in {each.name for each in found}]:
        yield f"tasks: without {', '.join(left_out)} (--tasks)"
    for task in found:
        for file, counts in task.partial.items():
            yield f"{task.name}: incomplete: {file} has {counts}"
    for name, reason in {**unavailable, **results["unavailable"]}.items():
        yield f"{name}: not scored: {reason}"
