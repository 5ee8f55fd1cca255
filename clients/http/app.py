"""The routes. Each is a few lines between what is read (requests) and what is written (writers); there is no
scheduling here: START, CANCEL and the daemon's turns are all there is."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import DaemonGone
from .answering import JSON, Answering, unless_gone
from .answers.openai import ChatShape, CompletionShape
from .answers.responses_writer import ResponsesWriter
from .answers.sse import dumped
from .answers.writers import AnthropicWriter, OpenAIWriter
from .connection import CROWDED
from .engine import Engine, Health
from .guard import check_key, check_origin, read_json
from .metrics import exposition
from .refused import ContextExceeded, HttpRefused, anthropic_error, openai_error
from .request_id import App, RequestIds
from .requests.anthropic import read_message
from .requests.fields import Fields
from .requests.openai import read_chat, read_completion
from .requests.responses import read_response
from .run import Run
from .texts import MOST_CHARACTERS, MOST_IDS

Handler = Callable[[Request], Awaitable[Any]]
BROKEN: Final = "something is wrong in the proxy; its log says more"
T = TypeVar("T")
_log: Final = logging.getLogger(__name__)
STATUS = {Health.OK: 200, Health.LOADING: 503, Health.CLOSING: 503, Health.FAILED: 500}


@dataclass(frozen=True, slots=True)
class Limits:
    """`key` is what clients must send, `cors` the origins whose pages may call, `body` is in bytes, `seconds` is for an
    answer, `queue_tokens` for the prompts that wait for a slot, in all, `default_tokens` for an answer whose request
    does not say."""

    key: str | None = None
    body: int = 8 << 20
    cors: tuple[str, ...] = ()
    seconds: float = 3600.0
    queue_tokens: int = 1 << 20
    default_tokens: int | None = None


class Proxy:
    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.engine = engine
        self.limits = limits
        self.live = 0  # requests that are being answered

    def app(self) -> App:
        routes = [
            Route("/v1/chat/completions", self._guarded(self._chat), methods=["POST"]),
            Route("/v1/completions", self._guarded(self._completion), methods=["POST"]),
            Route("/v1/responses", self._guarded(self._response), methods=["POST"]),
            Route("/v1/messages", self._guarded(self._message), methods=["POST"]),
            Route("/v1/messages/count_tokens", self._guarded(self._count), methods=["POST"]),
            Route("/v1/models", self._guarded(self._models)),
            Route("/v1/models/{model:path}", self._guarded(self._model)),
            Route("/tokenize", self._guarded(self._tokenize), methods=["POST"]),
            Route("/detokenize", self._guarded(self._detokenize), methods=["POST"]),
            Route("/slots", self._guarded(self._slots)),
            Route("/metrics", self._guarded(self._metrics)),
            Route("/health", self._health),
        ]
        origins = list(self.limits.cors)
        shown = ["x-request-id", "request-id", "x-paceline-req-id", "retry-after", "x-should-retry"]
        every = ["*"]
        cors = [
            Middleware(
                CORSMiddleware,
                allow_origins=origins,
                allow_methods=every,
                allow_headers=every,
                expose_headers=shown,
                allow_private_network=True,  # a page of the web that asks for localhost; its origin was named
            )
        ]
        starlette = Starlette(
            routes=routes,
            middleware=cors if origins else [],
            exception_handlers={404: _no_route, 405: _no_route, 500: _broken},
        )
        return RequestIds(starlette)  # outermost, so that refusals by the middleware get an id too

    def _guarded(self, handle: Handler) -> Handler:
        async def guarded(request: Request) -> Any:
            try:
                check_origin(request, self.limits.cors)
                check_key(request, self.limits.key)
                if request.scope.get(CROWDED):
                    raise HttpRefused(503, "there are too many connections", code="too_many_connections")
                return await handle(request)
            except HttpRefused as refused:
                self.engine.observed.overflows += isinstance(refused, ContextExceeded)
                return refusal(request, refused)
            except DaemonGone:
                return refusal(request, HttpRefused(503, "the engine has stopped", code="engine_gone"))
            except Exception:  # handled further out, it would close the connection too
                _log.exception("a request could not be answered")
                return refusal(request, HttpRefused(500, BROKEN))

        return guarded

    async def _chat(self, request: Request) -> Any:
        asked = await self._body(request, read_chat)
        return await self._answer(request, asked, lambda: self._openai(ChatShape, asked))

    async def _completion(self, request: Request) -> Any:
        asked = await self._body(request, read_completion)
        return await self._answer(request, asked, lambda: self._openai(CompletionShape, asked))

    async def _response(self, request: Request) -> Any:
        both = await self._body(request, read_response)
        engine = self.engine
        return await self._answer(request, both.asked, lambda: ResponsesWriter(both, engine.name, engine.texts))

    async def _message(self, request: Request) -> Any:
        asked = await self._body(request, read_message)
        return await self._answer(request, asked, lambda: AnthropicWriter(self.engine.name))

    async def _count(self, request: Request) -> Response:
        asked = await self._body(request, partial(read_message, answered=False))
        self.engine.check()
        given = await asyncio.to_thread(self.engine.texts.read, asked.prompts[0], bounded=False)
        return answer({"input_tokens": len(given.ids)})

    def _openai(self, kind: Any, asked: Any) -> OpenAIWriter:
        return OpenAIWriter(kind, asked, self.engine.name, self.engine.texts)

    async def _answer(self, request: Request, asked: Any, writer: Callable[[], Any]) -> Any:
        self.engine.check()
        made = writer()
        self.live += 1
        try:
            limits = self.limits
            starting = Run.start(self.engine, asked, limits.seconds, limits.queue_tokens, limits.default_tokens)
            run = await unless_gone(request.receive, starting)
            if run is None:
                raise HttpRefused(400, "the reader has gone")  # nobody is left to receive this
        except BaseException:
            self._done()
            raise
        return Answering(run, made, asked.stream, lambda refused: refusal(request, refused), self._done)

    def _done(self) -> None:
        self.live -= 1

    async def _models(self, request: Request) -> Response:
        self.engine.check()
        return answer({"object": "list", "data": [self._described()]})

    async def _model(self, request: Request) -> Response:
        self.engine.check()
        if request.path_params["model"] != self.engine.name:
            raise HttpRefused(404, f"no such model, expected {self.engine.name}", "model", "model_not_found")
        return answer(self._described())

    def _described(self) -> dict[str, Any]:
        info = self.engine.info
        more = {"context": info["most_positions"], "vocab": info["vocab"], "architecture": info["architecture"]}
        return {"id": self.engine.name, "object": "model", "created": 0, "owned_by": "paceline"} | more

    async def _tokenize(self, request: Request) -> Response:
        fields = await self._body(request, Fields)
        self.engine.check()
        content, special = fields.long_text("content", MOST_CHARACTERS), fields.flag("special")
        ids = await asyncio.to_thread(self.engine.texts.encode, content, "content", special is None or special)
        return answer({"tokens": ids, "count": len(ids)})

    async def _detokenize(self, request: Request) -> Response:
        tokens = await self._body(request, lambda body: Fields(body).ids("tokens", MOST_IDS))
        self.engine.check()
        texts = self.engine.texts
        return answer({"content": await asyncio.to_thread(lambda: texts.decode(texts.checked(tokens, "tokens")))})

    async def _slots(self, request: Request) -> Response:
        told = await self.engine.ask("LIST_TARGET_CACHE_SLOTS", "LIST_REQUESTS")
        slots, requests = told[0]["slots"], told[1]["requests"]
        by_slot = {one["slot"]: one for one in requests if one["slot"] is not None}
        following = [one for one in requests if "with" in one]  # they share the row of another one
        queued = [one for one in requests if one["slot"] is None and "with" not in one]
        held = [slot | {"request": by_slot.get(slot["slot"])} for slot in slots]
        return answer({"slots": held, "queued": queued, "following": following})

    async def _metrics(self, request: Request) -> Response:
        stats = None
        with suppress(HttpRefused, DaemonGone):
            (stats,) = await self.engine.ask("STATS")
        return Response(exposition(self.engine.observed, stats), media_type="text/plain; version=0.0.4")

    async def _health(self, request: Request) -> Response:
        health = await self.engine.health()
        return answer({"status": health.value}, STATUS[health])

    async def _body(self, request: Request, read: Callable[[Any], T]) -> T:
        return await read_json(request, self.limits.body, read)


def answer(body: Any, status: int = 200) -> Response:
    return Response(dumped(body), status, media_type=JSON)


def refusal(request: Request, refused: HttpRefused) -> Response:
    shape = anthropic_error if request.url.path.startswith("/v1/messages") else openai_error
    body = dumped(shape(refused)).encode(errors="replace")  # it may repeat half of a surrogate pair
    return Response(body, refused.status, refused.headers, JSON)


def _no_route(request: Request, problem: Exception) -> Response:
    status = cast(Any, problem).status_code
    return refusal(request, HttpRefused(status, f"{request.method} {request.url.path}: there is no such route"))


def _broken(request: Request, problem: Exception) -> Response:
    return refusal(request, HttpRefused(500, BROKEN))
