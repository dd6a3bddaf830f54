//! Random numbers from a seed (SplitMix64), so that one number identifies a failing case.

#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(mix(seed ^ 0x005e_ed0f_a57e_0000))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number from 0 up to, but not including, `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Returns true with a probability of `percent` percent.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hashes bytes into a number, starting from another number.
pub(crate) fn digest(start: u64, bytes: &[u8]) -> u64 {
    let eat = |hash: u64, byte: &u8| mix(hash.rotate_left(5) ^ u64::from(*byte)).wrapping_add(0x1234_5678_9abc_def1);
    bytes.iter().fold(mix(start ^ 0x51ed), eat)
}
