"""The model card of a run."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from structviews.encoding.embedder import Embedder
from structviews.encoding.kinds.baseline import BASELINE
from structviews.encoding.kinds.joined import JOINED
from structviews.errors import InputError
from structviews.evaluation.scores.rendering import as_markdown
from structviews.evaluation.scores.results import all_results, shown_scores
from structviews.evaluation.scores.tables import factor, in_order, score_table
from structviews.hub.portable import read_sources, summed, trained_parts
from structviews.runs.folder import CONFIG, SOURCES
from structviews.runs.settings_file import load_run, read_settings, run_kind, run_views
from structviews.runs.weights import load_vocabularies
from structviews.runtime.machine import require
from structviews.runtime.wording import as_block, as_code, as_text
from structviews.words import CONTEXTUAL


def model_card(
    run: Path,
    repo: str,
    embedder: Embedder,
    licence: str = "",
    *,
    bundled: bool = False,
    baselines: Sequence[Path] = (),
    published: str = "",
    about: str = "",
) -> str:
    """Render a model card: Markdown with a YAML header, in the Hub's format.

    Raises InputError if the ``hub`` extra is not installed, a baseline lacks a score, or the run's sources cannot be
    read.

    Args:
        run, embedder: a folder that ``stage`` made, with the scores to report, and the loaded run.
        repo: the model's name on the Hub, or in the package, with which it comes if it is ``bundled``.
        licence: licence identifier of the Hub, such as ``apache-2.0``; empty for none.
        baselines: runs to compare scores with, which are then shown with their intervals.
        published: name of a model of the papers whose scores are shown beside, as in ``structviews table --published``.
        about: Markdown, sections of their own.
    """
    for package in ("huggingface_hub", "jinja2"):
        require(package, "a model card", "hub")
    from huggingface_hub import ModelCardData  # noqa: PLC0415 - an extra
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415

    name, parts = repo.rpartition("/")[2], list(map(_part, trained_parts(run)))
    compared = []
    for baseline in baselines:
        settings = read_settings(baseline)
        vectors = Path(str(settings.get("vectors") or settings.get("words", {}).get("vectors", ""))).name
        kind = str(settings.get(BASELINE, run_kind(baseline)))
        compared.append({"name": baseline.resolve().name, "kind": kind, "vectors": vectors})
    languages = sorted({part["language"] for part in parts})
    header = ModelCardData(
        language=languages,
        license=licence or None,
        library_name="structviews",
        pipeline_tag="sentence-similarity",
        tags=["structviews", "sentence-embeddings", "feature-extraction", *dict.fromkeys(run_views(run))],
        model_name=name,
        eval_results=_evaluations(run) or None,
    )
    jinja = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    jinja.filters |= {"text": as_text, "code": as_code, "block": as_block}
    template = jinja.from_string(files("structviews.hub").joinpath("model_card.md").read_text("utf-8"))
    return template.render(
        header=header.to_yaml(),
        name=name,
        repo=repo,
        bundled=bundled,
        views=run_views(run),
        dim=embedder.dim,
        vectors=embedder.description,
        joined=run_kind(run) == JOINED,
        untrained=run_kind(run) == "random",
        parts=parts,
        scores=_scores(run, baselines, published),
        baselines=compared,
        about=about.strip(),
        settings=(run / CONFIG).read_text("utf-8"),
        licence=licence,
        languages=languages,
    )


def _part(run: Path) -> dict[str, Any]:
    config, parsed = load_run(run)
    names = [
        " ".join(str(about[key]) for key in ("name", "version") if about.get(key)) or "not recorded"
        for about in (parsed.parser, parsed.tokeniser)
    ]
    vocabularies = load_vocabularies(run, config, parsed).items()
    words = {channel: f"{len(words) - 1:,}" for channel, words in vocabularies if channel != CONTEXTUAL}
    return {
        "name": run.name,
        "corpus": config.data.corpus,
        "fingerprint": parsed.fingerprint,
        "parser": names[0],
        "tokeniser": names[1],
        "words": ", ".join(f"{count} ({channel})" for channel, count in words.items()),
        "vectors": config.words.vectors,
        "encoder": config.words.encoder,
        "contextual": CONTEXTUAL in config.words.channels,
        "teacher": parsed.teacher,
        "composes": bool(parsed.vectors.get("sub_words")),
        "packed": bool(parsed.vectors.get("packed")),
        "language": parsed.parser.get("language", "en"),
        "sources": summed(read_sources(run / SOURCES)) if (run / SOURCES).exists() else [],
    }


def _scores(run: Path, baselines: Sequence[Path], published: str) -> str:
    """The scores of the run and the baselines in Markdown; empty if the run has none.

    Notes on missing scores are left out, as they name local folders.
    """
    tasks = {task for results in all_results(run) for task in results["tasks"]}
    if not tasks:
        return ""
    for baseline in baselines:
        own = all_results(baseline)[:1]
        if lacking := in_order(tasks - set(own[0]["tasks"] if own else ())):
            raise InputError(
                f"{baseline}: has no score for {', '.join(lacking)} to compare with: run structviews eval {baseline}"
            )
    table = score_table([run, *baselines], tasks=tasks, intervals=bool(baselines), published=published)
    return as_markdown(replace(table, notes=[]))


def _evaluations(run: Path) -> list[Any]:
    """The run's scores on complete tasks, with its own representation, in the Hub's format."""
    from huggingface_hub import EvalResult  # noqa: PLC0415 - an extra

    own = all_results(run)[:1]
    tasks = own[0]["tasks"] if own else {}
    return [
        EvalResult(
            task_type="sentence-similarity" if score.startswith("pearson") else "text-classification",
            dataset_type="senteval",
            dataset_name=task,
            dataset_config=task,  # the Hub merges results of one data set and configuration
            metric_type=score,
            metric_value=round(factor(score) * tasks[task]["scores"][score], 2),
        )
        for task in in_order(tasks)
        if not tasks[task]["partial"]
        for score in shown_scores(tasks[task]["scores"])
    ]
