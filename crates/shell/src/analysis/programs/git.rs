//! git: the sub-commands and options that only look.
//!
//! Everything git does reads the repository's configuration, which can name programs (file system
//! monitor, pagers, text converters, filters). So every verdict here needs a trusted folder, and the
//! options that name programs or other repositories are in no table.

use super::super::argument::{Argument, PathKind, PathOperand};
use super::super::options::{Order, Sorted, sort};
use super::{Reading, Verdict, paths_of};

/// Options of everything that shows differences.
const DIFF: &str = "-p -u -s -U= --patch --no-patch --unified= --raw --patch-with-raw --minimal --patience \
    --histogram --anchored= --diff-algorithm= --stat? --numstat --shortstat --dirstat? --cumulative --summary \
    --patch-with-stat -z --name-only --name-status --color? --no-color --color-moved? --word-diff? \
    --word-diff-regex= --color-words? --no-renames --check --full-index --binary --abbrev? --no-abbrev -B? -M? -C? -D \
    --find-renames? --find-copies? --find-copies-harder --irreversible-delete -l= --diff-filter= -S= -G= \
    --pickaxe-all --pickaxe-regex -R --relative? -a --text --ignore-space-at-eol -b -w --ignore-space-change \
    --ignore-all-space --ignore-blank-lines --ignore-cr-at-eol --inter-hunk-context= -W --function-context \
    --exit-code --quiet -q --no-ext-diff --no-textconv --no-prefix --src-prefix= --dst-prefix= --line-prefix= \
    --ignore-submodules? --submodule? --cached --staged --merge-base -I= --default-prefix --no-indent-heuristic \
    --indent-heuristic --compact-summary -c --cc --combined-all-paths -m --diff-merges= --no-diff-merges -t -r --root \
    -# --ours --theirs --base -0 -1 -2 -3";

/// Options of everything that walks history, on top of [`DIFF`].
const HISTORY: &str = "-n= -# --max-count= --skip= --since= --after= --until= --before= --author= --committer= --grep= \
    --all-match --invert-grep -i --regexp-ignore-case --basic-regexp -E --extended-regexp -F --fixed-strings -P \
    --perl-regexp --merges --no-merges --min-parents= --max-parents= --first-parent --not --all --branches? --tags? \
    --remotes? --glob= --exclude= --reflog --boundary --cherry-pick --left-only --right-only --cherry --cherry-mark \
    --left-right -g --walk-reflogs --merge --simplify-by-decoration --full-history --dense --sparse --simplify-merges \
    --ancestry-path? --show-pulls --date-order --author-date-order --topo-order --reverse --graph --no-graph --oneline \
    --decorate? --no-decorate --decorate-refs= --decorate-refs-exclude= --source --follow -L= --log-size --pretty? \
    --format= --abbrev-commit --no-abbrev-commit --date= --relative-date --parents --children --notes? --no-notes \
    --show-notes? --encoding= --count --use-mailmap --mailmap --no-mailmap --clear-decorations --no-walk? --expand-tabs? \
    --no-expand-tabs --objects --timestamp --header --disk-usage? --show-linear-break? --stdin-packs --no-color \
    --exclude-first-parent-only --no-min-parents --no-max-parents --bisect --full-diff --remove-empty";

const STATUS: &str = "-s -b -v -z -u? --short --branch --show-stash --porcelain? --long --verbose \
    --untracked-files? --ignore-submodules? --ignored? --column? --no-column --ahead-behind --no-ahead-behind \
    --renames --no-renames --find-renames?";

const BRANCH: &str = "-a -r -v -q -i --all --remotes --list --verbose --quiet --color? --no-color --column? --no-column \
    --sort= --contains? --no-contains? --merged? --no-merged? --points-at= --format= --ignore-case --abbrev= --no-abbrev \
    --show-current --omit-empty";

const TAG: &str = "-l -n? -i --list --sort= --contains? --no-contains? --merged? --no-merged? --points-at= --format= \
    --column? --no-column --color? --ignore-case --omit-empty";

