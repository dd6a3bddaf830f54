//! TLS of the listener. The certificate and key files are read again when they change; connections that are open keep
//! the certificate that they began with.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};

use super::connections::StallTimeoutStream;
use crate::options::TlsFiles;

/// Interval at which the files are compared with what the server uses.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// The files of a server's certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("could not use the TLS certificate `{certificate}` with the key `{key}`: {reason}")]
pub struct TlsError {
    certificate: String,
    key: String,
    reason: io::Error,
}

impl TlsError {
    pub(super) fn hint(&self) -> &'static str {
        "tls_cert is a PEM file with the server's certificate and then those of its issuers, tls_key one with its \
         private key; this user must be able to read both"
    }
}

/// The certificate of the listener.
pub(crate) struct TlsIdentity {
    files: TlsFiles,
    current: RwLock<LoadedCertificate>,
}

#[derive(Clone)]
struct LoadedCertificate {
    config: Arc<ServerConfig>,
    /// The hash of both files.
    content: blake3::Hash,
}

/// The content of both files.
struct PemFiles {
    certificates: Vec<u8>,
    key: Vec<u8>,
}

impl PemFiles {
    fn read(files: &TlsFiles) -> io::Result<PemFiles> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
        };
        Ok(PemFiles { certificates: read(&files.certificate)?, key: read(&files.key)? })
    }

    fn hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.certificates.len() as u64).to_le_bytes());
        hasher.update(&self.certificates).update(&self.key).finalize()
    }

    fn load(&self) -> io::Result<LoadedCertificate> {
        let config = windlass_tools::tls::server_config(&self.certificates, &self.key)?;
        Ok(LoadedCertificate { config: Arc::new(config), content: self.hash() })
    }
}

impl TlsIdentity {
    /// Reads the files. Blocking.
    pub(super) fn load(files: &TlsFiles) -> Result<TlsIdentity, TlsError> {
        let shown = |path: &PathBuf| path.display().to_string();
        let error = |reason| TlsError { certificate: shown(&files.certificate), key: shown(&files.key), reason };
        let current = PemFiles::read(files).and_then(|pem| pem.load()).map_err(error)?;
        Ok(TlsIdentity { files: files.clone(), current: RwLock::new(current) })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.read().unwrap_or_else(PoisonError::into_inner).config.clone())
    }

    /// Looks for other content of the files until it is dropped. While the files cannot be used, because for example
    /// only one of them has been replaced yet, the certificate in use stays.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut refused = None;
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let identity = self.clone();
            let before = refused.take();
            refused = tokio::task::spawn_blocking(move || identity.reload(before)).await.unwrap_or_default();
        }
    }

    /// Loads the files if their content is another. Returns the reason why it cannot be used, which is logged once.
    fn reload(&self, before: Option<String>) -> Option<String> {
        let in_use = self.current.read().unwrap_or_else(PoisonError::into_inner).content;
        let read = PemFiles::read(&self.files);
        if read.as_ref().is_ok_and(|pem| pem.hash() == in_use) {
            return None;
        }
        match read.and_then(|pem| pem.load()) {
            Ok(loaded) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
                info!(certificate = %self.files.certificate.display(), "certificate loaded");
                None
            }
            Err(error) => {
                let reason = error.to_string();
                if before.as_ref() != Some(&reason) {
                    warn!(certificate = %self.files.certificate.display(), reason, "certificate not loaded");
                }
                Some(reason)
            }
        }
    }
}

/// Performs the handshake on a new connection. A client that sends plain HTTP gets `refusal`, which says so.
pub(super) async fn accept(
    acceptor: Option<TlsAcceptor>,
    stream: TcpStream,
    refusal: impl FnOnce() -> Vec<u8>,
    wrap: impl FnOnce(TcpStream) -> StallTimeoutStream,
) -> io::Result<ServerStream> {
    let Some(acceptor) = acceptor else { return Ok(ServerStream::Plain(wrap(stream))) };
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
        // Best effort: only what the kernel accepts immediately is sent.
        let _ = stream.try_write(&refusal());
        // Unread bytes at the close would reset the connection before the client has read the refusal.
        let _ = stream.try_read(&mut [0; 8 * 1024]);
        return Err(io::ErrorKind::InvalidData.into());
    }
    let accepted = acceptor.accept(wrap(stream)).await?;
    Ok(ServerStream::Tls(Box::new(accepted)))
}

/// The stream of a connection.
pub(super) enum ServerStream {
    Plain(StallTimeoutStream),
    Tls(Box<TlsStream<StallTimeoutStream>>),
}

impl ServerStream {
    pub(super) fn is_tls(&self) -> bool {
        matches!(self, ServerStream::Tls(_))
    }
}

macro_rules! on_stream {
    ($this:ident, $method:ident($($argument:expr),*)) => {
        match $this.get_mut() {
            ServerStream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            ServerStream::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for ServerStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, poll_read(context, buffer))
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, poll_write(context, data))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, poll_write_vectored(context, data))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            ServerStream::Plain(stream) => stream.is_write_vectored(),
            ServerStream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
