//! Pages of a list: the fact about the next page, and the request at its link.

use crate::support;

use windlass_testing::test_service::TestService;

use support::{class, fact, part, send, service};

fn page_service(rules: &str) -> windlass_testing::mock::MockService {
    TestService::from_mocks(&format!(r#"{{"mocks": [{rules}]}}"#)).unwrap()
}

#[tokio::test]
async fn a_page_is_reported_on_request_only() {
    let service = page_service(
        r#"{"when": {"url": "/list"}, "body": {"value": [1, 2], "nextLink": "../other?page=2#x"}},
           {"when": {"url": "/moved/*"}, "status": 302, "headers": {"Location": "/deep/er/list"}},
           {"when": {"url": "/deep/er/list"}, "body": [1], "headers": {"Link": "<next?p=2>; rel=next"}},
           {"when": {"url": "/last"}, "body": {"value": [], "nextLink": ""}}"#,
    );
    let outcome = send(&format!(r#"{{"uri": "{}"}}"#, service.url("/list"))).await;
    assert_eq!((outcome.error.is_none(), outcome.facts.is_null()), (true, true), "{outcome:?}");
    let pages = |path: &str| format!(r#"{{"uri": "{}", "pages": true}}"#, service.url(path));
    let outcome = send(&pages("/list?a=ä")).await;
    assert_eq!(fact(&outcome, "page.uri"), format!("{:?}", service.url("/list?a=%C3%A4")));
    assert_eq!(fact(&outcome, "page.next"), format!("{:?}", service.url("/other?page=2")));
    assert_eq!((fact(&outcome, "page.items"), fact(&outcome, "page.key")), ("2".into(), r#""value""#.into()));
    // A relative link is resolved against the address that has replied.
    let outcome = send(&pages("/moved/1")).await;
    assert_eq!(fact(&outcome, "page.next"), format!("{:?}", service.url("/deep/er/next?p=2")));
    assert_eq!(fact(&outcome, "page.key"), "null");
    let outcome = send(&pages("/last")).await;
    assert_eq!((fact(&outcome, "page.next"), fact(&outcome, "page.items")), ("null".into(), "0".into()));
    let outcome = send(&pages("/list").replace("true", "5")).await;
    assert_eq!(class(&outcome), ("BadRequestPages", "input", false));
}

#[tokio::test]
async fn a_link_to_another_server_gets_no_credentials() {
    let (own, other) = (service(), service());
    let input = |link: &str| {
        format!(
            r#"{{"method": "POST", "uri": "{}", "link": "{link}", "queries": {{"q": 1}}, "body": {{"b": 1}},
                "headers": {{"Accept": "a/b", "Content-Type": "x/y", "X-Api-Key": "k", "Host": "{}"}},
                "cookie": "c=1", "authentication": {{"type": "Raw", "value": "Bearer t"}}}}"#,
            own.url("/json/echo"),
            own.addr()
        )
    };
    for (link, same) in [(own.url("/json/echo?page=2"), true), (other.url("/json/echo?page=2"), false)] {
        let outcome = send(&input(&link)).await;
        assert_eq!(part(&outcome, "body.method"), r#""GET""#, "{outcome:?}");
        assert_eq!(
            (part(&outcome, "body.query"), part(&outcome, "body.body")),
            (r#"{"page":"2"}"#.into(), "null".into())
        );
        let expected = |value: &str| if same { value.to_owned() } else { String::new() };
        assert_eq!(part(&outcome, "body.headers.accept"), r#""a/b""#);
        assert_eq!(part(&outcome, "body.headers.content-type"), "");
        for (name, value) in [("authorization", r#""Bearer t""#), ("cookie", r#""c=1""#), ("x-api-key", r#""k""#)] {
            assert_eq!(part(&outcome, &format!("body.headers.{name}")), expected(value), "{link} {name}");
        }
    }
    let outcome = send(&input("5").replace(r#""5""#, "5")).await;
    assert_eq!(class(&outcome), ("BadRequestLink", "input", false));
}
