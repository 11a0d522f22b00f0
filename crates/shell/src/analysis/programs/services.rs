//! Clients of services: GitHub, containers, clusters. Only what gets and lists.

use super::super::argument::Argument;
use super::super::options::{Order, sort};
use super::{Reading, Verdict, all_fixed};

/// Splits off the words of the sub-command, and says which table belongs to it.
fn sub_command<'t>(
    words: &[Argument],
    commands: &[(&'t str, &'t str)],
) -> Option<(usize, &'t str)> {
    let given: Vec<&str> = words.iter().map_while(Argument::fixed).collect();
    commands
        .iter()
        .filter_map(|(command, table)| {
            let parts: Vec<&str> = command.split(' ').collect();
            given.starts_with(&parts).then_some((parts.len(), *table))
        })
        .max_by_key(|(length, _)| *length)
}

fn judge_by(
    name: &str,
    words: &[Argument],
    commands: &[(&str, &str)],
    common: &str,
    needs_trust: bool,
) -> Verdict {
    if let [Argument::Fixed(only)] = words
        && matches!(only.as_str(), "--version" | "version" | "--help" | "help")
    {
        return Ok(Reading {
            paths: Vec::new(),
            needs_trust,
        });
    }
    let Some((length, table)) = sub_command(words, commands) else {
        let shown: Vec<&str> = words.iter().take(2).map(Argument::text).collect();
        return Err(format!(
            "{name} {} isn't known to only read",
            shown.join(" ")
        ));
    };
    // What goes over a network must not carry what a variable or a file holds.
    if name != "docker" && all_fixed(words).is_none() {
        return Err(format!("{name} with a word that isn't fixed"));
    }
    let table = format!("{table} {common}");
    sort(
        words.get(length..).unwrap_or_default(),
        &table,
        Order::Mixed,
    )?;
    Ok(Reading {
        paths: Vec::new(),
        needs_trust,
    })
}

const GH_LIST: &str = "-L= --limit= -s= --state= -a= --assignee= -A= --author= -l= --label= -S= --search= -B= --base= -H= --head= \
    -m= --milestone= --app= --mention= -d --draft -b= --branch= -c= --commit= -e= --event= -u= --user= --status= --workflow= \
    --created= --all --language= --topic= --visibility= --source --fork --archived --no-archived --exclude-drafts \
    --exclude-pre-releases --order= --sort= -O= --key= --ref= --org=";

/// `-w` is `--workflow` for runs and opens a browser elsewhere.
const GH_RUNS: &str = "-w= -L= --limit= -s= --status= -b= --branch= -c= --commit= -e= --event= -u= --user= --workflow= \
    --created= -a --all";

const GH: &[(&str, &str)] = &[
    ("pr list", GH_LIST),
    ("pr view", "-c --comments"),
    ("pr status", "-c --conflict-status"),
    ("pr diff", "--color= --name-only --patch -e= --exclude="),
    ("pr checks", "--required -i= --interval= --fail-fast"),
    ("issue list", GH_LIST),
    ("issue view", "-c --comments"),
    ("issue status", ""),
    ("repo list", GH_LIST),
    ("repo view", "-b= --branch="),
    ("run list", GH_RUNS),
    (
        "run view",
        "-j= --job= -v --verbose --log --log-failed --exit-status -a= --attempt=",
    ),
    ("release list", GH_LIST),
    ("release view", ""),
    ("workflow list", GH_LIST),
    ("workflow view", "-r= --ref= -y --yaml"),
    ("label list", GH_LIST),
    (
        "gist list",
        "-L= --limit= --public --secret --filter= --include-content",
    ),
    ("gist view", "-f= --filename= --files -r --raw"),
    (
        "search issues",
        "-L= --limit= --state= --label= --author= --repo= --owner= --language= --sort= --order= --match= --assignee=",
    ),
    (
        "search prs",
        "-L= --limit= --state= --label= --author= --repo= --owner= --language= --sort= --order= --match= --assignee= --review=",
    ),
    (
        "search code",
        "-L= --limit= --extension= --filename= --repo= --owner= --language= --match= --size=",
    ),
    (
        "search repos",
        "-L= --limit= --owner= --language= --sort= --order= --match= --stars= --topic= --visibility= --license=",
    ),
    (
        "search commits",
        "-L= --limit= --author= --repo= --owner= --sort= --order= --hash=",
    ),
    ("auth status", "-h= --hostname= -a --active"),
    ("status", "-e= --exclude= -o= --org="),
    ("cache list", GH_LIST),
    ("ruleset list", "-p --parents -o= --org="),
    ("ruleset view", "-p --parents -o= --org="),
    ("org list", "-L= --limit="),
    ("alias list", ""),
    ("extension list", ""),
    ("config list", "-h= --host="),
    ("config get", "-h= --host="),
    ("variable list", "-e= --env= -o= --org="),
    ("secret list", "-e= --env= -o= --org= -a= --app= -u --user"),
    ("project list", "-L= --limit= --owner= --closed --format="),
    ("project view", "--owner= --format="),
];

pub(super) fn judge_gh(words: &[Argument]) -> Verdict {
    let shows_token = words.first().and_then(Argument::fixed) == Some("auth")
        && words
            .iter()
            .any(|word| word.text().starts_with("-t") || word.text().starts_with("--sh"));
    if shows_token {
        return Err("gh shows the token".to_owned());
    }
    judge_by(
        "gh",
        words,
        GH,
        "-R= --repo= --json= -q= --jq= -t= --template= --help",
        true,
    )
}

const DOCKER: &[(&str, &str)] = &[
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
    let project = words.first().and_then(Argument::fixed) == Some("compose");
    judge_by("docker", words, DOCKER, "--help", project)
}

const KUBECTL: &[(&str, &str)] = &[
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

pub(super) fn judge_kubectl(words: &[Argument]) -> Verdict {
    // Global options may stand before the sub-command.
    let mut start = 0;
    while let Some("-n" | "--namespace" | "--context" | "--cluster") =
        words.get(start).and_then(Argument::fixed)
    {
        if words
            .get(start + 1)
            .is_none_or(|value| value.fixed().is_none())
        {
            return Err("kubectl with a word that isn't fixed".to_owned());
        }
        start += 2;
    }
    let words = words.get(start..).unwrap_or_default();
    let reading = judge_by(
        "kubectl",
        words,
        KUBECTL,
        "-n= --namespace= --context= --cluster= --request-timeout= --help",
        false,
    )?;
    let fixed = all_fixed(words).ok_or("kubectl with a word that isn't fixed")?;
    if fixed.iter().any(|word| {
        word.split([',', '/', '.'])
            .any(|kind| kind.eq_ignore_ascii_case("secret") || kind.eq_ignore_ascii_case("secrets"))
    }) {
        return Err("kubectl shows secrets".to_owned());
    }
    if fixed.first() == Some(&"cluster-info") && fixed.contains(&"dump") {
        return Err("kubectl cluster-info dump can write files".to_owned());
    }
    Ok(reading)
}

/// Shared with the package managers.
pub(super) fn judge_listed(
    name: &str,
    words: &[Argument],
    commands: &[(&str, &str)],
    common: &str,
    needs_trust: bool,
) -> Verdict {
    judge_by(name, words, commands, common, needs_trust)
}
