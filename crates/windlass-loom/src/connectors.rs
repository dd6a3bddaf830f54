//! Actions of services that only Azure reaches: names the service in messages.

use windlass_syntax::{ObjectReader, SyntaxNode};

use crate::{expr, types};

/// Returns the message for an action whose type is known and not supported.
pub(crate) fn not_supported(name: &str, written: &str, action: &ObjectReader) -> String {
    let lower = written.to_lowercase();
    let spoken_with_vowel = lower.starts_with(['a', 'e', 'i', 'o', 'u', 'x']) || lower.starts_with("http");
    let article = if spoken_with_vowel { "an" } else { "a" };
    let inputs = action.peek("inputs").map(|(_, node)| node);
    let of = inputs.and_then(connection).map(|connection| format!(" of `{connection}`")).unwrap_or_default();
    let here = if types::is_trigger(written) { " as an action" } else { "" };
    format!("`{name}` is {article} `{written}`{of}, which is not supported{here}")
}

/// Returns the name of the connection, if it is a literal.
fn connection(inputs: &SyntaxNode) -> Option<&str> {
    let host = inputs.get("host");
    let connection = host.and_then(|host| host.get("connection"));
    let provider = inputs.get("serviceProviderConfiguration");
    let candidates = [
        connection.and_then(|connection| connection.get("referenceName")),
        connection.and_then(|connection| connection.get("name")),
        host.and_then(|host| host.get("connectionName")),
        provider.and_then(|provider| provider.get("serviceProviderId")),
    ];
    candidates.into_iter().flatten().filter_map(SyntaxNode::as_str).find_map(connection_name)
}

/// Parses `@parameters('$connections')['office365']['connectionId']`, `/serviceProviders/serviceBus` or plain
/// `office365`.
fn connection_name(text: &str) -> Option<&str> {
    let name = match expr::is_expression(text) {
        true => text.split_once("$connections')")?.1.split_once("['")?.1.split_once("']")?.0,
        false => text.trim_end_matches('/').rsplit('/').next()?,
    };
    Some(name.trim()).filter(|name| !name.is_empty())
}
