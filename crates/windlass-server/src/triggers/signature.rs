//! Signatures of deliveries: HMAC-SHA256 over the bytes of the body as they came, compared in constant time.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use windlass_value::{Duration, Timestamp};

/// Letters of a delivery's name.
const MAX_ID_BYTES: usize = 256;

/// Signatures in one header that are looked at.
const MAX_SIGNATURES: usize = 8;

/// A delivery that somebody has signed who knows the secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// What names the delivery; the same one again starts nothing twice.
    pub delivery: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unproven {
    /// There is no signature at all.
    Unsigned,
    Wrong(&'static str),
    /// It is signed for another time.
    Stale,
}

/// How the deliveries to a trigger are signed. Each trigger has one: what is signed in one way must mean nothing in another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scheme {
    /// Standard Webhooks: the name, the time and the body are signed.
    #[default]
    Standard,
    /// As GitHub does it: the body alone is signed.
    Github,
    /// `X-Windlass-Signature`: the time and the body are signed.
    Windlass,
}

impl Scheme {
    pub(crate) fn header(self) -> &'static str {
        match self {
            Scheme::Standard => "webhook-signature",
            Scheme::Github => "x-hub-signature-256",
            Scheme::Windlass => "x-windlass-signature",
        }
    }
}

/// Checks the signature of one kind; any other is not looked at. Each header has one way to be written, and is there once.
pub(crate) fn check(
    scheme: Scheme,
    headers: &HeaderMap,
    body: &[u8],
    secret: &str,
    now: Timestamp,
    max_age: Duration,
) -> Result<Proof, Unproven> {
    if !headers.contains_key(scheme.header()) {
        return Err(Unproven::Unsigned);
    }
    let signature = only(headers, scheme.header());
    let signature = signature.ok_or(Unproven::Wrong("the header of the signature is there twice, or is no text"))?;
    match scheme {
        Scheme::Standard => {
            let (Some(id), Some(time)) = (only(headers, "webhook-id"), only(headers, "webhook-timestamp")) else {
                return Err(Unproven::Wrong(
                    "`webhook-signature` needs `webhook-id` and `webhook-timestamp` beside it",
                ));
            };
            // With a dot in the name it would not be plain where the name ends and the time begins.
            if id.is_empty() || id.len() > MAX_ID_BYTES || id.contains('.') {
                return Err(Unproven::Wrong("`webhook-id` is empty, too long, or has a dot"));
            }
            is_recent(time, now, max_age)?;
            let key = standard_key(secret);
            let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body];
            let given = signatures_of(signature);
            match given.iter().any(|given| fits(&key, &signed, given)) {
                true => Ok(Proof { delivery: format!("standard:{id}") }),
                false => Err(Unproven::Wrong("`webhook-signature` does not fit the body and the secret")),
            }
        }
        Scheme::Windlass => {
            let parts = signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1="));
            let Some((time, given, mac)) = parts.and_then(|(time, hex)| Some((time, hex, from_hex(hex)?))) else {
                return Err(Unproven::Wrong("`X-Windlass-Signature` is not `t=SECONDS,v1=HEX`"));
            };
            is_recent(time, now, max_age)?;
            if !fits(secret.as_bytes(), &[time.as_bytes(), b".", body], &mac) {
                return Err(Unproven::Wrong("`X-Windlass-Signature` does not fit the body and the secret"));
            }
            // Nothing else that comes with it is signed: the same bytes at the same time are the same delivery.
            Ok(Proof { delivery: format!("windlass:{given}") })
        }
        Scheme::Github => {
            let parts = signature.strip_prefix("sha256=").and_then(|hex| Some((hex, from_hex(hex)?)));
            let Some((given, mac)) = parts else {
                return Err(Unproven::Wrong("`X-Hub-Signature-256` is not `sha256=HEX`"));
            };
            if !fits(secret.as_bytes(), &[body], &mac) {
                return Err(Unproven::Wrong("`X-Hub-Signature-256` does not fit the body and the secret"));
            }
            // The name is not signed, but equal bodies are not the same delivery: there is nothing better to go by.
            Ok(match only(headers, "x-github-delivery") {
                Some(id) => Proof { delivery: format!("github:{id}") },
                None => Proof { delivery: format!("github-mac:{given}") },
            })
        }
    }
}

/// The header, if it is there once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// While a secret is changed there are several.
fn signatures_of(text: &str) -> Vec<Vec<u8>> {
    let given = text.split(' ').filter_map(|one| one.strip_prefix("v1,"));
    given.filter_map(|text| STANDARD.decode(text).ok()).take(MAX_SIGNATURES).collect()
}

