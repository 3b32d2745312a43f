"""`serve`: the engine of a `ChatSession`, shared over HTTP by the program that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.server.security import Access
from app.server.serving import Options, Server

if TYPE_CHECKING:
    from app.server.models import Models
    from app.sessions.manager import SessionManager
    from backend.chat_session import EngineHandle


def serve(
    engine: EngineHandle,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    api_key: str | None = None,
    model_id: str = "",
) -> Server:
    """Share a session's engine: `serve(session.engine)` answers at `Server.url` until it is closed.

    `port` 0 takes a free one, `model_id` is the model's name for clients. Any host but this machine's own
    needs an `api_key`. Chats of clients are kept in memory. Raises ValueError, OSError.
    """

    def make() -> tuple[SessionManager, Models]:
        from app.server.models import Models
        from app.sessions.manager import SessionManager
        from app.sessions.store.store import Store
        from backend.engines.local import InProcessEngine

        shared = InProcessEngine.sharing(engine)
        manager = SessionManager(engine=shared, store=Store(None))
        card = shared.card
        models = Models(model_id or card.model_id, None, others=False, context_length=card.max_seq)
        return manager, models

    return Server(make, Options(host=host, port=port, access=Access(api_key=api_key)))
