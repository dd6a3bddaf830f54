//! Signatures of deliveries: HMAC-SHA256 over the body bytes as received, compared in constant time.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use windlass_value::{Duration, Timestamp};

/// Maximum length of a delivery id.
const MAX_ID_BYTES: usize = 256;

/// Maximum number of signatures checked in one header.
const MAX_SIGNATURES: usize = 8;

/// A delivery with a valid signature.
#[derive(Debug, PartialEq, Eq)]
pub struct VerifiedDelivery {
    /// The name of the delivery; repeating it starts nothing twice.
    pub delivery: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// There is no signature.
    Unsigned,
    Wrong(&'static str),
    /// The time of the signature is outside the allowed window.
    Stale,
}

/// The signature scheme of a trigger. Each trigger has one, so that a signature of one scheme is never valid in
/// another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SignatureScheme {
    /// Standard Webhooks: id, time and body are signed.
    #[default]
    Standard,
    /// As GitHub does it: only the body is signed.
    Github,
    /// `X-Windlass-Signature`: time and body are signed.
    Windlass,
}

impl SignatureScheme {
    pub(crate) fn header(self) -> &'static str {
        match self {
            SignatureScheme::Standard => "webhook-signature",
            SignatureScheme::Github => "x-hub-signature-256",
            SignatureScheme::Windlass => "x-windlass-signature",
        }
    }
}

/// Verifies the signature of one scheme; others are ignored. Each header must occur once, in its only canonical form.
pub fn verify(
    scheme: SignatureScheme,
    headers: &HeaderMap,
    body: &[u8],
    secret: &str,
    now: Timestamp,
    max_age: Duration,
) -> Result<VerifiedDelivery, SignatureError> {
    if !headers.contains_key(scheme.header()) {
        return Err(SignatureError::Unsigned);
    }
    let signature = single_header(headers, scheme.header());
    let signature = signature.ok_or(SignatureError::Wrong("the signature header is duplicated, or is not text"))?;
    match scheme {
        SignatureScheme::Standard => {
            let (Some(id), Some(time)) =
                (single_header(headers, "webhook-id"), single_header(headers, "webhook-timestamp"))
            else {
                return Err(SignatureError::Wrong(
                    "`webhook-signature` needs the headers `webhook-id` and `webhook-timestamp`",
                ));
            };
            // With a dot in the id it would be ambiguous where the id ends and the time begins.
            if id.is_empty() || id.len() > MAX_ID_BYTES || id.contains('.') {
                return Err(SignatureError::Wrong("`webhook-id` is empty, too long, or contains a dot"));
            }
            check_age(time, now, max_age)?;
            let key = standard_key(secret);
            let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body];
            let given = parse_signatures(signature);
            match given.iter().any(|given| verify_mac(&key, &signed, given)) {
                true => Ok(VerifiedDelivery { delivery: format!("standard:{id}") }),
                false => Err(SignatureError::Wrong("`webhook-signature` does not match the body and the secret")),
            }
        }
        SignatureScheme::Windlass => {
            let parts = signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1="));
            let Some((time, given, mac)) = parts.and_then(|(time, hex)| Some((time, hex, parse_mac(hex)?))) else {
                return Err(SignatureError::Wrong("`X-Windlass-Signature` is not `t=SECONDS,v1=HEX`"));
            };
            check_age(time, now, max_age)?;
            if !verify_mac(secret.as_bytes(), &[time.as_bytes(), b".", body], &mac) {
                return Err(SignatureError::Wrong("`X-Windlass-Signature` does not match the body and the secret"));
            }
            // Nothing else in the request is signed: the same bytes at the same time are the same delivery.
            Ok(VerifiedDelivery { delivery: format!("windlass:{given}") })
        }
        SignatureScheme::Github => {
            let parts = signature.strip_prefix("sha256=").and_then(|hex| Some((hex, parse_mac(hex)?)));
            let Some((given, mac)) = parts else {
                return Err(SignatureError::Wrong("`X-Hub-Signature-256` is not `sha256=HEX`"));
            };
            if !verify_mac(secret.as_bytes(), &[body], &mac) {
                return Err(SignatureError::Wrong("`X-Hub-Signature-256` does not match the body and the secret"));
            }
            // The id is not signed, but equal bodies are not necessarily the same delivery, and there is nothing
            // better.
            Ok(match single_header(headers, "x-github-delivery") {
                Some(id) => VerifiedDelivery { delivery: format!("github:{id}") },
                None => VerifiedDelivery { delivery: format!("github-mac:{given}") },
            })
        }
    }
}

