//! The outbound policy over real connections to this machine, which a rule allows in place of a public address.

use crate::support;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Mutex;

use support::{call_tool, class, error, options, part, service};
use windlass_tools::outbound::{OutboundRule, Resolver};
use windlass_tools::{Endpoint, EndpointTool, HttpOptions, HttpTool, ModelOptions, ModelTool, Outbound};

/// A resolver that returns one answer after the other; the last one repeats.
struct ScriptedResolver(Mutex<Vec<&'static str>>);

impl Resolver for ScriptedResolver {
    fn resolve<'a>(&'a self, _: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let mut answers = self.0.lock().unwrap();
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        Box::pin(async move { Ok(answer.split(' ').map(|text| text.parse().unwrap()).collect()) })
    }
}

fn server(allow: &[String], answers: &[&'static str]) -> HttpTool {
    let allow: Vec<OutboundRule> = allow.iter().map(|text| text.parse().unwrap()).collect();
    let outbound = Outbound::default().with_rules(allow, Vec::new(), "server.outbound");
    let outbound = outbound.with_resolver(ScriptedResolver(Mutex::new(answers.to_vec())));
    HttpTool::new(HttpOptions { outbound, ..options() })
}

#[tokio::test]
async fn every_redirect_is_checked_as_the_first_address() {
    let (first, second) = (service(), service());
    let (port, other) = (first.addr().port(), second.addr().port());
    let http = server(&[format!("127.0.0.1:{port}")], &["127.0.0.1"]);
    // The redirect target, and whether it is allowed.
    for (target, allowed) in [
        (format!("http://127.0.0.1:{port}/text"), true),
        (format!("//name.example:{port}/text"), true),
        (format!("http://localhost:{port}/text"), true),
        (format!("http://127.0.0.1:{other}/text"), false),
        (format!("//127.0.0.1:{other}/text"), false),
        (format!("http://localhost:{other}/text"), false),
        (format!("http://name.example:{other}/text"), false),
        (format!("http://[::1]:{port}/text"), false),
        (format!("http://[::ffff:127.0.0.1]:{other}/text"), false),
        (format!("http://2130706433:{port}/text"), false),
        (format!("http://0x7f.1:{port}/text"), false),
        ("http://169.254.169.254/latest/meta-data/".to_owned(), false),
        ("https://127.0.0.1/".to_owned(), false),
    ] {
        let escaped = target.replace(':', "%3A").replace('/', "%2F").replace('[', "%5B").replace(']', "%5D");
        let outcome =
            call_tool(&http, &format!(r#"{{"uri": "{}"}}"#, first.url(&format!("/redirect?to={escaped}")))).await;
        match allowed {
            true => assert_eq!(part(&outcome, "statusCode"), "200", "{target}: {outcome:?}"),
            false => assert_eq!(class(&outcome), ("BlockedAddress", "input", false), "{target}: {outcome:?}"),
        }
    }
    assert_eq!(second.requests(), 0);
    let outcome = call_tool(&http, r#"{"uri": "http://u:p@127.0.0.1:1/?q=1"}"#).await;
    assert_eq!(
        &*error(&outcome).message,
        "GET http://127.0.0.1:1/?…: `127.0.0.1` is not public: it is this machine (loopback)"
    );
    let hint = error(&outcome).hint.clone().unwrap();
    assert_eq!(&*hint, "allow = [\"127.0.0.1:1\"] under [server.outbound] in windlass.toml opens it");
}

#[tokio::test]
async fn a_changed_dns_answer_does_not_bypass_the_check() {
    let service = service();
    let port = service.addr().port();
    let get = format!(r#"{{"uri": "http://rebind.example:{port}/text"}}"#);
    // The first answer stands for a public address. The checked address is connected to, whatever the next answer is.
    let http = server(&[format!("127.0.0.1:{port}")], &["127.0.0.1", "127.0.0.9"]);
    assert_eq!(part(&call_tool(&http, &get).await, "statusCode"), "200");
    // A new connection causes a new resolution and a new check.
    let other = server(&[format!("127.0.0.1:{port}")], &["127.0.0.9", "127.0.0.1"]);
    let outcome = call_tool(&other, &get).await;
    assert_eq!(class(&outcome), ("BlockedAddress", "input", false));
    assert!(error(&outcome).message.contains("leads to 127.0.0.9, which is not public"), "{:?}", outcome.error);
    // With several addresses, only the allowed ones are tried.
    let mixed = server(&[format!("127.0.0.1:{port}")], &["127.0.0.9 127.0.0.1 169.254.169.254"]);
    assert_eq!(part(&call_tool(&mixed, &get).await, "statusCode"), "200");
}

#[tokio::test]
async fn configured_hosts_are_trusted_for_their_own_tools_only() {
    let (own, foreign) = (service(), service());
    let http = server(&[], &["127.0.0.1"]);
    let endpoint = |path: &str| {
        let url = own.url(path);
        let trusting = http.with_trusted([url.as_str()]);
        EndpointTool::new(Endpoint::new(url), trusting)
    };
    assert!(call_tool(&endpoint("/json"), "{}").await.error.is_none());
    // A definition that names the same host is refused, although a connection to it is open.
    assert_eq!(class(&call_tool(&http, &format!(r#"{{"uri": "{}"}}"#, own.url("/text"))).await).0, "BlockedAddress");
    let escaped = foreign.url("/text").replace(':', "%3A").replace('/', "%2F");
    let outcome = call_tool(&endpoint(&format!("/redirect?to={escaped}")), "{}").await;
    assert_eq!((class(&outcome), foreign.requests()), (("BlockedAddress", "input", false), 0));
    let base = own.url("/status/503?x=");
    let options =
        ModelOptions { base_url: Some(base.clone()), default_model: Some("m".into()), ..ModelOptions::default() };
    let closed = ModelTool::new(options.clone(), http.clone());
    assert_eq!(class(&call_tool(&closed, r#"{"prompt": "x"}"#).await).0, "BlockedAddress");
    let open = ModelTool::new(options, http.with_trusted([base.as_str()]));
    assert_ne!(class(&call_tool(&open, r#"{"prompt": "x"}"#).await).0, "BlockedAddress");
}
