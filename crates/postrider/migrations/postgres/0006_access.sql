-- Who may come in, and who did what. Of secrets only the hash is here.

CREATE TABLE postrider_token (
    token_id     varchar(64) COLLATE "C" PRIMARY KEY,
    name         varchar(128) NOT NULL,
    role         varchar(16) NOT NULL
                 CONSTRAINT role_is_known CHECK (role IN ('viewer', 'publisher', 'consumer', 'operator', 'admin')),
    hash         varchar(128) COLLATE "C" NOT NULL UNIQUE,
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz,
    revoked_at   timestamptz
);

CREATE TABLE postrider_session (
    hash       varchar(128) COLLATE "C" PRIMARY KEY,
    token_id   varchar(64) COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX postrider_session_expires ON postrider_session (expires_at);

-- Appended to, and nothing else.
CREATE TABLE postrider_audit (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT now(),
    actor      varchar(128) NOT NULL,
    token_id   varchar(128),
    action     varchar(128) NOT NULL,
    target     varchar(512),
    outcome    varchar(128) NOT NULL,
    request_id varchar(128),
    detail     varchar(1000)
);
