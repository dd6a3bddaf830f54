//! An HTTP listener on loopback.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// A listener. Dropping it closes its connections and its port.
pub(crate) struct HttpListener {
    addr: SocketAddr,
    counts: Arc<ListenerCounts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct ListenerCounts {
    requests: AtomicU64,
    connections: AtomicU64,
}

impl HttpListener {
    /// Starts a listener with its own thread and runtime, so it serves callers with and without one, and programs that
    /// they start. Port 0 chooses a free port.
    pub(crate) fn start<H, F, B>(name: &str, port: u16, handler: H) -> io::Result<HttpListener>
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = io::Result<Response<B>>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let counts = Arc::new(ListenerCounts::default());
        let (stop, stopped) = oneshot::channel();
        let counted = counts.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    _ = accept(listener, counted, handler) => {}
                }
            });
        })?;
        Ok(HttpListener { addr, counts, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    #[cfg(feature = "services")]
    pub(crate) fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }
}

impl Drop for HttpListener {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept<H, F, B>(listener: std::net::TcpListener, counts: Arc<ListenerCounts>, handler: H) -> io::Result<()>
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = io::Result<Response<B>>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = TcpListener::from_std(listener)?;
    loop {
        // A failed accept is an aborted connection, or a temporary lack of file handles.
        if let Ok((stream, _)) = listener.accept().await {
            counts.connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(connection(stream, counts.clone(), handler.clone()));
        } else {
            tokio::task::yield_now().await;
        }
    }
}

async fn connection<H, F, B>(stream: TcpStream, counts: Arc<ListenerCounts>, handler: H)
where
    H: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<Response<B>>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        counts.requests.fetch_add(1, Ordering::Relaxed);
        handler(request)
    });
    // Clients that disconnect are part of the tests.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