/// The name that an unsigned delivery gives itself.
pub(crate) fn unsigned_delivery_id(headers: &HeaderMap) -> Option<String> {
    let names = ["idempotency-key", "webhook-id", "x-windlass-delivery", "x-github-delivery"];
    // Apart from those that are proven: nobody takes the name of one of them.
    names.iter().find_map(|name| only(headers, name)).map(|name| format!("unsigned:{name}"))
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

fn is_recent(seconds: &str, now: Timestamp, max_age: Duration) -> Result<(), Unproven> {
    let digits = seconds.bytes().all(|byte| byte.is_ascii_digit()) && !seconds.starts_with('0');
    let Some(at) = seconds.parse::<i64>().ok().filter(|_| digits) else {
        return Err(Unproven::Wrong("the time of the signature is no number of seconds"));
    };
    match (now.0 / 1_000_000).saturating_sub(at).unsigned_abs() <= max_age.to_std().as_secs() {
        true => Ok(()),
        false => Err(Unproven::Stale),
    }
}

/// 32 bytes in small letters: there is one way to write them.
fn from_hex(text: &str) -> Option<Vec<u8>> {
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

    /// The limit says how far the clocks may be apart.
    #[test]
    fn a_signature_has_an_age() {
        let time = (NOW.0 / 1_000_000 - 20).to_string();
        let signature = format!("t={time},v1={}", hex(&mac(b"key", &[time.as_bytes(), b".", BODY])));
        let given = headers(&[("x-windlass-signature", &signature)]);
        let within = |seconds| check(Scheme::Windlass, &given, BODY, "key", NOW, Duration::from_secs(seconds));
        assert!(within(20).is_ok() && matches!(within(19), Err(Unproven::Stale)));
    }

    fn delivery(scheme: Scheme, given: &[(&'static str, &str)]) -> Result<String, Unproven> {
        check(scheme, &headers(given), BODY, "key", NOW, AGE).map(|proof| proof.delivery)
    }

    #[test]
    fn each_way_of_signing_is_known() {
        let time = "1700000100";
        let standard = STANDARD.encode(mac(b"key", &[b"msg_1", b".", time.as_bytes(), b".", BODY]));
        let whsec = format!("whsec_{}", STANDARD.encode(b"key"));
        let other = format!("v1,AAAA v1,{standard}");
        let given = headers(&[("webhook-id", "msg_1"), ("webhook-timestamp", time), ("webhook-signature", &other)]);
        for secret in ["key", whsec.as_str()] {
            let proof = check(Scheme::Standard, &given, BODY, secret, NOW, AGE);
            assert_eq!(proof, Ok(Proof { delivery: "standard:msg_1".to_owned() }));
        }
        assert!(matches!(check(Scheme::Standard, &given, b"other", "key", NOW, AGE), Err(Unproven::Wrong(_))));
        assert!(matches!(check(Scheme::Standard, &given, BODY, "kez", NOW, AGE), Err(Unproven::Wrong(_))));

        let github = format!("sha256={}", hex(&mac(b"key", &[BODY])));
        let given = [("x-hub-signature-256", github.as_str()), ("x-github-delivery", "d-1")];
        assert_eq!(delivery(Scheme::Github, &given), Ok("github:d-1".to_owned()));
        assert!(check(Scheme::Github, &headers(&given), BODY, "", NOW, AGE).is_err());

        let small = hex(&mac(b"key", &[time.as_bytes(), b".", BODY]));
        let own = format!("t={time},v1={small}");
        let given = [("x-windlass-signature", own.as_str()), ("x-windlass-delivery", "any")];
        assert_eq!(delivery(Scheme::Windlass, &given), Ok(format!("windlass:{small}")));
        for scheme in [Scheme::Standard, Scheme::Github] {
            assert_eq!(delivery(scheme, &given), Err(Unproven::Unsigned), "{scheme:?}");
        }
    }

    /// Five minutes to either side, and not a second more.
    #[test]
    fn the_window_has_edges() {
        for (seconds, fits) in [(-301, false), (-300, true), (0, true), (300, true), (301, false)] {
            let time = (NOW.0 / 1_000_000 + seconds).to_string();
            let own = format!("t={time},v1={}", hex(&mac(b"key", &[time.as_bytes(), b".", BODY])));
            let checked = delivery(Scheme::Windlass, &[("x-windlass-signature", &own)]);
            assert_eq!(checked.is_ok(), fits, "{seconds}: {checked:?}");
        }
    }

    #[test]
    fn what_is_old_or_odd_is_refused() {
        for time in ["1700000301", "1699999699", "soon", "-9223372036854775808", "+1700000000", "01700000000"] {
            let own = format!("t={time},v1={}", hex(&mac(b"key", &[time.as_bytes(), b".", BODY])));
            let refused = delivery(Scheme::Windlass, &[("x-windlass-signature", &own)]);
            assert!(matches!(refused, Err(Unproven::Wrong(_) | Unproven::Stale)), "{time}: {refused:?}");
        }
        let time = "1700000000";
        let fitting = hex(&mac(b"key", &[time.as_bytes(), b".", BODY]));
        let dotted = STANDARD.encode(mac(b"key", &[b"a.b", b".", time.as_bytes(), b".", BODY]));
        let dotted =
            [("webhook-id", "a.b"), ("webhook-timestamp", time), ("webhook-signature", &format!("v1,{dotted}"))];
        assert!(matches!(delivery(Scheme::Standard, &dotted), Err(Unproven::Wrong(why)) if why.contains("dot")));
        for (scheme, value) in [
            (Scheme::Windlass, "v1=00".to_owned()),
            (Scheme::Windlass, format!("t={time},v1=zz")),
            (Scheme::Windlass, format!("t={time},v1=")),
            (Scheme::Windlass, format!("t={time}, v1={fitting}")),
            (Scheme::Windlass, format!("t={time},v1={}", fitting.to_uppercase())),
            (Scheme::Windlass, format!("t={time},v1={fitting},zz=1")),
            (Scheme::Windlass, format!("v1={fitting},t={time}")),
            (Scheme::Github, "sha1=00".to_owned()),
            (Scheme::Github, "sha256=".to_owned()),
            (Scheme::Github, "sha256=0".to_owned()),
            (Scheme::Standard, "v1,AAAA".to_owned()),
        ] {
            let refused = delivery(scheme, &[(scheme.header(), &value)]);
            assert!(matches!(refused, Err(Unproven::Wrong(_))), "{scheme:?}: {value}");
        }
        let own = format!("t={time},v1={fitting}");
        let twice = [("x-windlass-signature", own.as_str()), ("x-windlass-signature", own.as_str())];
        assert!(matches!(delivery(Scheme::Windlass, &twice), Err(Unproven::Wrong(_))));
    }
}
