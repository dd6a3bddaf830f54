//! How often somebody may ask. Memory is constant: a bucket is one number, and strangers share a fixed table of them.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use windlass_core::ServerLimits;

use crate::Problem;
use crate::problem::codes;

/// How often strangers may ask, from the server's limits. After a pause more come at once than in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// Failed authentications of one address.
    pub failures: Rate,
    /// Deliveries from one address that prove nothing.
    pub unproven: Rate,
    /// Deliveries to one webhook, of those who have proven that they may make them.
    pub deliveries: Rate,
    /// Refused calls that are noted in the audit log.
    pub refusals: Rate,
}

impl Rates {
    pub(crate) fn of(limits: &ServerLimits) -> Rates {
        let rate = |per_second: u32, pause: u32| Rate::new(per_second, per_second.saturating_mul(pause));
        Rates {
            failures: rate(limits.max_unknown_tokens_per_second, 20),
            unproven: rate(limits.max_unauthenticated_deliveries_per_second, 10),
            deliveries: rate(limits.max_deliveries_per_second, 2),
            refusals: rate(limits.max_refusals_logged_per_second, 10),
        }
    }
}

/// Buckets of strangers: those who fall into the same one share it.
const STRANGERS: usize = 4_096;

/// So many in a second, and so many at once after a pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    each_ns: u64,
    burst_ns: u64,
}

impl Rate {
    pub(crate) const fn new(per_second: u32, burst: u32) -> Rate {
        let per_second = if per_second == 0 { 1 } else { per_second };
        let each_ns = 1_000_000_000 / per_second as u64;
        Rate { each_ns, burst_ns: each_ns * burst as u64 }
    }
}

/// When what was taken so far is paid for, in nanoseconds since the process began.
#[derive(Debug, Default)]
pub(crate) struct Bucket(AtomicU64);

impl Bucket {
    /// Takes one, or says how long to wait.
    pub(crate) fn take(&self, rate: Rate) -> Result<(), Duration> {
        self.take_at(now_ns(), rate)
    }

    fn take_at(&self, now: u64, rate: Rate) -> Result<(), Duration> {
        let mut paid = self.0.load(Ordering::Relaxed);
        loop {
            let next = paid.max(now).saturating_add(rate.each_ns);
            let ahead = next - now;
            if ahead > rate.burst_ns.max(rate.each_ns) {
                return Err(Duration::from_nanos(ahead - rate.burst_ns.max(rate.each_ns)));
            }
            match self.0.compare_exchange_weak(paid, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => paid = other,
            }
        }
    }

    /// How long whoever has emptied it must wait; nothing is taken.
    fn wait_at(&self, now: u64, rate: Rate) -> Option<Duration> {
        let ahead = self.0.load(Ordering::Relaxed).max(now).saturating_add(rate.each_ns) - now;
        (ahead > rate.burst_ns).then(|| Duration::from_nanos(ahead - rate.burst_ns))
    }
}

/// A fixed number of buckets for any number of names. Nobody outside knows who falls together.
pub(crate) struct Strangers {
    buckets: Vec<Bucket>,
    key: RandomState,
}

impl Default for Strangers {
    fn default() -> Strangers {
        let buckets = std::iter::repeat_with(Bucket::default).take(STRANGERS).collect();
        Strangers { buckets, key: RandomState::new() }
    }
}

impl Strangers {
    fn of(&self, name: impl Hash) -> &Bucket {
        &self.buckets[self.key.hash_one(name) as usize % self.buckets.len()]
    }

    pub(crate) fn take(&self, name: impl Hash, rate: Rate) -> Result<(), Duration> {
        self.of(name).take(rate)
    }

    pub(crate) fn wait(&self, name: impl Hash, rate: Rate) -> Option<Duration> {
        self.of(name).wait_at(now_ns(), rate)
    }
}

/// Whoever has one address of IPv6 has the 64 bits below it as well.
pub(crate) fn neighbourhood(address: IpAddr) -> [u8; 8] {
    let wide = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(_) => address.octets(),
            None => {
                let mut upper = [0u8; 8];
                upper.copy_from_slice(&address.octets()[..8]);
                return upper;
            }
        },
    };
    let mut lower = [0xffu8; 8];
    lower[2..].copy_from_slice(&wide[10..]);
    lower
}

/// `setting` is the key under `[server]`.
pub(crate) fn too_many(what: &str, wait: Duration, setting: &str) -> Problem {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    Problem::new(StatusCode::TOO_MANY_REQUESTS, codes::RATE, format!("too many {what}"))
        .hint(format!("come back in {} s; the operator sets `server.{setting}` in windlass.toml", seconds.max(1)))
        .retry_after(seconds.max(1))
}

fn now_ns() -> u64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(BEGAN.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_then_the_rate() {
        let (bucket, rate) = (Bucket::default(), Rate::new(2, 3));
        let at = |ms: u64| bucket.take_at(ms * 1_000_000, rate).map_err(|wait| wait.as_millis());
        assert_eq!([at(0), at(0), at(0)], [Ok(()); 3]);
        assert_eq!(at(0), Err(500));
        assert_eq!(at(400), Err(100));
        assert_eq!([at(500), at(500)], [Ok(()), Err(500)]);
        // A pause fills it, and no more than that.
        assert_eq!([at(60_000), at(60_000), at(60_000), at(60_000)], [Ok(()), Ok(()), Ok(()), Err(500)]);
    }

    /// One line for each rate: how many come at once after a pause.
    #[test]
    fn rates_are_limits_of_the_server() {
        type Change = fn(&mut ServerLimits);
        type Of = fn(&Rates) -> Rate;
        let table: [(Change, Of, u32, u32); 4] = [
            (|l| l.max_unknown_tokens_per_second = 3, |rates| rates.failures, 20, 60),
            (|l| l.max_unauthenticated_deliveries_per_second = 7, |rates| rates.unproven, 50, 70),
            (|l| l.max_deliveries_per_second = 9, |rates| rates.deliveries, 200, 18),
            (|l| l.max_refusals_logged_per_second = 2, |rates| rates.refusals, 100, 20),
        ];
        let burst_size = |limits: &ServerLimits, rate: Of| {
            let (bucket, rate) = (Bucket::default(), rate(&Rates::of(limits)));
            (0..).take_while(|_| bucket.take_at(SECOND, rate).is_ok()).count() as u32
        };
        for (change, rate, usual, changed) in table {
            let (before, mut after) = (ServerLimits::default(), ServerLimits::default());
            change(&mut after);
            assert_eq!((burst_size(&before, rate), burst_size(&after, rate)), (usual, changed));
        }
    }

    #[test]
    fn a_rate_without_a_burst_lets_one_through() {
        let (bucket, rate) = (Bucket::default(), Rate::new(1, 0));
        assert!(bucket.take_at(SECOND, rate).is_ok());
        assert!(bucket.take_at(SECOND, rate).is_err());
        assert!(bucket.take_at(2 * SECOND, rate).is_ok());
    }

    #[test]
    fn neighbours_share() {
        let of = |text: &str| neighbourhood(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