/// Returns a header that occurs exactly once.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Parses the signatures of a header. During a secret rotation there are several.
fn parse_signatures(text: &str) -> Vec<Vec<u8>> {
    let given = text.split(' ').filter_map(|one| one.strip_prefix("v1,"));
    given.filter_map(|text| STANDARD.decode(text).ok()).take(MAX_SIGNATURES).collect()
}

/// Returns the delivery id that an unsigned delivery states in its headers.
pub(crate) fn unsigned_delivery_id(headers: &HeaderMap) -> Option<String> {
    let names = ["idempotency-key", "webhook-id", "x-windlass-delivery", "x-github-delivery"];
    // Prefixed, so that an unsigned delivery cannot take the name of a signed one.
    names.iter().find_map(|name| single_header(headers, name)).map(|name| format!("unsigned:{name}"))
}

fn verify_mac(key: &[u8], parts: &[&[u8]], given: &[u8]) -> bool {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return false };
    parts.iter().for_each(|part| mac.update(part));
    mac.verify_slice(given).is_ok()
}

/// Decodes a secret: `whsec_` and base64, as in Standard Webhooks; anything else is used as is.
fn standard_key(secret: &str) -> Vec<u8> {
    let decoded = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    decoded.unwrap_or_else(|| secret.as_bytes().to_vec())
}

fn check_age(seconds: &str, now: Timestamp, max_age: Duration) -> Result<(), SignatureError> {
    let digits = seconds.bytes().all(|byte| byte.is_ascii_digit()) && !seconds.starts_with('0');
    let Some(at) = seconds.parse::<i64>().ok().filter(|_| digits) else {
        return Err(SignatureError::Wrong("the time of the signature is not a number of seconds"));
    };
    match (now.0 / 1_000_000).saturating_sub(at).unsigned_abs() <= max_age.to_std().as_secs() {
        true => Ok(()),
        false => Err(SignatureError::Stale),
    }
}

