//! The fuzz target of the archive reader, for the tests and for `fuzz/`.

use crate::archive;

/// Any bytes as an archive are refused, or read into a folder and nowhere else.
pub fn fuzz_archive(bytes: &[u8]) {
    let _ = archive::parse_manifest(bytes);
    let Ok(folder) = tempfile::tempdir() else {
        return;
    };
    let inner = folder.path().join("inner");
    if std::fs::create_dir(&inner).is_err() {
        return;
    }
    let _ = archive::read(bytes, &inner);
    // The same as a tar that needn't survive the compression.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    if std::io::Write::write_all(&mut packed, bytes).is_ok()
        && let Ok(packed) = packed.finish()
    {
        let _ = archive::read(packed.as_slice(), &inner);
    }
    let names: Vec<_> = std::fs::read_dir(folder.path())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(names, ["inner"], "something was written elsewhere");
}

#[cfg(test)]
mod tests {
    #[test]
    fn archives() {
        let words = [
            "manifest.json",
            "transcript.jsonl",
            "../",
            "\"size\":",
            "\"git\":{",
        ];
        lathe_fuzzing::run("teleport", 300, &words, super::fuzz_archive);
    }
}
