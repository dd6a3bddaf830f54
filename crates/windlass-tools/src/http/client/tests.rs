//! TLS against a local server with a self-signed certificate in `tests/tls`, which is valid for a century.

use hyper::header::HeaderValue;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use windlass_runtime::ToolCall;
use windlass_value::Value;

use super::super::request::RequestDefaults;
use super::*;

const CERTIFICATE: &[u8] = include_bytes!("../../../tests/tls/localhost.cert.der");
const KEY: &[u8] = include_bytes!("../../../tests/tls/localhost.key.der");

fn acceptor() -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(KEY.to_vec()).unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![CERTIFICATE.to_vec().into()], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn new_client(certificates: AcceptedCertificates) -> HttpClient {
    HttpClient::new(&HttpOptions { outbound: Outbound::open(), certificates, ..HttpOptions::default() })
}

async fn serve(listener: TcpListener) {
    let acceptor = acceptor();
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(tcp).await else { continue };
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    }
}

async fn request() -> HttpRequest {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("https://localhost:{}/x", listener.local_addr().unwrap().port());
    tokio::spawn(serve(listener));
    let call = ToolCall::for_test(Value::object([("uri", uri)]));
    let usual = RequestDefaults { user_agent: HeaderValue::from_static("test"), max_redirects: 10 };
    HttpRequest::from_call(&call, &usual).unwrap()
}

#[tokio::test]
async fn an_untrusted_certificate_is_rejected() {
    let error = new_client(AcceptedCertificates::default()).send(&request().await).await.unwrap_err();
    assert_eq!((&*error.code, &*error.kind), ("connection", "connection"));
    assert!(error.message.contains("certificate"), "{}", error.message);
    assert!(error.hint.unwrap().contains("certificate"));
}

#[tokio::test]
async fn a_trusted_certificate_is_accepted() {
    assert!(crate::tls::root_certificates().len() > 50);
    let certificates = AcceptedCertificates::TrustedAnd(vec![CERTIFICATE.to_vec().into()].into());
    let client = new_client(certificates);
    let response = client.send(&request().await).await.unwrap();
    assert_eq!(response.status(), 204);
}

#[tokio::test]
async fn any_certificate_is_accepted_if_the_call_disables_verification() {
    let client = new_client(AcceptedCertificates::default());
    let mut request = request().await;
    request.mode.verify_certificate = false;
    assert_eq!(client.send(&request).await.unwrap().status(), 204);
}
