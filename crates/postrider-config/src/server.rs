//! The keys of `postrider serve` and of the commands that use its store.

use std::time::Duration;

use postrider::store;

use crate::key::keys;

keys! {
    LISTEN: String = text("listen", "127.0.0.1:7070"), "The address to listen on; port 0 takes any free port";
    STORE: String = url("store", store::DEFAULT_URL), "The database that holds the events";
    BROKER: Option<String> = optional_url("broker"), "The RabbitMQ broker; without one, events go to inboxes, pulling consumers and webhooks";
    BEHIND_PROXY: bool = flag("behind-proxy"), "A proxy in front encrypts, so any address may be listened on without TLS";
    TLS_CERT: Option<String> = optional("tls.cert"), "The PEM file with the certificate";
    TLS_KEY: Option<String> = optional("tls.key"), "The PEM file with the private key";
    SERVER_BASE_PATH: String = text("server.base-path", "/"), "The path that the whole server is below, such as /bus behind a proxy";
    SERVER_ENVIRONMENT: String = text("server.environment", "local"), "What this installation is, for people and in alerts: local, staging, prod or another name";
    SERVER_MASK: Vec<String> = list("server.mask"), "Parts of payloads and metadata that only admins and consumers see, as JSON paths with commas between them: `$.card.number, $..email, $.items[*].price`";
    SERVER_LINKS: Vec<String> = list("server.links"), "Pages of the business, as `ORDER=https://shop.example/orders/{id}` with commas between them; `trace=…{traceId}` is the tracing system's";
    OUTBOX_BATCH_SIZE: u32 = number("outbox.batch-size", "100", 1, 500), "Deliveries in one claim";
    OUTBOX_MAX_RETRY_COUNT: u32 = number("outbox.max-retry-count", "10", 1, 10_000), "Attempts in all, the first included; after the last a delivery is DEAD";
    OUTBOX_PUBLISHER_CRON: String = cron("outbox.publisher-cron", "0/10 * * * * ?"), "When the relay looks for work that no wake-up announced";
    OUTBOX_LEASE: Duration = seconds("outbox.lease-seconds", "30", 1, 3_600), "How long a claim lasts before another relay may take the delivery";
    OUTBOX_BACKOFF_CAP: Duration = seconds("outbox.backoff-cap-seconds", "3600", 1, 604_800), "The longest wait between two attempts";
    OUTBOX_BACKOFF_JITTER: f64 = share("outbox.backoff-jitter", "0.1"), "The share of a wait that is random";
    REDRIVE_SENT_OLDER_THAN: Duration = seconds("redrive.sent-older-than-seconds", "600", 0, 31_536_000), "How long an event must be SENT before it may be redriven";
    REDRIVE_MAX_COUNT: u32 = number("redrive.max-count", "10", 0, 10_000), "How often one event may be redriven";
    REDRIVE_HORIZON: Duration = days("redrive.horizon-days", "7", 0, 3_650), "The oldest event that may be redriven";
    RETENTION_INBOX: Duration = days("retention.inbox-days", "14", 1, 36_500), "How long the inbox remembers what was consumed; must outlast every retry and redrive";
    RETENTION_AUDIT: Duration = days("retention.audit-days", "365", 1, 36_500), "How long audit records are kept";
    RETENTION_FINISHED: Duration = days("retention.finished-days", "30", 1, 36_500), "How long finished events are kept; the shop reads it too";
    RETENTION_ARCHIVE_DIR: Option<String> = optional("retention.archive-dir"), "The folder that finished events are written to before they are deleted";
    BUS_UNHEARD: String = one_of("bus.unheard", &["skip", "keep", "refuse"]), "What a publish over HTTP does with an event of a topic without a consumer: skip stores nothing, keep stores it until there is a consumer, refuse answers with an error";
    ORDERING_DEAD_HEAD: String = one_of("ordering.dead-head", &["hold", "skip"]), "Whether a DEAD delivery holds back the later ones of its key";
    SCHEDULER_TIME_ZONE: String = zone("scheduler.time-zone", "UTC"), "The time zone of every cron expression; the shop reads it too";
    LIMITS_PAYLOAD_BYTES: u32 = number("limits.payload-bytes", "1048576", 1, 1_048_576), "The largest payload";
    LIMITS_CLAIM_BYTES: u32 = number("limits.claim-bytes", "8388608", 65_536, 1_073_741_824), "Bytes of payloads in one claim; a larger event comes alone";
    LIMITS_LANE_BYTES: u32 = number("limits.lane-bytes", "33554432", 65_536, 1_073_741_824), "Bytes of payloads that a relay holds for one consumer, claimed and not finished; at least one claim";
    LIMITS_REQUESTS_PER_SECOND: u32 = number("limits.requests-per-second", "1000", 1, 1_000_000), "Requests of one caller, on average";
    LIMITS_WAIT: Duration = seconds("limits.wait-seconds", "55", 0, 55), "The longest wait of a pulling consumer; keep it below the idle timeout of proxies";
    SERVER_HEADER: Duration = seconds("server.header-seconds", "10", 1, 3_600), "How long the head of a request may take to arrive, and how long a connection may be idle";
    SERVER_BODY: Duration = seconds("server.body-seconds", "30", 1, 3_600), "How long the body of a request may take to arrive";
    SERVER_SHUTDOWN: Duration = seconds("server.shutdown-seconds", "25", 0, 3_600), "How long open requests may take to finish at a shutdown; then they are cut";
    SERVER_MAX_CONNECTIONS: u32 = number("server.max-connections", "1024", 2, 1_000_000), "Connections in all; one more closes the oldest that has not sent the head of a request";
    SERVER_CONNECTIONS_PER_PEER: u32 = number("server.connections-per-peer", "512", 1, 1_000_000), "Connections of one address; raise it behind a proxy";
    ALERT_WEBHOOK_URL: Option<String> = optional_url("alert.webhook-url"), "Where alerts are sent; without it they are only in the log";
    ALERT_WEBHOOK_SECRET: Option<String> = secret("alert.webhook-secret"), "The secret that signs alerts";
    ALERT_OLDEST: Duration = seconds("alert.oldest-seconds", "300", 1, 31_536_000), "How long a delivery may be due before an alert";
    ALERT_DEAD_PER_HOUR: u32 = number("alert.dead-per-hour", "1", 1, 1_000_000), "How many deliveries of one consumer may die within an hour before an alert";
    ALERT_STALLED: Duration = seconds("alert.stalled-seconds", "60", 1, 31_536_000), "How long due deliveries may wait without a claim before an alert";
    ALERT_BROKER_BLOCKED: Duration = seconds("alert.broker-blocked-seconds", "60", 1, 31_536_000), "How long the broker may be blocked or unreachable before an alert";
    ALERT_STORE_AWAY: Duration = seconds("alert.store-away-seconds", "60", 1, 31_536_000), "How long the store may give no answer before an alert";
    OTEL_ENDPOINT: Option<String> = optional_url("otel.endpoint"), "The OpenTelemetry collector (OTLP over HTTP); also OTEL_EXPORTER_OTLP_ENDPOINT";
    OTEL_HEADERS: Vec<String> = secret_list("otel.headers"), "Headers for the collector, as NAME=VALUE with commas between them; also OTEL_EXPORTER_OTLP_HEADERS";
    OTEL_SERVICE_NAME: String = text("otel.service-name", "postrider"), "The name of this service in traces; also OTEL_SERVICE_NAME";
    OTEL_SAMPLE_SHARE: f64 = share("otel.sample-share", "1"), "The share of traces that is exported";
    WEBHOOK_SECRET: Option<String> = secret("webhook.secret"), "The secret that signs webhooks; without one none is sent";
    WEBHOOK_PREVIOUS_SECRET: Option<String> = secret("webhook.previous-secret"), "The secret before this one, which signs too while receivers change over";
    WEBHOOK_TIMEOUT: Duration = seconds("webhook.timeout-seconds", "15", 1, 60), "How long a webhook may take to answer";
    WEBHOOK_ALLOW_HOSTS: Vec<String> = list("webhook.allow-hosts"), "Hosts that webhooks may call without TLS and at private addresses";
}

/// What OpenTelemetry calls some of these keys, for every program alike. Ours have the last word.
pub(crate) const STANDARD: [(&str, &str); 3] = [
    ("OTEL_EXPORTER_OTLP_ENDPOINT", OTEL_ENDPOINT.name()),
    ("OTEL_EXPORTER_OTLP_HEADERS", OTEL_HEADERS.name()),
    ("OTEL_SERVICE_NAME", OTEL_SERVICE_NAME.name()),
];
