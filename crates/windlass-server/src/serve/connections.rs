//! Connections, each with bounds: how many there are, how long a request's head may take and be, how long nobody reads.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Sleep;
use tower::ServiceExt;

use super::router;
use crate::App;
use crate::auth::Peer;

/// How long a request's head may take; also how long a connection may be silent between two requests.
const HEAD_WITHIN: Duration = Duration::from_secs(20);

const HEADERS_MAX: usize = 64;

const HEAD_BYTES_MAX: usize = 32 * 1024;

const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// A reader who takes nothing for so long is gone.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// What is said to one connection too many.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// After an error that has nothing to do with one connection, such as too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What somebody who has come late may take to hear that it is too late.
const LATE_WITHIN: Duration = Duration::from_millis(200);

pub struct Connections {
    app: App,
    routes: Router,
    slots: Arc<Semaphore>,
    listener: TcpListener,
}

impl Connections {
    pub fn new(app: App, listener: TcpListener) -> Connections {
        let slots = Arc::new(Semaphore::new(app.options.connections_max));
        Connections { routes: router(app.clone()), app, slots, listener }
    }

    /// Takes connections until it is stopped, then lets them end while `last` is done. Requests under way are answered;
    /// connections without one end at once. Whoever comes by then is answered, too: the door says that it closes.
    pub async fn serve(self, stopped: impl Future<Output = ()>, last: impl Future<Output = ()>) {
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
        let _ = tokio::time::timeout(LATE_WITHIN, late.shutdown()).await;
    }

    async fn accept(&self, graceful: &GracefulShutdown, keep_alive: bool) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => self.begin(stream, peer, graceful, keep_alive),
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr, graceful: &GracefulShutdown, keep_alive: bool) {
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            self.app.metrics.connection_refused();
            // Nobody waits for it: what the system does not take at once is not said.
            let _ = stream.try_write(FULL);
            return;
        };
        // Small answers go out at once; without it they only go out later.
        let _ = stream.set_nodelay(true);
        let routes = self.routes.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            routes.clone().oneshot(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(keep_alive)
            .header_read_timeout(HEAD_WITHIN)
            .max_headers(HEADERS_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(Patient::new(stream)), service);
        let watched = graceful.watch(connection);
        let metrics = self.app.metrics.clone();
        metrics.connected();
        tokio::spawn(async move {
            // Whoever broke it off knows.
            let _ = watched.await;
            metrics.disconnected();
            drop(slot);
        });
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// A stream whose other end must read now and then.
struct Patient {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream) -> Patient {
        Patient { stream, stalled: None }
    }

    fn watch<T>(&mut self, polled: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(READ_WITHIN)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
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
