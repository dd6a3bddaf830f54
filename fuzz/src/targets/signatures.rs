//! Signatures of webhooks.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use windlass_server::triggers::{SignatureScheme, verify_signature};
use windlass_value::{Duration, Timestamp};

use super::variant;

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
const MAX_AGE: Duration = Duration::from_secs(300);
const SECRET: &str = "a secret that no input contains";

/// Without the secret no headers are a valid signature. With it, a signature is valid for its own body alone.
pub(crate) fn signature(data: &[u8]) {
    let (variant, rest) = variant(data);
    let schemes = [SignatureScheme::Standard, SignatureScheme::Github, SignatureScheme::Windlass];
    let scheme = schemes[usize::from(variant) % schemes.len()];
    let at = rest.windows(2).position(|two| two == b"\n\n").unwrap_or(rest.len());
    let body = rest.get(at + 2..).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in rest[..at].split(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let forged = verify_signature(scheme, &headers, body, SECRET, NOW, MAX_AGE);
    assert!(forged.is_err(), "{headers:?} is a valid signature of {body:?}");
    let mut signed = HeaderMap::new();
    signed.insert("x-hub-signature-256", github_signature(body));
    let verify = |body: &[u8]| verify_signature(SignatureScheme::Github, &signed, body, SECRET, NOW, MAX_AGE);
    assert!(verify(body).is_ok(), "the signature of {body:?} is refused");
    assert!(verify(&[body, b" "].concat()).is_err(), "the signature of {body:?} fits another body");
}

fn github_signature(body: &[u8]) -> HeaderValue {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("sha256={hex}")).unwrap_or_else(|error| panic!("{error}"))
}
