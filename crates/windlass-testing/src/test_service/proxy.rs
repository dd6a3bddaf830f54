//! A wire between two processes, on which everything is seen.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A way to a port of this machine: whatever goes over it, either way, is kept.
pub struct RecordingProxy {
    address: SocketAddr,
    state: Arc<ProxyState>,
}

#[derive(Default)]
struct ProxyState {
    recorded: Mutex<Vec<u8>>,
    /// Nothing gets through for now.
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
                // Who is away is away for whoever comes this way, too.
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

    /// As if somebody had pulled the plug: what is said meanwhile arrives later.
    pub fn pause(&self) {
        *lock(&self.state.paused) = true;
    }

    pub fn resume(&self) {
        *lock(&self.state.paused) = false;
        self.state.resumed.notify_all();
    }

    /// All that was said over it, whether it has arrived or not.
    pub fn recorded(&self) -> Vec<u8> {
        lock(&self.state.recorded).clone()
    }

    /// How often this text was said.
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
        // Who is gone already need not hear of it.
        let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
