//! Who is connected. There is a bound for all and one for each address; when one of them is reached, whoever costs us a
//! place and gives us nothing to do makes room for the next.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_tools::outbound::Range;

use crate::ServerOptions;
use crate::proxies;
use crate::rate::neighbourhood;

/// Whoever takes nothing for so long makes room for others. Without others, more time is given.
const STALLED: Duration = Duration::from_secs(5);

type Address = [u8; 8];

/// Why somebody cannot come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionLimit {
    /// There are as many as there may be.
    Total,
    /// There are as many of one address.
    PerAddress,
}

/// Those that can be let go of, those first by whom the least is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Quiet {
    /// Has said nothing yet.
    Fresh,
    /// Has been answered, and asks for nothing.
    Idle,
    /// Does not take what it has asked for.
    Stalled,
}

pub(crate) struct Table {
    max_total: usize,
    max_per_address: usize,
    proxies: Vec<Range>,
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    next: u64,
    open: HashMap<u64, Row>,
    of_address: HashMap<Address, usize>,
    /// Each since when.
    quiet: BTreeSet<(Quiet, Instant, u64)>,
}

struct Row {
    /// None: many come from there, and they are no one's fault.
    address: Option<Address>,
    heard: bool,
    /// Requests that are not answered to the end.
    in_flight: u32,
    stalled: bool,
    quiet: Option<(Quiet, Instant)>,
    evict_notify: Arc<Notify>,
}

impl Table {
    pub(crate) fn new(max_total: usize, options: &ServerOptions) -> Table {
        let max_per_address = options.max_connections_per_address;
        Table { max_total: most: max_total, max_per_address: most_each: max_per_address, proxies: options.proxies.clone(), rows: Mutex::default() }
    }

    /// A place for one more, perhaps another's.
    pub(crate) fn admit(self: &Arc<Table>, peer: IpAddr) -> Result<Seat, ConnectionLimit> {
        let peer = peer.to_canonical();
        // Behind a proxy there are many; so there are on this machine, and a proxy may be among them.
        let many = peer.is_loopback() || proxies::includes(&self.proxies, peer);
        let address = (!many).then(|| neighbourhood(peer));
        let mut rows = self.rows();
        if let Some(address) = address
            && rows.of_address.get(&address).is_some_and(|count| *count >= self.max_per_address)
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
        let row = Row { address, heard: false, in_flight: 0, stalled: false, quiet: None, evict_notify: evict_notify.clone() };
        rows.open.insert(id, row);
        if let Some(address) = address {
            *rows.of_address.entry(address).or_default() += 1;
        }
        rows.change(id, |_| {});
        Ok(Seat { table: self.clone(), id, evict_notify: go: evict_notify })
    }

    /// Somebody goes, if anybody can.
    pub(crate) fn make_room(&self) -> bool {
        self.rows().evict_one(|_| true)
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn evict_one(&mut self, fits: impl Fn(&Row) -> bool) -> bool {
        let long_ago = |since: &Instant| since.elapsed() >= STALLED;
        let found = self.quiet.iter().find(|(quiet, since, id)| {
            (*quiet != Quiet::Stalled || long_ago(since)) && self.open.get(id).is_some_and(&fits)
        });
        let Some((_, _, id)) = found.copied() else { return false };
        if let Some(row) = self.remove(id) {
            row.evict_notify.notify_one();
        }
        true
    }

    /// It may be gone already.
    fn remove(&mut self, id: u64) -> Option<Row> {
        let row = self.open.remove(&id)?;
        if let Some((quiet, since)) = row.quiet {
            self.quiet.remove(&(quiet, since, id));
        }
        if let Some(address) = row.address
            && let Some(count) = self.of_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&address);
            }
        }
        Some(row)
    }

    fn change(&mut self, id: u64, change: impl FnOnce(&mut Row)) {
        let Some(row) = self.open.get_mut(&id) else { return };
        change(row);
        let now = match row {
            // What it has asked for is not with it yet, though nothing of it is left here.
            Row { stalled: true, .. } => Some(Quiet::Stalled),
            Row { heard: false, .. } => Some(Quiet::Fresh),
            Row { in_flight: 0, .. } => Some(Quiet::Idle),
            _ => None,
        };
        if row.quiet.map(|(quiet, _)| quiet) == now {
            return;
        }
        if let Some((quiet, since)) = row.quiet.take() {
            self.quiet.remove(&(quiet, since, id));
        }
        if let Some(quiet) = now {
            let since = Instant::now();
            row.quiet = Some((quiet, since));
            self.quiet.insert((quiet, since, id));
        }
    }
}

