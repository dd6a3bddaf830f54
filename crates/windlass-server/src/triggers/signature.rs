//! Signatures of deliveries: HMAC-SHA256 over the bytes of the body as they came, compared in constant time.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use windlass_value::Timestamp;

/// How far the time of a delivery may be from ours.
pub const WINDOW_SECONDS: i64 = 300;

/// A delivery that somebody has signed who knows the secret.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof {
    /// What names the delivery; the same one again starts nothing twice.
    pub delivery: String,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Unproven {
    /// There is no signature at all.
    Unsigned,
    Wrong(&'static str),
}

/// Looks for a signature of each kind that is known, and checks the first that is there.
pub fn check(headers: &HeaderMap, body: &[u8], secret: &str, now: Timestamp) -> Result<Proof, Unproven> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(signatures) = header("webhook-signature") {
        let (Some(id), Some(time)) = (header("webhook-id"), header("webhook-timestamp")) else {
            return Err(Unproven::Wrong("`webhook-signature` needs `webhook-id` and `webhook-timestamp` beside it"));
        };
        is_recent(time, now)?;
        let key = standard_key(secret);
        let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body];
        let given = signatures.split_ascii_whitespace().filter_map(|one| one.strip_prefix("v1,"));
        let mut macs = given.filter_map(|text| STANDARD.decode(text).ok());
        return match macs.any(|given| fits(&key, &signed, &given)) {
            true => Ok(Proof { delivery: id.to_owned() }),
            false => Err(Unproven::Wrong("`webhook-signature` does not fit the body and the secret")),
        };
    }
    if let Some(signature) = header("x-windlass-signature") {
        let part = |name: &str| signature.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        let (Some(time), Some(given)) = (part("t"), part("v1").and_then(from_hex)) else {
            return Err(Unproven::Wrong("`X-Windlass-Signature` is not `t=SECONDS,v1=HEX`"));
        };
        is_recent(time, now)?;
        if !fits(secret.as_bytes(), &[time.as_bytes(), b".", body], &given) {
            return Err(Unproven::Wrong("`X-Windlass-Signature` does not fit the body and the secret"));
        }
        // Without a name the signature is one: the same bytes at the same time are the same delivery.
        let named = header("x-windlass-delivery").map(str::to_owned);
        return Ok(Proof { delivery: named.unwrap_or_else(|| signature.to_owned()) });
    }
    if let Some(signature) = header("x-hub-signature-256") {
        let Some(given) = signature.strip_prefix("sha256=").and_then(from_hex) else {
            return Err(Unproven::Wrong("`X-Hub-Signature-256` is not `sha256=HEX`"));
        };
        if !fits(secret.as_bytes(), &[body], &given) {
            return Err(Unproven::Wrong("`X-Hub-Signature-256` does not fit the body and the secret"));
        }
        let named = header("x-github-delivery").map(str::to_owned);
        return Ok(Proof { delivery: named.unwrap_or_else(|| signature.to_owned()) });
    }
    Err(Unproven::Unsigned)
}

/// The name that an unsigned delivery gives itself.
pub fn named(headers: &HeaderMap) -> Option<String> {
    let names = ["idempotency-key", "webhook-id", "x-windlass-delivery", "x-github-delivery"];
    names.iter().find_map(|name| headers.get(*name)?.to_str().ok()).map(str::to_owned)
}

fn fits(key: &[u8], parts: &[&[u8]], given: &[u8]) -> bool {
    // A key of any length is one.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return false };
    parts.iter().for_each(|part| mac.update(part));
    mac.verify_slice(given).is_ok()
}

/// `whsec_` and base64, as Standard Webhooks writes secrets; anything else is taken as it is.
fn standard_key(secret: &str) -> Vec<u8> {
    let decoded = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    decoded.unwrap_or_else(|| secret.as_bytes().to_vec())
}

fn is_recent(seconds: &str, now: Timestamp) -> Result<(), Unproven> {
    let Ok(at) = seconds.parse::<i64>() else {
        return Err(Unproven::Wrong("the time of the signature is no number of seconds"));
    };
    match (now.0 / 1_000_000).saturating_sub(at).abs() <= WINDOW_SECONDS {
        true => Ok(()),
        false => Err(Unproven::Wrong("the time of the signature is more than five minutes from ours")),
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len() / 2).map(|at| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    const BODY: &[u8] = br#"{"n": 1}"#;
    const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

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

    #[test]
    fn each_way_of_signing_is_known() {
        let time = "1700000100";
        let standard = STANDARD.encode(mac(b"key", &[b"msg_1", b".", time.as_bytes(), b".", BODY]));
        let whsec = format!("whsec_{}", STANDARD.encode(b"key"));
        let other = format!("v1,AAAA v1,{standard}");
        let given = headers(&[("webhook-id", "msg_1"), ("webhook-timestamp", time), ("webhook-signature", &other)]);
        for secret in ["key", whsec.as_str()] {
            assert_eq!(check(&given, BODY, secret, NOW).map(|proof| proof.delivery), Ok("msg_1".to_owned()));
        }
        assert!(matches!(check(&given, b"other", "key", NOW), Err(Unproven::Wrong(_))));
        assert!(matches!(check(&given, BODY, "kez", NOW), Err(Unproven::Wrong(_))));

        let github = format!("sha256={}", hex(&mac(b"key", &[BODY])));
        let given = headers(&[("x-hub-signature-256", &github), ("x-github-delivery", "d-1")]);
        assert_eq!(check(&given, BODY, "key", NOW).map(|proof| proof.delivery), Ok("d-1".to_owned()));
        assert!(check(&given, BODY, "", NOW).is_err());

        let own = format!("t={time},v1={}", hex(&mac(b"key", &[time.as_bytes(), b".", BODY])));
        let given = headers(&[("x-windlass-signature", &own)]);
        assert_eq!(check(&given, BODY, "key", NOW).map(|proof| proof.delivery), Ok(own.clone()));
        assert_eq!(check(&HeaderMap::new(), BODY, "key", NOW), Err(Unproven::Unsigned));
    }

    #[test]
    fn what_is_old_or_odd_is_refused() {
        for time in ["1700000301", "1699999699", "soon", "-9223372036854775808"] {
            let own = format!("t={time},v1={}", hex(&mac(b"key", &[time.as_bytes(), b".", BODY])));
            let refused = check(&headers(&[("x-windlass-signature", &own)]), BODY, "key", NOW);
            assert!(matches!(refused, Err(Unproven::Wrong(why)) if why.contains("time")), "{time}: {refused:?}");
        }
        for (name, value) in [
            ("x-windlass-signature", "v1=00"),
            ("x-windlass-signature", "t=1700000000,v1=zz"),
            ("x-windlass-signature", "t=1700000000,v1="),
            ("x-hub-signature-256", "sha1=00"),
            ("x-hub-signature-256", "sha256="),
            ("x-hub-signature-256", "sha256=0"),
            ("webhook-signature", "v1,AAAA"),
        ] {
            let refused = check(&headers(&[(name, value)]), BODY, "key", NOW);
            assert!(matches!(refused, Err(Unproven::Wrong(_))), "{name}: {value}");
        }
    }
}
