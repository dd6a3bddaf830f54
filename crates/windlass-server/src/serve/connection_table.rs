//! The table of open connections. There is a total limit and a limit per address. When one of them is reached, an
//! idle connection is evicted for the next one.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_tools::outbound::AddressRange;

use crate::ServerOptions;
use crate::proxies;
use crate::rate::address_block;

/// Time without reading after which a stalled connection may be evicted for another; without demand it may stay
/// longer.
const STALL_THRESHOLD: Duration = Duration::from_secs(5);

type Address = [u8; 8];

/// The limit that prevents another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionLimit {
    /// The total limit is reached.
    Total,
    /// The limit of this address is reached.
    PerAddress,
}

/// States in which a connection may be evicted, the cheapest to lose first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum IdleState {
    /// Has not sent a request yet.
    Silent,
    /// Its requests have been answered and no new one has arrived.
    Idle,
    /// Does not read its response.
    Stalled,
}

pub(crate) struct ConnectionTable {
    max_total: usize,
    max_per_address: usize,
    proxies: Vec<AddressRange>,
    rows: Mutex<ConnectionRows>,
}

#[derive(Default)]
struct ConnectionRows {
    next: u64,
    open: HashMap<u64, ConnectionRow>,
    per_address: HashMap<Address, usize>,
    /// The evictable connections, each with the time its state began.
    idle: BTreeSet<(IdleState, Instant, u64)>,
}

struct ConnectionRow {
    /// None: the address is shared by many clients (a proxy or loopback), so the limit per address does not apply.
    address: Option<Address>,
    has_sent_request: bool,
    /// Requests whose response has not been sent completely.
    in_flight: u32,
    stalled: bool,
    idle: Option<(IdleState, Instant)>,
    evict_notify: Arc<Notify>,
}

impl ConnectionTable {
    pub(crate) fn new(max_total: usize, options: &ServerOptions) -> ConnectionTable {
        let max_per_address = options.max_connections_per_address;
        ConnectionTable { max_total, max_per_address, proxies: options.proxies.clone(), rows: Mutex::default() }
    }

    /// Reserves a slot for a connection, if necessary by evicting another.
    pub(crate) fn admit(self: &Arc<ConnectionTable>, peer: IpAddr) -> Result<ConnectionSlot, ConnectionLimit> {
        let peer = peer.to_canonical();
        // A proxy has many clients behind it; so may this machine, and a proxy may run on it.
        let is_shared = peer.is_loopback() || proxies::includes(&self.proxies, peer);
        let address = (!is_shared).then(|| address_block(peer));
        let mut rows = self.rows();
        if let Some(address) = address
            && rows.per_address.get(&address).is_some_and(|count| *count >= self.max_per_address)
            && !rows.evict_one(|row| row.address == Some(address))
        {
            return Err(ConnectionLimit::PerAddress);
        }
        if rows.open.len() >= self.max_total && !rows.evict_one(|_| true) {
            return Err(ConnectionLimit::Total);
        }
        let id = rows.next;
        rows.next += 1;
        let evict_notify = Arc::new(Notify::new());
        let row = ConnectionRow {
            address,
            has_sent_request: false,
            in_flight: 0,
            stalled: false,
            idle: None,
            evict_notify: evict_notify.clone(),
        };
        rows.open.insert(id, row);
        if let Some(address) = address {
            *rows.per_address.entry(address).or_default() += 1;
        }
        rows.change(id, |_| {});
        Ok(ConnectionSlot { table: self.clone(), id, evict_notify })
    }

    /// Evicts one connection and returns whether one could be evicted.
    pub(crate) fn make_room(&self) -> bool {
        self.rows().evict_one(|_| true)
    }

    fn rows(&self) -> MutexGuard<'_, ConnectionRows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionRows {
    fn evict_one(&mut self, fits: impl Fn(&ConnectionRow) -> bool) -> bool {
        let long_ago = |since: &Instant| since.elapsed() >= STALL_THRESHOLD;
        let found = self.idle.iter().find(|(quiet, since, id)| {
            (*quiet != IdleState::Stalled || long_ago(since)) && self.open.get(id).is_some_and(&fits)
        });
        let Some((_, _, id)) = found.copied() else { return false };
        if let Some(row) = self.remove(id) {
            row.evict_notify.notify_one();
        }
        true
    }

    /// Removes a row. It may have been removed already.
    fn remove(&mut self, id: u64) -> Option<ConnectionRow> {
        let row = self.open.remove(&id)?;
        if let Some((quiet, since)) = row.idle {
            self.idle.remove(&(quiet, since, id));
        }
        if let Some(address) = row.address
            && let Some(count) = self.per_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&address);
            }
        }
        Some(row)
    }

    fn change(&mut self, id: u64, change: impl FnOnce(&mut ConnectionRow)) {
        let Some(row) = self.open.get_mut(&id) else { return };
        change(row);
        let idle_now = match row {
            // The client has not received its response yet, although nothing of it is buffered here.
            ConnectionRow { stalled: true, .. } => Some(IdleState::Stalled),
            ConnectionRow { has_sent_request: false, .. } => Some(IdleState::Silent),
            ConnectionRow { in_flight: 0, .. } => Some(IdleState::Idle),
            _ => None,
        };
        if row.idle.map(|(quiet, _)| quiet) == idle_now {
            return;
        }
        if let Some((quiet, since)) = row.idle.take() {
            self.idle.remove(&(quiet, since, id));
        }
        if let Some(quiet) = idle_now {
            let since = Instant::now();
            row.idle = Some((quiet, since));
            self.idle.insert((quiet, since, id));
        }
    }
}

