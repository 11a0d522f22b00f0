//! The fuzz targets of this crate's parsers, for the tests and for `fuzz/`.

use crate::front_matter;
use crate::plugins::archive::unpack;
use crate::plugins::copy::Limits;
use crate::plugins::zip::Archive;
use std::io::Write as _;
use std::path::Path;

/// Limits that a small input can exceed.
const LIMITS: Limits = Limits {
    entries: 20,
    file: 64 * 1024,
    total: 128 * 1024,
    depth: 8,
};

/// A file with front matter comes apart, whatever is in it, and nothing of the body is lost.
pub fn fuzz_front_matter(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut problems = Vec::new();
    let document = front_matter::parse(Path::new("SKILL.md"), &text, &mut problems);
    assert!(document.has_front_matter || document.fields.is_empty());
    for problem in problems {
        assert!(!problem.to_string().is_empty());
    }
}

/// A tar archive is unpacked or refused; nothing is written outside its folder, and no more than the limits allow.
pub fn fuzz_package(bytes: &[u8]) {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    let packed = gzip.write_all(bytes).and_then(|()| gzip.finish());
    unpacked(|to| {
        let _ = unpack(packed.as_deref().unwrap_or_default(), to, LIMITS);
        // Almost no input is a gzip file, so the bytes are tried as the archive inside one, too.
        let _ = unpack(bytes, &to.join("again"), LIMITS);
    });
}

/// A zip archive is unpacked or refused; nothing is written outside its folder, and no more than the limits allow.
pub fn fuzz_bundle(bytes: &[u8]) {
    unpacked(|to| {
        if let Ok(mut archive) = Archive::read(bytes, LIMITS) {
            let _ = archive.file("manifest.json");
            let _ = archive.unpack(to);
        }
    });
}

/// Unpacks into a folder and checks what is there afterwards, and that nothing is beside it.
fn unpacked(unpack: impl FnOnce(&Path)) {
    let Ok(folder) = tempfile::tempdir() else {
        return;
    };
    unpack(&folder.path().join("to"));
    let mut open = vec![folder.path().to_owned()];
    let mut total = 0;
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            if next == folder.path() {
                assert_eq!(entry.file_name(), "to");
            }
            let Ok(metadata) = entry.path().symlink_metadata() else {
                continue;
            };
            assert!(
                metadata.is_dir() || metadata.is_file(),
                "{}",
                entry.path().display()
            );
            if metadata.is_dir() {
                open.push(entry.path());
            } else {
                total += metadata.len();
            }
        }
    }
    assert!(total <= 2 * LIMITS.total, "{total} bytes were written");
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_text_comes_apart_at_its_front_matter() {
        let words = [
            "---",
            "\n---\n",
            "name: ",
            "description: |\n",
            "- ",
            "[",
            "{",
            "}",
            ": ",
            "&a",
            "*a",
            "!!binary",
            "\t",
            "\r\n",
            "\u{feff}",
            "'",
            "\"",
            "#",
        ];
        lathe_fuzzing::run("front_matter", 1000, &words, super::fuzz_front_matter);
    }

    #[test]
    fn any_package_is_unpacked_or_refused() {
        let words = [
            "ustar",
            "\0",
            "../",
            "/",
            "package/",
            "0000644",
            " path=",
            "\n",
            "x",
            "77777777777",
        ];
        lathe_fuzzing::run("package", 500, &words, super::fuzz_package);
    }

    #[test]
    fn any_bundle_is_unpacked_or_refused() {
        let words = [
            "PK\u{1}\u{2}",
            "PK\u{3}\u{4}",
            "PK\u{5}\u{6}",
            "../",
            "/",
            "\0",
            "manifest.json",
        ];
        lathe_fuzzing::run("bundle", 500, &words, super::fuzz_bundle);
    }
}
