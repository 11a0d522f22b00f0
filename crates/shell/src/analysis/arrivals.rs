//! Files of unknown names that a command brings: what is unpacked, copied or downloaded into a folder. Where the folder is
//! a home folder, or one of the system, start-up files may be among them.

use super::argument::{Argument, PathOperand};
use super::removal::{Loss, Vital, has_long, lost, operands, says, value_of, values_of};

/// The files that a program brings into folders that its words name, or into the one that it runs in.
pub(super) fn arrivals(name: &str, words: &[Argument]) -> Vec<Loss> {
    match name {
        "cp" | "scp" | "rsync" => spread(words),
        "rclone" | "aws" | "gsutil" | "gcloud" | "s5cmd" => mirrored(words),
        "cpio" if passes_on(words) => lost(operands(words), Vital::Home),
        "tar" | "bsdtar" | "unzip" | "7z" | "7za" | "7zr" | "cpio" | "wget" | "curl" | "patch" => {
            unpacked(name, words)
        }
        _ => lost(&brought_by(name, words), Vital::Home),
    }
}

/// `docker build -o folder`, `--output type=local,dest=folder`.
fn exported(words: &[Argument]) -> Vec<Argument> {
    let values = values_of(words, &["-o", "--output"]);
    values
        .into_iter()
        .map(|value| {
            let text = value.text();
            let named = text
                .split(',')
                .find_map(|field| field.strip_prefix("dest="));
            match named {
                Some(folder) => value_of(&Argument::Fixed(folder.to_owned()), ""),
                None => value,
            }
        })
        .collect()
}

/// The folders that other programs unpack, copy or download files of unknown names into.
fn brought_by(name: &str, words: &[Argument]) -> Vec<Argument> {
    let last = |wanted: &[&str]| {
        let target = operands(words).into_iter().next_back();
        let says = wanted.is_empty() || says(words, wanted);
        target.filter(|_| says).cloned().into_iter().collect()
    };
    let letter = |letter: char| {
        words.iter().any(|word| {
            let text = word.text();
            text.starts_with('-') && !text.starts_with("--") && text.contains(letter)
        })
    };
    match name {
        "ar" => values_of(words, &["--output"]),
        "svn" => last(&["checkout", "co", "export"]),
        "unrar" | "rar" | "unar" => {
            let mut targets = values_of(words, &["-o", "-output-directory"]);
            targets.extend(last(&["x", "e"]));
            targets
        }
        "dpkg" | "dpkg-deb" => last(&[
            "-x",
            "-X",
            "-R",
            "-e",
            "--extract",
            "--vextract",
            "--raw-extract",
            "--control",
        ]),
        "pax" if letter('w') => last(&[]),
        "ditto" => last(&[]),
        "unsquashfs" => values_of(words, &["-d", "-dest"]),
        "jar" => values_of(words, &["-C", "--dir"]),
        "pip" | "pip3" | "uv" | "gem" => values_of(
            words,
            &[
                "-t",
                "-d",
                "-i",
                "--target",
                "--dest",
                "--root",
                "--prefix",
                "--install-dir",
            ],
        ),
        "npm" | "pnpm" => values_of(words, &["--pack-destination"]),
        "degit" => last(&[]),
        "copier" => last(&["copy"]),
        "cookiecutter" | "openapi-generator" | "flatc" => {
            values_of(words, &["-o", "--output", "--output-dir"])
        }
        "cargo" => values_of(words, &["--destination"]),
        "meson" => values_of(words, &["--destdir"]),
        "stow" => values_of(words, &["-t", "--target"]),
        "helm" => values_of(
            words,
            &["-d", "--destination", "--untardir", "--output-dir"],
        ),
        "gh" | "glab" => values_of(words, &["-D", "--dir"]),
        "cmake" => values_of(words, &["--prefix"]),
        "docker" | "podman" | "nerdctl" => exported(words),
        "conda" | "mamba" | "micromamba" => values_of(words, &["-p", "--prefix"]),
        "mount" if operands(words).len() > 1 => last(&[]),
        "mongodump" => values_of(words, &["-o", "--out"]),
        _ if name.starts_with("python") && says(words, &["zipfile", "tarfile"]) => {
            last(&["-e", "--extract"])
        }
        _ if name.starts_with("python") && says(words, &["pip", "ensurepip"]) => values_of(
            words,
            &["-t", "-d", "--target", "--dest", "--root", "--prefix"],
        ),
        _ => Vec::new(),
    }
}

