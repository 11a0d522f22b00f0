use super::*;

const ALL: ReadQuestion = ReadQuestion {
    offset: None,
    limit: None,
    pages: None,
};

fn stamp(path: &Path) -> Stamp {
    Stamp::of(&std::fs::metadata(path).unwrap())
}

fn read(cache: &FileCache, path: &Path, lines: Option<(usize, usize)>) {
    let bytes = std::fs::read(path).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    cache.record_read(
        path,
        ReadFact {
            stamp: stamp(path),
            bytes: Some(&bytes),
            text: Some(&text),
            lines,
            total_lines: Some(text.lines().count()),
            question: ALL,
        },
    );
}

fn answered(cache: &FileCache, path: &Path) -> bool {
    cache.is_answered(path, stamp(path), &ALL, || {
        Some(hash_of(&std::fs::read(path).unwrap()))
    })
}

fn check(cache: &FileCache, path: &Path, need: Need) -> Result<(), NotFresh> {
    let hash = hash_of(&std::fs::read(path).unwrap());
    cache.check(path, stamp(path), Some(hash), need)
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn parts_that_were_read_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a", "1\n2\n3\n4\n5\n6\n");
    let cache = FileCache::new();
    assert!(matches!(
        check(&cache, &path, Need::Part),
        Err(NotFresh::NotRead(_))
    ));
    read(&cache, &path, Some((1, 2)));
    assert!(check(&cache, &path, Need::Part).is_ok());
    let error = check(&cache, &path, Need::Whole).unwrap_err().to_string();
    assert!(error.contains("lines 1-2"), "{error}");
    read(&cache, &path, Some((5, 6)));
    assert!(check(&cache, &path, Need::Whole).is_err());
    read(&cache, &path, Some((2, 4)));
    assert!(check(&cache, &path, Need::Whole).is_ok());
}

#[test]
fn what_was_injected_is_not_read_and_does_not_unread() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a", "1\n");
    let cache = FileCache::new();
    cache.record_injected(&path, stamp(&path));
    assert!(check(&cache, &path, Need::Part).is_err());
    assert!(cache.recent(10).is_empty());
    read(&cache, &path, None);
    cache.record_injected(&path, stamp(&path));
    assert!(check(&cache, &path, Need::Whole).is_ok());
}

#[test]
fn the_same_bytes_under_another_time_are_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a", "1\n");
    let cache = FileCache::new();
    read(&cache, &path, None);
    let later = SystemTime::now() + std::time::Duration::from_secs(60);
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(later)
        .unwrap();
    assert!(check(&cache, &path, Need::Whole).is_ok());
    assert!(cache.changed_on_disk().is_empty());
}

#[test]
fn other_bytes_under_the_same_time_and_size_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a", "one");
    let cache = FileCache::new();
    read(&cache, &path, None);
    let before = stamp(&path);
    std::fs::write(&path, "two").unwrap();
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(before.modified.unwrap())
        .unwrap();
    assert_eq!(stamp(&path), before);
    assert!(!answered(&cache, &path));
    assert!(check(&cache, &path, Need::Part).is_err());
}

#[test]
fn a_change_by_someone_else_is_told_once_and_then_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a", "one\ntwo\n");
    let cache = FileCache::new();
    read(&cache, &path, None);
    assert!(cache.changed_on_disk().is_empty());
    std::fs::write(&path, "one\nthree\n").unwrap();
    assert!(matches!(
        check(&cache, &path, Need::Part),
        Err(NotFresh::Changed(_))
    ));
    let changes = cache.changed_on_disk();
    assert_eq!(changes.len(), 1);
    assert!(
        changes[0].diff.contains("-two\n+three"),
        "{}",
        changes[0].diff
    );
    assert!(cache.changed_on_disk().is_empty());
    assert!(check(&cache, &path, Need::Whole).is_ok());

    std::fs::remove_file(&path).unwrap();
    assert!(cache.changed_on_disk()[0].diff.contains("no longer exists"));
    assert!(cache.changed_on_disk().is_empty());
}

#[test]
fn a_change_too_long_to_tell_must_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a", "one\n");
    let cache = FileCache::new();
    read(&cache, &path, None);
    std::fs::write(&path, "other line\n".repeat(2000)).unwrap();
    assert!(cache.changed_on_disk()[0].diff.contains("Read it again"));
    assert!(check(&cache, &path, Need::Part).is_err());
    read(&cache, &path, None);
    assert!(check(&cache, &path, Need::Part).is_ok());
}

#[test]
fn the_least_recently_used_file_is_forgotten_first() {
    let folder = tempfile::tempdir().unwrap();
    let cache = FileCache::new();
    let first = file(&folder, "first", "x");
    let second = file(&folder, "second", "x");
    read(&cache, &first, None);
    read(&cache, &second, None);
    for number in 0..MOST_FILES - 1 {
        assert!(check(&cache, &first, Need::Part).is_ok());
        read(&cache, &file(&folder, &format!("{number}"), "x"), None);
    }
    assert!(check(&cache, &first, Need::Part).is_ok());
    assert!(check(&cache, &second, Need::Part).is_err());
    assert_eq!(cache.recent(1), [first]);
}

#[test]
fn text_is_dropped_before_entries_are() {
    let folder = tempfile::tempdir().unwrap();
    let cache = FileCache::new();
    let big = "x".repeat(10 * 1024 * 1024);
    let paths: Vec<PathBuf> = (0..3)
        .map(|number| file(&folder, &format!("{number}"), &big))
        .collect();
    for path in &paths {
        read(&cache, path, None);
    }
    let state = cache.state.lock();
    let kept: Vec<bool> = paths
        .iter()
        .map(|path| state.entries[&key_of(path)].text.is_some())
        .collect();
    assert_eq!(kept, [false, true, true]);
}

#[test]
fn a_sub_agent_inherits_what_was_read_but_not_what_was_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a", "1\n");
    let cache = FileCache::new();
    read(&cache, &path, None);
    assert!(answered(&cache, &path));
    let agent = cache.for_agent();
    assert!(!answered(&agent, &path));
    assert!(check(&agent, &path, Need::Whole).is_ok());
    cache.forget_answers();
    assert!(!answered(&cache, &path));
}

#[test]
fn seeding_counts_only_an_unchanged_file_as_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "a", "1\n");
    let cache = FileCache::new();
    let modified = stamp(&path).modified.unwrap();
    assert!(!cache.seed(&path, modified - std::time::Duration::from_secs(5)));
    assert!(check(&cache, &path, Need::Part).is_err());
    assert!(cache.seed(&path, modified));
    assert!(check(&cache, &path, Need::Whole).is_ok());
    assert!(!cache.seed(&folder.path().join("missing"), modified));
}
