//! A server with TLS and its clients, with certificates that the test makes.

use windlass_testing::certificates::TestAuthority;

use crate::support::TestDir;
use crate::support::server::{TestServer, worker};

const HELLO: &str = r#"{"name": "hello", "actions": {"greet": {"type": "compose", "inputs": "hi"}}}"#;

#[test]
fn clients_reach_a_server_with_tls() {
    let (place, away, authority) = (TestDir::new(), TestDir::new(), TestAuthority::default());
    let certificate = authority.issue(&["localhost"]);
    place.write("cert.pem", &certificate.certificate);
    place.write("key.pem", &certificate.key);
    place.write("hello.json", HELLO);
    // Relative to the settings, not to the folder of the process.
    place.write("windlass.toml", "[server]\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\nhosts = [\"localhost\"]\n");
    away.write("ca.pem", &authority.pem);
    let server = TestServer::start(&place, &[], &[]);
    away.write("token", &server.token);
    let url = server.address.clone();
    assert!(url.starts_with("https://localhost:"), "{url}");

    // Programs on the machine of the store find it, whatever name the certificate has.
    place.windlass(&["register", "hello.json"]).exits(0);
    place.windlass(&["health"]).exits(0).has("ok");
    place.windlass(&["start", "hello"]).exits(0);

    let named = ["--server", &url, "--token-file", "token"];
    let trusting = [&named[..], &["--ca", "ca.pem"]].concat();
    away.windlass(&[&["list"], &named[..]].concat()).exits(1).has("WND-1527").has("certificate");
    away.windlass(&[&["list"], &trusting[..]].concat()).exits(0).has("hello");
    away.windlass(&["health", "--server", &url, "--ca", "ca.pem"]).exits(0).has("ok");
    away.windlass(&["health", "--server", &url]).exits(1).has("certificate");
    away.windlass(&[&["list"], &named[..], &["--ca", "token"]].concat()).exits(3).has("--ca").has("PEM");
    away.windlass(&["list", "--server", &url.replace("https", "http"), "--token-file", "token"])
        .exits(3)
        .has("use https://");
    let of_worker = ["--token-file", "token", "--ca", "ca.pem"];
    let worker = worker(&away, &url, &of_worker, &[]);
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(server.process.stop().0, Some(0));
}

#[test]
fn other_machines_are_not_served_unencrypted() {
    let place = TestDir::new();
    let refused = place.windlass(&["serve", "--bind", "0.0.0.0:0"]);
    refused.exits(3).has("unencrypted").has("--tls-cert").has("--behind-proxy");
    place.windlass(&["serve", "--bind", "127.0.0.1:0", "--tls-cert", "cert.pem"]).exits(3).has("--tls-key");
    let files = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    place
        .windlass(&[&["serve", "--bind", "127.0.0.1:0"], &files[..]].concat())
        .exits(3)
        .has("cert.pem")
        .has("No such file");
}
