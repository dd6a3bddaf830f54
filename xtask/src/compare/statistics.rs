//! Medians and intervals of rates.
//!
//! The interval of a ratio of medians comes from a paired bootstrap: pairs are drawn with replacement as often as
//! there are pairs, and the ratio of the medians of the drawn pairs is recorded. The middle 95 % of many such ratios
//! is the interval. Pairs are kept together because both samples of a pair met the same load. The seed is fixed: the
//! same samples give the same interval.

use std::fmt;

const RESAMPLES: usize = 4_000;
const SEED: u64 = 0x5eed_0fc0_4a12_e500;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    pub(crate) fn includes(self, ratio: f64) -> bool {
        self.low <= ratio && ratio <= self.high
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:.3} to {:.3}]", self.low, self.high)
    }
}

/// Returns the median; of an even number of values the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[length / 2],
        length => (sorted[length / 2 - 1] + sorted[length / 2]) / 2.0,
    }
}

/// Formats median, lowest and highest.
pub(crate) fn spread(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.0} ({low:.0} to {high:.0})", median(values))
}

/// Returns the 95 % interval of the ratio of the second samples' median to the first samples'.
pub(crate) fn bootstrap(pairs: &[(f64, f64)]) -> Interval {
    let mut random = SEED;
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<(f64, f64)> = pairs.iter().map(|_| pairs[random_below(&mut random, pairs.len())]).collect();
            let (a, b): (Vec<f64>, Vec<f64>) = drawn.into_iter().unzip();
            median(&b) / median(&a)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[((RESAMPLES - 1) as f64 * share).round() as usize];
    Interval { low: at(0.025), high: at(0.975) }
}

/// Draws a number below the limit with SplitMix64: small, good enough for resampling, and the same everywhere.
fn random_below(state: &mut u64, limit: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed % limit as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn equal_samples_have_an_interval_around_one() {
        let pairs: Vec<(f64, f64)> =
            (0..12).map(|n| (100.0 + f64::from(n * 7 % 12), 100.0 + f64::from(n * 5 % 12))).collect();
        let interval = bootstrap(&pairs);
        assert!(interval.includes(1.0) && interval.low > 0.9 && interval.high < 1.1, "{interval}");
        assert_eq!(interval, bootstrap(&pairs), "the seed is fixed");
    }

    #[test]
    fn a_clear_loss_has_an_interval_below_one() {
        let pairs: Vec<(f64, f64)> = (0..10).map(|n| (100.0 + f64::from(n), 80.0 + f64::from(n))).collect();
        let interval = bootstrap(&pairs);
        assert!(interval.high < 0.9 && interval.low > 0.7, "{interval}");
    }
}
