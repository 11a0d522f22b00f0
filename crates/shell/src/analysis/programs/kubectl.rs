//! kubectl: what gets, lists and describes.

use super::super::argument::Argument;
use super::sub_commands::{self, SubCommand};
use super::{Obeys, Reading, Verdict, all_fixed, refuse};

const KUBECTL: &[SubCommand] = &[
    (
        "get",
        "-o= --output= -l= --selector= -A --all-namespaces -w --watch --show-labels --sort-by= --field-selector= \
        --no-headers --show-kind --ignore-not-found -L= --label-columns= --chunk-size= --output-watch-events --subresource=",
    ),
    (
        "describe",
        "-l= --selector= -A --all-namespaces --show-events? --chunk-size=",
    ),
    (
        "logs",
        "-f -c= -p -l= --follow --container= --previous --tail= --since= --since-time= --timestamps --all-containers? \
        --selector= --prefix --max-log-requests= --limit-bytes= --all-pods",
    ),
    ("version", "-o= --output= --client --short"),
    (
        "api-resources",
        "-o= --output= --namespaced? --verbs= --api-group= --sort-by= --no-headers --categories=",
    ),
    ("api-versions", ""),
    ("explain", "--recursive --api-version= -o= --output="),
    (
        "top",
        "-l= --selector= -A --all-namespaces --containers --sort-by= --no-headers --sum",
    ),
    ("cluster-info", ""),
    ("config view", "-o= --output= --minify"),
    ("config get-contexts", "-o= --output= --no-headers"),
    ("config current-context", ""),
    ("config get-clusters", ""),
    ("config get-users", ""),
    (
        "auth can-i",
        "-A --all-namespaces --list -q --quiet --no-headers",
    ),
    (
        "rollout status",
        "-w --watch? --timeout= --revision= -l= --selector=",
    ),
    (
        "rollout history",
        "-o= --output= --revision= -l= --selector=",
    ),
    (
        "events",
        "-A --all-namespaces --for= --types= -w --watch -o= --output= --no-headers",
    ),
];

/// Forms of output that name no file.
fn is_plain_output(form: &str) -> bool {
    matches!(form, "json" | "yaml" | "wide" | "name" | "plaintext")
        || [
            "jsonpath=",
            "jsonpath-as-json=",
            "go-template=",
            "custom-columns=",
        ]
        .iter()
        .any(|start| form.starts_with(start))
}

pub(super) fn judge(words: &[Argument]) -> Verdict {
    let Some(fixed) = all_fixed(words) else {
        return refuse("kubectl with a word that isn't fixed");
    };
    // Global options may stand before the sub-command.
    let mut start = 0;
    while let Some(&("-n" | "--namespace" | "--context" | "--cluster")) = fixed.get(start) {
        start += 2;
    }
    let words = words.get(start..).unwrap_or_default();
    if let [Argument::Fixed(only)] = words
        && matches!(only.as_str(), "--help" | "help" | "options")
    {
        return Ok(Reading::default());
    }
    let sorted = sub_commands::sorted(
        "kubectl",
        words,
        KUBECTL,
        "-n= --namespace= --context= --cluster= --request-timeout= --help",
    )?;
    let plain = sorted
        .values("-o")
        .chain(sorted.values("--output"))
        .all(|form| form.is_some_and(is_plain_output));
    if !plain {
        return refuse("kubectl's output can be read from a file");
    }
    let secret = fixed.iter().any(|word| {
        word.split([',', '/', '.'])
            .any(|kind| kind.eq_ignore_ascii_case("secret") || kind.eq_ignore_ascii_case("secrets"))
    });
    if secret {
        return refuse("kubectl shows secrets");
    }
    if fixed.contains(&"cluster-info") && fixed.contains(&"dump") {
        return refuse("kubectl cluster-info dump can write files");
    }
    Ok(Reading {
        paths: sorted.files,
        obeys: Obeys::Nothing,
        ..Reading::default()
    })
}
