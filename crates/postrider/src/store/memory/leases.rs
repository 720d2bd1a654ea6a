//! Named leases.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::state::{LeaseRow, span};
use crate::error::Result;
use crate::store::{Leases, Token};

#[async_trait]
impl Leases for MemoryStore {
    async fn acquire_lease(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Token>> {
        Ok(self
            .write(|state, now| {
                if state.leases.get(name).is_some_and(|held| held.until > now) {
                    return None;
                }
                let token = Token::fresh();
                let row = LeaseRow { owner: owner.into(), token, until: now + span(lease) };
                state.leases.insert(name.into(), row);
                Some(token)
            })
            .await)
    }

    async fn extend_lease(&self, name: &str, token: Token, lease: Duration) -> Result<bool> {
        Ok(self
            .write(|state, now| match state.leases.get_mut(name) {
                Some(held) if held.token == token => {
                    held.until = now + span(lease);
                    true
                }
                _ => false,
            })
            .await)
    }

    async fn release_lease(&self, name: &str, token: Token) -> Result<bool> {
        Ok(self
            .write(|state, _| {
                let mine = state.leases.get(name).is_some_and(|held| held.token == token);
                if mine {
                    state.leases.remove(name);
                }
                mine
            })
            .await)
    }
}
