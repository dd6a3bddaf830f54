//! Connections and their limits: the number of connections, the time and size of a request head, the time a client
//! may not read, and the number of bytes buffered for a client that does not read.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tower::ServiceExt;
use tracing::warn;
use windlass_core::ServerLimits;

use super::connection_table::{ConnectionLimit, ConnectionSlot, ConnectionTable};
use super::line_endings::StrictLines;
use super::tls::{self, TlsIdentity};
use super::{fd_limit, router};
use crate::auth::Peer;
use crate::problem::codes;
use crate::proxies::OverTls;
use crate::{ApiProblem, App};

/// Lower bound of the maximum buffer size: twice the default maximum size of a request head.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// Maximum number of unsent response bytes in the kernel, which would otherwise buffer megabytes for a slow reader.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 64 * 1024;

/// Retry-After, in seconds, for a connection above the limit.
const RETRY_AFTER_S: u64 = 5;

/// Delay after an accept error that does not concern a single connection, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Time until an evicted connection is closed.
const CLOSE_DELAY: Duration = Duration::from_millis(1);

/// Time that a client which connected during the shutdown has to read the refusal.
const LATE_CLIENT_TIMEOUT: Duration = Duration::from_millis(200);

pub(crate) struct Connections {
    app: App,
    routes: Router,
    table: Arc<ConnectionTable>,
    listener: TcpListener,
    tls: Option<Arc<TlsIdentity>>,
}

impl Connections {
    pub(crate) fn new(app: App, listener: TcpListener, tls: Option<Arc<TlsIdentity>>) -> Connections {
        let table =
            Arc::new(ConnectionTable::new(fd_limit::max_connections(app.options.max_connections), &app.options));
        Connections { routes: router(app.clone()), app, table, listener, tls }
    }

    /// Accepts connections until `stopped` completes, then lets them end while `last` runs. Requests in progress are
    /// answered; idle connections close immediately. Clients that connect during this time receive a refusal.
    pub(crate) async fn serve(self, stopped: impl Future<Output = ()>, last: impl Future<Output = ()>) {
        let (early, late) = (GracefulShutdown::new(), GracefulShutdown::new());
        tokio::select! {
            () = self.accept(&early, true) => {}
            () = stopped => {}
        }
        let end = async {
            let _ = tokio::time::timeout(self.app.options.drain, early.shutdown()).await;
        };
        tokio::select! {
            () = self.accept(&late, false) => {}
            ((), ()) = async { tokio::join!(end, last) } => {}
        }
        drop(self.listener);
        let _ = tokio::time::timeout(LATE_CLIENT_TIMEOUT, late.shutdown()).await;
    }

    async fn accept(&self, graceful: &GracefulShutdown, keep_alive: bool) {
        // Logged once until a connection is accepted again: accepting is retried ten times per second.
        let mut failing = false;
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    failing = false;
                    self.begin(stream, peer, graceful, keep_alive);
                }
                Err(error) if is_connection_error(&error) => {}
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        warn!(reason = %error, "connections cannot be accepted");
                    }
                    match self.table.make_room() {
                        // The connection closes as soon as its task is scheduled.
                        true => tokio::time::sleep(CLOSE_DELAY).await,
                        false => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
                    }
                }
            }
        }
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr, graceful: &GracefulShutdown, keep_alive: bool) {
        let slot = match self.table.admit(peer.ip()) {
            Ok(seat) => Arc::new(seat),
            Err(full) => {
                self.app.metrics.connection_refused();
                if self.tls.is_none() {
                    // Best effort: only what the kernel accepts immediately is sent.
                    let _ = stream.try_write(&limit_refusal(full));
                }
                return;
            }
        };
        let limits = &self.app.options.limits;
        let (stall_timeout, head_timeout) = (limits.max_client_stall_time.to_std(), limits.max_head_time.to_std());
        tune(&stream, stall_timeout);
        let (routes, http, watcher) = (self.routes.clone(), http_builder(limits, keep_alive), graceful.watcher());
        let (acceptor, mut draining) = (self.tls.as_ref().map(|tls| tls.acceptor()), self.app.draining());
        let connection_slot = slot.clone();
        let served = async move {
            let wrap = |stream| StallTimeoutStream::new(stream, connection_slot.clone(), stall_timeout);
            let accepted = tokio::select! {
                accepted = tls::accept(acceptor, stream, plain_http_refusal, wrap) => accepted,
                // A shutdown does not wait for a handshake.
                _ = draining.wait_for(|draining| *draining && keep_alive) => return,
            };
            let Ok(stream) = accepted else { return };
            let over_tls = OverTls(stream.is_tls());
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let in_flight = InFlightRequest::new(&connection_slot);
                let mut request: Request = request.map(Body::new);
                request.extensions_mut().insert(Peer(peer));
                request.extensions_mut().insert(over_tls);
                let answer = routes.clone().oneshot(request);
                async move { answer.await.map(|answer| answer.map(|body| TrackedBody { body, _in_flight: in_flight })) }
            });
            // The peer that breaks the connection needs no notice.
            let _ = watcher.watch(http.serve_connection(TokioIo::new(StrictLines::new(stream)), service)).await;
        };
        let metrics = self.app.metrics.clone();
        metrics.connection_opened();
        tokio::spawn(async move {
            tokio::select! {
                () = served => {}
                () = slot.evicted() => {}
                // A connection that sends nothing at first is closed earlier.
                () = silent_for(&slot, head_timeout / 2) => {}
            }
            metrics.connection_closed();
        });
    }
}

