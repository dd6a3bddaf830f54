//! A service that releases requests only in groups: the caller must have that many calls in flight.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Maximum time that a request waits for its group; if the group is still incomplete, the request gets an error.
const GROUP_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct BarrierService {
    address: SocketAddr,
    barrier: Arc<RequestBarrier>,
}

struct RequestBarrier {
    group_size: usize,
    state: Mutex<BarrierState>,
    complete: Condvar,
}

#[derive(Default)]
struct BarrierState {
    /// Requests waiting for their group.
    waiting: usize,
    in_flight: usize,
    max_in_flight: usize,
    released_groups: usize,
}

impl BarrierService {
    /// Starts a service that releases requests in groups of this size.
    pub(crate) fn start(group_size: usize) -> BarrierService {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let barrier = Arc::new(RequestBarrier { group_size, state: Mutex::default(), complete: Condvar::new() });
        let shared = barrier.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let barrier = shared.clone();
                std::thread::spawn(move || serve(&connection, &barrier));
            }
        });
        BarrierService { address, barrier }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the maximum number of concurrent requests.
    pub(crate) fn max_in_flight(&self) -> usize {
        self.barrier.state.lock().expect("no panic").max_in_flight
    }
}

impl RequestBarrier {
    /// Waits until the group is complete. All requests of a group count as released together.
    fn wait_for_group(&self) -> bool {
        let mut state = self.state.lock().expect("no panic");
        state.in_flight += 1;
        state.waiting += 1;
        state.max_in_flight = state.max_in_flight.max(state.in_flight);
        let released_groups = state.released_groups;
        if state.waiting == self.group_size {
            state.in_flight -= self.group_size;
            state.waiting = 0;
            state.released_groups += 1;
            self.complete.notify_all();
            return true;
        }
        let waits =
            self.complete.wait_timeout_while(state, GROUP_TIMEOUT, |state| state.released_groups == released_groups);
        !waits.expect("no panic").1.timed_out()
    }
}

/// Answers the requests of one connection, each with the requested path.
fn serve(connection: &TcpStream, barrier: &RequestBarrier) {
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        while lines.next().is_some_and(|line| !line.is_empty()) {}
        let status = if barrier.wait_for_group() { "200 OK" } else { "500 Alone" };
        let body = format!("{{\"path\": \"{path}\"}}");
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}", body.len());
        if (&mut &*connection).write_all(format!("{head}\r\n\r\n{body}").as_bytes()).is_err() {
            return;
        }
    }
}
