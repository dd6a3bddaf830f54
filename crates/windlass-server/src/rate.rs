//! Rate limits (GCRA). Memory is constant: a bucket is one number, and unauthenticated callers share a fixed table.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use windlass_core::ServerLimits;

use crate::ApiProblem;
use crate::problem::codes;

/// Rate limits of unauthenticated callers and webhooks, from the server's limits. After a pause, bursts are allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimits {
    /// Failed authentications per address.
    pub failures: Rate,
    /// Unauthenticated deliveries per address.
    pub unauthenticated_deliveries: Rate,
    /// Authenticated deliveries per webhook.
    pub deliveries: Rate,
    /// Rejected calls recorded in the audit log.
    pub refusals: Rate,
}

impl RateLimits {
    pub(crate) fn from_limits(limits: &ServerLimits) -> RateLimits {
        let rate =
            |per_second: u32, burst_seconds: u32| Rate::new(per_second, per_second.saturating_mul(burst_seconds));
        RateLimits {
            failures: rate(limits.max_unknown_tokens_per_second, 20),
            unauthenticated_deliveries: rate(limits.max_unauthenticated_deliveries_per_second, 10),
            deliveries: rate(limits.max_deliveries_per_second, 2),
            refusals: rate(limits.max_refusals_logged_per_second, 10),
        }
    }
}

/// Number of shared buckets; callers whose keys collide share one.
const SHARED_BUCKETS: usize = 4_096;

/// A rate per second, and a burst size after a pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    interval_ns: u64,
    burst_ns: u64,
}

impl Rate {
    pub(crate) const fn new(per_second: u32, burst: u32) -> Rate {
        let per_second = if per_second == 0 { 1 } else { per_second };
        let interval_ns = 1_000_000_000 / per_second as u64;
        Rate { interval_ns, burst_ns: interval_ns * burst as u64 }
    }
}

/// The theoretical arrival time of GCRA, in nanoseconds since the process began.
#[derive(Debug, Default)]
pub(crate) struct RateBucket(AtomicU64);

impl RateBucket {
    /// Takes one request, or returns the time to wait.
    pub(crate) fn take(&self, rate: Rate) -> Result<(), Duration> {
        self.take_at(now_ns(), rate)
    }

    fn take_at(&self, now: u64, rate: Rate) -> Result<(), Duration> {
        let mut theoretical_arrival = self.0.load(Ordering::Relaxed);
        loop {
            let next = theoretical_arrival.max(now).saturating_add(rate.interval_ns);
            let ahead = next - now;
            if ahead > rate.burst_ns.max(rate.interval_ns) {
                return Err(Duration::from_nanos(ahead - rate.burst_ns.max(rate.interval_ns)));
            }
            match self.0.compare_exchange_weak(theoretical_arrival, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => theoretical_arrival = other,
            }
        }
    }

    /// Returns how long the bucket stays empty, without taking a request.
    fn retry_after_at(&self, now: u64, rate: Rate) -> Option<Duration> {
        let ahead = self.0.load(Ordering::Relaxed).max(now).saturating_add(rate.interval_ns) - now;
        (ahead > rate.burst_ns).then(|| Duration::from_nanos(ahead - rate.burst_ns))
    }
}

/// A fixed number of buckets for any number of keys. The hash key is secret, so collisions are unpredictable from
/// outside.
pub(crate) struct SharedBuckets {
    buckets: Vec<RateBucket>,
    key: RandomState,
}

impl Default for SharedBuckets {
    fn default() -> SharedBuckets {
        let buckets = std::iter::repeat_with(RateBucket::default).take(SHARED_BUCKETS).collect();
        SharedBuckets { buckets, key: RandomState::new() }
    }
}

impl SharedBuckets {
    fn bucket(&self, name: impl Hash) -> &RateBucket {
        &self.buckets[self.key.hash_one(name) as usize % self.buckets.len()]
    }

    pub(crate) fn take(&self, name: impl Hash, rate: Rate) -> Result<(), Duration> {
        self.bucket(name).take(rate)
    }

    pub(crate) fn retry_after(&self, name: impl Hash, rate: Rate) -> Option<Duration> {
        self.bucket(name).retry_after_at(now_ns(), rate)
    }
}

/// Returns the block of an address: an owner of one IPv6 address owns the 64 bits below it as well.
pub(crate) fn address_block(address: IpAddr) -> [u8; 8] {
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

/// Builds the 429 response. `setting` is the key under `[server]`.
pub(crate) fn rate_limited(what: &str, wait: Duration, setting: &str) -> ApiProblem {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    ApiProblem::new(StatusCode::TOO_MANY_REQUESTS, codes::RATE, format!("too many {what}"))
        .hint(format!("retry in {} s; the operator can raise `server.{setting}` in windlass.toml", seconds.max(1)))
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
        let (bucket, rate) = (RateBucket::default(), Rate::new(2, 3));
        let at = |ms: u64| bucket.take_at(ms * 1_000_000, rate).map_err(|wait| wait.as_millis());
        assert_eq!([at(0), at(0), at(0)], [Ok(()); 3]);
        assert_eq!(at(0), Err(500));
        assert_eq!(at(400), Err(100));
        assert_eq!([at(500), at(500)], [Ok(()), Err(500)]);
        // A pause refills the bucket, but not beyond its size.
        assert_eq!([at(60_000), at(60_000), at(60_000), at(60_000)], [Ok(()), Ok(()), Ok(()), Err(500)]);
    }

    /// One row per rate: the burst size after a pause.
    #[test]
    fn rates_are_limits_of_the_server() {
        type Change = fn(&mut ServerLimits);
        type RateField = fn(&RateLimits) -> Rate;
        let table: [(Change, RateField, u32, u32); 4] = [
            (|l| l.max_unknown_tokens_per_second = 3, |rates| rates.failures, 20, 60),
            (|l| l.max_unauthenticated_deliveries_per_second = 7, |rates| rates.unauthenticated_deliveries, 50, 70),
            (|l| l.max_deliveries_per_second = 9, |rates| rates.deliveries, 200, 18),
            (|l| l.max_refusals_logged_per_second = 2, |rates| rates.refusals, 100, 20),
        ];
        let burst_size = |limits: &ServerLimits, rate: RateField| {
            let (bucket, rate) = (RateBucket::default(), rate(&RateLimits::from_limits(limits)));
            (0..).take_while(|_| bucket.take_at(SECOND, rate).is_ok()).count() as u32
        };
        for (change, rate, usual, changed) in table {
            let (before, mut after) = (ServerLimits::default(), ServerLimits::default());
            change(&mut after);
            assert_eq!((burst_size(&before, rate), burst_size(&after, rate)), (usual, changed));
        }
    }

    #[test]
    fn a_rate_without_a_burst_admits_one_request() {
        let (bucket, rate) = (RateBucket::default(), Rate::new(1, 0));
        assert!(bucket.take_at(SECOND, rate).is_ok());
        assert!(bucket.take_at(SECOND, rate).is_err());
        assert!(bucket.take_at(2 * SECOND, rate).is_ok());
    }

    #[test]
    fn addresses_of_one_ipv6_block_share_a_bucket() {
        let block = |text: &str| address_block(text.parse().unwrap());
        assert_eq!(block("2001:db8::1"), block("2001:db8::ffff:2"));
        assert_ne!(block("2001:db8::1"), block("2001:db8:0:1::1"));
        assert_ne!(block("10.0.0.1"), block("10.0.0.2"));
        assert_eq!(block("::ffff:10.0.0.1"), block("10.0.0.1"));
    }
}