/// The place of one connection; it is free again when this is gone.
pub(crate) struct Seat {
    table: Arc<Table>,
    id: u64,
    evict_notify: Arc<Notify>,
}

impl Seat {
    /// A request has come.
    pub(crate) fn begin(&self) {
        self.table.rows().change(self.id, |row| {
            row.heard = true;
            row.in_flight += 1;
        });
    }

    /// One has been answered to the end.
    pub(crate) fn end(&self) {
        self.table.rows().change(self.id, |row| row.in_flight = row.in_flight.saturating_sub(1));
    }

    /// Whether the other end takes what it is sent.
    pub(crate) fn stalls(&self, stalled: bool) {
        self.table.rows().change(self.id, |row| row.stalled = stalled);
    }

    pub(crate) fn has_been_heard(&self) -> bool {
        self.table.rows().open.get(&self.id).is_some_and(|row| row.heard)
    }

    /// Returns when somebody else needs the place.
    pub(crate) async fn evicted(&self) {
        self.evict_notify.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.table.rows().remove(self.id);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn table(max_total: usize, max_per_address: usize, proxies: &[&str]) -> Arc<Table> {
        let options = ServerOptions {
            max_connections_per_address: max_per_address,
            proxies: proxies.iter().map(|text| text.parse().unwrap()).collect(),
            ..ServerOptions::default()
        };
        Arc::new(Table::new(max_total, &options))
    }

    fn admit(table: &Arc<Table>, from: &str) -> Result<Seat, ConnectionLimit> {
        table.admit(from.parse().unwrap())
    }

    fn is_evicted(seat: &Seat) -> bool {
        !seat.table.rows().open.contains_key(&seat.id)
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
        // What is gone is gone: its end frees no second place.
        drop(fresh);
        fourth.begin();
        let fifth = admit(&table, "::1").unwrap();
        assert!(is_evicted(&idle));
        fifth.begin();
        assert_eq!(admit(&table, "::1").err(), Some(ConnectionLimit::Total), "all of them are at work");
        // Whoever does not read what it has asked for goes when others wait, but not at once.
        busy.stalls(true);
        assert_eq!(admit(&table, "::1").err(), Some(ConnectionLimit::Total));
        tokio::time::advance(STALLED).await;
        let sixth = admit(&table, "::1").unwrap();
        assert!(is_evicted(&busy) && !is_evicted(&fourth) && !is_evicted(&fifth));
        sixth.begin();
        fourth.stalls(true);
        tokio::time::advance(STALLED).await;
        fourth.stalls(false);
        assert_eq!(admit(&table, "::1").err(), Some(ConnectionLimit::Total), "it has read after all");
        drop(fifth);
        assert!(admit(&table, "::1").is_ok());
    }

    #[test]
    fn one_address_has_no_more_than_its_share() {
        let table = table(100, 2, &["10.0.0.0/8"]);
        let mut seats = Vec::new();
        let mut busy = |from: &str| {
            let seat = admit(&table, from)?;
            seat.begin();
            seats.push(seat);
            Ok(())
        };
        for (from, shares) in [("192.0.2.1", true), ("2001:db8::1", true), ("127.0.0.1", false), ("10.1.1.1", false)] {
            assert_eq!((busy(from), busy(from)), (Ok(()), Ok(())), "{from}");
            assert_eq!(busy(from), if shares { Err(ConnectionLimit::PerAddress) } else { Ok(()) }, "{from}");
        }
        assert_eq!(busy("2001:db8::ffff"), Err(ConnectionLimit::PerAddress), "one network of IPv6 is one address");
        assert_eq!((busy("192.0.2.2"), busy("2001:db8:0:1::1")), (Ok(()), Ok(())));
        seats.clear();
        let rows = table.rows();
        assert!(rows.open.is_empty() && rows.of_address.is_empty() && rows.quiet.is_empty(), "nothing is left");
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
