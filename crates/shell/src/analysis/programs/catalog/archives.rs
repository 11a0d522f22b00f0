//! Archives and compressed files: what lists them or prints what is in them.

use super::super::checks;
use super::super::table::{Operands, Program};

/// Endings that gzip adds to a name of which no file exists.
const GZIP: &[&str] = &[".gz", ".z", "-gz", "-z", ".Z", "_z"];

/// Endings that unzip adds to a name of which no file exists.
const ZIP: &[&str] = &[".zip", ".ZIP"];

pub(super) const PROGRAMS: &[Program] = &[
    Program::new(
        &["tar"],
        Operands::Words,
        "-t -f@ -v -z -j -J -a --list --file@ --verbose --gzip --bzip2 --xz --zstd --auto-compress --exclude= \
        --wildcards --no-wildcards --strip-components= --numeric-owner --full-time --utc --version --quoting-style= \
        --show-transformed-names",
    )
    .checked(checks::tar),
    Program::new(&["bsdtar"], Operands::Words, "-t -f@ -v --list --file@").checked(checks::tar),
    Program::new(&["zcat", "gzcat"], Operands::Files, "-f -q -v").ending(GZIP),
    Program::new(&["bzcat"], Operands::Files, "-s"),
    Program::new(&["xzcat"], Operands::Files, "-q -v"),
    Program::new(&["lzcat"], Operands::Files, "-q -v"),
    Program::new(&["zstdcat"], Operands::Files, "-q -v"),
    Program::new(
        &["gzip", "gunzip"],
        Operands::Files,
        "-l -t -c -d -v -q -k --list --test --stdout --to-stdout --decompress --verbose --quiet --keep --version",
    )
    .ending(GZIP)
    .checked(checks::compressor),
    Program::new(
        &["bzip2", "bunzip2"],
        Operands::Files,
        "-t -c -d -v -q -k --test --stdout --decompress --verbose --quiet --keep --version",
    )
    .checked(checks::compressor),
    Program::new(
        &["xz", "unxz"],
        Operands::Files,
        "-l -t -c -d -v -q -k --list --test --stdout --to-stdout --decompress --verbose --quiet --keep --version",
    )
    .checked(checks::compressor),
    Program::new(
        &["zstd"],
        Operands::Files,
        "-l -t -c -d -v -q -k --list --test --stdout --decompress --verbose --quiet --keep --version",
    )
    .checked(checks::compressor),
    Program::new(
        &["unzip"],
        Operands::Files,
        "-l -t -v -z -q -p -c -1 -h -C",
    )
    .ending(ZIP)
    .checked(checks::unzip),
    Program::new(
        &["zipinfo"],
        Operands::Files,
        "-1 -2 -s -m -l -v -h -t -T -z -C",
    )
    .ending(ZIP)
    .checked(checks::zip_patterns),
];
