//! `keychain`: secrets by name.
//!
//! Neither the plan nor any value of a run contains a secret. `{{ keychain.x.y }}` in the inputs of a tool becomes a
//! sealed reference next to them, which says which field of which credential belongs at which position. Only the
//! worker opens it, when it calls the tool. Everywhere else the language rejects reading a secret.
//!
//! The references are separate from the inputs, under a key that only the compiler writes, so that no data from a
//! service can be mistaken for one.

use std::collections::BTreeMap;

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{
    Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_list, expect_text,
    format_names,
};
use windlass_value::Value;

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::expr;
use crate::key_support::{self, KeySupport};

/// The key of a tool's input that holds the sealed references.
const SEALED: &str = "sealed";

/// One entry of the keychain.
pub(crate) struct KeychainEntry {
    /// The alias of its credential: a name, or a template that evaluates to one.
    alias: SyntaxNode,
    /// The fields, if the file lists them, with the credential of each field that has a separate one.
    fields: Option<BTreeMap<String, Option<SyntaxNode>>>,
}

/// Kinds that need an external service.
const SERVICES: [&str; 9] = [
    "oauth2",
    "google_id_token",
    "google_oauth",
    "service_account",
    "gcp_adc",
    "secret_manager",
    "vault",
    "hmac",
    "jwt",
];
const KINDS: [&str; 4] = ["credential", "secrets", "bearer", "static"];

const ENTRY: [(&str, KeySupport); 4] = [
    ("scope", KeySupport::Supported),
    ("desc", KeySupport::Supported),
    ("description", KeySupport::Supported),
    ("auto_renew", KeySupport::NoEffect("the credential is looked up at every call")),
];

