"""The JSON endpoints and the page that uses them.

Request bodies and responses are JSON, described in ``/openapi.json``. An error is ``{"detail": one line}``.
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
from structviews.encoding.representation import normalised
from structviews.errors import InputError
from structviews.evaluation.retrieval.candidates import Pool, TextPool
from structviews.serving.api_page import api_page
from structviews.serving.limits import SECONDS, Guard
from structviews.serving.request_batches import Batcher, Full, Work
from structviews.serving.served import ServedRun, Trees, Vectors

CHARACTERS = 500
"""Maximum characters per sentence."""
SENTENCES = 64
"""Maximum sentences per request."""
NEIGHBOURS = 100
PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
OPENAPI = "/openapi.json"
DOCS = "/docs"

Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=CHARACTERS)]


class Body(BaseModel):
    """Fields common to all requests."""

    model_config = ConfigDict(extra="forbid")
    run: str | None = Field(None, description="name of a run, from /runs; defaults to the first one")


class Sentences(Body):
    """A list of sentences."""

    sentences: list[Sentence] = Field(
        min_length=1,
        max_length=SENTENCES,
        description=f"1 to {SENTENCES} sentences of at most {CHARACTERS} characters",
        examples=[["A black bird is sitting on a dead tree.", "A bird is perched on a bare branch."]],
    )


class Pairs(Body):
    """A list of sentence pairs."""

    pairs: list[tuple[Sentence, Sentence]] = Field(
        min_length=1,
        max_length=SENTENCES // 2,
        description=f"1 to {SENTENCES // 2} pairs of sentences of at most {CHARACTERS} characters",
        examples=[[["A black bird is sitting on a dead tree.", "A bird is perched on a bare branch."]]],
    )


class Query(Sentences):
    """Sentences, and the number of neighbours to return for each."""

    k: int = Field(5, ge=1, le=NEIGHBOURS, description="number of neighbours per sentence")


class RunInfo(BaseModel):
    """A run and its vectors."""

    name: str
    views: list[str]
    dim: int = Field(description="dimension of a sentence's vector")
    representation: str = Field(description="which vectors these are; see docs/representations.md")


class Corpus(BaseModel):
    """The corpus that is searched for neighbours."""

    name: str
    sentences: int = Field(description="number of distinct sentences")
    unit: Literal["line", "sentence"] = Field(description="unit of place: lines from 1, or sentences from 0")


class Runs(BaseModel):
    """The runs, the corpus and the limits of this server."""

    runs: list[RunInfo]
    corpus: Corpus | None
    characters: int = Field(description="maximum characters per sentence")
    sentences: int = Field(description="maximum sentences per request")


class Answer(BaseModel):
    """Fields common to all answers."""

    run: str
    warning: str | None = Field(description="that the text is not in the run's language, and what to do; else null")


class EncodedSentences(Answer):
    """One vector per sentence, in the order of the request."""

    dim: int
    vectors: list[list[float]]


class CloserThan(BaseModel):
    """Shares, from 0 to 1, of random pairs of the corpus that have a lower cosine."""

    views: dict[str, float] = Field(description="share under each view")
    joined: float = Field(description="share by the vectors that /encode returns")


class Similarity(BaseModel):
    """Cosine similarities of two sentences."""

    views: dict[str, float] = Field(description="cosine under each view")
    joined: float = Field(description="cosine of the vectors that /encode returns")
    closer_than: CloserThan | None = Field(
        description="share of random pairs of the corpus that are less similar; null without a corpus"
    )


class Similarities(Answer):
    """Cosine similarities of each pair, in the order of the request."""

    similarities: list[Similarity]


class Neighbour(BaseModel):
    """A sentence of the corpus."""

    text: str
    place: int = Field(description="first occurrence, in the corpus's unit")
    times: int = Field(description="number of occurrences")
    cosine: float


class Neighbours(Answer):
    """The nearest corpus sentences for each query, nearest first, excluding the query itself."""

    neighbours: list[list[Neighbour]]


class Drawing(BaseModel):
    """A tree drawn as an SVG document."""

    kind: Literal["dependency", "constituency"]
    title: str
    svg: str


class Tree(BaseModel):
    """A sentence and its trees."""

    tokens: list[str]
    tags: list[str]
    heads: list[int] = Field(description="head of each word, from 1; 0 for the root")
    relations: list[str]
    constituents: list[tuple[int, int, str]] = Field(description="first word (from 0), end (exclusive), label")
    attention: dict[str, list[float | None]] = Field(
        description="by encoder: attention weight of each word among its siblings; null for the root"
    )
    drawings: list[Drawing]


class TreesOfSentences(Answer):
    """The trees of each sentence, in the order of the request."""

    trees: list[Tree]


class Problem(BaseModel):
    """An error, in one line."""

    detail: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description}
    for status, description in {
        400: "a malformed request, or an unknown host name",
        401: "a missing or wrong token",
        404: "an unknown run, or no corpus to search",
        408: "the request arrived too slowly",
        413: "the request is too large",
        422: "an invalid request, or a sentence that cannot be encoded",
        500: "an internal error; see the server's output",
        503: "too many pending requests: try again",
    }.items()
}


def create_app(
    runs: Sequence[ServedRun],
    token: str | None = None,
    hosts: Sequence[str] = ("*",),
    batcher: Batcher | None = None,
    seconds: float = SECONDS,
) -> FastAPI:
    """Build the FastAPI application.

    Args:
        runs: the runs to serve; the first one is the default.
        token: bearer token that requests must carry; None for open access.
        hosts: accepted ``Host`` names; ``*`` for any. Refusing others protects a loopback server from DNS rebinding.
        batcher: runs the encoding jobs; closed when the application shuts down.
        seconds: time limit for receiving a request.
    """
    worker = batcher or Batcher()
    by_name = {run.name: run for run in runs}

    app = empty_app(token, hosts, seconds, worker)

    def named(name: str | None) -> ServedRun:
        if name is None:
            return runs[0]
        if name not in by_name:
            raise HTTPException(404, f"no run {name[:60]!r}: choose one of {', '.join(by_name)}")
        return by_name[name]

    async def done(work: Work, items: Sequence[Any]) -> list[Any]:
        try:
            return await asyncio.wrap_future(worker.submit(work, items))
        except Full:
            raise HTTPException(503, "too many pending requests: try again in a second", {"Retry-After": "1"}) from None
        except InputError as error:
            raise HTTPException(422, " ".join(str(error).split())) from None

    @app.get("/runs", summary="Runs, corpus and limits")
    async def list_runs() -> Runs:
        pool = runs[0].pool
        corpus = searched(pool) if pool else None
        return Runs(runs=list(map(info, runs)), corpus=corpus, characters=CHARACTERS, sentences=SENTENCES)

    @app.post("/encode", summary="Vectors of sentences", response_model=EncodedSentences)
    async def encode(asked: Sentences) -> Response:
        run = named(asked.run)
        vectors = [each.joined.tolist() for each in await done(run.encode, asked.sentences)]
        warning = run.warning(asked.sentences)
        answer = EncodedSentences.model_construct(run=run.name, warning=warning, dim=run.embedder.dim, vectors=vectors)
        return Response(answer.model_dump_json(), media_type="application/json")  # skips re-validating long vectors

    @app.post("/similarity", summary="Cosine similarities of sentence pairs, per view and overall")
    async def similarity(asked: Pairs) -> Similarities:
        run = named(asked.run)
        sentences = [sentence for pair in asked.pairs for sentence in pair]
        found = await done(run.encode, sentences)
        similarities = [compared(run, a, b) for a, b in zip(found[::2], found[1::2], strict=True)]
        return Similarities(run=run.name, warning=run.warning(sentences), similarities=similarities)

    @app.post("/neighbours", summary="Nearest neighbours in the corpus")
    async def neighbours(asked: Query) -> Neighbours:
        run = named(asked.run)
        if run.pool is None:
            raise HTTPException(404, "no corpus to search: start structviews serve with --corpus")
        found = await done(run.neighbours, [(sentence, asked.k) for sentence in asked.sentences])
        nearest = [[Neighbour(**n._asdict()) for n in each] for each in found]
        return Neighbours(run=run.name, warning=run.warning(asked.sentences), neighbours=nearest)

    @app.post("/trees", summary="Parse trees of sentences, with attention weights where the run has them")
    async def trees(asked: Sentences) -> TreesOfSentences:
        run = named(asked.run)
        drawn = list(map(tree, await done(run.trees, asked.sentences)))
        return TreesOfSentences(run=run.name, warning=run.warning(asked.sentences), trees=drawn)

    add_pages(app, with_token=token is not None)
    return app


def empty_app(token: str | None, hosts: Sequence[str], seconds: float, worker: Batcher) -> FastAPI:
    """The application without endpoints: what it says of itself, its guard and its errors."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(
        title="structviews",
        version=__version__,
        description="Syntax-aware, multi-view sentence embeddings: vectors, similarities, neighbours and trees.",
        docs_url=None,  # the built-in docs pages load third-party scripts; see api_page
        redoc_url=None,
        openapi_url=OPENAPI,
        lifespan=lifespan,
        responses=PROBLEMS,
        # The guard checks the token; this only documents it in the OpenAPI schema.
        dependencies=[Depends(HTTPBearer(auto_error=False))] if token else [],
    )
    app.add_middleware(Guard, token=token, hosts=hosts, open_paths={*PAGE, OPENAPI, DOCS}, seconds=seconds)
    app.add_exception_handler(RequestValidationError, say_what_is_wrong)
    app.add_exception_handler(Exception, say_that_it_failed)
    return app


