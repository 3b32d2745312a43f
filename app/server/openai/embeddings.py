"""`/v1/embeddings`: texts as vectors, by a model that makes them."""

from __future__ import annotations

import array
import base64
from typing import Any, Literal

from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from app.server.errors import refused
from app.server.models import Served
from app.server.openai.body import Body, read
from app.server.openai.completions import ids_of
from app.server.service import Service, service_of
from app.server.streams import unless_gone
from backend.chat_engine import ChatEngine

MOST_TEXTS = 2048
Input = str | list[str] | list[int] | list[list[int]]


class EmbeddingBody(Body):
    """The body of a request for embeddings."""

    model: str | None = None
    input: Input = Field(union_mode="left_to_right")
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = Field(None, ge=1)


async def embed(http: HttpRequest) -> Response:
    """Answer with a vector of length 1 for each text."""
    body = await read(http, EmbeddingBody)
    service = service_of(http)
    model = await service.models.find(body.model)
    return JSONResponse(await unless_gone(http, _embedded(service, model, body)))


async def _embedded(service: Service, model: Served, body: EmbeddingBody) -> dict[str, Any]:
    async with service.engine(model) as engine:
        texts = await _texts(engine, body.input)
        tokens = sum([len(await engine.tokenize(text)) for text in texts])
        vectors = await engine.embed(texts)
    if body.dimensions is not None and any(len(vector) != body.dimensions for vector in vectors):
        raise refused(f"{model.name} makes vectors of {len(vectors[0])} dimensions only.", "dimensions")
    data = [
        {"object": "embedding", "index": index, "embedding": _shown(vector, body.encoding_format)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": model.name, "usage": usage}


async def _texts(engine: ChatEngine, given: Input) -> list[str]:
    one = isinstance(given, str) or (bool(given) and isinstance(given[0], int))
    several: list[Any] = [given] if one else list(given)
    texts = [text if isinstance(text, str) else await engine.detokenize(ids_of(text)) for text in several]
    if not texts or len(texts) > MOST_TEXTS:
        raise refused(f"A request has 1 to {MOST_TEXTS} texts.", "input")
    if not all(texts):
        raise refused("A text to embed cannot be empty.", "input")
    return texts


def _shown(vector: list[float], form: str | None) -> list[float] | str:
    """The vector as numbers, or as the bytes of little-endian 32-bit floats in base 64."""
    if form != "base64":
        return vector
    packed = array.array("f", vector)
    return base64.b64encode(packed.tobytes()).decode()
