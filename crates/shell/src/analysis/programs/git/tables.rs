//! git's sub-commands and their options. Several sub-commands read the same options by the same code of git.

/// Options of everything that shows differences.
pub(super) const DIFF: &str = "-p -u -s -U? --patch --no-patch --unified? --raw --patch-with-raw --minimal --patience \
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
pub(super) const HISTORY: &str = "-n= -# --max-count= --skip= --since= --after= --until= --before= --author= --committer= --grep= \
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

pub(super) const STATUS: &str = "-s -b -v -z -u? --short --branch --show-stash --porcelain? --long --verbose \
    --untracked-files? --ignore-submodules? --ignored? --column? --no-column --ahead-behind --no-ahead-behind \
    --renames --no-renames --find-renames?";

pub(super) const BRANCH: &str = "-a -r -v -q -i --all --remotes --list --verbose --quiet --color? --no-color --column? --no-column \
    --sort= --contains? --no-contains? --merged? --no-merged? --points-at= --format= --ignore-case --abbrev? --no-abbrev \
    --show-current --omit-empty";

pub(super) const TAG: &str = "-l -n? -i --list --sort= --contains? --no-contains? --merged? --no-merged? --points-at= --format= \
    --column? --no-column --color? --ignore-case --omit-empty";

pub(super) const BLAME: &str = "-b -L= -l -t -S@ -p -M? -C? -h -c -f -n -s -e -w --root --show-stats --reverse --first-parent \
    --porcelain --line-porcelain --incremental --encoding= --date= --score-debug --show-name --show-number --show-email \
    --ignore-rev= --ignore-revs-file@ --color-lines --color-by-age --abbrev? --progress --no-progress";

pub(super) const GREP: &str = "-a -i -I -h -H -l -L -n -o -v -w -c -e= -f@ -E -F -G -P -q -r -W -p -z -A= -B= -C= -m= -# --cached \
    --text --ignore-case --no-recursive --recursive --max-depth= --word-regexp --invert-match \
    --full-name --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column \
    --files-with-matches --name-only --files-without-match --only-matching --count --color? --no-color --break --heading \
    --show-function --context= --after-context= --before-context= --function-context --max-count= --and --or --not \
    --all-match --quiet --no-textconv --threads=";

/// The tables of a sub-command that only looks, with these options.
pub(in super::super) fn options_of(command: &str) -> Option<&'static [&'static str]> {
    Some(match command {
        "status" => &[STATUS],
        "diff" => &[DIFF],
        "diff-tree" | "diff-index" | "diff-files" => &[
            DIFF,
            "--stdin -v --pretty? --no-commit-id --format= --always",
        ],
        "log" | "whatchanged" | "show" => &[DIFF, HISTORY],
        "rev-list" => &[HISTORY],
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
            "-c -d -m -o -i -s -u -k -z -t -v -f -x= --cached --deleted --modified --others --ignored \
            --stage --directory --no-empty-directory --unmerged --killed --resolve-undo --exclude= \
            --exclude-standard --error-unmatch --with-tree= --full-name \
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
            "--all --tags --contains --abbrev? --candidates= --exact-match --debug --long --match= --exclude= \
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
            "-a -r -g? --all --remotes --current --topo-order --date-order --sparse --more? --list --merge-base \
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
        _ => return None,
    })
}
