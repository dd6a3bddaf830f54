//! A TCP proxy between two processes that records all traffic.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A proxy to a port of this machine that records everything in both directions.
pub struct RecordingProxy {
    address: SocketAddr,
    state: Arc<ProxyState>,
}

#[derive(Default)]
struct ProxyState {
    recorded: Mutex<Vec<u8>>,
    /// Nothing is forwarded while true.
    paused: Mutex<bool>,
    resumed: Condvar,
}

impl RecordingProxy {
    /// Listens on a free port of 127.0.0.1.
    pub fn start(target: SocketAddr) -> io::Result<RecordingProxy> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let line: Arc<ProxyState> = Arc::default();
        let along = line.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                // If the target is down, the connection of the client is closed.
                let Ok(to) = TcpStream::connect(target) else { continue };
                for (from, to) in [(from.try_clone(), to.try_clone()), (to.try_clone(), from.try_clone())] {
                    let (Ok(from), Ok(to)) = (from, to) else { continue };
                    let along = along.clone();
                    std::thread::spawn(move || along.forward(from, to));
                }
            }
        });
        Ok(RecordingProxy { address, state: line })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops forwarding, as if the network were disconnected. Data sent meanwhile arrives later.
    pub fn pause(&self) {
        *lock(&self.state.paused) = true;
    }

    pub fn resume(&self) {
        *lock(&self.state.paused) = false;
        self.state.resumed.notify_all();
    }

    /// Returns everything sent so far, whether it has been forwarded or not.
    pub fn recorded(&self) -> Vec<u8> {
        lock(&self.state.recorded).clone()
    }

    /// Returns how often this text was sent.
    pub fn count(&self, text: &str) -> usize {
        lock(&self.state.recorded).windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    }
}

impl ProxyState {
    fn forward(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            lock(&self.recorded).extend_from_slice(&bytes[..length]);
            let guard = self.resumed.wait_while(lock(&self.paused), |held| *held);
            drop(guard.unwrap_or_else(PoisonError::into_inner));
            if to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        // Either side may already be closed.
        let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
