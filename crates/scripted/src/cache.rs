//! The provider's prompt cache, honestly kept.
//!
//! A request is a list of blocks: tools, then the system prompt, then the messages. A cache marker
//! asks that the prefix up to and including its block be kept. A later request reads the longest
//! prefix that is kept and that ends at, or up to [`LOOK_BACK`] blocks before, one of its own
//! markers; it writes from there up to its last marker; the rest is plain input. Entries belong to
//! a model, and prefixes shorter than a minimum aren't kept. The markers themselves aren't part of
//! the prefix, so moving one along doesn't break it.
//!
//! Tokens are bytes divided by four, which is near enough to compare requests with each other.
//! Lifetimes are reported separately in the usage but do not expire: no scripted session is that long.

use crate::validate::facts::Lifetime;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many blocks before a marker an earlier entry is still found.
pub const LOOK_BACK: usize = 20;

/// Bytes per token.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// One block of a request, as the cache sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrefixBlock {
    pub(crate) hash: u64,
    pub(crate) bytes: u64,
    pub(crate) marker: Option<Lifetime>,
}

/// A request as a chain of prefixes.
#[derive(Debug)]
pub(crate) struct Prefix {
    chain: u64,
    bytes: u64,
    /// For each block: the hash of the prefix that ends with it, its length in bytes, its marker.
    ends: Vec<(u64, u64, Option<Lifetime>)>,
}

impl Prefix {
    pub(crate) fn new(model: &str) -> Self {
        let mut prefix = Self {
            chain: 0,
            bytes: 0,
            ends: Vec::new(),
        };
        prefix.salt(model);
        prefix
    }

    /// Makes everything that follows depend on a text.
    pub(crate) fn salt(&mut self, text: &str) {
        self.chain = combine(self.chain, text);
    }

    pub(crate) fn push(&mut self, block: PrefixBlock) {
        self.chain = combine(self.chain, block.hash);
        self.bytes += block.bytes;
        self.ends.push((self.chain, self.bytes, block.marker));
    }

    /// The tokens of the whole request.
    pub(crate) fn tokens(&self) -> u64 {
        self.bytes.div_ceil(BYTES_PER_TOKEN)
    }
}

fn combine(chain: u64, part: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    chain.hash(&mut hasher);
    part.hash(&mut hasher);
    hasher.finish()
}

/// Input tokens of a request, by what the cache did with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct InputTokens {
    pub(crate) plain: u64,
    pub(crate) read: u64,
    pub(crate) written_five_minutes: u64,
    pub(crate) written_one_hour: u64,
}

/// The prefixes that are kept.
#[derive(Debug, Default)]
pub(crate) struct PromptCache {
    entries: HashSet<u64>,
}

impl PromptCache {
    /// Accounts for a request and keeps its marked prefixes.
    pub(crate) fn account(&mut self, prefix: &Prefix, minimum_tokens: u64) -> InputTokens {
        let tokens = |bytes: u64| bytes / BYTES_PER_TOKEN;
        let marked: Vec<usize> = (0..prefix.ends.len())
            .filter(|&index| {
                prefix.ends.get(index).is_some_and(|(_, bytes, marker)| {
                    marker.is_some() && tokens(*bytes) >= minimum_tokens
                })
            })
            .collect();
        let hit = marked
            .iter()
            .flat_map(|&marker| marker.saturating_sub(LOOK_BACK)..=marker)
            .filter_map(|index| prefix.ends.get(index))
            .filter(|(hash, ..)| self.entries.contains(hash))
            .map(|(_, bytes, _)| *bytes)
            .max()
            .unwrap_or_default();
        let mut counted = InputTokens {
            read: tokens(hit),
            ..InputTokens::default()
        };
        let mut reached = hit;
        for (hash, bytes, marker) in marked.iter().filter_map(|&index| prefix.ends.get(index)) {
            self.entries.insert(*hash);
            if *bytes > reached {
                let written = tokens(*bytes) - tokens(reached);
                match marker {
                    Some(Lifetime::OneHour) => counted.written_one_hour += written,
                    _ => counted.written_five_minutes += written,
                }
                reached = *bytes;
            }
        }
        counted.plain = prefix.tokens() - tokens(reached);
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(blocks: &[(u64, bool)]) -> Prefix {
        let mut prefix = Prefix::new("m");
        for &(hash, marked) in blocks {
            let marker = marked.then_some(Lifetime::FiveMinutes);
            prefix.push(PrefixBlock {
                hash,
                bytes: 400,
                marker,
            });
        }
        prefix
    }

    #[test]
    fn a_repeated_prefix_is_read_and_only_the_new_part_is_written() {
        let mut cache = PromptCache::default();
        let first = cache.account(&prefix(&[(1, true), (2, true), (3, false)]), 0);
        assert_eq!(
            (first.read, first.written_five_minutes, first.plain),
            (0, 200, 100)
        );
        // The marker has moved on; the old place is found by looking back.
        let second = cache.account(
            &prefix(&[(1, true), (2, false), (3, false), (4, true), (5, false)]),
            0,
        );
        assert_eq!(
            (second.read, second.written_five_minutes, second.plain),
            (200, 200, 100)
        );
    }

    #[test]
    fn a_change_in_the_middle_loses_everything_after_it() {
        let mut cache = PromptCache::default();
        cache.account(&prefix(&[(1, true), (2, false), (3, true)]), 0);
        let changed = cache.account(&prefix(&[(1, true), (9, false), (3, true)]), 0);
        assert_eq!((changed.read, changed.written_five_minutes), (100, 200));
    }

    #[test]
    fn nothing_is_found_too_far_before_a_marker_or_below_the_minimum() {
        let mut cache = PromptCache::default();
        cache.account(&prefix(&[(0, true)]), 0);
        let mut blocks: Vec<(u64, bool)> = (0..=20).map(|hash| (hash, hash == 20)).collect();
        assert_eq!(cache.account(&prefix(&blocks), 0).read, 100);
        let mut cache = PromptCache::default();
        cache.account(&prefix(&[(0, true)]), 0);
        blocks = (0..=21).map(|hash| (hash, hash == 21)).collect();
        assert_eq!(cache.account(&prefix(&blocks), 0).read, 0);
        let mut cache = PromptCache::default();
        cache.account(&prefix(&[(0, true)]), 101);
        assert_eq!(cache.account(&prefix(&[(0, true)]), 101).plain, 100);
    }

    #[test]
    fn another_model_shares_nothing() {
        let mut cache = PromptCache::default();
        cache.account(&prefix(&[(1, true)]), 0);
        let mut other = Prefix::new("n");
        other.push(PrefixBlock {
            hash: 1,
            bytes: 400,
            marker: Some(Lifetime::OneHour),
        });
        let counted = cache.account(&other, 0);
        assert_eq!((counted.read, counted.written_one_hour), (0, 100));
    }
}