/// Parses 32 bytes in lower-case hexadecimal digits, the only accepted form.
fn parse_mac(text: &str) -> Option<Vec<u8>> {
    let small = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 64 || !text.bytes().all(small) {
        return None;
    }
    (0..32).map(|at| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const BODY: &[u8] = br#"{"n": 1}"#;
    const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
    const AGE: Duration = Duration::from_secs(300);

    fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().to_vec()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    /// The limit bounds the difference between the clocks.
    #[test]
    fn the_maximum_signature_age_is_a_limit() {
        let time = (NOW.0 / 1_000_000 - 20).to_string();
        let signature = format!("t={time},v1={}", hex(&mac(b"key", &[time.as_bytes(), b".", BODY])));
        let given = headers(&[("x-windlass-signature", &signature)]);
        let within =
            |seconds| verify(SignatureScheme::Windlass, &given, BODY, "key", NOW, Duration::from_secs(seconds));
        assert!(within(20).is_ok() && matches!(within(19), Err(SignatureError::Stale)));
    }

    fn delivery(scheme: SignatureScheme, given: &[(&'static str, &str)]) -> Result<String, SignatureError> {
        verify(scheme, &headers(given), BODY, "key", NOW, AGE).map(|proof| proof.delivery)
    }

    #[test]
    fn each_signature_scheme_is_verified() {
        let time = "1700000100";
        let standard = STANDARD.encode(mac(b"key", &[b"msg_1", b".", time.as_bytes(), b".", BODY]));
        let whsec = format!("whsec_{}", STANDARD.encode(b"key"));
        let other = format!("v1,AAAA v1,{standard}");
        let given = headers(&[("webhook-id", "msg_1"), ("webhook-timestamp", time), ("webhook-signature", &other)]);
        for secret in ["key", whsec.as_str()] {
            let proof = verify(SignatureScheme::Standard, &given, BODY, secret, NOW, AGE);
            assert_eq!(proof, Ok(VerifiedDelivery { delivery: "standard:msg_1".to_owned() }));
        }
        assert!(matches!(
            verify(SignatureScheme::Standard, &given, b"other", "key", NOW, AGE),
            Err(SignatureError::Wrong(_))
        ));
        assert!(matches!(
            verify(SignatureScheme::Standard, &given, BODY, "kez", NOW, AGE),
            Err(SignatureError::Wrong(_))
        ));

        let github = format!("sha256={}", hex(&mac(b"key", &[BODY])));
        let given = [("x-hub-signature-256", github.as_str()), ("x-github-delivery", "d-1")];
        assert_eq!(delivery(SignatureScheme::Github, &given), Ok("github:d-1".to_owned()));
        assert!(verify(SignatureScheme::Github, &headers(&given), BODY, "", NOW, AGE).is_err());

        let small = hex(&mac(b"key", &[time.as_bytes(), b".", BODY]));
        let own = format!("t={time},v1={small}");
        let given = [("x-windlass-signature", own.as_str()), ("x-windlass-delivery", "any")];
        assert_eq!(delivery(SignatureScheme::Windlass, &given), Ok(format!("windlass:{small}")));
        for scheme in [SignatureScheme::Standard, SignatureScheme::Github] {
            assert_eq!(delivery(scheme, &given), Err(SignatureError::Unsigned), "{scheme:?}");
        }
    }

    /// Five minutes in either direction, to the second.
    #[test]
    fn the_time_window_is_exact() {
        for (seconds, fits) in [(-301, false), (-300, true), (0, true), (300, true), (301, false)] {
            let time = (NOW.0 / 1_000_000 + seconds).to_string();
            let own = format!("t={time},v1={}", hex(&mac(b"key", &[time.as_bytes(), b".", BODY])));
            let checked = delivery(SignatureScheme::Windlass, &[("x-windlass-signature", &own)]);
            assert_eq!(checked.is_ok(), fits, "{seconds}: {checked:?}");
        }
    }

    #[test]
    fn old_or_malformed_signatures_are_rejected() {
        for time in ["1700000301", "1699999699", "soon", "-9223372036854775808", "+1700000000", "01700000000"] {
            let own = format!("t={time},v1={}", hex(&mac(b"key", &[time.as_bytes(), b".", BODY])));
            let refused = delivery(SignatureScheme::Windlass, &[("x-windlass-signature", &own)]);
            assert!(matches!(refused, Err(SignatureError::Wrong(_) | SignatureError::Stale)), "{time}: {refused:?}");
        }
        let time = "1700000000";
        let fitting = hex(&mac(b"key", &[time.as_bytes(), b".", BODY]));
        let dotted = STANDARD.encode(mac(b"key", &[b"a.b", b".", time.as_bytes(), b".", BODY]));
        let dotted =
            [("webhook-id", "a.b"), ("webhook-timestamp", time), ("webhook-signature", &format!("v1,{dotted}"))];
        assert!(
            matches!(delivery(SignatureScheme::Standard, &dotted), Err(SignatureError::Wrong(why)) if why.contains("dot"))
        );
        for (scheme, value) in [
            (SignatureScheme::Windlass, "v1=00".to_owned()),
            (SignatureScheme::Windlass, format!("t={time},v1=zz")),
            (SignatureScheme::Windlass, format!("t={time},v1=")),
            (SignatureScheme::Windlass, format!("t={time}, v1={fitting}")),
            (SignatureScheme::Windlass, format!("t={time},v1={}", fitting.to_uppercase())),
            (SignatureScheme::Windlass, format!("t={time},v1={fitting},zz=1")),
            (SignatureScheme::Windlass, format!("v1={fitting},t={time}")),
            (SignatureScheme::Github, "sha1=00".to_owned()),
            (SignatureScheme::Github, "sha256=".to_owned()),
            (SignatureScheme::Github, "sha256=0".to_owned()),
            (SignatureScheme::Standard, "v1,AAAA".to_owned()),
        ] {
            let refused = delivery(scheme, &[(scheme.header(), &value)]);
            assert!(matches!(refused, Err(SignatureError::Wrong(_))), "{scheme:?}: {value}");
        }
        let own = format!("t={time},v1={fitting}");
        let twice = [("x-windlass-signature", own.as_str()), ("x-windlass-signature", own.as_str())];
        assert!(matches!(delivery(SignatureScheme::Windlass, &twice), Err(SignatureError::Wrong(_))));
    }
}
