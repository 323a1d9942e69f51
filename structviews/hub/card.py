"""The model card of a run."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from structviews.config import CONFIG, Parsed, load_run, run_kind, run_views
from structviews.embedder import Embedder
from structviews.errors import InputError
from structviews.evaluation.rendering import as_markdown
from structviews.evaluation.results import all_results
from structviews.evaluation.tables import factor, in_order, score_table, shown_scores
from structviews.hub.portable import trained_parts
from structviews.joined import JOINED

TEMPLATE = "model_card.md"


def model_card(run: Path, repo: str, embedder: Embedder, licence: str = "") -> str:
    """Markdown with a header of YAML, as the Hub reads it.

    Args:
        run: a folder that ``stage`` made, with the scores that are told; its name is that of the model.
        repo: its name on the Hub.
        embedder: the run.
        licence: an identifier of the Hub's, such as ``apache-2.0``; empty for none.

    Raises:
        InputError: if what makes cards is not installed.
    """
    try:
        from huggingface_hub import ModelCardData  # noqa: PLC0415 - an extra
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f"{error.name} is not installed: pip install 'structviews[hub]'") from None

    parts = [(part.name, *load_run(part)) for part in trained_parts(run)]
    languages = sorted({parsed.parser.get("language", "en") for *_, parsed in parts})
    header = ModelCardData(
        language=languages,
        license=licence or None,
        library_name="structviews",
        pipeline_tag="sentence-similarity",
        tags=["structviews", "sentence-embeddings", "feature-extraction", *dict.fromkeys(run_views(run))],
        model_name=run.name,
        eval_results=_evaluations(run) or None,
    )
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    template = environment.from_string(files("structviews.hub").joinpath(TEMPLATE).read_text("utf-8"))
    return template.render(
        header=header.to_yaml(),
        name=run.name,
        repo=repo,
        views=run_views(run),
        dim=embedder.dim,
        vectors=embedder.description,
        joined=run_kind(run) == JOINED,
        untrained=run_kind(run) == "random",
        parts=[_part(*part) for part in parts],
        scores=as_markdown(score_table([run])) if all_results(run) else "",
        settings=(run / CONFIG).read_text("utf-8"),
        licence=licence,
        languages=languages,
    )


def _part(name: str, config: Any, parsed: Parsed) -> dict[str, Any]:
    """What the card says of a trained run."""

    def told(described: dict[str, Any]) -> str:
        return " ".join(str(described[key]) for key in ("name", "version") if described.get(key)) or "not recorded"

    return {
        "name": name,
        "corpus": config.corpus,
        "fingerprint": parsed.fingerprint,
        "parser": told(parsed.parser),
        "tokeniser": told(parsed.tokeniser),
        "vectors": config.vectors,
    }


def _evaluations(run: Path) -> list[Any]:
    """The scores of the run's own vectors, of whole tasks, as the Hub wants them."""
    from huggingface_hub import EvalResult  # noqa: PLC0415 - an extra

    own = all_results(run)[:1]
    tasks = own[0]["tasks"] if own else {}
    return [
        EvalResult(
            task_type="sentence-similarity" if score.startswith("pearson") else "text-classification",
            dataset_type="senteval",
            dataset_name=task,
            metric_type=score,
            metric_value=round(factor(score) * tasks[task]["scores"][score], 2),
        )
        for task in in_order(tasks)
        if not tasks[task]["partial"]
        for score in shown_scores(tasks[task]["scores"])
    ]
