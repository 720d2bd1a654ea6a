//! Manual job runs need a token of the shop's store with the role operator or admin, as on the bus.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use postrider::Store;
use postrider::store::access::{NewAudit, Role, StoredToken, bearer, hash};

use super::{App, Problem};
use crate::database::Database;

/// A caller that may run jobs.
pub(super) struct Operator(StoredToken);

impl<S: Database> FromRequestParts<App<S>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App<S>) -> Result<Self, Problem> {
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = match header.and_then(bearer) {
            Some(secret) => app.shop.store.find_token(&hash(secret)).await?,
            None => None,
        };
        match token {
            Some(token) if matches!(token.role, Role::Operator | Role::Admin) => Ok(Self(token)),
            Some(token) => {
                let detail = format!("this needs the role operator or admin; yours is {}", token.role.as_str());
                Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
            }
            None => Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "send an operator's token as `Authorization: Bearer …`; `postrider tokens create NAME --role operator \
                 --store URL` makes one in the shop's store",
            )),
        }
    }
}

impl Operator {
    /// Appends an audit record. An error is only logged, because the job has already run.
    pub(super) async fn write_down(&self, store: &impl Store, job: &str, outcome: &str) {
        let record = NewAudit {
            actor: &self.0.name,
            token_id: Some(&self.0.token_id),
            action: "POST /shop/jobs/{job}/run",
            target: Some(job),
            outcome,
            ..NewAudit::default()
        };
        if let Err(error) = store.append_audit(&record).await {
            tracing::error!(%error, actor = self.0.name, job, outcome, "the audit could not be written");
        }
    }
}
