//! Translated messages, kept: a message is translated once per provider, however often it is sent.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// So many entries are kept before the ones that nobody used lately are dropped.
const MANY: usize = 4096;
/// An entry that so many requests didn't use is dropped then.
const OLD: u64 = 64;

/// Translations of bytes that don't change. The key is the place of the bytes in memory, which stays theirs as
/// long as the entry holds on to them.
pub(crate) struct Translations<T> {
    entries: Mutex<Entries<T>>,
}

struct Entries<T> {
    map: HashMap<Key, Kept<T>>,
    requests: u64,
}

#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct Key {
    place: usize,
    length: usize,
    variant: u64,
}

struct Kept<T> {
    /// Keeps the bytes where they are.
    _source: Bytes,
    value: Arc<T>,
    used: u64,
}

impl<T> Default for Translations<T> {
    fn default() -> Self {
        Self {
            entries: Mutex::new(Entries {
                map: HashMap::new(),
                requests: 0,
            }),
        }
    }
}

impl<T> Translations<T> {
    /// A request begins: what it doesn't use grows old.
    pub(crate) fn begin(&self) {
        let mut entries = self.entries.lock();
        entries.requests += 1;
        let requests = entries.requests;
        if entries.map.len() > MANY {
            entries.map.retain(|_, kept| kept.used + OLD > requests);
        }
    }

    /// The translation of these bytes, made if it isn't there. `variant` tells apart translations of the same
    /// bytes.
    pub(crate) fn get(&self, source: &Bytes, variant: u64, make: impl FnOnce() -> T) -> Arc<T> {
        let key = Key {
            place: source.as_ptr().addr(),
            length: source.len(),
            variant,
        };
        let mut entries = self.entries.lock();
        let now = entries.requests;
        if let Some(kept) = entries.map.get_mut(&key) {
            kept.used = now;
            return Arc::clone(&kept.value);
        }
        let value = Arc::new(make());
        let kept = Kept {
            _source: source.clone(),
            value: Arc::clone(&value),
            used: now,
        };
        entries.map.insert(key, kept);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_translated_once_per_variant() {
        let cache = Translations::<usize>::default();
        let source = Bytes::from("hello".to_owned());
        let mut made = 0;
        for variant in [1, 2, 1, 2] {
            cache.begin();
            cache.get(&source.clone(), variant, || {
                made += 1;
                made
            });
        }
        assert_eq!(made, 2);
    }

    #[test]
    fn what_nobody_uses_is_dropped() {
        let cache = Translations::<()>::default();
        for number in 0..20_000 {
            cache.begin();
            cache.get(&Bytes::from(number.to_string()), 0, || ());
        }
        assert!(cache.entries.lock().map.len() <= MANY + 1);
    }
}
