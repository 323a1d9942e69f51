"""The JSON endpoints and the page that uses them.

Request bodies and responses are JSON, described in ``/openapi.json``. An error is ``{"detail": one line}``.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from structviews import __version__
from structviews.errors import InputError
from structviews.serving.request_batches import Batcher, Full, Work
from structviews.serving.served import ComparedPair, Neighbour, ServedRun, Tree

# The most characters of a sentence, sentences of a request, neighbours of a sentence, and bytes of a request's body.
CHARACTERS, SENTENCES, NEIGHBOURS, BODY = 500, 64, 100, 2**19
# Bytes of a larger body that are read before it is refused: a client that still sends would not see the answer.
READ_ON = 2**24
PAGE = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
# The page loads nothing from other origins, and no other page may embed it.
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

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


class Similarities(Answer):
    """Cosine similarities of each pair, in the order of the request."""

    similarities: list[ComparedPair]


class Neighbours(Answer):
    """The nearest corpus sentences for each query, nearest first, excluding the query itself."""

    neighbours: list[list[Neighbour]]


class TreesOfSentences(Answer):
    """The trees of each sentence, in the order of the request."""

    trees: list[Tree]


class Problem(BaseModel):
    """An error, in one line."""

    detail: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description}
    for status, description in {
        400: "a malformed request",
        401: "a missing or wrong token",
        404: "an unknown run, or no corpus to search",
        413: "the request is too large",
        422: "an invalid request, or a sentence that cannot be encoded",
        500: "an internal error; see the server's output",
        503: "too many pending requests: try again",
    }.items()
}


def create_app(
    runs: Sequence[ServedRun], token: str | None = None, hosts: Sequence[str] = ("*",), batcher: Batcher | None = None
) -> FastAPI:
    """The FastAPI application of some runs, the first of which is the default.

    Requests must carry ``token``, if there is one, and name one of ``hosts``, ``*`` being any, which protects a
    loopback server from DNS rebinding. The batcher is closed when the application shuts down.
    """
    worker = batcher or Batcher()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(
        title="structviews",
        version=__version__,
        description="Syntax-aware, multi-view sentence embeddings: vectors, similarities, neighbours and trees.",
        redoc_url=None,
        lifespan=lifespan,
        responses=PROBLEMS,
    )
    app.add_middleware(body_limit)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_exception_handler(RequestValidationError, say_what_is_wrong)
    app.add_exception_handler(Exception, say_that_it_failed)
    app.include_router(api(runs, worker), dependencies=[Depends(token_check(token))] if token else [])
    for name, kind in PAGE.items():
        content = files(__package__).joinpath("page", name).read_bytes()
        response = Response(content, media_type=kind, headers=PAGE_HEADERS)  # which is an application, too
        path = f"/{name.removeprefix('index.html')}"
        app.router.routes.append(Route(path, response, methods=["GET"], include_in_schema=False))
    return app


def api(runs: Sequence[ServedRun], worker: Batcher) -> APIRouter:
    """The JSON endpoints; see ``create_app``."""
    router = APIRouter()
    by_name = {run.name: run for run in runs}

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

    @router.get("/runs", summary="Runs, corpus and limits")
    async def list_runs() -> Runs:
        infos = [
            RunInfo(name=run.name, views=each.view_names, dim=each.dim, representation=each.description)
            for run in runs
            for each in [run.embedder]
        ]
        corpus = None
        if pool := runs[0].pool:
            unit: Literal["line", "sentence"] = "line" if pool.corpus is None else "sentence"
            corpus = Corpus(name=pool.path.name, sentences=len(pool), unit=unit)
        return Runs(runs=infos, corpus=corpus, characters=CHARACTERS, sentences=SENTENCES)

    @router.post("/encode", summary="Vectors of sentences", response_model=EncodedSentences)
    async def encode(request: Sentences) -> Response:
        run = named(request.run)
        vectors = [each.joined.tolist() for each in await done(run.encode, request.sentences)]
        warning = run.warning(request.sentences)
        answer = EncodedSentences.model_construct(run=run.name, warning=warning, dim=run.embedder.dim, vectors=vectors)
        return Response(answer.model_dump_json(), media_type="application/json")  # skips re-validating long vectors

    @router.post("/similarity", summary="Cosine similarities of sentence pairs, per view and overall")
    async def similarity(request: Pairs) -> Similarities:
        run = named(request.run)
        sentences = [sentence for pair in request.pairs for sentence in pair]
        found = await done(run.encode, sentences)
        similarities = [run.compare(a, b) for a, b in zip(found[::2], found[1::2], strict=True)]
        return Similarities(run=run.name, warning=run.warning(sentences), similarities=similarities)

    @router.post("/neighbours", summary="Nearest neighbours in the corpus")
    async def neighbours(request: Query) -> Neighbours:
        run = named(request.run)
        if run.pool is None:
            raise HTTPException(404, "no corpus to search: start structviews serve with --corpus")
        nearest = await done(run.neighbours, [(sentence, request.k) for sentence in request.sentences])
        return Neighbours(run=run.name, warning=run.warning(request.sentences), neighbours=nearest)

    @router.post("/trees", summary="Parse trees of sentences, with attention weights where the run has them")
    async def trees(request: Sentences) -> TreesOfSentences:
        run = named(request.run)
        drawn = await done(run.trees, request.sentences)
        return TreesOfSentences(run=run.name, warning=run.warning(request.sentences), trees=drawn)

    return router


def body_limit(app: ASGIApp) -> ASGIApp:
    """ASGI middleware that refuses bodies of more than ``BODY`` bytes before they are kept."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size <= BODY:
                return message
            while message.get("more_body") and size <= READ_ON:
                message = await receive()
                size += len(message.get("body", b""))
            raise HTTPException(413, f"the request is too large: send at most {BODY:,} bytes (fewer sentences)")

        await app(scope, counted, send)

    return limited


def token_check(token: str) -> Callable[..., None]:
    """A dependency that refuses requests without the token."""

    def check(sent: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]) -> None:
        # Starlette decodes headers as Latin-1.
        if sent is None or not secrets.compare_digest(sent.credentials.encode("latin-1"), token.encode()):
            line = "missing or wrong token: send the server's token as Authorization: Bearer TOKEN"
            raise HTTPException(401, line, {"WWW-Authenticate": "Bearer"})

    return check


async def say_what_is_wrong(_: Request, error: Any) -> JSONResponse:
    """Report the first validation error of a request, in one line; ``error`` is a RequestValidationError."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "json_invalid":
        detail = f"not JSON at character {where}"
    else:
        detail = f"{where}: {first['msg']}" if where else "send a JSON object, with Content-Type: application/json"
    return JSONResponse({"detail": " ".join(detail.split())}, 422)


async def say_that_it_failed(_: Request, error: Exception) -> JSONResponse:
    """Report an unexpected error to the client; the traceback is in the server's output."""
    return JSONResponse({"detail": f"the server failed ({type(error).__name__}): see the server's output"}, 500)