fn http_builder(limits: &ServerLimits, keep_alive: bool) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .keep_alive(keep_alive)
        .header_read_timeout(limits.max_head_time.to_std())
        .max_headers(limits.max_headers)
        .max_header_size(limits.max_head_bytes)
        .max_buf_size(MAX_BUFFER_BYTES.max(limits.max_head_bytes.saturating_mul(2)));
    http
}

/// Sends small responses immediately, and buffers large ones here instead of in the kernel. An error only costs
/// latency.
fn tune(stream: &TcpStream, stall_timeout: Duration) {
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    {
        let socket = socket2::SockRef::from(stream);
        let _ = socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES);
        // Also closes connections of peers that disappeared silently.
        let _ = socket.set_tcp_user_timeout(Some(stall_timeout));
    }
}

/// Completes if the client has sent no request within `timeout`; otherwise never.
async fn silent_for(slot: &ConnectionSlot, timeout: Duration) {
    tokio::time::sleep(timeout).await;
    if slot.has_sent_request() {
        std::future::pending().await
    }
}

/// The response to a connection above the limit, sent before the client sends anything.
fn limit_refusal(full: ConnectionLimit) -> Vec<u8> {
    let (status, code, detail, setting) = match full {
        ConnectionLimit::Total => {
            let detail = "the connection limit is reached";
            (StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, detail, "server.max_connections")
        }
        ConnectionLimit::PerAddress => {
            let detail = "there are too many connections from this address";
            (StatusCode::TOO_MANY_REQUESTS, codes::RATE, detail, "server.max_connections_per_address")
        }
    };
    let hint = format!(
        "close connections or retry later; all of them are busy. The operator can raise `{setting}` in windlass.toml"
    );
    raw_refusal(&ApiProblem::new(status, code, detail).hint(hint).retry_after(RETRY_AFTER_S))
}

/// The response to plain HTTP at a listener that accepts only TLS.
fn plain_http_refusal() -> Vec<u8> {
    let problem = ApiProblem::bad_request("this server accepts only TLS connections");
    raw_refusal(&problem.hint("use https:// in its address"))
}

/// A response that is sent before any request is parsed.
fn raw_refusal(problem: &ApiProblem) -> Vec<u8> {
    let body = serde_json::to_string(problem).unwrap_or_default();
    let retry_after = problem.retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    let (status, title, bytes) = (problem.status, &problem.title, body.len());
    format!(
        "HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\ncontent-length: {bytes}\r\n\
         {retry_after}connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Marks a request as in flight until its response has been sent completely.
struct InFlightRequest(Arc<ConnectionSlot>);

impl InFlightRequest {
    fn new(slot: &Arc<ConnectionSlot>) -> InFlightRequest {
        slot.begin();
        InFlightRequest(slot.clone())
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A response body that keeps its request in flight until it is dropped.
struct TrackedBody {
    body: Body,
    _in_flight: InFlightRequest,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// A stream whose peer must read from time to time.
pub(super) struct StallTimeoutStream {
    stream: TcpStream,
    slot: Arc<ConnectionSlot>,
    /// A peer that reads nothing for this long counts as gone. A client of an event stream reconnects and resumes.
    stall_timeout: Duration,
    stall_timer: Option<Pin<Box<Sleep>>>,
}

impl StallTimeoutStream {
    fn new(stream: TcpStream, slot: Arc<ConnectionSlot>, stall_timeout: Duration) -> StallTimeoutStream {
        StallTimeoutStream { stream, slot, stall_timeout, stall_timer: None }
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if self.stall_timer.take().is_some() {
                self.slot.set_stalled(false);
            }
            return polled;
        }
        let (slot, stall_timeout) = (&self.slot, self.stall_timeout);
        let stall_timer = self.stall_timer.get_or_insert_with(|| {
            slot.set_stalled(true);
            Box::pin(tokio::time::sleep(stall_timeout))
        });
        stall_timer.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for StallTimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for StallTimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, data);
        self.watch(polled, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, data);
        self.watch(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
