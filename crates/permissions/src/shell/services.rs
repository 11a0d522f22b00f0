//! Files that clients of services write. Their other words name what lies elsewhere, or files that they read.

use lathe_shell::analysis::{Argument, PathKind, PathOperand};

/// Whether a program is the client of a service, with targets that [`outputs`] knows.
pub(super) fn is_client(base: &str) -> bool {
    matches!(
        base,
        "docker"
            | "podman"
            | "nerdctl"
            | "kubectl"
            | "oc"
            | "helm"
            | "ssh"
            | "aws"
            | "gcloud"
            | "az"
            | "gsutil"
            | "s5cmd"
            | "rclone"
            | "gh"
            | "glab"
    )
}

/// The files that such a client is told to write.
pub(super) fn outputs(base: &str, words: &[Argument]) -> Vec<PathOperand> {
    let texts: Vec<&str> = words.iter().map(Argument::text).collect();
    let says = |wanted: &[&str]| texts.iter().any(|text| wanted.contains(text));
    match base {
        "docker" | "podman" | "nerdctl" => {
            let mut files = values(
                words,
                &[
                    "--cidfile",
                    "--iidfile",
                    "--metadata-file",
                    "--pidfile",
                    "--conmon-pidfile",
                    "--pod-id-file",
                    "--digestfile",
                    "--output",
                    "-o",
                ],
            );
            if says(&["generate", "kube"]) {
                files.extend(values(words, &["-f", "--filename"]));
            }
            files.extend(last_local(words).filter(|_| says(&["cp", "export"])));
            files
        }
        "kubectl" | "oc" => {
            let mut files = values(words, &["--profile-output"]);
            let changes = texts.iter().any(|text| {
                text.starts_with("set-")
                    || text.starts_with("delete-")
                    || matches!(*text, "set" | "unset" | "use-context" | "rename-context")
            });
            if says(&["config"]) && changes {
                files.extend(values(words, &["--kubeconfig"]));
            }
            files.extend(last_local(words).filter(|_| says(&["cp"])));
            files
        }
        "ssh" => logs_of_ssh(words),
        "helm" => values(words, &["--repository-config", "--registry-config"]),
        "gh" | "glab" => {
            let mut files = values(words, &["-O", "--output"]);
            files.extend(last_local(words).filter(|_| says(&["clone", "cp"])));
            files
        }
        "az" => {
            let mut files = values(words, &["--dest", "--destination", "-d"]);
            if says(&["download"]) {
                files.extend(values(words, &["--file", "-f"]));
            }
            files
        }
        _ => last_local(words).into_iter().collect(),
    }
}

/// The last operand, unless it is the address of something elsewhere. A word after a long option is its value.
fn last_local(words: &[Argument]) -> Option<PathOperand> {
    let mut last = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.text();
        let is_flag = matches!(
            text,
            "--quiet"
                | "--recursive"
                | "--no-progress"
                | "--dryrun"
                | "--only-show-errors"
                | "--archive"
        );
        if text.starts_with("--") && !text.contains('=') && !is_flag {
            words.next();
        } else if !text.starts_with('-') {
            last = Some(word);
        }
    }
    let path = last?.path();
    let local = !path.text.contains("://") && !path.text.contains(':');
    (local && path.text.contains(['/', '.'])).then_some(path)
}

/// The values of options, attached with `=` or as the next word.
fn values(words: &[Argument], options: &[&str]) -> Vec<PathOperand> {
    let next = words
        .windows(2)
        .filter(|pair| options.contains(&pair[0].text()))
        .map(|pair| pair[1].path());
    let attached = words.iter().filter_map(|word| {
        let (name, value) = word.text().split_once('=')?;
        options.contains(&name).then(|| named(value))
    });
    next.chain(attached)
        .filter(|path| path.text != "-" && !path.text.contains(','))
        .collect()
}

/// A file by the text of an option.
fn named(text: &str) -> PathOperand {
    let below_home = text
        .strip_prefix("~/")
        .or_else(|| text.strip_prefix("$HOME/"))
        .or_else(|| text.strip_prefix("${HOME}/"));
    match below_home {
        Some(rest) => PathOperand {
            kind: PathKind::Home,
            text: rest.to_owned(),
        },
        None if text.contains(['$', '`']) => PathOperand::unbounded(text),
        None => PathOperand::literal(text),
    }
}

/// `ssh -E log host`, `ssh -o UserKnownHostsFile=x host`: before the host, after which the words belong to the other side.
fn logs_of_ssh(words: &[Argument]) -> Vec<PathOperand> {
    const VALUED: &str = "BbcDEeFIiJLlmOopQRSWw";
    let mut files = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.text();
        let Some(letters) = text.strip_prefix('-') else {
            break;
        };
        let Some(at) = letters.find(|letter| VALUED.contains(letter)) else {
            continue;
        };
        let (option, attached) = letters.split_at(at).1.split_at(1);
        let value = if attached.is_empty() {
            words.next().map(Argument::path)
        } else {
            Some(named(attached))
        };
        match (option, value) {
            ("E", Some(file)) => files.push(file),
            ("o", Some(setting)) => files.extend(known_hosts(&setting.text)),
            _ => {}
        }
    }
    files
}

fn known_hosts(setting: &str) -> Option<PathOperand> {
    let (name, value) = setting.split_once(['=', ' '])?;
    let file = value.rsplit('/').next().unwrap_or(value);
    let writes =
        name.eq_ignore_ascii_case("UserKnownHostsFile") && !file.starts_with("known_hosts");
    writes.then(|| named(value))
}
