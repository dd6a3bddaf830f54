//! A wire between two processes, on which everything is seen.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A way to a port of this machine: whatever goes over it, either way, is kept.
pub struct Wire {
    address: SocketAddr,
    line: Arc<Line>,
}

#[derive(Default)]
struct Line {
    seen: Mutex<Vec<u8>>,
    /// Nothing gets through for now.
    held: Mutex<bool>,
    let_go: Condvar,
}

impl Wire {
    /// Listens on a free port of 127.0.0.1.
    pub fn to(target: SocketAddr) -> io::Result<Wire> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let line: Arc<Line> = Arc::default();
        let along = line.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                // Who is away is away for whoever comes this way, too.
                let Ok(to) = TcpStream::connect(target) else { continue };
                for (from, to) in [(from.try_clone(), to.try_clone()), (to.try_clone(), from.try_clone())] {
                    let (Ok(from), Ok(to)) = (from, to) else { continue };
                    let along = along.clone();
                    std::thread::spawn(move || along.carry(from, to));
                }
            }
        });
        Ok(Wire { address, line })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// As if somebody had pulled the plug: what is said meanwhile arrives later.
    pub fn hold(&self) {
        *locked(&self.line.held) = true;
    }

    pub fn let_go(&self) {
        *locked(&self.line.held) = false;
        self.line.let_go.notify_all();
    }

    /// All that was said over it, whether it has arrived or not.
    pub fn seen(&self) -> Vec<u8> {
        locked(&self.line.seen).clone()
    }

    /// How often this text was said.
    pub fn count(&self, text: &str) -> usize {
        locked(&self.line.seen).windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    }
}

impl Line {
    fn carry(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            locked(&self.seen).extend_from_slice(&bytes[..length]);
            let held = self.let_go.wait_while(locked(&self.held), |held| *held);
            drop(held.unwrap_or_else(PoisonError::into_inner));
            if to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        // Who is gone already need not hear of it.
        let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
    }
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