impl NoetlCompiler<'_> {
    pub(crate) fn keychain(&mut self, node: &SyntaxNode) {
        let Some(items) = expect_list(node, "`keychain`", &mut self.diagnostics) else { return };
        for item in items {
            let Some(mut object) = ObjectReader::read(item, "a keychain entry", &mut self.diagnostics) else {
                continue;
            };
            let (name, kind) = (object.take("name"), object.take("kind"));
            let (Some(name), Some(kind)) = (name, kind) else {
                let hint = "write `{name: api, kind: credential, credential: alias}`";
                self.error(codes::MISSING_KEY, item.span, "a keychain entry needs `name` and `kind`", hint);
                continue;
            };
            let Some(text) = expect_text(name, "`name`", &mut self.diagnostics) else { continue };
            let entry = self.parse_entry(text.text.trim(), name, kind, object);
            if self.keys.insert(text.text.trim().to_owned(), entry).is_some() {
                let message = format!("the keychain has two entries `{}`", text.text);
                self.error(codes::DUPLICATE, name.span, message, "give one of them another name");
            }
        }
    }

    /// Parses an entry. `None`: it is invalid, which has been reported.
    fn parse_entry(
        &mut self,
        name: &str,
        at: &SyntaxNode,
        kind: &SyntaxNode,
        mut object: ObjectReader,
    ) -> Option<KeychainEntry> {
        let word = kind.as_str().unwrap_or_default().trim();
        if let Some(scope) = object.peek("scope").filter(|(_, scope)| !is_scope(scope)) {
            let message = format!("`scope` is {}", scope.1.describe());
            self.error(codes::BAD_VALUE, scope.1.span, message, "one of `local`, `shared`, `global`");
        }
        let own = || at.clone();
        let entry = match word {
            "credential" => {
                let alias = ["credential", "alias", "auth", "key"].iter().find_map(|name| object.take(name));
                Some(KeychainEntry { alias: alias.map_or_else(own, SyntaxNode::clone), fields: None })
            }
            "bearer" | "static" => {
                let alias = ["credential", "alias"].iter().find_map(|name| object.take(name));
                let fields = self.named_fields(name, &mut object);
                Some(KeychainEntry { alias: alias.map_or_else(own, SyntaxNode::clone), fields })
            }
            "secrets" => self.mapped_entry(name, at, &mut object),
            other => {
                object.take_rest();
                self.report_unknown_keychain_kind(name, other, kind.span);
                None
            }
        };
        key_support::check_keys(self, object, &ENTRY, "a keychain entry");
        if let Some(entry) = &entry
            && entry.fields.as_ref().is_none_or(|fields| fields.values().any(Option::is_none))
        {
            self.check_alias(&entry.alias);
        }
        entry
    }

    fn report_unknown_keychain_kind(&mut self, name: &str, kind: &str, span: Span) {
        if SERVICES.contains(&kind) {
            let message = format!("a keychain entry of kind `{kind}` is not supported");
            let variable = env_variable(name);
            let hint =
                format!("obtain the token elsewhere, pass it as {variable}={{\"token\": …}}, and write `kind: bearer`");
            return self.error(codes::NOT_SUPPORTED, span, message, hint);
        }
        let hint = did_you_mean(kind, KINDS).unwrap_or_else(|| format!("one of {}", format_names(KINDS)));
        self.error(codes::BAD_VALUE, span, format!("there is no kind `{kind}` of keychain entries"), hint);
    }

    /// Parses `provider` and `map` (field to secret). From the environment, each field is a separate credential; secrets
    /// of other providers are given as the fields of one credential.
    fn mapped_entry(&mut self, name: &str, at: &SyntaxNode, object: &mut ObjectReader) -> Option<KeychainEntry> {
        let (provider, map) = (object.take("provider"), object.take("map"));
        object.ignore(&["auth", "credential", "project", "project_id", "region"]);
        let Some(map) = map else {
            let hint = "write `map: {api_key: OPENAI_KEY}`: the field, and the credential that holds it";
            self.error(codes::MISSING_KEY, object.span(), "this keychain entry has no `map`", hint);
            return None;
        };
        let from_environment =
            provider.and_then(SyntaxNode::as_str).is_none_or(|word| matches!(word, "env" | "environment"));
        let entries = ObjectReader::read(map, "`map`", &mut self.diagnostics)?;
        let mut fields = BTreeMap::new();
        for (key, secret) in entries.unread_entries() {
            if from_environment {
                expect_text(secret, "the credential of a field", &mut self.diagnostics)?;
                self.check_alias(secret);
            }
            fields.insert(key.text.clone(), from_environment.then(|| secret.clone()));
        }
        if let Some(provider) = provider.filter(|_| !from_environment) {
            let message = format!("the provider `{}` is not queried", provider.as_str().unwrap_or_default());
            let hint = format!("pass the fields as {}={{…}}", env_variable(name));
            self.no_effect(provider.span, message, hint);
        }
        Some(KeychainEntry { alias: at.clone(), fields: Some(fields) })
    }

    /// Returns the fields that a file names. Their values must not be in the file.
    fn named_fields(&mut self, name: &str, object: &mut ObjectReader) -> Option<BTreeMap<String, Option<SyntaxNode>>> {
        let groups: Vec<&SyntaxNode> = ["map", "data", "values"].iter().filter_map(|name| object.take(name)).collect();
        let lone: Vec<(&SpannedKey, &SyntaxNode)> =
            ["token", "value", "access_token"].iter().filter_map(|name| object.take_entry(name)).collect();
        let inner = groups.iter().filter_map(|group| group.as_map()).flatten();
        let all: Vec<(&SpannedKey, &SyntaxNode)> = inner.map(|(key, node)| (key, node)).chain(lone).collect();
        for (key, node) in all.iter().filter(|(_, node)| !matches!(node.kind, SyntaxNodeKind::Null)) {
            let message = format!("the secret `{}` is written in the file", key.text);
            let hint = format!("leave its value out and pass it as {}={{\"{}\": …}}", env_variable(name), key.text);
            self.error(codes::SECRET, node.span, message, hint);
        }
        (!all.is_empty()).then(|| all.into_iter().map(|(key, _)| (key.text.clone(), None)).collect())
    }

    /// Returns the credential for `auth`, if that is the name of a keychain entry or a template that evaluates to one.
    pub(crate) fn key_alias(&mut self, node: &SyntaxNode) -> Option<SyntaxNode> {
        let text = node.as_str()?.trim();
        let name = match expr::single_expression(text) {
            Some(inner) => inner.strip_prefix("keychain.")?,
            None => text,
        };
        let entry = self.keys.get(name)?.as_ref()?;
        Some(SyntaxNode::new(node.span, entry.alias.kind.clone()))
    }

    /// Replaces secrets in the inputs of a tool by sealed references.
    pub(crate) fn seal_secrets(&mut self, input: &SyntaxNode) -> SyntaxNode {
        let Some(entries) = input.as_map().filter(|_| mentions_secret(input)) else { return input.clone() };
        let mut notes = Vec::new();
        let open = |(key, node): &(SpannedKey, SyntaxNode)| {
            let at = vec![SyntaxNode::text(expr::literal_text(&key.text), key.span)];
            (key.clone(), self.replace_secrets(node, at, &mut notes))
        };
        let mut entries: Vec<(SpannedKey, SyntaxNode)> = entries.iter().map(open).collect();
        let key = SpannedKey { text: SEALED.to_owned(), span: input.span };
        entries.push((key, SyntaxNode::new(input.span, SyntaxNodeKind::List(notes))));
        SyntaxNode::new(input.span, SyntaxNodeKind::Map(entries))
    }

    fn replace_secrets(&mut self, node: &SyntaxNode, at: Vec<SyntaxNode>, notes: &mut Vec<SyntaxNode>) -> SyntaxNode {
        let below = |step: SyntaxNode| at.iter().cloned().chain([step]).collect::<Vec<_>>();
        let kind = match &node.kind {
            SyntaxNodeKind::Map(entries) => {
                let step = |key: &SpannedKey| SyntaxNode::text(expr::literal_text(&key.text), key.span);
                let open = |(key, node): &(SpannedKey, SyntaxNode)| {
                    (key.clone(), self.replace_secrets(node, below(step(key)), notes))
                };
                SyntaxNodeKind::Map(entries.iter().map(open).collect())
            }
            SyntaxNodeKind::List(items) => {
                let number =
                    |index: usize| SyntaxNode::new(node.span, SyntaxNodeKind::Number(Value::Int(index as i64)));
                let open = |(index, item)| self.replace_secrets(item, below(number(index)), notes);
                SyntaxNodeKind::List(items.iter().enumerate().map(open).collect())
            }
            SyntaxNodeKind::Str(text) => match self.parts(&text.text, node) {
                None => return node.clone(),
                Some(parts) => {
                    let (at, parts) = (SyntaxNodeKind::List(at), SyntaxNodeKind::List(parts));
                    let fields =
                        [("at", at), ("parts", parts)].map(|(name, kind)| (name, SyntaxNode::new(node.span, kind)));
                    notes.push(SyntaxNode::object(node.span, fields));
                    SyntaxNodeKind::Null
                }
            },
            _ => return node.clone(),
        };
        SyntaxNode::new(node.span, kind)
    }

    /// Splits a text at its secrets; `None` if there are none.
    fn parts(&mut self, text: &str, node: &SyntaxNode) -> Option<Vec<SyntaxNode>> {
        let mut parts = Vec::new();
        let (mut rest, mut plain) = (text, String::new());
        let mut any = false;
        while let Some(start) = rest.find("{{") {
            let hole = rest[start..].find("}}").map(|end| &rest[start..start + end + 2]);
            let Some(hole) = hole.filter(|hole| secret_path(hole).is_some()) else {
                plain.push_str(&rest[..start + 2]);
                rest = &rest[start + 2..];
                continue;
            };
            any = true;
            plain.push_str(&rest[..start]);
            parts.extend(plain_part(std::mem::take(&mut plain), node.span));
            if let Some((name, field)) = secret_path(hole) {
                parts.extend(self.secret_part(name, field, node.span));
            }
            rest = &rest[start + hole.len()..];
        }
        plain.push_str(rest);
        parts.extend(plain_part(plain, node.span));
        any.then_some(parts)
    }

    fn secret_part(&mut self, name: &str, field: &str, span: Span) -> Option<SyntaxNode> {
        let names = || self.keys.keys().map(String::as_str);
        let Some(entry) = self.keys.get(name) else {
            let hint = did_you_mean(name, names()).unwrap_or_else(|| match self.keys.is_empty() {
                true => "add it under `keychain`, next to `workflow`".to_owned(),
                false => format!("the keychain has {}", format_names(names())),
            });
            self.error(codes::UNKNOWN_NAME, span, format!("the keychain has no entry `{name}`"), hint);
            return None;
        };
        let entry = entry.as_ref()?;
        let known = entry.fields.as_ref();
        let own = known.and_then(|fields| fields.get(field)).cloned();
        if let Some(fields) = known.filter(|_| own.is_none() && !field.is_empty()) {
            let names = || fields.keys().map(String::as_str);
            let hint = did_you_mean(field, names()).unwrap_or_else(|| format!("it has {}", format_names(names())));
            let message = format!("the keychain entry `{name}` has no field `{field}`");
            self.push(Diagnostic::error(codes::UNKNOWN_NAME, span, message).with_hint(hint));
            return None;
        }
        // A separate credential is used as a whole.
        let (alias, field) = match own.flatten() {
            Some(alias) => (alias, ""),
            None => (entry.alias.clone(), field),
        };
        let field = SyntaxNode::text(expr::literal_text(field), span);
        Some(SyntaxNode::object(span, [("credential", alias), ("field", field)]))
    }
}

