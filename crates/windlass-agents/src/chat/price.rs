//! Prices of tokens.

use std::collections::BTreeMap;

use super::reply::ModelUsage;

/// Prices in millionths of money per million tokens. Cache prices default to the input price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenPrice {
    pub input: u64,
    pub output: u64,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
}

impl TokenPrice {
    /// Returns the cost in millionths of money, rounded up so that budgets hold.
    pub(super) fn cost(&self, usage: &ModelUsage) -> u64 {
        let (read, write) = (usage.cache_read, usage.cache_write);
        let plain = usage.input.saturating_sub(read).saturating_sub(write);
        let parts = [
            (plain, self.input),
            (read, self.cache_read.unwrap_or(self.input)),
            (write, self.cache_write.unwrap_or(self.input)),
            (usage.output, self.output),
        ];
        let total: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
        u64::try_from(total.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Prices by the model's name, with or without its provider, or by the prefix before a colon, such as `scripted`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<String, TokenPrice>);

impl Prices {
    pub fn new(prices: impl IntoIterator<Item = (String, TokenPrice)>) -> Prices {
        Prices(prices.into_iter().collect())
    }

    pub(crate) fn lookup(&self, model: &str) -> Option<TokenPrice> {
        let bare = || model.split_once('/').and_then(|(_, bare)| self.0.get(bare));
        let kind = || model.split_once(':').and_then(|(kind, _)| self.0.get(kind));
        self.0.get(model).or_else(bare).or_else(kind).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_computed_exactly() {
        let usage = |input, output, cache_read, cache_write| ModelUsage {
            input,
            output,
            cache_read,
            cache_write,
            ..ModelUsage::default()
        };
        let dear = TokenPrice {
            input: 3_000_000,
            output: 15_000_000,
            cache_read: Some(300_000),
            cache_write: Some(3_750_000),
        };
        let plain = TokenPrice { cache_read: None, cache_write: None, ..dear };
        for (price, usage, money) in [
            (dear, usage(0, 0, 0, 0), 0),
            (dear, usage(1_000, 100, 0, 0), 4_500),
            (dear, usage(1_000, 0, 800, 100), 300 + 240 + 375),
            (plain, usage(1_000, 0, 800, 100), 3_000),
            (TokenPrice { input: 1, ..TokenPrice::default() }, usage(1, 0, 0, 0), 1),
            (dear, usage(10, 0, 800, 0), 240),
            (dear, usage(u64::MAX, u64::MAX, 0, 0), u64::MAX),
        ] {
            assert_eq!(price.cost(&usage), money, "{usage:?}");
        }
        let prices = Prices::new([("small".to_owned(), plain), ("openai/large".to_owned(), dear)]);
        let found = ["small", "openai/small", "large", "openai/large", "small:8b"].map(|name| prices.lookup(name));
        assert_eq!(found, [Some(plain), Some(plain), None, Some(dear), Some(plain)]);
    }
}
