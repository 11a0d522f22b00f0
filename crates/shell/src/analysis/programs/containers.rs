//! Containers: what lists and inspects them.

use super::super::argument::Argument;
use super::sub_commands::{self, SubCommand};
use super::{Obeys, Verdict};

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
    sub_commands::judge("docker", words, DOCKER, "--help", obeys)
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
    sub_commands::judge("podman", words, PODMAN, "--help", Obeys::Nothing)
}