const BLAME: &str = "-b -L= -l -t -S@ -p -M? -C? -h -c -f -n -s -e -w --root --show-stats --reverse= --first-parent \
    --porcelain --line-porcelain --incremental --encoding= --date= --score-debug --show-name --show-number --show-email \
    --ignore-rev= --ignore-revs-file@ --color-lines --color-by-age --abbrev= --progress --no-progress";

const GREP: &str = "-a -i -I -h -H -l -L -n -o -v -w -c -e= -f@ -E -F -G -P -q -r -W -p -z -A= -B= -C= -m= -# --cached \
    --untracked --no-index --text --ignore-case --no-recursive --recursive --max-depth= --word-regexp --invert-match \
    --full-name --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column \
    --files-with-matches --name-only --files-without-match --only-matching --count --color? --no-color --break --heading \
    --show-function --context= --after-context= --before-context= --function-context --max-count= --and --or --not \
    --all-match --quiet --no-textconv --threads= --exclude-standard --no-exclude-standard --recurse-submodules";

pub(super) fn judge(words: &[Argument]) -> Verdict {
    let mut rest = words;
    loop {
        let Some((first, after)) = rest.split_first() else {
            return Ok(Reading::default());
        };
        let Some(text) = first.fixed() else {
            return Err(format!("git's sub-command {} is not fixed", first.text()));
        };
        match text {
            "--no-pager"
            | "-P"
            | "--no-optional-locks"
            | "--literal-pathspecs"
            | "--glob-pathspecs"
            | "--no-replace-objects"
            | "--icase-pathspecs"
            | "--no-lazy-fetch"
            | "--no-advice" => rest = after,
            "--version" | "-v" | "--help" | "-h" if after.is_empty() => {
                return Ok(Reading::default());
            }
            _ if text.starts_with('-') => {
                return Err(format!(
                    "git's option {text} can run other programs or use another repository"
                ));
            }
            command => return judge_command(command, after),
        }
    }
}

