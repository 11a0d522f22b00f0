//! Words that name objects of a repository: a file as it was at some time can be shown by the name of its object, or by
//! a reference to it.

/// Sub-commands that show whatever object a word names.
pub(super) fn shows_objects(command: &str) -> bool {
    matches!(command, "show" | "cat-file" | "diff" | "grep")
}

/// The objects and references that a word without a path in it may name, other than commits by what leads to them.
pub(super) fn named(text: &str) -> Vec<String> {
    text.split("..")
        .map(|end| end.trim_start_matches('.'))
        .flat_map(named_by_one)
        .collect()
}

fn named_by_one(text: &str) -> Vec<String> {
    let mut name = text.strip_prefix('^').unwrap_or(text);
    while let Some(shorter) = ["^{}", "^{blob}", "^{object}", "^{tag}"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
    {
        name = shorter;
    }
    // What a reference was at some time.
    let name = name.split("@{").next().unwrap_or(name);
    let is_other = name.is_empty()
        || matches!(name, "HEAD" | "@")
        || name.starts_with(['-', '/'])
        || name
            .chars()
            .any(|character| character.is_control() || " ~^:?*[\\".contains(character));
    if is_other {
        return Vec::new();
    }
    let mut names = vec![name.to_owned()];
    // As `git describe` writes it: only what follows the `g` counts.
    if let Some((_, object)) = name.rsplit_once("-g").filter(|(_, name)| is_object(name)) {
        names.push(object.to_owned());
    }
    names
}

/// Whether a word is the name of an object, or the start of one.
fn is_object(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn objects_are_found_in_every_form_that_git_reads() {
        for (text, names) in [
            ("4d45485b", &["4d45485b"][..]),
            ("4d45485b^{}", &["4d45485b"]),
            ("4d45485b^{blob}", &["4d45485b"]),
            ("v1..v2", &["v1", "v2"]),
            ("v1...v2", &["v1", "v2"]),
            ("^v1", &["v1"]),
            ("v1@{1}", &["v1"]),
            ("x-3-g4d45485b", &["x-3-g4d45485b", "4d45485b"]),
            ("HEAD", &[]),
            ("HEAD~3", &[]),
            ("HEAD^", &[]),
            ("main~1..HEAD", &[]),
            ("@{u}", &[]),
        ] {
            assert_eq!(named(text), names, "{text}");
        }
    }
}