/// Files of unknown names that are put right into a home folder or a folder of the system: start-up files may be among
/// them.
fn unpacked(name: &str, words: &[Argument]) -> Vec<Loss> {
    let attached: Vec<Argument> = words
        .iter()
        .filter_map(|word| {
            let text = word.text();
            let option = ["--directory=", "--output-dir=", "--directory-prefix=", "-o"]
                .into_iter()
                .find(|option| text.starts_with(option))?;
            Some(value_of(word, option))
        })
        .collect();
    let targets: Vec<&Argument> = words
        .windows(2)
        .filter(|pair| {
            pair.first()
                .and_then(Argument::fixed)
                .is_some_and(|option| {
                    matches!(option, "-C" | "-d" | "-P" | "--directory" | "--output-dir")
                        || option == "--directory-prefix"
                        || option.starts_with('-') && option.ends_with('D')
                })
        })
        .filter_map(|pair| pair.get(1))
        .chain(&attached)
        .collect();
    if targets.is_empty() && unpacks_here(name, words) {
        return here();
    }
    lost(targets, Vital::Home)
}

/// Whether files of unknown names come into the folder that the command runs in.
fn unpacks_here(name: &str, words: &[Argument]) -> bool {
    match name {
        "tar" | "bsdtar" => tar_extracts(words),
        "unzip" => !words.iter().filter_map(Argument::fixed).any(|text| {
            text.starts_with('-')
                && !text.starts_with("--")
                && text.contains(['l', 'p', 't', 'Z', 'z', 'v'])
        }),
        "7z" | "7za" | "7zr" => says(words, &["x", "e"]),
        "patch" => operands(words).is_empty(),
        "wget" => says(
            words,
            &[
                "--content-disposition",
                "-r",
                "-m",
                "--recursive",
                "--mirror",
                "-i",
            ],
        ),
        "curl" => words.iter().filter_map(Argument::fixed).any(|text| {
            text == "--remote-header-name"
                || text.starts_with('-') && !text.starts_with("--") && text.contains('J')
        }),
        _ => false,
    }
}

/// The files that come into the folder that the command runs in. Working folders are there to be filled, a home folder isn't.
pub(super) fn here() -> Vec<Loss> {
    vec![Loss {
        operand: PathOperand::literal("."),
        vital: Vital::Start,
    }]
}

/// `cp -r x/. ~`, `rsync -a x/ ~`: everything in a folder is put right into a home folder or a folder of the system.
fn spread(words: &[Argument]) -> Vec<Loss> {
    let all = operands(words);
    let Some((target, sources)) = all.split_last() else {
        return Vec::new();
    };
    let spreads = |word: &&Argument| word.text().ends_with("/.") || word.text().ends_with('/');
    let from_elsewhere = |word: &&Argument| word.text().contains(':');
    if sources.iter().any(spreads) {
        lost([*target], Vital::Home)
    } else if sources.iter().any(from_elsewhere) {
        lost([*target], Vital::Start)
    } else {
        Vec::new()
    }
}

/// `rclone sync x: ~`, `aws s3 sync s3://x ~ --delete`: what is in the target and not in the source is removed.
fn mirrored(words: &[Argument]) -> Vec<Loss> {
    const REMOVES: &[&str] = &["purge", "delete", "rmdirs", "move", "moveto", "mv", "rm"];
    const DELETES: &[&str] = &["--delete", "-d", "--delete-unmatched-destination-objects"];
    let mirrors = says(words, &["sync", "rsync", "bisync"]);
    let by_itself = mirrors && !says(words, &["s3", "storage", "rsync"]);
    let paths = operands(words);
    if says(words, REMOVES) || by_itself || mirrors && says(words, DELETES) {
        return lost(paths.into_iter().skip(1), Vital::Project);
    }
    let copies = mirrors || says(words, &["cp", "copy"]);
    lost(paths.last().copied().filter(|_| copies), Vital::Start)
}

/// `cpio -p folder`: the files that it reads the names of are copied there.
fn passes_on(words: &[Argument]) -> bool {
    words.iter().filter_map(Argument::fixed).any(|text| {
        text == "--pass-through"
            || text.starts_with('-') && !text.starts_with("--") && text.contains('p')
    })
}

/// `cpio -i`: members are put where their names say.
pub(super) fn takes_from_archive(words: &[Argument]) -> bool {
    words.iter().filter_map(Argument::fixed).any(|text| {
        text == "--extract"
            || text.starts_with('-') && !text.starts_with("--") && text.contains('i')
    })
}

/// `tar xP`: members are put where their names say, outside of the folder too.
pub(super) fn unpacks_anywhere(words: &[Argument]) -> bool {
    let absolute = has_long(words, "--absolute-names")
        || letters_of_tar(words).any(|bundle| bundle.contains('P'));
    tar_extracts(words) && absolute
}

/// The bundles of letters among the words of `tar`, the first of which needs no dash.
fn letters_of_tar(words: &[Argument]) -> impl Iterator<Item = &str> {
    words.iter().enumerate().filter_map(|(at, word)| {
        let text = word.fixed()?;
        let bundle = text.strip_prefix('-').or((at == 0).then_some(text))?;
        (!bundle.starts_with('-')).then_some(bundle)
    })
}

fn tar_extracts(words: &[Argument]) -> bool {
    says(words, &["--extract", "--get"]) || letters_of_tar(words).any(|bundle| bundle.contains('x'))
}
