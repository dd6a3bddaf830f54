//! Decoding of bytes in the charset that a content type names.

/// Bytes that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndecodableText {
    /// The bytes, unchanged.
    pub bytes: Vec<u8>,
    /// The charset in lower case, if it is not supported. Otherwise the bytes are not valid in their charset.
    pub unsupported_charset: Option<String>,
}

/// Decodes bytes in the charset of their content type, or in UTF-8 if it names none.
///
/// # Errors
///
/// Fails if the bytes are not valid in the charset or the charset is not supported; no character is ever replaced.
pub fn decode_text(content_type: &str, bytes: Vec<u8>) -> Result<String, UndecodableText> {
    let charset = content_type_parameter(content_type, "charset").unwrap_or_default().to_ascii_lowercase();
    let decoded = match charset.as_str() {
        "" | "utf-8" | "utf8" | "us-ascii" | "ascii" => String::from_utf8(bytes).map_err(|error| error.into_bytes()),
        "iso-8859-1" | "iso8859-1" | "iso_8859-1" | "latin1" | "latin-1" | "l1" => {
            Ok(bytes.into_iter().map(char::from).collect())
        }
        "utf-16" if bytes.starts_with(&[0xff, 0xfe]) => decode_utf16(bytes, u16::from_le_bytes),
        "utf-16le" => decode_utf16(bytes, u16::from_le_bytes),
        "utf-16" | "utf-16be" => decode_utf16(bytes, u16::from_be_bytes),
        _ => return Err(UndecodableText { bytes, unsupported_charset: Some(charset) }),
    };
    decoded.map_err(|bytes| UndecodableText { bytes, unsupported_charset: None })
}

fn decode_utf16(bytes: Vec<u8>, unit: fn([u8; 2]) -> u16) -> Result<String, Vec<u8>> {
    if bytes.len() % 2 == 1 {
        return Err(bytes);
    }
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    text.map(|text| text.trim_start_matches('\u{feff}').to_owned()).map_err(|_| bytes)
}

/// Returns a parameter of a content type, such as `charset` or `boundary`.
pub fn content_type_parameter(content_type: &str, name: &str) -> Option<String> {
    let parameters = content_type.split(';').skip(1).filter_map(|part| part.split_once('='));
    let found = parameters.map(|(key, value)| (key.trim(), value)).find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim().trim_matches('"').to_owned()).filter(|value| !value.is_empty())
}
