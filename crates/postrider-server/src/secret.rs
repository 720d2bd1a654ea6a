//! Creates secrets. The store keeps only their hash.

use std::time::Duration;

use base64::prelude::*;
use postrider::store::access::{NewToken, Role, StoredToken, hash};
use postrider::{Error, Scope, Store};
use tokio_rustls::rustls::crypto::aws_lc_rs;

/// Random bytes of a secret: 256 bits cannot be guessed, so a plain hash protects it.
const BYTES: usize = 32;
/// The prefix of tokens, by which scanners recognise a leaked one.
const PREFIX: &str = "prt_";

/// A new random secret.
pub(crate) fn fresh() -> postrider::Result<String> {
    let mut bytes = [0_u8; BYTES];
    let random = aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| Error::Unsupported("this machine gives no random numbers".into()))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// A token to be created.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The owner's name.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// What it reaches.
    pub scope: Scope,
    /// How long it lasts; `None`: until it is revoked.
    pub lasts: Option<Duration>,
}

impl Wanted {
    /// One that reaches everything, until it is revoked.
    pub fn new(name: &str, role: Role) -> Self {
        Self { name: name.into(), role, scope: Scope::default(), lasts: None }
    }
}

/// Creates a token. Returns its secret, which is not stored, and the stored token.
pub async fn create(store: &dyn Store, wanted: &Wanted) -> postrider::Result<(String, StoredToken)> {
    let secret = format!("{PREFIX}{}", fresh()?);
    let (hash, token_id) = (hash(&secret), uuid::Uuid::now_v7().to_string());
    let Wanted { name, role, scope, lasts } = wanted;
    let new = NewToken { token_id: &token_id, name, role: *role, hash: &hash, scope: scope.clone(), lasts: *lasts };
    store.create_token(&new).await?;
    let made = store.tokens().await?.into_iter().find(|token| token.token_id == token_id);
    let made = made.ok_or_else(|| Error::Store("the token that was just written is not there".into()))?;
    Ok((secret, made))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2
    #[test]
    fn secrets_differ_and_the_hash_does_not_contain_them() {
        let (one, other) = (fresh().unwrap_or_default(), fresh().unwrap_or_default());
        assert_ne!(one, other);
        assert_eq!(one.len(), 43);
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(!hash(&one).contains(&one));
    }
}
