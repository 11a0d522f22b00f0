//! GitHub's client: what lists and shows.

use super::super::argument::Argument;
use super::jq::check_jq_filter;
use super::sub_commands::{self, SubCommand};
use super::{Obeys, Reading, Verdict, refuse};

const GH: &[SubCommand] = &[
    (
        "pr list",
        "-L= --limit= -s= --state= -a= --assignee= -A= --author= -l= --label= -S= --search= -B= --base= -H= --head= \
        --app= -d --draft --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "pr view",
        "-c --comments --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "pr status",
        "-c --conflict-status --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "pr diff",
        "--color= --name-only --patch -e= --exclude= -R= --repo=",
    ),
    (
        "pr checks",
        "--required -i= --interval= --fail-fast --watch --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "issue list",
        "-L= --limit= -s= --state= -a= --assignee= -A= --author= -l= --label= -S= --search= -m= --milestone= --app= \
        --mention= --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "issue view",
        "-c --comments --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "issue status",
        "--json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "repo list",
        "-L= --limit= -l= --language= --topic= --visibility= --source --fork --archived --no-archived --json= -q= --jq= \
        -t= --template=",
    ),
    (
        "repo view",
        "-b= --branch= --json= -q= --jq= -t= --template=",
    ),
    (
        "run list",
        "-w= -L= --limit= -s= --status= -b= --branch= -c= --commit= -e= --event= -u= --user= --workflow= --created= -a \
        --all --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "run view",
        "-j= --job= -v --verbose --log --log-failed --exit-status -a= --attempt= --json= -q= --jq= -t= --template= -R= \
        --repo=",
    ),
    (
        "release list",
        "-L= --limit= -O= --order= --exclude-drafts --exclude-pre-releases --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "release view",
        "--json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "workflow list",
        "-L= --limit= -a --all --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    ("workflow view", "-r= --ref= -y --yaml -R= --repo="),
    (
        "label list",
        "-L= --limit= -S= --search= --order= --sort= --json= -q= --jq= -t= --template= -R= --repo=",
    ),
    (
        "gist list",
        "-L= --limit= --public --secret --filter= --include-content",
    ),
    ("gist view", "-f= --filename= --files -r --raw"),
    (
        "search issues",
        "-L= --limit= --state= --label= --author= --repo= --owner= --language= --sort= --order= --match= --assignee= \
        --json= -q= --jq= -t= --template=",
    ),
    (
        "search prs",
        "-L= --limit= --state= --label= --author= --repo= --owner= --language= --sort= --order= --match= --assignee= \
        --review= --json= -q= --jq= -t= --template=",
    ),
    (
        "search code",
        "-L= --limit= --extension= --filename= --repo= --owner= --language= --match= --size= --json= -q= --jq= -t= \
        --template=",
    ),
    (
        "search repos",
        "-L= --limit= --owner= --language= --sort= --order= --match= --stars= --topic= --visibility= --license= --json= \
        -q= --jq= -t= --template=",
    ),
    (
        "search commits",
        "-L= --limit= --author= --repo= --owner= --sort= --order= --hash= --json= -q= --jq= -t= --template=",
    ),
    // `-t` shows the token here.
    ("auth status", "-h= --hostname= -a --active"),
    ("status", "-e= --exclude= -o= --org="),
    (
        "cache list",
        "-L= --limit= -O= --order= -S= --sort= -k= --key= -r= --ref= -R= --repo=",
    ),
    ("ruleset list", "-p --parents -o= --org= -R= --repo="),
    ("ruleset view", "-p --parents -o= --org= -R= --repo="),
    ("org list", "-L= --limit="),
    ("alias list", ""),
    ("extension list", ""),
    ("variable list", "-e= --env= -o= --org= -R= --repo="),
    (
        "secret list",
        "-e= --env= -o= --org= -a= --app= -u --user -R= --repo=",
    ),
    ("project list", "-L= --limit= --owner= --closed --format="),
    ("project view", "--owner= --format="),
];

/// gh runs git in the folder to learn which repository is meant. Its filters see the environment as jq's do.
pub(super) fn judge(words: &[Argument]) -> Verdict {
    if words.len() == 1 {
        return sub_commands::judge("gh", words, GH, "--help", Obeys::Folder);
    }
    let sorted = sub_commands::sorted("gh", words, GH, "--help")?;
    for filter in sorted.values("-q").chain(sorted.values("--jq")) {
        match filter {
            Some(filter) => check_jq_filter(filter)?,
            None => return refuse("gh's filter is not fixed"),
        }
    }
    // The token of another host is sent to whatever host is named.
    let repositories = sorted.values("-R").chain(sorted.values("--repo"));
    let hosts = sorted.values("-h").chain(sorted.values("--hostname"));
    if sorted.operands.iter().any(|word| is_elsewhere(word.text()))
        || repositories.flatten().any(is_elsewhere)
        || hosts.flatten().any(|host| host != HOST)
    {
        return refuse("gh would connect to another host than github.com");
    }
    Ok(Reading {
        paths: sorted.files,
        obeys: Obeys::Folder,
        ..Reading::default()
    })
}

const HOST: &str = "github.com";

/// Whether the name of a repository, or an address, leads to another host: `host/owner/name`, `https://host/…`,
/// `git@host:…`. Words that are looked for don't have these forms.
fn is_elsewhere(word: &str) -> bool {
    let address = word.split_once("://").map(|(_, rest)| rest);
    let address = address.or_else(|| {
        let at = word.split_once('@').map(|(_, rest)| rest);
        at.filter(|rest| rest.contains(':'))
    });
    if let Some(rest) = address {
        return rest.split(['/', ':']).next() != Some(HOST);
    }
    !word.contains(char::is_whitespace)
        && word.matches('/').count() >= 2
        && word.split('/').next() != Some(HOST)
}
