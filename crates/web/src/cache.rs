use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pages that were fetched a short time ago, by address.
pub struct Cache<T> {
    entries: Mutex<Vec<CacheEntry<T>>>,
    age: Duration,
    most: usize,
}

struct CacheEntry<T> {
    key: String,
    value: Arc<T>,
    size: usize,
    since: Instant,
}

impl<T> Cache<T> {
    /// Keeps entries for so long, and so many bytes of them.
    #[must_use]
    pub fn new(age: Duration, most: usize) -> Self {
        Self {
            entries: Mutex::default(),
            age,
            most,
        }
    }

    /// The entry of an address that isn't too old.
    #[must_use]
    pub fn get(&self, key: &str, now: Instant) -> Option<Arc<T>> {
        let mut entries = self.entries.lock();
        entries.retain(|entry| now.saturating_duration_since(entry.since) < self.age);
        let at = entries.iter().position(|entry| entry.key == key)?;
        // The one that was used last is the last to go.
        let entry = entries.remove(at);
        let value = entry.value.clone();
        entries.push(entry);
        Some(value)
    }

    /// Keeps an entry, and drops others until there is room.
    pub fn put(&self, key: String, value: Arc<T>, size: usize, now: Instant) {
        let size = size + key.len() + size_of::<CacheEntry<T>>();
        let mut entries = self.entries.lock();
        entries.retain(|entry| entry.key != key);
        if size > self.most {
            return;
        }
        let mut total: usize = size + entries.iter().map(|entry| entry.size).sum::<usize>();
        while total > self.most && !entries.is_empty() {
            total -= entries.remove(0).size;
        }
        entries.push(CacheEntry {
            key,
            value,
            size,
            since: now,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_age_and_make_room() {
        let cache = Cache::new(Duration::from_secs(900), 10_000);
        let start = Instant::now();
        let put =
            |key: &str, size| cache.put(key.to_owned(), Arc::new(key.to_owned()), size, start);
        put("a", 4_000);
        put("b", 4_000);
        let later = start + Duration::from_secs(60);
        assert_eq!(
            cache.get("a", later).as_deref().map(String::as_str),
            Some("a")
        );
        put("c", 4_000);
        assert!(
            cache.get("b", later).is_none(),
            "the one not used goes first"
        );
        assert!(cache.get("a", later).is_some());
        put("d", 20_000);
        assert!(cache.get("d", later).is_none(), "larger than everything");
        assert!(cache.get("a", later).is_some());
        assert!(
            cache.get("a", start + Duration::from_secs(900)).is_none(),
            "too old"
        );
    }
}
