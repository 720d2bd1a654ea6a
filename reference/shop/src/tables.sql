-- The same for every database. MySQL and MariaDB each read their own conditional comment, which sets a binary
-- collation: with the default one, 'A', 'a' and 'A ' would be the same id. Indexes are in indexes.sql.

CREATE TABLE IF NOT EXISTS shop_order (
    order_id       VARCHAR(64)  NOT NULL PRIMARY KEY,
    user_id        VARCHAR(100) NOT NULL,
    amount_cents   BIGINT       NOT NULL CHECK (amount_cents >= 0),
    coupon_id      VARCHAR(100),
    wallet_cents   BIGINT       NOT NULL CHECK (wallet_cents >= 0),
    points         BIGINT       NOT NULL CHECK (points >= 0),
    items          TEXT         NOT NULL,
    status         VARCHAR(20)  NOT NULL CHECK (status IN
        ('DRAFT', 'WAIT_PAY', 'PAID', 'WAIT_ACCEPT', 'ACCEPTED', 'CANCELED', 'REFUNDED')),
    trace_id       VARCHAR(128) NOT NULL,
    checked_out_at BIGINT,
    paid_at        BIGINT,
    created_at     BIGINT       NOT NULL,
    updated_at     BIGINT       NOT NULL,
    locked         BIGINT       NOT NULL
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

-- The history of every order's status.
CREATE TABLE IF NOT EXISTS shop_order_step (
    order_id    VARCHAR(64) NOT NULL,
    step        BIGINT      NOT NULL,
    from_status VARCHAR(20) NOT NULL,
    to_status   VARCHAR(20) NOT NULL,
    caused_by   VARCHAR(40) NOT NULL,
    created_at  BIGINT      NOT NULL,
    PRIMARY KEY (order_id, step)
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

-- One per order: a failed payment cancels its order.
CREATE TABLE IF NOT EXISTS shop_payment (
    payment_id   VARCHAR(64) NOT NULL PRIMARY KEY,
    order_id     VARCHAR(64) NOT NULL UNIQUE,
    amount_cents BIGINT      NOT NULL CHECK (amount_cents >= 0),
    status       VARCHAR(20) NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    created_at   BIGINT      NOT NULL,
    updated_at   BIGINT      NOT NULL
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

-- `active` is the order id while the refund is PROCESSING or SUCCESS, and NULL after it FAILED. UNIQUE allows one
-- active refund per order.
CREATE TABLE IF NOT EXISTS shop_refund (
    refund_id  VARCHAR(64) NOT NULL PRIMARY KEY,
    order_id   VARCHAR(64) NOT NULL,
    active     VARCHAR(64) UNIQUE,
    status     VARCHAR(20) NOT NULL CHECK (status IN ('PROCESSING', 'SUCCESS', 'FAILED')),
    reason     VARCHAR(40) NOT NULL,
    attention  BIGINT      NOT NULL,
    created_at BIGINT      NOT NULL,
    updated_at BIGINT      NOT NULL
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS shop_wallet (
    user_id   VARCHAR(100) NOT NULL PRIMARY KEY,
    available BIGINT NOT NULL CHECK (available >= 0),
    frozen    BIGINT NOT NULL CHECK (frozen >= 0)
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS shop_points (
    user_id   VARCHAR(100) NOT NULL PRIMARY KEY,
    available BIGINT NOT NULL CHECK (available >= 0),
    frozen    BIGINT NOT NULL CHECK (frozen >= 0),
    debt      BIGINT NOT NULL CHECK (debt >= 0)
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

CREATE TABLE IF NOT EXISTS shop_coupon (
    coupon_id      VARCHAR(100) NOT NULL PRIMARY KEY,
    user_id        VARCHAR(100) NOT NULL,
    discount_cents BIGINT       NOT NULL CHECK (discount_cents >= 0),
    status         VARCHAR(20)  NOT NULL CHECK (status IN ('AVAILABLE', 'LOCKED', 'USED')),
    order_id       VARCHAR(64)
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

-- What an order holds of each asset.
CREATE TABLE IF NOT EXISTS shop_lock (
    order_id   VARCHAR(64)  NOT NULL,
    asset      VARCHAR(20)  NOT NULL CHECK (asset IN ('COUPON', 'WALLET', 'POINTS')),
    account    VARCHAR(100) NOT NULL,
    amount     BIGINT       NOT NULL CHECK (amount >= 0),
    status     VARCHAR(20)  NOT NULL CHECK (status IN ('LOCKED', 'FROZEN', 'COMMITTED', 'RELEASED', 'REVERTED')),
    created_at BIGINT       NOT NULL,
    updated_at BIGINT       NOT NULL,
    PRIMARY KEY (order_id, asset)
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

-- The ledger: every movement of every asset, append-only. A balance is the sum of its entries.
CREATE TABLE IF NOT EXISTS shop_entry (
    idempotency_key VARCHAR(255) NOT NULL PRIMARY KEY,
    asset           VARCHAR(20)  NOT NULL CHECK (asset IN ('COUPON', 'WALLET', 'POINTS')),
    account         VARCHAR(100) NOT NULL,
    order_id        VARCHAR(64),
    operation       VARCHAR(20)  NOT NULL,
    available       BIGINT       NOT NULL,
    frozen          BIGINT       NOT NULL,
    debt            BIGINT       NOT NULL,
    created_at      BIGINT       NOT NULL
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

-- The actions of the jobs.
CREATE TABLE IF NOT EXISTS shop_job_log (
    job        VARCHAR(40)  NOT NULL,
    order_id   VARCHAR(64)  NOT NULL,
    action     VARCHAR(100) NOT NULL,
    created_at BIGINT       NOT NULL
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;

-- Written by the consumers of `order.purchased` and of its child events.
CREATE TABLE IF NOT EXISTS shop_growth (
    order_id VARCHAR(64)  NOT NULL PRIMARY KEY,
    user_id  VARCHAR(100) NOT NULL,
    growth   BIGINT       NOT NULL
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;
CREATE TABLE IF NOT EXISTS shop_message (
    order_id VARCHAR(64)  NOT NULL PRIMARY KEY,
    user_id  VARCHAR(100) NOT NULL
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;
CREATE TABLE IF NOT EXISTS shop_activity (
    event_id VARCHAR(64)  NOT NULL PRIMARY KEY,
    user_id  VARCHAR(100) NOT NULL,
    topic    VARCHAR(128) NOT NULL
)
/*!80017 CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */ /*M! CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */;
