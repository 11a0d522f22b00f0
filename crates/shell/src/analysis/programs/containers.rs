//! Containers: what lists and inspects them.

use super::super::argument::Argument;
use super::sub_commands::{self, SubCommand};
use super::{Obeys, Refusal, Verdict, refuse};

const DOCKER: &[SubCommand] = &[
    (
        "ps",
        "-a -q -s -l -n= -f= --all --quiet --size --latest --last= --filter= --no-trunc --format=",
    ),
    (
        "container ls",
        "-a -q -s -l -n= -f= --all --quiet --size --latest --last= --filter= --no-trunc --format=",
    ),
    (
        "container list",
        "-a -q -s -l -n= -f= --all --quiet --size --latest --last= --filter= --no-trunc --format=",
    ),
    (
        "images",
        "-a -q -f= --all --quiet --digests --filter= --no-trunc --format= --tree",
    ),
    (
        "image ls",
        "-a -q -f= --all --quiet --digests --filter= --no-trunc --format= --tree",
    ),
    ("image inspect", "-f= --format="),
    (
        "image history",
        "-H -q --human --quiet --no-trunc --format=",
    ),
    ("history", "-H -q --human --quiet --no-trunc --format="),
    (
        "logs",
        "-f -t -n= --follow --timestamps --tail= --since= --until= --details",
    ),
    (
        "container logs",
        "-f -t -n= --follow --timestamps --tail= --since= --until= --details",
    ),
    ("inspect", "-f= -s --format= --size --type="),
    ("container inspect", "-f= -s --format= --size"),
    ("info", "-f= --format="),
    ("version", "-f= --format="),
    ("stats", "-a --all --no-stream --no-trunc --format="),
    ("top", ""),
    ("port", ""),
    ("diff", ""),
    (
        "network ls",
        "-q -f= --quiet --filter= --no-trunc --format=",
    ),
    ("network inspect", "-f= -v --format= --verbose"),
    ("volume ls", "-q -f= --quiet --filter= --format="),
    ("volume inspect", "-f= --format="),
    ("context ls", "-q --quiet --format="),
    ("context show", ""),
    ("context inspect", "-f= --format="),
    ("system df", "-v --verbose --format="),
    ("system info", "-f= --format="),
    (
        "compose ps",
        "-a -q --all --quiet --services --filter= --status= --format= --no-trunc",
    ),
    ("compose ls", "-a -q --all --quiet --filter= --format="),
    (
        "compose logs",
        "-f -t -n= --follow --timestamps --tail= --since= --until= --no-color --no-log-prefix --index=",
    ),
    ("compose images", "-q --quiet --format="),
    ("compose top", ""),
    ("compose version", "-f= --format= --short"),
    (
        "compose config",
        "-q --quiet --services --volumes --images --profiles --hash= --format= --no-interpolate",
    ),
    ("node ls", "-q -f= --quiet --filter= --format="),
    ("service ls", "-q -f= --quiet --filter= --format="),
    (
        "service ps",
        "-q -f= --quiet --filter= --format= --no-trunc --no-resolve",
    ),
    (
        "service logs",
        "-f -t -n= --follow --timestamps --tail= --since= --no-trunc --raw",
    ),
    ("stack ls", "--format="),
    ("stack ps", "-q -f= --quiet --filter= --format= --no-trunc"),
    ("buildx ls", "--format= --no-trunc"),
];

pub(super) fn judge_docker(words: &[Argument]) -> Verdict {
    // A project file of the folder can include others from anywhere.
    let obeys = if words.first().and_then(Argument::fixed) == Some("compose") {
        Obeys::Folder
    } else {
        Obeys::Nothing
    };
    check_environment("docker", words, DOCKER)?;
    sub_commands::judge("docker", words, DOCKER, "--help", obeys)
}

/// Options of `compose config` that leave the values out.
const WITHOUT_VALUES: &[&str] = &[
    "-q",
    "--quiet",
    "--services",
    "--volumes",
    "--images",
    "--profiles",
];

/// Refuses what shows the environment of a container, which can hold keys.
fn check_environment(
    name: &str,
    words: &[Argument],
    commands: &[SubCommand],
) -> Result<(), Refusal> {
    let fixed: Vec<&str> = words.iter().map_while(Argument::fixed).collect();
    match fixed.as_slice() {
        // What follows the container are the words of ps.
        ["top", _, _, ..] => refuse(format!("{name} top with words for ps")),
        ["compose", "config", rest @ ..]
            if !rest.iter().any(|word| WITHOUT_VALUES.contains(word)) =>
        {
            refuse("docker compose config shows the values of the environment")
        }
        ["history", rest @ ..] | ["image", "history", rest @ ..]
            if !rest.iter().any(|word| matches!(*word, "-q" | "--quiet")) =>
        {
            refuse(format!(
                "{name} history shows the environment of an image, which can hold keys"
            ))
        }
        ["inspect", ..] | ["container" | "image", "inspect", ..] => {
            let sorted = sub_commands::sorted(name, words, commands, "--help")?;
            let mut formats = sorted
                .values("-f")
                .chain(sorted.values("--format"))
                .peekable();
            let shown = formats.peek().is_none()
                || formats.any(|format| !format.is_some_and(leaves_environment_out));
            if shown {
                return refuse(format!(
                    "{name} inspect shows the environment of a container or image, which can hold keys"
                ));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether a template shows only fields that don't hold the environment.
fn leaves_environment_out(format: &str) -> bool {
    const FIELDS: &[&str] = &[
        "Architecture",
        "Created",
        "Id",
        "Image",
        "Mounts",
        "Name",
        "NetworkSettings",
        "Os",
        "Path",
        "Platform",
        "RepoDigests",
        "RepoTags",
        "RestartCount",
        "Size",
        "SizeRootFs",
        "SizeRw",
        "State",
    ];
    const FUNCTIONS: &[&str] = &["json", "println", "len", "end"];
    format.split("{{").skip(1).all(|action| {
        let action = action.split("}}").next().unwrap_or_default();
        action.split_whitespace().all(|word| {
            FUNCTIONS.contains(&word)
                || word.strip_prefix('.').is_some_and(|path| {
                    let first = path.split('.').next().unwrap_or_default();
                    FIELDS.contains(&first)
                        || [
                            "Config.Image",
                            "Config.Labels",
                            "Config.Cmd",
                            "Config.Hostname",
                        ]
                        .contains(&path)
                })
        })
    })
}

const PODMAN: &[SubCommand] = &[
    (
        "ps",
        "-a -q -s -l -n= -f= --all --quiet --size --latest --last= --filter= --no-trunc --format= --noheading",
    ),
    (
        "images",
        "-a -q -f= -n --all --quiet --digests --filter= --no-trunc --format= --noheading",
    ),
    ("history", "-H -q --human --quiet --no-trunc --format="),
    (
        "logs",
        "-f -t --follow --timestamps --tail= --since= --until=",
    ),
    ("inspect", "-f= -s -t= --format= --size --type="),
    ("info", "-f= --format="),
    ("version", "-f= --format="),
    ("port", "-a --all"),
    (
        "network ls",
        "-q -f= -n --quiet --filter= --format= --noheading",
    ),
    (
        "volume ls",
        "-q -f= -n --quiet --filter= --format= --noheading",
    ),
    ("pod ps", "-q -f= --quiet --filter= --format="),
    ("system df", "-v --verbose --format="),
];

pub(super) fn judge_podman(words: &[Argument]) -> Verdict {
    check_environment("podman", words, PODMAN)?;
    sub_commands::judge("podman", words, PODMAN, "--help", Obeys::Nothing)
}
