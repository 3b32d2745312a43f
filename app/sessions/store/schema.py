"""The store's tables, as migrations in order. A migration that was released is never changed."""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE sessions(
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        parent_id TEXT,
        root_id TEXT,
        title TEXT,
        labels TEXT NOT NULL DEFAULT '{}',
        status TEXT NOT NULL DEFAULT 'idle',
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        archived INTEGER NOT NULL DEFAULT 0,
        pinned INTEGER NOT NULL DEFAULT 0,
        deleted_at INTEGER,
        leaf_id TEXT,
        draft TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '{}',
        last_total_tokens INTEGER,
        last_error TEXT
    ) WITHOUT ROWID;
    CREATE INDEX sessions_updated ON sessions(updated_at);
    CREATE INDEX sessions_parent ON sessions(parent_id) WHERE parent_id IS NOT NULL;
    CREATE TABLE items(
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session_id TEXT NOT NULL,
        parent_id TEXT,
        parent_seq INTEGER,
        depth INTEGER NOT NULL,
        response_id TEXT,
        type TEXT NOT NULL,
        data TEXT NOT NULL
    );
    CREATE INDEX items_session ON items(session_id, seq);
    CREATE INDEX items_parent ON items(parent_id);
    CREATE INDEX items_response ON items(response_id) WHERE response_id IS NOT NULL;
    CREATE TABLE queue(
        item_id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL,
        position INTEGER NOT NULL,
        data TEXT NOT NULL
    );
    CREATE INDEX queue_session ON queue(session_id, position);
    CREATE TABLE writing(
        response_id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL,
        parent_id TEXT,
        agent TEXT NOT NULL,
        reasoning TEXT NOT NULL,
        text TEXT NOT NULL
    );
    CREATE TABLE rules(
        id TEXT PRIMARY KEY,
        session_id TEXT,
        tool TEXT NOT NULL,
        rule TEXT NOT NULL,
        definition TEXT NOT NULL,
        created_at INTEGER NOT NULL
    );
    CREATE TABLE decisions(
        number INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL,
        call_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        arguments TEXT NOT NULL,
        verdict TEXT NOT NULL,
        origin TEXT NOT NULL,
        reason TEXT NOT NULL,
        created_at INTEGER NOT NULL
    );
    CREATE INDEX decisions_session ON decisions(session_id);
    CREATE TABLE files(
        id TEXT PRIMARY KEY,
        session_id TEXT NOT NULL,
        name TEXT NOT NULL,
        content_type TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        content BLOB NOT NULL
    );
    CREATE INDEX files_session ON files(session_id);
    CREATE VIRTUAL TABLE found USING fts5(body, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3 4');
    """,
    """
    ALTER TABLE sessions ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX sessions_changed ON sessions(changed);
    DROP INDEX sessions_updated;
    CREATE INDEX sessions_updated ON sessions(updated_at, changed, id);
    """,
    """
    ALTER TABLE sessions ADD COLUMN made INTEGER NOT NULL DEFAULT 0;
    """,
    """
    ALTER TABLE sessions ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
    UPDATE sessions SET used = changed;
    CREATE INDEX sessions_used ON sessions(used);
    """,
)