fn judge_command(command: &str, words: &[Argument]) -> Verdict {
    let tables: &[&str] = match command {
        "status" => &[STATUS],
        "diff" => &[DIFF, "--no-index"],
        "diff-tree" | "diff-index" | "diff-files" => &[
            DIFF,
            "--stdin -v --pretty? --no-commit-id --format= --always",
        ],
        "log" | "whatchanged" | "show" | "rev-list" => &[DIFF, HISTORY],
        "range-diff" => &[
            DIFF,
            "--creation-factor= --no-dual-color --left-only --right-only",
        ],
        "shortlog" => &[
            "-n -s -e -c -w? --numbered --summary --email --group= --committer",
            HISTORY,
        ],
        "branch" => &[BRANCH],
        "tag" => &[TAG],
        "blame" | "annotate" => &[BLAME],
        "grep" => &[GREP],
        "ls-files" => &[
            "-c -d -m -o -i -s -u -k -z -t -v -f -x= -X@ --cached --deleted --modified --others --ignored \
            --stage --directory --no-empty-directory --unmerged --killed --resolve-undo --exclude= --exclude-from@ \
            --exclude-per-directory= --exclude-standard --error-unmatch --with-tree= --full-name --recurse-submodules \
            --abbrev? --debug --eol --deduplicate --sparse --format=",
        ],
        "ls-tree" => &[
            "-d -r -t -l -z --long --name-only --name-status --object-only --full-name --full-tree --abbrev? --format=",
        ],
        "cat-file" => &["-t -s -e -p --batch-all-objects --allow-unknown-type"],
        "rev-parse" => &[
            "-q --abbrev-ref? --short? --verify --quiet --symbolic --symbolic-full-name --all --branches? \
            --tags? --remotes? --glob= --exclude= --show-toplevel --show-prefix --show-cdup --show-superproject-working-tree \
            --git-dir --git-common-dir --absolute-git-dir --is-inside-git-dir --is-inside-work-tree --is-bare-repository \
            --is-shallow-repository --show-object-format? --git-path= --since= --after= --until= --before= --default= \
            --revs-only --no-revs --flags --no-flags --not --sq --disambiguate= --path-format= --local-env-vars --show-ref-format",
        ],
        "describe" => &[
            "--all --tags --contains --abbrev= --candidates= --exact-match --debug --long --match= --exclude= \
            --always --first-parent --dirty? --broken?",
        ],
        "name-rev" => &["--tags --refs= --exclude= --all --name-only --no-undefined --always"],
        "merge-base" => &["-a --all --octopus --independent --is-ancestor --fork-point"],
        "for-each-ref" => &[
            "--count= --sort= --format= --color? --points-at= --merged? --no-merged? --contains? \
            --no-contains? --ignore-case --exclude= --omit-empty",
        ],
        "show-ref" => &[
            "-d -s -q --head --heads --branches --tags --dereference --hash? --verify --abbrev? --quiet --exists",
        ],
        "show-branch" => &[
            "-a -r -g? --all --remotes --current --topo-order --date-order --sparse --more= --list --merge-base \
            --independent --no-name --sha1-name --topics --reflog? --color? --no-color",
        ],
        "count-objects" => &["-v -H --verbose --human-readable"],
        "cherry" => &["-v --abbrev?"],
        "check-ignore" => &["-q -v -z -n --quiet --verbose --non-matching --no-index"],
        "check-attr" => &["-a -z --all --cached --source="],
        "check-ref-format" | "check-mailmap" => &["--branch --allow-onelevel --normalize"],
        "version" => &["--build-options"],
        "var" => &["-l"],
        "hash-object" => &["-t= --stdin --no-filters --literally"],
        "ls-remote" => &[
            "-h -t -q --heads --branches --tags --refs --quiet --exit-code --get-url --sort= --symref",
        ],
        "stash" | "remote" | "worktree" | "reflog" | "notes" | "bisect" | "config"
        | "symbolic-ref" | "submodule" => {
            return judge_nested(command, words);
        }
        _ => return Err(format!("git {command} isn't known to only read")),
    };
    let sorted = sort_all(words, tables)?;
    let operands = sorted.operands.len();
    match command {
        // An operand without one of the listing options creates.
        "branch" => {
            let lists = [
                "--list",
                "--contains",
                "--no-contains",
                "--merged",
                "--no-merged",
                "--points-at",
            ]
            .iter()
            .any(|option| sorted.has(option));
            let views = ["-a", "-r", "-v", "--all", "--remotes", "--verbose"]
                .iter()
                .any(|option| sorted.has(option));
            if operands > 0 && !lists {
                return Err(if views {
                    "git branch with a name"
                } else {
                    "git branch creates a branch"
                }
                .to_owned());
            }
        }
        "tag" => {
            let lists = [
                "-l",
                "--list",
                "-n",
                "--contains",
                "--no-contains",
                "--merged",
                "--no-merged",
                "--points-at",
            ]
            .iter()
            .any(|option| sorted.has(option));
            if operands > 0 && !lists {
                return Err("git tag creates a tag".to_owned());
            }
        }
        "ls-remote" => {
            let named = sorted
                .operands
                .first()
                .is_none_or(|remote| remote.fixed().is_some_and(is_plain_name));
            if !named {
                return Err("git ls-remote of an address can run a transport program".to_owned());
            }
        }
        _ => {}
    }
    // Signature placeholders run the configured signature program.
    let formats = ["--format", "--pretty"]
        .iter()
        .flat_map(|name| sorted.values(name));
    for format in formats {
        if format.is_none_or(|text| {
            text.contains("%G")
                || text.contains("%(signature")
                || text.contains("%+G")
                || text.contains("%-G")
                || text.contains("% G")
        }) {
            return Err(
                "a format that could verify signatures runs the signature program".to_owned(),
            );
        }
    }
    let mut paths = named_files(command, &sorted);
    paths.extend(sorted.files);
    Ok(Reading {
        paths,
        needs_trust: true,
    })
}

/// Operands that can be files. Revisions among them look like files that don't exist.
fn named_files(command: &str, sorted: &Sorted<'_>) -> Vec<PathOperand> {
    match command {
        // With a path outside the repository, and without a repository, these read any file.
        "diff" | "hash-object" | "check-attr" => paths_of(&sorted.operands),
        "grep" if sorted.has("--no-index") => paths_of(&sorted.operands),
        "blame" | "annotate" | "log" | "show" | "grep" | "ls-files" => sorted
            .operands
            .iter()
            .filter(|operand| operand.path().kind != PathKind::Unbounded)
            .map(|operand| operand.path())
            .collect(),
        _ => Vec::new(),
    }
}

