//! Services that repeat the secrets they receive in every form: no outcome of a tool contains them.

use crate::support;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall};
use windlass_tools::{Endpoint, EndpointTool, ModelOptions, ModelTool, Secret};
use windlass_value::{Value, to_json};

use support::{call, class, debug_text, error, tool};

const KEY: &str = "sk-Canary/0123+456789";
const DIGITS: &str = "4815162342108";

/// Serves these replies, one per connection.
async fn replying(replies: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let mut requests = Vec::new();
        for reply in replies {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = String::new();
            loop {
                let mut piece = [0; 4096];
                let read = stream.read(&mut piece).await.unwrap();
                text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                    break;
                }
            }
            stream.write_all(reply.as_bytes()).await.unwrap();
            requests.push(text);
        }
        requests
    });
    (url, server)
}

fn reply(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

fn json(status: u16, body: &str) -> String {
    reply(status, "content-type: application/json\r\n", body)
}

/// Asserts that no form of the secret appears anywhere in the outcome.
fn assert_redacted(secret: &str, outcome: &TaskOutcome) {
    let visible = format!(
        "{} {} {} {}",
        debug_text(outcome),
        to_json(&outcome.output),
        to_json(&outcome.meta),
        outcome.next_call.as_ref().map(|again| to_json(&again.input)).unwrap_or_default()
    );
    let escaped: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let partly = secret.replace('/', "%2F").replace('+', "%2B");
    let mut forms = vec![secret.to_owned(), secret.to_lowercase(), escaped, partly, secret[..12].to_owned()];
    for before in ["", "a", "ab"] {
        let encoded = BASE64.encode(format!("{before}{secret}"));
        forms.push(encoded[4..16].to_owned());
    }
    for form in forms {
        assert!(!visible.contains(&form), "{form} is in {visible}");
    }
}

fn endpoint(url: String, secret: &str) -> Endpoint {
    // A variable read from a file often ends in a newline.
    let headers = vec![
        ("Authorization".to_owned(), Secret::new(format!("Bearer {secret}\n"))),
        ("X-Key".to_owned(), Secret::new(format!(" {secret} \n"))),
        ("X-Team".to_owned(), Secret::plain("blue-and-green")),
    ];
    Endpoint { headers, ..Endpoint::new(url) }
}

async fn served(secret: &str, replies: Vec<String>) -> TaskOutcome {
    let (url, server) = replying(replies).await;
    let outcome = EndpointTool::new(endpoint(format!("{url}/x"), secret), tool()).call(call("1")).await;
    let requests = server.await.unwrap();
    assert!(requests[0].contains(&format!("authorization: Bearer {secret}\r\n")), "{}", requests[0]);
    assert_redacted(secret, &outcome);
    outcome
}

fn location(status: u16, to: &str) -> String {
    reply(status, &format!("location: {to}\r\n"), "")
}

#[tokio::test]
async fn endpoint_secrets_are_redacted() {
    let escaped = KEY.replace('/', "%2F");
    let long = "x".repeat(190);
    for (replies, code) in [
        (vec![location(302, &format!("/e/{KEY}")), reply(500, "", "")], "500"),
        (vec![location(307, &format!("/e/{escaped}?q=1")), json(200, "{oops")], "BadJson"),
        (vec![location(302, &format!("ftp://{KEY}"))], "BadRedirect"),
        (vec![location(302, &format!("ftp://{long}{KEY}"))], "BadRedirect"),
        (vec![location(202, &format!("/echo/{KEY}"))], "BadLocation"),
        (vec![location(202, &format!("/echo/{escaped}"))], "BadLocation"),
        (vec![location(202, &format!("/echo?k={}", BASE64.encode(KEY)))], "BadLocation"),
        (vec![location(202, &format!("ftp://{long}{KEY}"))], "BadLocation"),
        (vec![json(500, &format!(r#"{{"{KEY}": "{KEY}"}}"#))], "500"),
        (vec![reply(200, &format!("content-encoding: {}\r\n", KEY.to_lowercase()), "x")], "BadEncoding"),
        (vec![json(200, &format!("{}{KEY}", "x".repeat(75)))], "BadJson"),
    ] {
        let outcome = served(KEY, replies).await;
        assert_eq!(class(&outcome).0, code, "{outcome:?}");
        assert!(outcome.next_call.is_none());
    }
    for body in [
        format!(r#""{KEY}""#),
        format!(r#"["a {}", "{}"]"#, BASE64.encode(format!("Bearer {KEY}")), BASE64.encode(format!("me:{KEY}:"))),
        format!(r#"{{"url": "http://h/?k={escaped}"}}"#),
        format!(r#"{{"text": "{{\"k\":\"\\u0073{}\"}}"}}"#, &KEY[1..]),
    ] {
        assert_eq!(served(KEY, vec![json(200, &body)]).await.error, None);
    }
    let bytes = reply(200, "content-type: application/octet-stream\r\n", &format!("..{KEY}.."));
    assert!(to_json(&served(KEY, vec![bytes]).await.output).contains("***"));
    for body in [DIGITS.to_owned(), format!(r#"{{"a": [{DIGITS}.0, "{DIGITS}", -{DIGITS}]}}"#)] {
        let outcome = served(DIGITS, vec![json(200, &body)]).await;
        assert!(to_json(&outcome.output).contains("***"), "{outcome:?}");
    }
}

#[tokio::test]
async fn secrets_are_redacted_while_polling() {
    let (url, server) = replying(vec![location(202, "/job/1"), location(202, &format!("/job/{KEY}"))]).await;
    let tool = EndpointTool::new(endpoint(url, KEY), tool());
    let accepted = tool.call(call("1")).await;
    assert_redacted(KEY, &accepted);
    let input = accepted.next_call.unwrap().input;
    let outcome = tool.call(ToolCall { input, is_continuation: true, ..call("1") }).await;
    assert_eq!(class(&outcome).0, "BadLocation");
    assert!(error(&outcome).message.contains("contains a configured secret"), "{outcome:?}");
    assert_redacted(KEY, &outcome);
    server.await.unwrap();
}

#[tokio::test]
async fn model_secrets_are_redacted() {
    let (start, end) = KEY.split_at(9);
    let parts = format!(r#"[{{"text": "a {start}"}}, {{"text": "{end} b"}}]"#);
    let answer = |content: &str| format!(r#"{{"choices": [{{"message": {{"content": {content}}}}}]}}"#);
    let filler = "x".repeat(110);
    for (secret, replies) in [
        (KEY, vec![json(200, &answer(&parts))]),
        (KEY, vec![json(200, &answer(&format!(r#""{}""#, BASE64.encode(KEY))))]),
        (KEY, vec![reply(200, "content-type: text/plain\r\n", &answer(&format!(r#""{KEY}""#)))]),
        (KEY, vec![json(200, &format!(r#"{{"error": {{"message": "{KEY}", "code": "{KEY}"}}}}"#))]),
        (KEY, vec![json(200, &format!(r#"{{"choices": [{{"message": {{"refusal": "{filler}{KEY}"}}}}]}}"#))]),
        (KEY, vec![location(307, &format!("/e500/{KEY}")), reply(500, "", "")]),
        (KEY, vec![location(202, &format!("/later/{KEY}"))]),
        (DIGITS, vec![json(200, &answer(&format!(r#""{{\"k\": {DIGITS}}}""#)))]),
        (DIGITS, vec![json(200, &format!(r#"{{"error": {{"message": "x", "code": {DIGITS}}}}}"#))]),
        (DIGITS, vec![json(200, &format!(r#"{{"choices": [], "usage": {{"total_tokens": {DIGITS}}}}}"#))]),
    ] {
        let (url, server) = replying(replies).await;
        let options = ModelOptions {
            base_url: Some(url),
            key: Some(Secret::new(format!("{secret}\n"))),
            default_model: Some("m".to_owned()),
            ..ModelOptions::default()
        };
        let outcome = ModelTool::new(options, tool()).call(call(r#"{"prompt": "x"}"#)).await;
        assert_redacted(secret, &outcome);
        assert!(server.await.unwrap()[0].contains(&format!("authorization: Bearer {secret}\r\n")));
    }
}

#[tokio::test]
async fn ordinary_data_stays_as_it_is() {
    let body = r#"{"team":"blue-and-green","color":"blue","accept":"application/json","n":12345678}"#;
    let (url, server) = replying(vec![json(200, body), json(404, body)]).await;
    let headers = vec![
        ("X-Team".to_owned(), Secret::plain("blue-and-green")),
        ("Accept".to_owned(), Secret::plain("application/json")),
        ("X-Number".to_owned(), Secret::plain("12345678")),
        ("X-Color".to_owned(), Secret::new("blue")),
    ];
    let tool = EndpointTool::new(Endpoint { headers, ..Endpoint::new(url) }, tool());
    assert_eq!(to_json(&tool.call(call("1")).await.output), body);
    let outcome = tool.call(call("1")).await;
    assert_eq!(outcome.output.get("body").map(to_json).as_deref(), Some(body));
    // A secret that cannot be redacted is reported in the hint.
    assert!(error(&outcome).hint.as_ref().unwrap().contains("fewer than 8 characters"), "{outcome:?}");
    assert!(server.await.unwrap()[0].contains("x-color: blue\r\n"));
    assert_ne!(outcome.output, Value::Null);
}
