//! Programs that look for text in files, or for files by name.

use super::super::checks;
use super::super::table::{Operands, Program};

const GREP: &str = "-E -F -G -P -e= -f@ -i -y -v -w -x -c -L -l -m= -o -q -s -b -H -h -n -T -Z -z -A= -B= -C= -a -r -R \
    -I -U -d= -D= -# -V --extended-regexp --fixed-strings --basic-regexp --perl-regexp --regexp= --file@ \
    --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp --count --color? --colour? \
    --files-without-match --files-with-matches --max-count= --only-matching --quiet --silent --no-messages \
    --byte-offset --with-filename --no-filename --line-number --initial-tab --null --null-data --after-context= \
    --before-context= --context= --text --binary-files= --devices= --directories= --exclude= --exclude-from@ \
    --exclude-dir= --include= --recursive --dereference-recursive --line-buffered --binary --version --help --label=";

pub(super) const PROGRAMS: &[Program] = &[
    // egrep and fgrep are grep with another default.
    Program::new(
        &["grep", "egrep", "fgrep"],
        Operands::PatternThenFiles(&["-e", "-f", "--regexp", "--file"]),
        GREP,
    ).only_ever_reads()
    .checked(checks::grep)
    .below(checks::grep_below)
    .lists(checks::grep_lists),
    Program::new(
        &["rg"],
        Operands::PatternThenFiles(&["-e", "-f", "--regexp", "--file", "--files", "--type-list"]),
        "-A= -B= -C= -e= -f@ -g= -i -s -S -v -w -x -c -l -L -n -N -o -q -r= -t= -T= -m= -M= -j= -d= -E= -F -P -U -a -u -. \
        -0 -H -I -p -V -h -b --after-context= --before-context= --context= --regexp= --file@ --glob= --iglob= \
        --ignore-case --case-sensitive --smart-case --invert-match --word-regexp --line-regexp --count --count-matches \
        --files --files-with-matches --files-without-match --line-number --no-line-number --only-matching --quiet \
        --replace= --type= --type-not= --type-list --max-count= --max-columns= --max-depth= --maxdepth= \
        --max-filesize= --threads= --encoding= --fixed-strings --pcre2 --multiline --multiline-dotall --text \
        --unrestricted --hidden --no-ignore --no-ignore-vcs --no-ignore-parent --no-ignore-global --no-ignore-dot \
        --no-ignore-files --no-config --null --with-filename --no-filename --pretty --heading --no-heading --color= \
        --colors= --column --no-column --json --stats --trim --sort= --sortr= --vimgrep --passthru --crlf \
        --byte-offset --debug --no-messages --one-file-system --context-separator= --field-match-separator= \
        --line-buffered --block-buffered --max-columns-preview --glob-case-insensitive --engine= --no-unicode --mmap \
        --no-mmap --include-zero --version --help --binary --no-require-git --ignore-file@ --follow \
        --path-separator= --auto-hybrid-regex --null-data",
    )
    .below(checks::rg_below)
    .lists(checks::rg_lists),
    Program::new(
        &["ag"],
        Operands::PatternThenFiles(&["-g"]),
        "-c -i -s -S -v -w -l -L -Q -r -R -a -u -U -f -g= -G= -m= --hidden --nocolor --color --count \
        --files-with-matches --files-without-matches --ignore= --ignore-case --smart-case --literal --numbers \
        --nonumbers --heading --noheading --column --vimgrep --depth= --follow --version",
    )
    .below(checks::ag_below),
    Program::new(
        &["fd", "fdfind"],
        Operands::PatternThenFiles(&[]),
        "-H -I -u -s -i -g -F -a -p -0 -d= -t= -e= -E= -S= -c= -j= -q -1 -h -V --hidden --no-ignore --unrestricted \
        --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --full-path --print0 --max-depth= \
        --min-depth= --exact-depth= --prune --type= --extension= --exclude= --size= --changed-within= --changed-before= \
        --newer= --older= --owner= --color= --threads= --max-results= --quiet --show-errors --one-file-system \
        --strip-cwd-prefix? --no-ignore-vcs --no-ignore-parent --relative-path --path-separator= --version --and=",
    )
    .names_only()
    .lists(checks::fd_lists),
];
