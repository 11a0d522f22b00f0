//! The objects that the name of a reference stands for, read from git's own files.

use lathe_settings::regular_file::read_text;
use std::io::ErrorKind;
use std::path::Path;

/// Where git looks for a reference, in this order.
const PREFIXES: [&str; 5] = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];

/// References to references that are followed.
const MOST_STEPS: usize = 5;

/// The names of all objects that a name may stand for; none when git's files aren't understood. An annotated tag that
/// is packed stands for what it names.
pub(super) fn targets(folder: &Path, common: &Path, name: &str) -> Option<Vec<String>> {
    if !is_reference(name) {
        return Some(Vec::new());
    }
    // A form of storage that isn't read here.
    if common.join("reftable").exists() {
        return None;
    }
    let packed = match read_text(&common.join("packed-refs")) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(_) => return None,
    };
    let references = References {
        folder,
        common,
        packed: &packed,
    };
    let mut found = Vec::new();
    for prefix in PREFIXES {
        references.follow(&format!("{prefix}{name}"), MOST_STEPS, &mut found);
    }
    references.follow(&format!("refs/remotes/{name}/HEAD"), MOST_STEPS, &mut found);
    found.sort();
    found.dedup();
    Some(found)
}

/// Whether git takes a name for one of a reference.
fn is_reference(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('/')
        && name
            .split('/')
            .all(|piece| !piece.is_empty() && !piece.starts_with('.'))
        && !name.contains("..")
}

pub(super) fn is_object(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

struct References<'a> {
    folder: &'a Path,
    common: &'a Path,
    packed: &'a str,
}

impl References<'_> {
    fn follow(&self, full: &str, steps: usize, found: &mut Vec<String>) {
        for base in [self.folder, self.common] {
            let Ok(text) = read_text(&base.join(full)) else {
                continue;
            };
            match text.strip_prefix("ref:").map(str::trim) {
                Some(next) if steps > 0 && is_reference(next) => {
                    self.follow(next, steps - 1, found);
                }
                Some(_) => {}
                None => {
                    let first = text.split_whitespace().next().unwrap_or_default();
                    found.extend(is_object(first).then(|| first.to_owned()));
                }
            }
        }
        let mut lines = self.packed.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some((object, name)) = line.split_once(' ')
                && name == full
            {
                let peeled = lines.peek().and_then(|next| next.strip_prefix('^'));
                found.push(peeled.unwrap_or(object).to_owned());
            }
        }
    }
}
