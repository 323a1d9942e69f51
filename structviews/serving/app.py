"""The endpoints, and the page that uses them.

``POST`` requests and all answers are JSON; ``/openapi.json`` describes them. An error is ``{"detail": one line}``.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from structviews import __version__
from structviews.errors import InputError
from structviews.evaluation.pool import Pool, TextPool
from structviews.representation import normalised
from structviews.serving.batching import Batcher, Full, Work
from structviews.serving.guard import SECONDS, Guard
from structviews.serving.served import ServedRun, Trees

CHARACTERS = 500
"""Characters that a sentence may have."""
SENTENCES = 64
"""Sentences that a request may have."""
NEIGHBOURS = 100
PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
OPENAPI = "/openapi.json"

Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=CHARACTERS)]


class Body(BaseModel):
    """What all requests have."""

    model_config = ConfigDict(extra="forbid")
    run: str | None = Field(None, description="name of a run, from /runs; the first one if left out")


class Sentences(Body):
    """Some sentences."""

    sentences: list[Sentence] = Field(min_length=1, max_length=SENTENCES)


class Pairs(Body):
    """Some pairs of sentences."""

    pairs: list[tuple[Sentence, Sentence]] = Field(min_length=1, max_length=SENTENCES // 2)


class Query(Sentences):
    """Some sentences, and how many neighbours of each are wanted."""

    k: int = Field(5, ge=1, le=NEIGHBOURS, description="how many neighbours of each sentence")


class RunInfo(BaseModel):
    """A run."""

    name: str
    views: list[str]
    dim: int = Field(description="length of a sentence's vector")
    representation: str = Field(description="which vectors these are, see docs/representations.md")


class Corpus(BaseModel):
    """What is searched for neighbours."""

    name: str
    sentences: int = Field(description="how many distinct ones")
    unit: Literal["line", "sentence"] = Field(description="what places count: lines from 1, or sentences from 0")


class Runs(BaseModel):
    """What is served."""

    runs: list[RunInfo]
    corpus: Corpus | None
    characters: int = Field(description="that a sentence may have")
    sentences: int = Field(description="that a request may have")


class Encoded(BaseModel):
    """A vector for each sentence, in their order."""

    run: str
    dim: int
    vectors: list[list[float]]


class Similarity(BaseModel):
    """Cosines of two sentences."""

    views: dict[str, float] = Field(description="of the vectors of each view")
    joined: float = Field(description="of the vectors that /encode gives")


class Similarities(BaseModel):
    """Cosines of each pair, in their order."""

    run: str
    similarities: list[Similarity]


class Neighbour(BaseModel):
    """A sentence of the corpus."""

    text: str
    place: int = Field(description="where it stands first, in the corpus' unit")
    times: int = Field(description="how often it stands there")
    cosine: float


class Neighbours(BaseModel):
    """The nearest sentences of the corpus for each that was asked for, nearest first, without itself."""

    run: str
    neighbours: list[list[Neighbour]]


class Drawing(BaseModel):
    """A tree as an SVG document."""

    kind: Literal["dependency", "constituency"]
    title: str
    svg: str


class Tree(BaseModel):
    """A sentence with its trees."""

    tokens: list[str]
    tags: list[str]
    heads: list[int] = Field(description="head of each word, from 1; 0 for the root")
    relations: list[str]
    constituents: list[tuple[int, int, str]] = Field(description="first word from 0, the one behind the last, label")
    attention: dict[str, list[float | None]] = Field(
        description="by encoder: weight of each word among the children of its head; null for the root"
    )
    drawings: list[Drawing]


class TreesOfSentences(BaseModel):
    """The trees of each sentence, in their order."""

    run: str
    trees: list[Tree]


class Problem(BaseModel):
    """What is wrong, in one line."""

    detail: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description}
    for status, description in {
        400: "nothing that can be read, or a name of the server that it does not know",
        401: "no token, or a wrong one",
        404: "no such run, or no corpus",
        408: "the request came too slowly",
        413: "the request is too large",
        422: "not what is wanted, or a sentence that cannot be encoded",
        500: "a fault of the server, which its own output describes",
        503: "too many requests wait: try again",
    }.items()
}


def create_app(
    runs: Sequence[ServedRun],
    token: str | None = None,
    hosts: Sequence[str] = ("*",),
    batcher: Batcher | None = None,
    seconds: float = SECONDS,
) -> FastAPI:
    """The application.

    Args:
        runs: what is served; the first one answers where none is named.
        token: what requests must bear; None where anyone may ask.
        hosts: names under which the server is asked; others are refused, so that no page from elsewhere reaches a
            server on loopback under a name of its own.
        batcher: does the work; closed when the application ends.
        seconds: that a client may take to send a request.
    """
    worker = batcher or Batcher()
    by_name = {run.name: run for run in runs}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(
        title="structviews",
        version=__version__,
        description="Syntax-aware, multi-view sentence embeddings: vectors, similarities, neighbours and trees.",
        docs_url=None,  # these load scripts from elsewhere
        redoc_url=None,
        openapi_url=OPENAPI,
        lifespan=lifespan,
        responses=PROBLEMS,
        # The guard checks it; this is what the description says of it.
        dependencies=[Depends(HTTPBearer(auto_error=False))] if token else [],
    )
    app.add_middleware(Guard, token=token, hosts=hosts, open_paths={*PAGE, OPENAPI}, seconds=seconds)
    app.add_exception_handler(RequestValidationError, say_what_is_wrong)
    app.add_exception_handler(Exception, say_that_it_failed)

    def named(name: str | None) -> ServedRun:
        if name is None:
            return runs[0]
        if name not in by_name:
            raise HTTPException(404, f"no run {name[:60]!r}: one of {', '.join(by_name)}")
        return by_name[name]

    async def done(work: Work, items: Sequence[Any]) -> list[Any]:
        try:
            return await asyncio.wrap_future(worker.submit(work, items))
        except Full:
            raise HTTPException(503, "too many requests wait: try again in a second", {"Retry-After": "1"}) from None
        except InputError as error:
            raise HTTPException(422, " ".join(str(error).split())) from None

    @app.get("/runs", summary="What is served")
    async def list_runs() -> Runs:
        pool = runs[0].pool
        corpus = searched(pool) if pool else None
        return Runs(runs=list(map(info, runs)), corpus=corpus, characters=CHARACTERS, sentences=SENTENCES)

    @app.post("/encode", summary="Vectors of sentences", response_model=Encoded)
    async def encode(asked: Sentences) -> Response:
        run = named(asked.run)
        vectors = [each.joined.tolist() for each in await done(run.encode, asked.sentences)]
        answer = Encoded.model_construct(run=run.name, dim=run.embedder.dim, vectors=vectors)
        return Response(answer.model_dump_json(), media_type="application/json")  # long: not checked once more

    @app.post("/similarity", summary="Cosines of pairs of sentences, under each view and as a whole")
    async def similarity(asked: Pairs) -> Similarities:
        run = named(asked.run)
        found = await done(run.encode, [sentence for pair in asked.pairs for sentence in pair])
        names = run.embedder.view_names
        similarities = [
            Similarity(
                views={name: cosine(*ends) for name, *ends in zip(names, a.views, b.views, strict=True)},
                joined=cosine(a.joined, b.joined),
            )
            for a, b in zip(found[::2], found[1::2], strict=True)
        ]
        return Similarities(run=run.name, similarities=similarities)

    @app.post("/neighbours", summary="The nearest sentences of the corpus")
    async def neighbours(asked: Query) -> Neighbours:
        run = named(asked.run)
        if run.pool is None:
            raise HTTPException(404, "no corpus to search: start structviews serve with --corpus")
        found = await done(run.neighbours, [(sentence, asked.k) for sentence in asked.sentences])
        return Neighbours(run=run.name, neighbours=[[Neighbour(**n._asdict()) for n in each] for each in found])

    @app.post("/trees", summary="Trees of sentences, with the attention of encoders that attend")
    async def trees(asked: Sentences) -> TreesOfSentences:
        run = named(asked.run)
        return TreesOfSentences(run=run.name, trees=list(map(tree, await done(run.trees, asked.sentences))))

    for path, (name, kind) in PAGE.items():
        content = files(__package__).joinpath("page", name).read_bytes()
        app.get(path, include_in_schema=False)(page(content, kind))
    return app


def page(content: bytes, kind: str) -> Any:
    """An endpoint that gives a file of the page."""

    async def give() -> Response:
        return Response(content, media_type=kind)

    return give


def info(run: ServedRun) -> RunInfo:
    """What ``/runs`` says of a run."""
    embedder = run.embedder
    return RunInfo(name=run.name, views=embedder.view_names, dim=embedder.dim, representation=embedder.description)


def searched(pool: Pool) -> Corpus:
    """What ``/runs`` says of the corpus."""
    unit: Literal["line", "sentence"] = "line" if isinstance(pool, TextPool) else "sentence"
    return Corpus(name=pool.path.name, sentences=len(pool), unit=unit)


def tree(found: Trees) -> Tree:
    """What ``/trees`` says of a sentence."""
    sentence = found.sentence
    return Tree(
        tokens=list(sentence.tokens),
        tags=list(sentence.tags),
        heads=list(sentence.heads),
        relations=list(sentence.relations),
        constituents=sentence.spans(),
        attention={
            name: [None if np.isnan(weight) else weight for weight in weights.tolist()]
            for name, weights in found.attention.items()
        },
        drawings=[Drawing(**drawing._asdict()) for drawing in found.drawings],
    )


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Of two vectors ``(d,)``; 0 with a zero vector."""
    a, b = normalised(np.stack([a, b]).astype(np.float64))
    return float(a @ b)


async def say_what_is_wrong(_: Request, error: Any) -> JSONResponse:
    """The first thing that is wrong with a request, in one line; ``error`` is a RequestValidationError."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "json_invalid":
        what = f"not JSON at character {where}"
    else:
        what = f"{where}: {first['msg']}" if where else "send a JSON object, with Content-Type: application/json"
    return JSONResponse({"detail": " ".join(what.split())}, 422)


async def say_that_it_failed(_: Request, error: Exception) -> JSONResponse:
    """What a client is told of an error that nobody foresaw; the server's own output has the traceback."""
    return JSONResponse({"detail": f"the server failed ({type(error).__name__}): its own output says where"}, 500)
