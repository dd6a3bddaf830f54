//! The action types: supported ones, and known ones that are not supported.

/// The type of an action, independent of layout and letter case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ActionType {
    Activity,
    Actor,
    Ai,
    AppendToArray,
    AppendToString,
    Approval,
    Compose,
    Decrement,
    DoUntil,
    Foreach,
    Http,
    If,
    Increment,
    Initialize,
    Join,
    /// Known but not supported, and replaced by a static result.
    Mocked,
    Parallel,
    ParseJson,
    Query,
    Response,
    Retry,
    Scope,
    Select,
    Set,
    Switch,
    Table,
    Terminate,
    Until,
    Wait,
    While,
    Workflow,
}

impl ActionType {
    /// Reports whether other actions are inside it.
    pub(crate) fn holds_actions(self) -> bool {
        use ActionType::{DoUntil, Foreach, If, Parallel, Retry, Scope, Switch, Until, While};
        matches!(self, DoUntil | Foreach | If | Parallel | Retry | Scope | Switch | Until | While)
    }
}

/// The displayed spelling and the type. The spelling is also the node's label.
const SUPPORTED: &[(&str, ActionType)] = &[
    ("activity", ActionType::Activity),
    ("actor", ActionType::Actor),
    ("ai", ActionType::Ai),
    ("appendToArrayVariable", ActionType::AppendToArray),
    ("appendToStringVariable", ActionType::AppendToString),
    ("approval", ActionType::Approval),
    ("compose", ActionType::Compose),
    ("decrementVariable", ActionType::Decrement),
    ("delay", ActionType::Wait),
    ("doUntil", ActionType::DoUntil),
    ("foreach", ActionType::Foreach),
    ("http", ActionType::Http),
    ("if", ActionType::If),
    ("incrementVariable", ActionType::Increment),
    ("initializeVariable", ActionType::Initialize),
    ("join", ActionType::Join),
    ("parallel", ActionType::Parallel),
    ("parseJson", ActionType::ParseJson),
    ("query", ActionType::Query),
    ("response", ActionType::Response),
    ("retry", ActionType::Retry),
    ("scope", ActionType::Scope),
    ("select", ActionType::Select),
    ("setVariable", ActionType::Set),
    ("switch", ActionType::Switch),
    ("table", ActionType::Table),
    ("terminate", ActionType::Terminate),
    ("until", ActionType::Until),
    ("wait", ActionType::Wait),
    ("while", ActionType::While),
    ("workflow", ActionType::Workflow),
];

/// Action types of Azure and of Loom that are not supported yet, each with an alternative.
const KNOWN: &[(&str, &str)] = &[
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
    ("liquid", FORMAT),
    ("openApiConnection", CONNECTOR),
    ("openApiConnectionNotification", CONNECTOR),
    ("openApiConnectionWebhook", CONNECTOR),
    ("powerShellCode", CODE),
    ("recurrence", TRIGGER),
    ("request", TRIGGER),
    ("rosettaNetEncode", FORMAT),
    ("sendToBatch", LATER),
    ("serviceProvider", CONNECTOR),
    ("slidingWindow", TRIGGER),
    ("swiftDecode", FORMAT),
    ("swiftEncode", FORMAT),
    ("x12Decode", FORMAT),
    ("x12Encode", FORMAT),
    ("xmlCompose", FORMAT),
    ("xmlParse", FORMAT),
    ("xmlValidation", FORMAT),
    ("xslt", FORMAT),
];

const LATER: &str = "it is known, but this version cannot run it";
const CONNECTOR: &str = "call the service's own API with `http`, or give the action a static result";
const CODE: &str = "write it as an expression in a `compose`, or call a service with `http`";
const FORMAT: &str = "let a service do it, called with an `http` action";
const TRIGGER: &str = "it is a trigger: move it under `triggers`";

pub(crate) fn find(name: &str) -> Option<(&'static str, ActionType)> {
    SUPPORTED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

/// Returns a known type that is not supported and not a trigger: a static result may replace it.
pub(crate) fn mockable(name: &str) -> Option<&'static str> {
    let found = KNOWN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.filter(|(_, instead)| *instead != TRIGGER).map(|(known, _)| *known)
}

/// Returns the alternative to a known type that is not supported.
pub(crate) fn alternative_for(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, instead)| *instead)
}

pub(crate) fn is_trigger(name: &str) -> bool {
    alternative_for(name) == Some(TRIGGER)
}

pub(crate) fn all_names() -> impl Iterator<Item = &'static str> {
    SUPPORTED.iter().map(|(name, _)| *name).chain(KNOWN.iter().map(|(name, _)| *name))
}

pub(crate) fn supported_names() -> impl Iterator<Item = &'static str> {
    SUPPORTED.iter().map(|(name, _)| *name)
}