def add_pages(app: FastAPI, *, with_token: bool) -> None:
    """Add what a browser opens: the page to play with, and the description of the endpoints."""

    @app.get(DOCS, include_in_schema=False)
    async def docs(request: Request) -> Response:
        address = str(request.base_url).rstrip("/")
        return Response(api_page(app.openapi(), address, with_token=with_token), media_type="text/html")

    for path, (name, kind) in PAGE.items():
        content = files(__package__).joinpath("page", name).read_bytes()
        app.get(path, include_in_schema=False)(page(content, kind))


def page(content: bytes, kind: str) -> Any:
    """An endpoint that returns a file of the page."""

    async def give() -> Response:
        return Response(content, media_type=kind)

    return give


def info(run: ServedRun) -> RunInfo:
    """The entry of a run in ``/runs``."""
    embedder = run.embedder
    return RunInfo(name=run.name, views=embedder.view_names, dim=embedder.dim, representation=embedder.description)


def searched(pool: Pool) -> Corpus:
    """The entry of the corpus in ``/runs``."""
    unit: Literal["line", "sentence"] = "line" if isinstance(pool, TextPool) else "sentence"
    return Corpus(name=pool.path.name, sentences=len(pool), unit=unit)


def compared(run: ServedRun, a: Vectors, b: Vectors) -> Similarity:
    """The entry of a pair in ``/similarity``."""
    names = run.embedder.view_names
    views = [cosine(*ends) for ends in zip(a.views, b.views, strict=True)]
    joined = cosine(a.joined, b.joined)
    closer = None
    if run.random_pairs:
        shares = run.random_pairs.closer_than(views, joined)
        closer = CloserThan(views=dict(zip(names, shares.views, strict=True)), joined=shares.joined)
    return Similarity(views=dict(zip(names, views, strict=True)), joined=joined, closer_than=closer)


def tree(found: Trees) -> Tree:
    """The entry of a sentence in ``/trees``."""
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
    """Cosine of two vectors ``(d,)``; 0 if either is zero."""
    a, b = normalised(np.stack([a, b]).astype(np.float64))
    return float(a @ b)


async def say_what_is_wrong(_: Request, error: Any) -> JSONResponse:
    """Report the first validation error of a request, in one line; ``error`` is a RequestValidationError."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "json_invalid":
        what = f"not JSON at character {where}"
    else:
        what = f"{where}: {first['msg']}" if where else "send a JSON object, with Content-Type: application/json"
    return JSONResponse({"detail": " ".join(what.split())}, 422)


async def say_that_it_failed(_: Request, error: Exception) -> JSONResponse:
    """Report an unexpected error to the client; the traceback is in the server's output."""
    return JSONResponse({"detail": f"the server failed ({type(error).__name__}): see the server's output"}, 500)