/// The slot of one connection; dropping it frees the slot.
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    id: u64,
    evict_notify: Arc<Notify>,
}

impl ConnectionSlot {
    /// Records the arrival of a request.
    pub(crate) fn begin(&self) {
        self.table.rows().change(self.id, |row| {
            row.has_sent_request = true;
            row.in_flight += 1;
        });
    }

    /// Records that a response has been sent completely.
    pub(crate) fn end(&self) {
        self.table.rows().change(self.id, |row| row.in_flight = row.in_flight.saturating_sub(1));
    }

    /// Records whether the peer has stopped reading.
    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.table.rows().change(self.id, |row| row.stalled = stalled);
    }

    pub(crate) fn has_sent_request(&self) -> bool {
        self.table.rows().open.get(&self.id).is_some_and(|row| row.has_sent_request)
    }

    /// Completes when the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evict_notify.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.rows().remove(self.id);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn table(max_total: usize, max_per_address: usize, proxies: &[&str]) -> Arc<ConnectionTable> {
        let options = ServerOptions {
            max_connections_per_address: max_per_address,
            proxies: proxies.iter().map(|text| text.parse().unwrap()).collect(),
            ..ServerOptions::default()
        };
        Arc::new(ConnectionTable::new(max_total, &options))
    }

    fn admit(table: &Arc<ConnectionTable>, from: &str) -> Result<ConnectionSlot, ConnectionLimit> {
        table.admit(from.parse().unwrap())
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        !slot.table.rows().open.contains_key(&slot.id)
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_idle_connection_is_evicted() {
        let table = table(3, 3, &[]);
        let (fresh, idle, busy) = (admit(&table, "::1"), admit(&table, "::1"), admit(&table, "::1"));
        let (fresh, idle, busy) = (fresh.unwrap(), idle.unwrap(), busy.unwrap());
        idle.begin();
        idle.end();
        busy.begin();
        let fourth = admit(&table, "::1").unwrap();
        assert!(is_evicted(&fresh) && !is_evicted(&idle) && !is_evicted(&busy));
        fresh.evicted().await;
        // An evicted connection has freed its slot already: dropping it frees no second one.
        drop(fresh);
        fourth.begin();
        let fifth = admit(&table, "::1").unwrap();
        assert!(is_evicted(&idle));
        fifth.begin();
        assert_eq!(admit(&table, "::1").err(), Some(ConnectionLimit::Total), "all connections are busy");
        // A client that does not read its response is evicted when others wait, but not immediately.
        busy.set_stalled(true);
        assert_eq!(admit(&table, "::1").err(), Some(ConnectionLimit::Total));
        tokio::time::advance(STALL_THRESHOLD).await;
        let sixth = admit(&table, "::1").unwrap();
        assert!(is_evicted(&busy) && !is_evicted(&fourth) && !is_evicted(&fifth));
        sixth.begin();
        fourth.set_stalled(true);
        tokio::time::advance(STALL_THRESHOLD).await;
        fourth.set_stalled(false);
        assert_eq!(admit(&table, "::1").err(), Some(ConnectionLimit::Total), "the client has read after all");
        drop(fifth);
        assert!(admit(&table, "::1").is_ok());
    }

    #[test]
    fn one_address_cannot_exceed_its_limit() {
        let table = table(100, 2, &["10.0.0.0/8"]);
        let mut slots = Vec::new();
        let mut busy = |from: &str| {
            let slot = admit(&table, from)?;
            slot.begin();
            slots.push(slot);
            Ok(())
        };
        for (from, shares) in [("192.0.2.1", true), ("2001:db8::1", true), ("127.0.0.1", false), ("10.1.1.1", false)] {
            assert_eq!((busy(from), busy(from)), (Ok(()), Ok(())), "{from}");
            assert_eq!(busy(from), if shares { Err(ConnectionLimit::PerAddress) } else { Ok(()) }, "{from}");
        }
        assert_eq!(busy("2001:db8::ffff"), Err(ConnectionLimit::PerAddress), "one network of IPv6 is one address");
        assert_eq!((busy("192.0.2.2"), busy("2001:db8:0:1::1")), (Ok(()), Ok(())));
        slots.clear();
        let rows = table.rows();
        assert!(rows.open.is_empty() && rows.per_address.is_empty() && rows.idle.is_empty(), "nothing is left");
    }

    #[test]
    fn a_full_address_evicts_its_own_idle_connection_first() {
        let table = table(100, 2, &[]);
        let (one, other) = (admit(&table, "192.0.2.9").unwrap(), admit(&table, "192.0.2.1").unwrap());
        let third = admit(&table, "192.0.2.1").unwrap();
        let _fourth = admit(&table, "192.0.2.1").unwrap();
        assert!(is_evicted(&other) && !is_evicted(&one) && !is_evicted(&third));
    }
}
