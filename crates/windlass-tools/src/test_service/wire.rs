//! A wire between two processes, on which everything is seen.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A way to a port of this machine: whatever goes over it, either way, is kept.
pub struct Wire {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Wire {
    /// Listens on a free port of 127.0.0.1.
    pub fn to(target: SocketAddr) -> io::Result<Wire> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let keep = seen.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                // Who is away is away for whoever comes this way, too.
                let Ok(to) = TcpStream::connect(target) else { continue };
                for (from, to) in [(from.try_clone(), to.try_clone()), (to.try_clone(), from.try_clone())] {
                    let (Ok(from), Ok(to)) = (from, to) else { continue };
                    let keep = keep.clone();
                    std::thread::spawn(move || carry(from, to, &keep));
                }
            }
        });
        Ok(Wire { address, seen })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that has gone over it.
    pub fn seen(&self) -> Vec<u8> {
        locked(&self.seen).clone()
    }

    /// How often this text has gone over it.
    pub fn count(&self, text: &str) -> usize {
        locked(&self.seen).windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    }
}

fn locked(seen: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn carry(mut from: TcpStream, mut to: TcpStream, keep: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        locked(keep).extend_from_slice(&bytes[..length]);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    // Who is gone already need not hear of it.
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}
