//! The tool `http` against a local service.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration as StdDuration, Instant};

use windlass_core::TaskOutcome;
use windlass_runtime::{Tool, ToolCall};
use windlass_testing::test_service::CountedEffect;
use windlass_tools::{HttpOptions, HttpTool, NoopTool, Outbound, standard_tools};
use windlass_value::{Duration, Value, to_json};

use support::{call, class, error, get, options, part, send, service, tool};

#[tokio::test]
async fn sends_what_the_input_says() {
    let service = service();
    let input = format!(
        r#"{{"method": "post", "url": "{}", "headers": {{"X-Number": 5, "x-flag": true, "x-none": null, "x-list": [1]}},
            "queries": {{"q": "a b&c", "n": 1, "many": ["x"]}}, "body": {{"b": 1, "a": 1.0}}, "cookie": "id=7"}}"#,
        service.url("/json/a%20b?first=1")
    );
    let outcome = send(&input).await;
    assert_eq!(outcome.error, None);
    assert_eq!(part(&outcome, "statusCode"), "200");
    assert_eq!(part(&outcome, "body.method"), r#""POST""#);
    assert_eq!(part(&outcome, "body.path"), r#""/json/a%20b""#);
    assert_eq!(part(&outcome, "body.query"), r#"{"first":"1","q":"a b&c","n":"1","many":"x"}"#);
    assert_eq!(part(&outcome, "body.body"), r#"{"b":1,"a":1.0}"#);
    for (name, value) in [
        ("x-number", "5"),
        ("x-flag", "true"),
        ("x-list", "[1]"),
        ("cookie", "id=7"),
        ("content-type", "application/json"),
        ("idempotency-key", "run-1:sync[3]/fetch"),
        ("x-windlass-run", "run-1"),
        ("x-windlass-path", "sync[3]/Gr%C3%BC%C3%9Fe"),
        ("x-windlass-attempt", "2"),
    ] {
        assert_eq!(part(&outcome, &format!("body.headers.{name}")), format!("\"{value}\""), "{name}");
    }
    assert_eq!(part(&outcome, "body.headers.x-none"), "");
    assert!(part(&outcome, "body.headers.user-agent").starts_with("\"windlass/"));
}

#[tokio::test]
async fn body_kinds_have_content_types() {
    let service = service();
    for (body, header, content_type, sent) in [
        (r#""plain""#, "", r#""text/plain; charset=utf-8""#, r#""plain""#),
        (r#""<a/>""#, r#""Content-Type": "application/xml""#, r#""application/xml""#, r#""<a/>""#),
        ("[1,2]", "", r#""application/json""#, "[1,2]"),
        ("[1,2]", r#""content-type": "application/vnd.x+json""#, r#""application/vnd.x+json""#, "[1,2]"),
        (r#"{"$content-type": "image/x", "$content": "aGk="}"#, "", r#""image/x""#, r#""hi""#),
        ("null", "", "", "null"),
    ] {
        let uri = service.url("/json/x");
        let input = format!(r#"{{"method": "PUT", "uri": "{uri}", "headers": {{{header}}}, "body": {body}}}"#);
        let outcome = send(&input).await;
        assert_eq!(part(&outcome, "body.headers.content-type"), content_type, "{body}");
        assert_eq!(part(&outcome, "body.body"), sent, "{body}");
    }
}

#[tokio::test]
async fn the_definition_may_choose_the_key_but_not_the_length() {
    let service = service();
    let input = format!(
        r#"{{"method": "POST", "uri": "{}", "body": "abc",
            "headers": {{"Idempotency-Key": "mine", "Content-Length": "99", "x-windlass-run": "other"}}}}"#,
        service.url("/json/x")
    );
    let outcome = send(&input).await;
    assert_eq!(part(&outcome, "body.headers.idempotency-key"), r#""mine""#);
    assert_eq!(part(&outcome, "body.headers.content-length"), r#""3""#);
    assert_eq!(part(&outcome, "body.headers.x-windlass-run"), r#""run-1""#);
}

#[tokio::test]
async fn authenticates() {
    let service = service();
    let host = service.addr();
    for (input, expected) in [
        (r#""authentication": {"type": "Basic", "username": "me", "password": "pw"}"#, "Basic bWU6cHc="),
        (r#""authentication": {"type": "raw", "value": "Bearer t0k"}"#, "Bearer t0k"),
        (r#""headers": {"Authorization": "Bearer own"}"#, "Bearer own"),
        (r#""authentication": {"type": "None"}"#, "Basic dTpwQHc="),
    ] {
        let outcome = send(&format!(r#"{{"uri": "http://u:p%40w@{host}/json/x", {input}}}"#)).await;
        assert_eq!(part(&outcome, "body.headers.authorization"), format!("\"{expected}\""), "{input}");
    }
}

#[tokio::test]
async fn cloud_only_authentication_is_rejected() {
    for kind in ["ClientCertificate", "ActiveDirectoryOAuth", "ManagedServiceIdentity"] {
        let outcome =
            send(&format!(r#"{{"uri": "http://h", "authentication": {{"type": "{kind}", "pfx": "x"}}}}"#)).await;
        assert_eq!(class(&outcome), ("BadRequestAuthentication", "input", false));
        assert_eq!(&*error(&outcome).message, format!("authentication of type `{kind}` is not supported"));
    }
}

#[tokio::test]
async fn every_method_goes_out() {
    let service = service();
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
        let outcome = send(&format!(r#"{{"method": "{method}", "uri": "{}"}}"#, service.url("/json/x"))).await;
        assert_eq!(part(&outcome, "body.method"), format!("\"{method}\""));
    }
}

#[tokio::test]
async fn queries_of_every_kind() {
    let service = service();
    let queries = r#"{"many": ["a", 2, true], "o": {"k": "ü"}, "none": null, "empty": ""}"#;
    let outcome = send(&format!(r#"{{"uri": "{}", "queries": {queries}}}"#, service.url("/json/x?many=0"))).await;
    assert_eq!(part(&outcome, "body.query"), r#"{"many":["0","a","2","true"],"o":"{\"k\":\"ü\"}","empty":""}"#);
}

#[tokio::test]
async fn forms_and_parts_go_out_as_they_should() {
    let service = service();
    let file = r#"{"headers": {"Content-Disposition": "form-data; name=\"f\"; filename=\"a.bin\""},
        "body": {"$content-type": "image/x", "$content": "aGk="}}"#;
    let field = r#"{"headers": {"Content-Disposition": "form-data; name=\"t\""}, "body": "text"}"#;
    let json = r#"{"headers": {"Content-Disposition": "form-data; name=\"j\""}, "body": {"a": 1}}"#;
    for (body, content_type, sent) in [
        (
            r#"{"$content-type": "application/x-www-form-urlencoded", "$formdata": [{"key": "a b", "value": "1&2"}]}"#
                .to_owned(),
            "application/x-www-form-urlencoded",
            "a+b=1%262",
        ),
        (
            format!(r#"{{"$content-type": "multipart/form-data", "$multipart": [{file}, {field}, {json}]}}"#),
            "multipart/form-data; boundary=windlass-part-00000000",
            "--windlass-part-00000000\r\n\
             content-disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\ncontent-type: image/x\r\n\r\nhi\r\n\
             --windlass-part-00000000\r\ncontent-disposition: form-data; name=\"t\"\r\n\r\ntext\r\n\
             --windlass-part-00000000\r\ncontent-disposition: form-data; name=\"j\"\r\n\
             content-type: application/json\r\n\r\n{\"a\":1}\r\n--windlass-part-00000000--\r\n",
        ),
    ] {
        let outcome = send(&format!(r#"{{"method": "POST", "uri": "{}", "body": {body}}}"#, service.url("/raw"))).await;
        let body = outcome.output.get("body").unwrap();
        assert_eq!(body.get("content_type").and_then(Value::as_str), Some(content_type));
        assert_eq!(body.get("text").and_then(Value::as_str), Some(sent));
    }
}

#[tokio::test]
async fn a_form_can_be_sent_on_as_it_came() {
    let service = service();
    let form = get(&service.url("/form")).await;
    let fields = r#"[{"key":"name","value":"a b"},{"key":"note","value":"&"}]"#;
    assert_eq!(part(&form, "body.$formdata"), fields);
    let body = part(&form, "body");
    let outcome = send(&format!(r#"{{"method": "POST", "uri": "{}", "body": {body}}}"#, service.url("/raw"))).await;
    assert_eq!(part(&outcome, "body.text"), r#""name=a+b&note=%26""#);
    assert_eq!(part(&outcome, "body.content_type"), r#""application/x-www-form-urlencoded""#);
}

#[tokio::test]
async fn other_statuses_fail_with_their_output() {
    let service = service();
    let outcome = get(&service.url("/status/503?retry-after=2&sig=hush")).await;
    assert_eq!(class(&outcome), ("503", "http", true));
    let shown = service.url("/status/503?…");
    assert_eq!(&*error(&outcome).message, format!("GET {shown} answered 503 Service Unavailable: {{\"status\":503}}"));
    assert_eq!(part(&outcome, "statusCode"), "503");
    assert_eq!(part(&outcome, "body"), r#"{"status":503}"#);
    assert_eq!(part(&outcome, "headers.vary"), r#""accept, origin""#);
    assert_eq!(to_json(&outcome.meta), r#"{"retry_after_ms":2000}"#);
    assert_eq!(class(&get(&service.url("/status/404")).await), ("404", "http", true));
    assert_eq!(class(&get(&service.url("/status/304")).await), ("304", "http", true));
    for good in ["201", "204", "299"] {
        let outcome = get(&service.url(&format!("/status/{good}"))).await;
        assert_eq!((outcome.error.is_none(), part(&outcome, "statusCode")), (true, good.to_owned()));
        assert_eq!(outcome.meta, Value::Null);
    }
}

#[tokio::test]
async fn bodies_become_values() {
    let service = service();
    assert_eq!(part(&get(&service.url("/text")).await, "body"), r#""hello""#);
    assert_eq!(part(&get(&service.url("/latin1")).await, "body"), r#""Grüße""#);
    assert_eq!(part(&get(&service.url("/empty")).await, "body"), "null");
    assert_eq!(part(&get(&service.url("/status/204")).await, "body"), "null");
    let binary = r#"{"$content-type":"application/octet-stream","$content":"AP8="}"#;
    assert_eq!(part(&get(&service.url("/binary")).await, "body"), binary);
    assert_eq!(part(&get(&service.url("/gzip")).await, "body"), r#"{"packed":true}"#);
    let head = send(&format!(r#"{{"method": "HEAD", "uri": "{}"}}"#, service.url("/gzip"))).await;
    assert_eq!((head.error.is_none(), part(&head, "body")), (true, "null".to_owned()));
    assert_eq!(class(&get(&service.url("/gzip?as=br")).await), ("BadEncoding", "http", true));
    assert_eq!(class(&get(&service.url("/gzip?as=deflate")).await), ("BadEncoding", "http", true));
}

#[tokio::test]
async fn a_large_json_body_is_parsed_too() {
    let service = service();
    let outcome = get(&service.url("/pages?size=10000&page=4")).await;
    assert_eq!(outcome.output.get("body").unwrap().get("items").unwrap().as_list().unwrap().len(), 10_000);
    let long = "y".repeat(400 << 10);
    let outcome = send(&format!(r#"{{"uri": "{}", "body": "{long}"}}"#, service.url("/json/x"))).await;
    assert_eq!(part(&outcome, "body.body").len(), long.len() + 2);
}

#[tokio::test]
async fn an_invalid_json_body_fails() {
    let service = service();
    let outcome = get(&service.url("/bad-json")).await;
    assert_eq!(class(&outcome), ("BadJson", "http", true));
    let error = error(&outcome);
    assert!(error.message.contains("line 1, column 34"), "{}", error.message);
    assert!(error.message.ends_with(r#"it begins: {"status": "ok", "items": [1, 2, oops]}"#), "{}", error.message);
    assert!(error.hint.is_some());
    assert_eq!(part(&outcome, "statusCode"), "200");
}

#[tokio::test]
async fn no_secret_gets_into_an_error() {
    let service = service();
    let host = service.addr();
    let secrets = ["hunter2", "c2VjcmV0", "aHVudGVy", "s3ss10n", "tok-en", "sig-nature"];
    for (uri, more) in [
        ("/echo-bad-json", r#""authentication": {"type": "Raw", "value": "Bearer tok-en"}"#),
        ("/echo-bad-json", r#""authentication": {"type": "Basic", "username": "me", "password": "hunter2"}"#),
        ("/status/401?sig=sig-nature", r#""headers": {"Authorization": "tok-en", "Cookie": "s3ss10n"}"#),
        ("/close?sig=sig-nature", r#""cookie": "s3ss10n""#),
        ("/slow?ms=10000&sig=sig-nature", r#""timeout": 0.05"#),
        ("/redirect?to=ftp://u:hunter2@h/?k=tok-en", r#""x": 1"#),
        ("/text", r#""headers": {"Authorization": "tok-en\nx: y"}"#),
        ("/text", r#""authentication": {"type": "Basic", "user": "me", "password": "hunter2"}"#),
        ("/text", r#""authentication": {"type": "Raw", "value": "tok-en\n"} , "headers": {"x y": "hunter2"}"#),
    ] {
        let outcome = send(&format!(r#"{{"uri": "http://u:hunter2@{host}{uri}", {more}}}"#)).await;
        let error = to_json(&error(&outcome).to_value());
        let all = format!("{error} {}", to_json(&outcome.meta));
        assert!(!secrets.iter().any(|secret| all.contains(secret)), "{all}");
    }
}

#[tokio::test]
async fn gives_up_in_time() {
    let service = service();
    let started = Instant::now();
    let uri = service.url("/slow?ms=600000");
    for timeout in ["0.05", r#""PT0.05S""#, r#""0.05""#] {
        let outcome = send(&format!(r#"{{"uri": "{uri}", "timeout": {timeout}}}"#)).await;
        assert_eq!(class(&outcome), ("timeout", "timeout", false));
        assert!(error(&outcome).message.ends_with("within 50ms"), "{}", error(&outcome).message);
    }
    let by_task =
        ToolCall { timeout: Some(Duration::from_ms(50)), ..call(&format!(r#"{{"uri": "{uri}", "timeout": 900}}"#)) };
    assert_eq!(class(&tool().call(by_task).await), ("timeout", "timeout", false));
    let by_default = HttpTool::new(HttpOptions { default_timeout: Duration::from_ms(50), ..options() });
    assert_eq!(class(&by_default.call(call(&format!(r#"{{"uri": "{uri}"}}"#))).await), ("timeout", "timeout", false));
    assert!(started.elapsed() < StdDuration::from_secs(300));
    assert_eq!(get(&service.url("/slow?ms=1")).await.error, None);
}

#[tokio::test]
async fn connection_failures() {
    let service = service();
    assert_eq!(class(&get(&service.url("/close")).await), ("connection", "connection", false));
    let gone = service.url("/text");
    drop(service);
    let outcome = get(&gone).await;
    assert_eq!(class(&outcome), ("connection", "connection", false));
    assert!(error(&outcome).message.contains("refused"), "{}", error(&outcome).message);
    assert!(error(&outcome).hint.is_some());
    assert_eq!(class(&get("http://no-such-host.invalid/").await), ("connection", "connection", false));
}

#[tokio::test]
async fn a_reply_that_is_too_large_is_not_read_on() {
    let service = service();
    for path in ["/big?mb=200", "/big?mb=200&length=1", "/gzip?mb=100000"] {
        let before = service.bytes_sent();
        let outcome = get(&service.url(path)).await;
        assert_eq!(class(&outcome), ("ReplyTooLarge", "limit", true), "{path}");
        assert_eq!(part(&outcome, "statusCode"), "200");
        // Only what a socket buffers is sent; the rest is never generated.
        assert!(service.bytes_sent() - before < 32 << 20, "{path}: {}", service.bytes_sent() - before);
    }
    assert!(peak_memory_kib() < 128 << 10, "{} KiB", peak_memory_kib());
    assert_eq!(part(&get(&service.url("/big?mb=1")).await, "body").len(), (1 << 20) + 2);
}

fn peak_memory_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn refuses_requests_that_cannot_be_sent() {
    for (input, code) in [
        (r#"["x"]"#, "BadRequestInput"),
        ("{}", "BadRequestUri"),
        (r#"{"uri": 5}"#, "BadRequestUri"),
        (r#"{"uri": "host/path"}"#, "BadRequestUri"),
        (r#"{"uri": "file:///etc/passwd"}"#, "BadRequestUri"),
        (r#"{"uri": "http://h", "method": "GE T"}"#, "BadRequestMethod"),
        (r#"{"uri": "http://h", "method": "CONNECT"}"#, "BadRequestMethod"),
        (r#"{"uri": "http://h", "headers": {"a b": 1}}"#, "BadRequestHeader"),
        (r#"{"uri": "http://h", "headers": {"a": "x\r\ny: z"}}"#, "BadRequestHeader"),
        (r#"{"uri": "http://h", "headers": {"Transfer-Encoding": "chunked"}}"#, "BadRequestHeader"),
        (r#"{"uri": "http://h", "headers": []}"#, "BadRequestHeader"),
        (r#"{"uri": "http://h", "queries": "a=1"}"#, "BadRequestQuery"),
        (r#"{"uri": "http://h", "body": {"$content-type": "a/b", "$content": "!"}}"#, "BadRequestBody"),
        (r#"{"uri": "http://h", "body": {"$formdata": {"a": 1}}}"#, "BadRequestBody"),
        (r#"{"uri": "http://h", "body": {"$multipart": ["a"]}}"#, "BadRequestBody"),
        (r#"{"uri": "http://h", "body": {"$content-type": "text/plain", "$multipart": []}}"#, "BadRequestBody"),
        (r#"{"uri": "http://h", "authentication": {"type": "Magic"}}"#, "BadRequestAuthentication"),
        (r#"{"uri": "http://h", "timeout": 0}"#, "BadRequestTimeout"),
        (r#"{"uri": "http://h", "timeout": "soon"}"#, "BadRequestTimeout"),
        (r#"{"uri": "http://h", "redirect": "sometimes"}"#, "BadRequestRedirect"),
    ] {
        let outcome = send(input).await;
        assert_eq!(class(&outcome), (code, "input", false), "{input}");
        assert!(error(&outcome).hint.is_some(), "{input}");
    }
}

#[tokio::test]
async fn follows_redirects() {
    let service = service();
    assert_eq!(part(&get(&service.url("/hops/10")).await, "body.path"), r#""/json/end""#);
    assert_eq!(class(&get(&service.url("/hops/11")).await), ("TooManyRedirects", "http", true));
    for (extra, code) in
        [(r#""redirect": 2"#, "TooManyRedirects"), (r#""redirect": "manual""#, "302"), (r#""redirect": false"#, "302")]
    {
        let outcome = send(&format!(r#"{{"uri": "{}", {extra}}}"#, service.url("/hops/3"))).await;
        assert_eq!(class(&outcome), (code, "http", true), "{extra}");
    }
    assert_eq!(class(&get(&service.url("/redirect?to=gopher://x/")).await), ("BadRedirect", "http", true));
    assert_eq!(class(&get(&service.url("/redirect")).await), ("302", "http", true));
}

#[tokio::test]
async fn redirects_change_the_method_as_browsers_do() {
    let service = service();
    for (code, method, body) in
        [(302, "GET", "null"), (303, "GET", "null"), (307, "POST", r#""b""#), (308, "POST", r#""b""#)]
    {
        let uri = service.url(&format!("/redirect?to=/json/x&code={code}"));
        let outcome = send(&format!(r#"{{"method": "POST", "uri": "{uri}", "body": "b"}}"#)).await;
        assert_eq!(part(&outcome, "body.method"), format!("\"{method}\""), "{code}");
        assert_eq!(part(&outcome, "body.body"), body, "{code}");
        assert_eq!(part(&outcome, "body.headers.idempotency-key"), r#""run-1:sync[3]/fetch""#);
    }
}

#[tokio::test]
async fn secrets_stay_with_their_server() {
    let (first, second) = (service(), service());
    for (target, kept) in [(first.url("/json/x"), true), (second.url("/json/x"), false)] {
        let input = format!(
            r#"{{"uri": "{}", "cookie": "c=1", "headers": {{"X-Api-Key": "k", "accept": "a/b"}},
                "authentication": {{"type": "Raw", "value": "Bearer t"}}}}"#,
            first.url(&format!("/redirect?to={target}"))
        );
        let outcome = send(&input).await;
        for name in ["authorization", "cookie", "x-api-key"] {
            assert_eq!(!part(&outcome, &format!("body.headers.{name}")).is_empty(), kept, "{name}");
        }
        assert_eq!(part(&outcome, "body.headers.accept"), r#""a/b""#);
    }
}

#[tokio::test]
async fn a_closed_engine_calls_public_addresses_only() {
    let service = service();
    let closed = HttpTool::new(HttpOptions { outbound: Outbound::default(), ..options() });
    let port = service.addr().port();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0.0.0.0"] {
        let outcome = closed.call(call(&format!(r#"{{"uri": "http://{host}:{port}/text"}}"#))).await;
        assert_eq!(class(&outcome), ("BlockedAddress", "input", false), "{host}: {}", error(&outcome).message);
    }
    assert_eq!(service.requests(), 0);
}

#[tokio::test]
async fn the_test_service_routes_work() {
    let service = service();
    let statuses = |path: &'static str| {
        let uri = service.url(path);
        async move {
            [
                part(&get(&uri).await, "statusCode"),
                part(&get(&uri).await, "statusCode"),
                part(&get(&uri).await, "statusCode"),
            ]
        }
    };
    assert_eq!(statuses("/flaky?fail=2&key=a").await, ["503", "503", "200"]);
    assert_eq!(statuses("/flaky?fail=1&key=b").await, ["503", "200", "200"]);
    for status in ["running", "running", "complete"] {
        assert_eq!(part(&get(&service.url("/jobs/7?polls=2")).await, "body.status"), format!("\"{status}\""));
    }
    let last = get(&service.url("/pages?page=2&pages=2&size=2")).await;
    assert_eq!(part(&last, "body"), r#"{"page":2,"items":[{"id":2},{"id":3}],"has_more":false,"next_page":null}"#);
    get(&service.url("/count/pay")).await;
    get(&service.url("/count/pay")).await;
    let counted = CountedEffect { key: "run-1:sync[3]/fetch".to_owned(), path: "/count/pay".to_owned(), times: 2 };
    assert_eq!(service.effects(), [counted]);
    let effects = r#"[{"key":"run-1:sync[3]/fetch","path":"/count/pay","times":2}]"#;
    assert_eq!(part(&get(&service.url("/effects")).await, "body"), effects);
    assert_eq!(class(&get(&service.url("/nowhere")).await), ("404", "http", true));
}

#[tokio::test]
async fn calls_share_connections() {
    let service = service();
    let tool = tool();
    for _ in 0..50 {
        let outcome = tool.call(call(&format!(r#"{{"uri": "{}"}}"#, service.url("/text")))).await;
        assert_eq!(outcome.error, None);
    }
    assert_eq!((service.requests(), service.connections()), (50, 1));
}

#[tokio::test]
async fn the_standard_tools() {
    let tools = standard_tools(options());
    assert_eq!(tools.names().collect::<Vec<_>>(), ["http", "noop"]);
    let outcome = NoopTool.call(call("[1]")).await;
    assert_eq!(outcome, TaskOutcome::success(Value::list(vec![Value::Int(1)])));
}
