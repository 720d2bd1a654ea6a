//! Signatures of Standard Webhooks 1.0.

use std::fmt;
use std::str::FromStr;

use base64::prelude::*;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::{Error, Result};
use crate::store::SecretText;

/// The key that signs; the receiver has the same.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// The signature of a message: `v1,` and the HMAC of its id, its time and its body.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        // HMAC accepts a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return String::new();
        };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl FromStr for WebhookSecret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse::<SecretText>().map(|text| Self::from(&text))
    }
}

impl From<&SecretText> for WebhookSecret {
    fn from(text: &SecretText) -> Self {
        Self(text.key())
    }
}

/// Hides the secret.
impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S17: the standard's own example.
    #[test]
    fn the_standards_example_is_signed_as_it_says() {
        let secret: WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().expect("a secret");
        let signed = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(format!("{secret:?}"), "WebhookSecret(***)");
    }

    #[test]
    fn a_secret_has_24_to_64_bytes() {
        let of = |bytes: usize| format!("whsec_{}", BASE64_STANDARD.encode(vec![7; bytes])).parse::<WebhookSecret>();
        assert!(of(23).is_err() && of(24).is_ok() && of(64).is_ok() && of(65).is_err());
        assert!("whsec_%".parse::<WebhookSecret>().is_err());
    }
}