fn is_scope(node: &SyntaxNode) -> bool {
    matches!(node.as_str(), Some("local" | "shared" | "global"))
}

fn plain_part(text: String, span: Span) -> Option<SyntaxNode> {
    (!text.is_empty()).then(|| SyntaxNode::object(span, [("text", SyntaxNode::text(text, span))]))
}

/// Parses `{{ keychain.name.field }}`, and nothing else; the field is optional.
fn secret_path(hole: &str) -> Option<(&str, &str)> {
    let path = expr::single_expression(hole)?.strip_prefix("keychain.")?;
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    let (name, field) = path.split_once('.').unwrap_or((path, ""));
    (plain(name) && (field.is_empty() || plain(field))).then_some((name, field))
}

/// Reports whether any text below contains a secret.
pub(crate) fn mentions_secret(node: &SyntaxNode) -> bool {
    match &node.kind {
        SyntaxNodeKind::Str(text) => text.text.contains("keychain."),
        SyntaxNodeKind::List(items) => items.iter().any(mentions_secret),
        SyntaxNodeKind::Map(entries) => entries.iter().any(|(_, node)| mentions_secret(node)),
        _ => false,
    }
}

/// Returns the environment variable that provides a credential.
pub(crate) fn env_variable(alias: &str) -> String {
    let upper = alias.to_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!("WINDLASS_AUTH_{upper}")
}