fn is_plain_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        && !text.starts_with('-')
}

fn sort_all<'a>(words: &'a [Argument], tables: &[&str]) -> Result<Sorted<'a>, String> {
    match tables {
        [one] => sort(words, one, Order::Mixed),
        several => sort(words, &several.join(" "), Order::Mixed),
    }
}

/// Sub-commands of sub-commands.
fn judge_nested(command: &str, words: &[Argument]) -> Verdict {
    let reading = Reading {
        paths: Vec::new(),
        needs_trust: true,
    };
    let refuse = || {
        Err(format!(
            "git {command} with these words isn't known to only read"
        ))
    };
    let first = match words.first() {
        None => None,
        Some(word) => match word.fixed() {
            Some(text) => Some(text),
            None => return refuse(),
        },
    };
    let after = words.get(1..).unwrap_or_default();
    let table: Option<(&[Argument], &str)> = match (command, first) {
        ("stash", Some("list")) => Some((after, HISTORY)),
        ("stash", Some("show")) => Some((after, DIFF)),
        ("remote", None) => Some((words, "")),
        ("remote", Some("-v" | "--verbose")) if after.is_empty() => Some((after, "")),
        ("remote", Some("get-url")) => Some((after, "--push --all")),
        ("worktree", Some("list")) => Some((after, "-v -z --verbose --porcelain")),
        ("reflog", None) => Some((words, HISTORY)),
        ("reflog", Some("show")) => Some((after, HISTORY)),
        ("reflog", Some("exists")) => Some((after, "")),
        ("reflog", Some("expire" | "delete" | "drop" | "write")) => None,
        ("reflog", Some(_)) => Some((words, HISTORY)),
        ("notes", None | Some("list" | "show")) => Some((after, "")),
        ("bisect", Some("log")) => Some((after, "")),
        ("submodule", Some("status")) => Some((after, "--cached --recursive")),
        ("symbolic-ref", Some(_)) => {
            let sorted = sort(
                words,
                "-q --quiet --short --recurse --no-recurse",
                Order::Mixed,
            )?;
            if sorted.operands.len() > 1 || !sorted.operands.iter().all(|word| word.is_one_word()) {
                return Err("git symbolic-ref with two names writes".to_owned());
            }
            return Ok(reading);
        }
        ("config", Some(_)) => return judge_config(words),
        _ => None,
    };
    let Some((words, table)) = table else {
        return refuse();
    };
    sort(words, table, Order::Mixed)?;
    Ok(reading)
}

/// `git config` writes when it gets a name and a value, so only the forms that say 'get' pass.
fn judge_config(words: &[Argument]) -> Verdict {
    const WHERE: &str = "--global --system --local --worktree --show-origin --show-scope --name-only --null -z \
        --includes --no-includes --type= --bool --int --bool-or-int --path --default= --fixed-value";
    let modern = matches!(
        words.first().and_then(Argument::fixed),
        Some("list" | "get")
    );
    let words = if modern {
        words.get(1..).unwrap_or_default()
    } else {
        words
    };
    let table = format!(
        "{WHERE} --get= --get-all= --get-regexp= --get-urlmatch= --list -l --all --regexp --value= --url= --get-color= --get-colorbool="
    );
    // Options end at the first name: `git config name --all` sets it to `--all`.
    let sorted = sort(words, &table, Order::OperandsLast)?;
    if sorted
        .operands
        .iter()
        .any(|word| word.text().starts_with('-'))
    {
        return Err("git config with an option after a name".to_owned());
    }
    let gets = [
        "--get",
        "--get-all",
        "--get-regexp",
        "--get-urlmatch",
        "--list",
        "-l",
        "--get-color",
        "--get-colorbool",
    ]
    .iter()
    .any(|option| sorted.has(option));
    // One plain name without a value is a question too.
    let asks =
        sorted.operands.len() == 1 && sorted.operands.iter().all(|word| word.fixed().is_some());
    if gets || modern || asks {
        return Ok(Reading {
            paths: Vec::new(),
            needs_trust: true,
        });
    }
    Err("git config can change a setting".to_owned())
}
