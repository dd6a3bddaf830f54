//! TLS of the listener, with certificates that the test makes. Time is virtual where the server looks for new files.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use windlass_server::{RunningServer, ServerOptions, StartError, TlsFiles, serve};
use windlass_testing::certificates::{TestAuthority, TestCertificate};

use crate::world::World;

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn files(directory: &Path) -> TlsFiles {
    TlsFiles { certificate: directory.join("cert.pem"), key: directory.join("key.pem") }
}

fn write(files: &TlsFiles, certificate: &TestCertificate) {
    std::fs::write(&files.certificate, &certificate.certificate).unwrap();
    std::fs::write(&files.key, &certificate.key).unwrap();
}

struct TlsWorld {
    world: World,
    running: RunningServer,
    authority: TestAuthority,
    files: TlsFiles,
    folder: TempDir,
}

async fn tls_world() -> TlsWorld {
    let (folder, authority) = (tempfile::tempdir().unwrap(), TestAuthority::default());
    let files = files(folder.path());
    write(&files, &authority.issue(&["localhost"]));
    let world = World::with(ServerOptions {
        bind: ([127, 0, 0, 1], 0).into(),
        tls: Some(files.clone()),
        drain: Duration::from_secs(30),
        ..ServerOptions::default()
    });
    let running = serve(world.app.clone()).await.unwrap();
    TlsWorld { world, running, authority, files, folder }
}

/// Connects as a client that trusts only this authority.
async fn connect(address: SocketAddr, authority: &TestAuthority) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(address).await?).await
}

/// Sends a request on an open connection and returns the head of the response.
async fn ask(stream: &mut TlsStream<TcpStream>, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).await.unwrap(), 1, "{}", String::from_utf8_lossy(&answer));
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    head
}

#[tokio::test]
async fn requests_are_answered_over_tls_alone() {
    let TlsWorld { world, running, authority, folder: _folder, .. } = tls_world().await;
    let mut stream = connect(running.address, &authority).await.unwrap();
    for _ in 0..2 {
        assert!(ask(&mut stream, HEALTH).await.starts_with("HTTP/1.1 200"));
    }
    // The cookie of the web UI is sent back over TLS only.
    let sign_in = format!(
        "POST /api/v1/session HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: 0\r\n\r\n",
        world.first
    );
    let head = ask(&mut stream, &sign_in).await;
    assert!(head.contains("set-cookie: __Host-") && head.contains("Secure"), "{head}");
    // Bare line feeds are refused here as well.
    let answer = ask(&mut stream, "GET /healthz HTTP/1.1\nhost: localhost\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let error = connect(running.address, &TestAuthority::default()).await.unwrap_err();
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");

    let mut plain = TcpStream::connect(running.address).await.unwrap();
    plain.write_all(HEALTH.as_bytes()).await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    let is_explained = answer.contains("accepts only TLS connections") && answer.contains("use https://");
    assert!(answer.starts_with("HTTP/1.1 400") && is_explained, "{answer}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_new_certificate_is_used_without_closing_connections() {
    let TlsWorld { world: _world, running, authority, files, folder: _folder } = tls_world().await;
    let mut before = connect(running.address, &authority).await.unwrap();
    assert!(ask(&mut before, HEALTH).await.starts_with("HTTP/1.1 200"));
    let other = TestAuthority::default();
    let next = other.issue(&["localhost"]);
    // Only one of the files is there yet: the server keeps what works.
    std::fs::write(&files.certificate, &next.certificate).unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(connect(running.address, &authority).await.is_ok());
    assert!(connect(running.address, &other).await.is_err());
    write(&files, &next);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(connect(running.address, &other).await.is_ok());
    assert!(connect(running.address, &authority).await.is_err());
    assert!(ask(&mut before, HEALTH).await.starts_with("HTTP/1.1 200"), "it goes on");
    // Files that are gone or cannot be read change nothing.
    std::fs::remove_file(&files.certificate).unwrap();
    std::fs::write(&files.key, "nonsense").unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(connect(running.address, &other).await.is_ok());
    running.stop().await.unwrap();
}

/// A client that connects and says nothing occupies a slot for a while, and delays no shutdown.
#[tokio::test(start_paused = true)]
async fn a_silent_client_is_disconnected() {
    let TlsWorld { world: _world, running, folder: _folder, .. } = tls_world().await;
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let mut halted = TcpStream::connect(running.address).await.unwrap();
    halted.write_all(&[0x16, 3, 1]).await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(silent.read(&mut [0; 64]).await.unwrap_or(0), 0);
    assert_eq!(halted.read(&mut [0; 64]).await.unwrap_or(0), 0);
    assert!((5..15).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let _silent = TcpStream::connect(running.address).await.unwrap();
    let began = tokio::time::Instant::now();
    running.stop().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn unusable_files_prevent_the_start() {
    let (folder, authority) = (tempfile::tempdir().unwrap(), TestAuthority::default());
    let (one, other) = (authority.issue(&["localhost"]), authority.issue(&["localhost"]));
    let files = files(folder.path());
    let start = async || {
        let options =
            ServerOptions { bind: ([127, 0, 0, 1], 0).into(), tls: Some(files.clone()), ..ServerOptions::default() };
        let world = World::with(options);
        match serve(world.app.clone()).await {
            Err(error @ StartError::Tls(_)) => format!("{error}; {}", error.hint()),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it listens"),
        }
    };
    let missing = start().await;
    assert!(missing.contains("cert.pem: No such file") && missing.contains("tls_key"), "{missing}");
    write(&files, &TestCertificate { certificate: one.certificate.clone(), key: other.key });
    assert!(start().await.contains("key"), "another certificate's key");
    write(&files, &TestCertificate { certificate: String::new(), key: one.key.clone() });
    assert!(start().await.contains("no certificate in PEM form"));
    write(&files, &TestCertificate { certificate: one.certificate, key: String::new() });
    assert!(start().await.contains("the private key"));
}
