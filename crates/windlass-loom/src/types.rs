//! The action types: those that compile, and those that are known by name.

/// What an action is, whatever layout and letter case it was written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ActionType {
    Activity,
    AppendToArray,
    AppendToString,
    Compose,
    Decrement,
    DoUntil,
    Foreach,
    Http,
    If,
    Increment,
    Initialize,
    Parallel,
    Retry,
    Scope,
    Set,
    Switch,
    Terminate,
    Until,
    Wait,
    While,
}

/// The spelling we show, and the type. The spelling is also the node's label.
const SUPPORTED: &[(&str, ActionType)] = &[
    ("activity", ActionType::Activity),
    ("appendToArrayVariable", ActionType::AppendToArray),
    ("appendToStringVariable", ActionType::AppendToString),
    ("compose", ActionType::Compose),
    ("decrementVariable", ActionType::Decrement),
    ("delay", ActionType::Wait),
    ("doUntil", ActionType::DoUntil),
    ("foreach", ActionType::Foreach),
    ("http", ActionType::Http),
    ("if", ActionType::If),
    ("incrementVariable", ActionType::Increment),
    ("initializeVariable", ActionType::Initialize),
    ("parallel", ActionType::Parallel),
    ("retry", ActionType::Retry),
    ("scope", ActionType::Scope),
    ("setVariable", ActionType::Set),
    ("switch", ActionType::Switch),
    ("terminate", ActionType::Terminate),
    ("until", ActionType::Until),
    ("wait", ActionType::Wait),
    ("while", ActionType::While),
];

/// Real action types of Azure and of the seed that have no translation yet, and what to do instead.
const KNOWN: &[(&str, &str)] = &[
    ("actor", LATER),
    ("ai", LATER),
    ("agent", LATER),
    ("apiConnection", CONNECTOR),
    ("apiConnectionNotification", CONNECTOR),
    ("apiConnectionWebhook", CONNECTOR),
    ("apiManagement", CONNECTOR),
    ("as2Decode", FORMAT),
    ("as2Encode", FORMAT),
    ("batch", LATER),
    ("cSharpScriptCode", CODE),
    ("edifactDecode", FORMAT),
    ("edifactEncode", FORMAT),
    ("executeJavaScriptCode", CODE),
    ("flatFileDecoding", FORMAT),
    ("flatFileEncoding", FORMAT),
    ("function", CONNECTOR),
    ("httpWebhook", "call the service with `http` and poll it in an `until` loop"),
    ("inlineCode", CODE),
    ("integrationAccountArtifactLookup", CONNECTOR),
    ("invokeFunction", CONNECTOR),
    ("javaScriptCode", CODE),
    ("join", "use @join(…) in a `compose`"),
    ("liquid", FORMAT),
    ("parseJson", "use @json(…) in a `compose`"),
    ("powerShellCode", CODE),
    ("query", "use a `foreach` with an `if` in it"),
    ("recurrence", TRIGGER),
    ("request", TRIGGER),
    ("response", "give the result under `outputs`"),
    ("rosettaNetEncode", FORMAT),
    ("select", "use a `foreach` with a `compose` in it"),
    ("sendToBatch", LATER),
    ("serviceProvider", CONNECTOR),
    ("slidingWindow", TRIGGER),
    ("swiftDecode", FORMAT),
    ("swiftEncode", FORMAT),
    ("table", FORMAT),
    ("workflow", LATER),
    ("x12Decode", FORMAT),
    ("x12Encode", FORMAT),
    ("xmlCompose", FORMAT),
    ("xmlParse", FORMAT),
    ("xmlValidation", FORMAT),
    ("xslt", FORMAT),
];

const LATER: &str = "it is known, but this version cannot run it";
const CONNECTOR: &str = "call the service itself with an `http` action";
const CODE: &str = "write it as an expression in a `compose`, or call a service with `http`";
const FORMAT: &str = "let a service do it, called with an `http` action";
const TRIGGER: &str = "it is a trigger: move it under `triggers`";

pub(crate) fn find(name: &str) -> Option<(&'static str, ActionType)> {
    SUPPORTED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

/// For a known type that is not supported: what to do instead.
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, instead)| *instead)
}

pub(crate) fn all_names() -> impl Iterator<Item = &'static str> {
    SUPPORTED.iter().map(|(name, _)| *name).chain(KNOWN.iter().map(|(name, _)| *name))
}

pub(crate) fn supported_names() -> impl Iterator<Item = &'static str> {
    SUPPORTED.iter().map(|(name, _)| *name)
}
