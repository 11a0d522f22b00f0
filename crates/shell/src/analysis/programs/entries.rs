//! The tables of commands for which a table is enough. The notation is that of `options`.

/// What a command's operands are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// Text, not files.
    Words,
    /// Files or folders that are read.
    Files,
    /// A pattern or program first (unless an option gave it), then files.
    PatternThenFiles,
    /// None are allowed.
    None,
    /// At most one file; a second one would be written.
    OneFile,
}

/// How far a command is trusted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// No argument whatever makes it write or run anything.
    Anything,
    /// Only the options in the table.
    Table,
}

pub(super) struct Entry {
    pub(super) names: &'static str,
    pub(super) trust: Trust,
    pub(super) operands: Operands,
    pub(super) options: &'static str,
}

const fn anything(names: &'static str, operands: Operands, options: &'static str) -> Entry {
    Entry {
        names,
        trust: Trust::Anything,
        operands,
        options,
    }
}

const fn table(names: &'static str, operands: Operands, options: &'static str) -> Entry {
    Entry {
        names,
        trust: Trust::Table,
        operands,
        options,
    }
}

const CHECKSUM: &str = "-b -t -c -z -w --binary --check --tag --text --zero --ignore-missing --quiet \
    --status --strict --warn -a= --algorithm= -l= --length= -r -q -p";

const GREP: &str = "-E -F -G -P -e= -f@ -i -y -v -w -x -c -L -l -m= -o -q -s -b -H -h -n -T -Z -z -A= \
    -B= -C= -a -r -R -I -U -u -d= -D= -# -V --extended-regexp --fixed-strings --basic-regexp --perl-regexp \
    --regexp= --file@ --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp --count \
    --color? --colour? --files-without-match --files-with-matches --max-count= --only-matching --quiet \
    --silent --no-messages --byte-offset --with-filename --no-filename --line-number --initial-tab --null \
    --null-data --after-context= --before-context= --context= --text --binary-files= --devices= \
    --directories= --exclude= --exclude-from@ --exclude-dir= --include= --recursive \
    --dereference-recursive --line-buffered --binary --version --help --label=";

pub(super) const ENTRIES: &[Entry] = &[
    anything(
        "echo true false : pwd whoami logname users nproc tty hostid",
        Operands::Words,
        "",
    ),
    anything(
        "id groups uname uptime free yes seq sleep expr factor printenv basename dirname tr numfmt who w \
        getconf locale cal pidof pgrep lscpu which whereis type lsb_release sw_vers vm_stat \
        runlevel mountpoint findmnt lsmod lspci lsusb",
        Operands::Words,
        "",
    ),
    anything(
        "cat tac rev nl",
        Operands::Files,
        "-A -b -e -E -n -s -t -T -u -v -d= -f= -h= -i= -l= -w= -p \
        --show-all --number --number-nonblank --show-ends --squeeze-blank --show-tabs --show-nonprinting",
    ),
    anything(
        "head",
        Operands::Files,
        "-n= -c= -q -v -z -# --lines= --bytes= --quiet --silent --verbose",
    ),
    anything(
        "tail",
        Operands::Files,
        "-n= -c= -q -v -z -f -F -r -s= -# --lines= --bytes= --quiet --silent \
        --verbose --follow? --retry --pid= --sleep-interval=",
    ),
    anything(
        "wc",
        Operands::Files,
        "-c -m -l -L -w --bytes --chars --lines --words --max-line-length \
        --files0-from@ --total=",
    ),
    anything(
        "ls dir vdir",
        Operands::Files,
        "-a -A -b -B -c -C -d -D -f -F -g -G -h -H -i -I= -k -l -L -m -n -N \
        -o -O -p -q -Q -r -R -s -S -t -T -u -U -v -w= -x -X -Z -@ -e -# --all --almost-all --author --escape \
        --block-size= --ignore-backups --color? --directory --dired --classify? --file-type --format= \
        --full-time --group-directories-first --no-group --human-readable --si --hide= --hyperlink? \
        --indicator-style= --inode --ignore= --kibibytes --literal --hide-control-chars --quote-name \
        --quoting-style= --reverse --recursive --size --sort= --time= --time-style= --tabsize= --width= \
        --context --zero --dereference",
    ),
    anything(
        "stat",
        Operands::Files,
        "-L -f -c= -t -x -s -l -n -q -r --dereference --file-system --format= \
        --printf= --terse --cached=",
    ),
    anything(
        "readlink realpath",
        Operands::Files,
        "-f -e -m -n -q -s -v -z -L -P --canonicalize \
        --canonicalize-existing --canonicalize-missing --no-newline --quiet --silent --verbose --zero \
        --logical --physical --relative-to@ --relative-base@ --strip --no-symlinks",
    ),
    anything(
        "cut",
        Operands::Files,
        "-b= -c= -d= -f= -n -s -z -w --bytes= --characters= --delimiter= \
        --fields= --complement --only-delimited --output-delimiter= --zero-terminated",
    ),
    anything(
        "paste fold fmt expand unexpand join comm tsort column pr",
        Operands::Files,
        "-d= -s -z -b -w= \
        -c -p -u -t -1 -2 -3 -i -a= -e= -j= -o= -v= -# --delimiters= --serial --width= --spaces \
        --check-order --nocheck-order --output-delimiter= --total --header --tabs= --all --initial \
        --first-only --table",
    ),
    anything(
        "cmp",
        Operands::Files,
        "-b -i= -l -n= -s --print-bytes --ignore-initial= --verbose --bytes= \
        --quiet --silent",
    ),
    anything(
        "od hexdump hd strings",
        Operands::Files,
        "-A= -j= -N= -S= -t= -v -w? -a -b -c -d -e= -f -i -l -n= \
        -o -s= -x -C -h -# --all --bytes= --radix= --address-radix= --skip-bytes= --read-bytes= --format= \
        --output-duplicates --canonical --length= --skip= --encoding= --print-file-name",
    ),
    anything(
        "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum md5 shasum",
        Operands::Files,
        CHECKSUM,
    ),
    anything(
        "du",
        Operands::Files,
        "-0 -a -A -B= -b -c -D -d= -h -H -k -L -l -m -P -S -s -t= -x -X@ --all --null \
        --apparent-size --block-size= --bytes --total --dereference-args --max-depth= --human-readable --inodes \
        --count-links --dereference --no-dereference --separate-dirs --si --summarize --threshold= --time? \
        --time-style= --exclude-from@ --exclude= --one-file-system --files0-from@",
    ),
    anything(
        "df",
        Operands::Files,
        "-a -B= -h -H -i -k -l -P -t= -T -x= -m -g --all --block-size= --human-readable \
        --si --inodes --local --no-sync --output? --portability --total --type= --print-type --exclude-type=",
    ),
    anything("grep egrep fgrep", Operands::PatternThenFiles, GREP),
    table(
        "jq",
        Operands::PatternThenFiles,
        "-r -c -n -s -e -S -C -M -a -j -R -h -V --raw-output --compact-output \
        --null-input --slurp --exit-status --sort-keys --color-output --monochrome-output --ascii-output \
        --join-output --raw-input --tab --indent= --stream --seq --unbuffered --raw-output0",
    ),
    table(
        "rg",
        Operands::PatternThenFiles,
        "-A= -B= -C= -e= -f@ -g= -i -s -S -v -w -x -c -l -L -n -N -o -q -r= -t= -T= \
        -m= -M= -j= -d= -E= -F -P -U -a -u -. -0 -H -I -p -V -h -b --after-context= --before-context= --context= \
        --regexp= --file@ --glob= --iglob= --ignore-case --case-sensitive --smart-case --invert-match \
        --word-regexp --line-regexp --count --count-matches --files --files-with-matches --files-without-match \
        --line-number --no-line-number --only-matching --quiet --replace= --type= --type-not= --type-list \
        --max-count= --max-columns= --max-depth= --maxdepth= --max-filesize= --threads= --encoding= --fixed-strings \
        --pcre2 --multiline --multiline-dotall --text --unrestricted --hidden --no-ignore --no-ignore-vcs \
        --no-ignore-parent --no-ignore-global --no-ignore-dot --no-ignore-files --no-config --null --with-filename \
        --no-filename --pretty --heading --no-heading --color= --colors= --column --no-column --json --stats --trim \
        --sort= --sortr= --vimgrep --passthru --crlf --byte-offset --debug --no-messages --one-file-system \
        --context-separator= --field-match-separator= --line-buffered --block-buffered --max-columns-preview \
        --glob-case-insensitive --engine= --no-unicode --mmap --no-mmap --include-zero --version --help --binary \
        --no-require-git --ignore-file@ --follow -# --path-separator= --auto-hybrid-regex --null-data",
    ),
    table(
        "ag",
        Operands::PatternThenFiles,
        "-A= -B= -C= -c -i -s -S -v -w -l -L -n -o -Q -r -R -a -u -U -z -g= -G= -m= \
        --hidden --nocolor --color --count --files-with-matches --files-without-matches --ignore= --ignore-case \
        --smart-case --literal --numbers --nonumbers --heading --noheading --column --vimgrep --depth= --version",
    ),
    table(
        "sort",
        Operands::Files,
        "-b -d -f -g -i -M -h -n -R -r -V -c -C -k= -m -s -t= -u -z --ignore-leading-blanks \
        --dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort \
        --human-numeric-sort --numeric-sort --random-sort --reverse --sort= --version-sort --check? --key= --merge \
        --stable --field-separator= --unique --zero-terminated --debug --parallel= --version",
    ),
    table(
        "uniq",
        Operands::OneFile,
        "-c -d -D -f= -i -s= -u -z -w= --count --repeated --all-repeated? \
        --skip-fields= --group? --ignore-case --skip-chars= --unique --zero-terminated --check-chars=",
    ),
    table(
        "shuf",
        Operands::Files,
        "-e -i= -n= -r -z --echo --input-range= --head-count= --repeat --zero-terminated",
    ),
    table(
        "diff colordiff",
        Operands::Files,
        "-q -s -c -C= -u -U= -e -n -y -W= -p -F= -t -T -r -N -i -E -Z -b -w -B -I= -a -d \
        -x= -X@ -S= --brief --report-identical-files --context? --unified? --ed --rcs --side-by-side --width= \
        --left-column --suppress-common-lines --show-c-function --show-function-line= --label= --expand-tabs \
        --initial-tab --tabsize= --recursive --no-dereference --new-file --ignore-case --ignore-tab-expansion \
        --ignore-trailing-space --ignore-space-change --ignore-all-space --ignore-blank-lines \
        --ignore-matching-lines= --text --strip-trailing-cr --minimal --exclude= --exclude-from@ --color? --normal \
        --speed-large-files --version -#",
    ),
    table(
        "file",
        Operands::Files,
        "-b -i -I -k -L -h -N -r -s -0 -p -E -l -v -F= -e= --brief --mime --mime-type \
        --mime-encoding --keep-going --dereference --no-dereference --no-pad --raw --special-files \
        --print0 --separator= --exclude= --extension --apple --version",
    ),
    table(
        "tree",
        Operands::Files,
        "-a -d -l -f -x -L= -P= -I= -p -s -h -u -g -D -i -q -N -Q -r -t -c -U -v -A -S -n -C -J -X -F \
        --noreport --nolinks --dirsfirst --filesfirst --filelimit= --charset= --si --du --prune --inodes --device \
        --timefmt= --matchdirs --ignore-case --gitignore --sort= --metafirst --help --version",
    ),
    table(
        "xxd",
        Operands::OneFile,
        "-a -b -c= -C -e -E -g= -h -i -l= -o= -p -s= -u -v -d",
    ),
    table(
        "base64 base32 basenc",
        Operands::OneFile,
        "-d -w= --decode --wrap= --ignore-garbage",
    ),
    table(
        "ps",
        Operands::Words,
        "-e -f -a -A -d -F -H -j -l -L -M -N -T -w -x -y -Z -c -m -r -u= -U= -p= -o= -O= -C= -g= -G= -t= -s= \
        -q= --pid= --ppid= --user= --sort= --format= --forest --no-headers --headers --cols= --columns= --width= \
        --rows= --lines= --deselect --group= --tty= --sid=",
    ),
    table(
        "lsof",
        Operands::Files,
        "-a -b -c= -d= -F? -g? -h -i? -l -n -N -o -O -p= -P -R -s? -S? -t -T? -u= -U -v -V -w -X",
    ),
    table(
        "ss",
        Operands::Words,
        "-n -r -a -l -o -e -m -p -i -s -4 -6 -0 -t -u -d -w -x -h -H -O -b --numeric --all --listening \
        --processes --tcp --udp --unix --summary --extended --info --no-header --options --memory --oneline",
    ),
    table(
        "netstat",
        Operands::None,
        "-a -l -n -p -t -u -x -r -i -s -e -o -W -c -g -f= --all --listening --numeric --program \
        --tcp --udp --unix --route --interfaces --statistics",
    ),
    table(
        "date",
        Operands::Words,
        "-u -R -I? -d= -r@ -j --utc --universal --iso-8601? --rfc-3339= --rfc-email --date= \
        --reference@ --debug --version",
    ),
    table(
        "hostname",
        Operands::None,
        "-a -A -d -f -i -I -s -y --alias --all-fqdns --domain --fqdn --long --ip-address \
        --all-ip-addresses --short",
    ),
    table(
        "vmstat iostat mpstat",
        Operands::Words,
        "-a -s -S= -w -d -D -m -t -f -c -k -x -y -z -h -p= -P= -u -A -n",
    ),
    table(
        "last lastlog",
        Operands::Words,
        "-n= -a -d -F -i -w -x -# -u= -t= -p= --limit= --fulltimes --nohostname",
    ),
    table(
        "lsblk",
        Operands::Files,
        "-a -b -d -f -i -l -m -n -o= -O -p -P -r -s -S -t -J -x= -e= -I= --all --bytes --nodeps --fs \
        --json --list --noheadings --output= --output-all --paths --pairs --raw --inverse --topology --tree?",
    ),
    table(
        "nm objdump readelf size otool",
        Operands::Files,
        "-a -A -B -C -d -D -e -f -g -h -H -i -j= -l -n -o -p -P -r -R -s -S -t -T \
        -u -v -V -W -w -x -X --demangle? --dynamic --defined-only --undefined-only --extern-only --headers \
        --section-headers --symbols --file-headers --program-headers --all-headers --disassemble --source --wide \
        --all --dyn-syms --segments --sections --notes --relocs --size-sort --numeric-sort --line-numbers \
        --section= --full-contents --syms --version --format= --no-show-raw-insn --private-headers --dynamic-syms",
    ),
    table(
        "bc",
        Operands::Files,
        "-l -q -s -w -i --mathlib --quiet --standard --warn --version",
    ),
    table(
        "zcat gzcat bzcat xzcat zstdcat lzcat",
        Operands::Files,
        "-f -q -v -h -V",
    ),
    table(
        "gzip gunzip bzip2 bunzip2 xz unxz zstd",
        Operands::Files,
        "-l -t -c -d -v -q -k -f --list --test --stdout \
        --to-stdout --decompress --verbose --quiet --keep --version",
    ),
    table("unzip", Operands::Files, "-l -t -v -z -q -p -c -1 -h -C"),
    table(
        "zipinfo",
        Operands::Files,
        "-1 -2 -s -m -l -v -h -t -T -z -C",
    ),
    table(
        "tar bsdtar",
        Operands::Words,
        "-t -f@ -v -z -j -J -a -O --list --file@ --verbose --gzip --bzip2 --xz --zstd \
        --auto-compress --exclude= --wildcards --no-wildcards --strip-components= --numeric-owner --full-time \
        --utc --version --quoting-style= --show-transformed-names",
    ),
    table(
        "iconv",
        Operands::Files,
        "-f= -t= -l -c -s --from-code= --to-code= --list --silent",
    ),
    table(
        "man",
        Operands::Words,
        "-k -f -w -a --whatis --apropos --where --path",
    ),
    table("apropos whatis", Operands::Words, "-s= -e -l"),
    table(
        "ip",
        Operands::Words,
        "-4 -6 -s -d -o -j -p -c? -h -r -br -brief",
    ),
    table("ifconfig", Operands::None, "-a -s"),
    table("sysctl", Operands::Words, "-a -n -e -N"),
    table(
        "journalctl",
        Operands::Words,
        "-u= -n= -f -b? -k -r -e -x -o= -p= -S= -U= -t= -g= -a -q --no-pager --unit= --lines= \
        --since= --until= --boot? --dmesg --output= --priority= --reverse --catalog --follow --list-boots --user \
        --disk-usage --grep= --identifier= --no-hostname --utc --all --quiet",
    ),
    table(
        "dmesg",
        Operands::None,
        "-T -k -l= -f= -L -t -x -u -r --ctime --kernel --level= --facility= --decode \
        --notime --userspace --raw --color? --nopager -P",
    ),
    table(
        "yq",
        Operands::PatternThenFiles,
        "-r -o= -p= -P -e -C -M -N -j -n --output-format= --input-format= --prettyPrint \
        --exit-status --colors --no-colors --no-doc --tojson --null-input --unwrapScalar? --indent= -I=",
    ),
    table(
        "bat batcat",
        Operands::Files,
        "-n -p -A -l= -r= -H= -f -P --number --plain --show-all --language= --line-range= \
        --highlight-line= --color= --decorations= --style= --theme= --wrap= --tabs= --terminal-width= --list-languages \
        --list-themes --squeeze-blank -s --version",
    ),
    table(
        "eza exa lsd",
        Operands::Files,
        "-1 -l -G -x -F -R -T -a -A -d -L= -r -s= -I= -D -f -b -B -g -h -H -i -m -n -S -t= -u -U -X \
        --oneline --long --grid --across --recurse --tree --all --list-dirs --level= --reverse --sort= --ignore-glob= \
        --only-dirs --binary --bytes --group --header --inode --modified --time= --color? --colour? --icons? --git-ignore \
        --group-directories-first --no-permissions --no-user --no-time --no-filesize --total-size --time-style=",
    ),
    table(
        "tokei",
        Operands::Files,
        "-C -f -s= -t= -o= -e= -h -V --files --sort= --types= --type= --output= --exclude= --hidden \
        --no-ignore --compact --version",
    ),
    table(
        "scc",
        Operands::Files,
        "--by-file --version -f= -s= --sort= --format= --no-cocomo -w",
    ),
];

/// Programs whose version can be asked for without running anything of the project's.
pub(super) const VERSIONED: &[&str] = &[
    "python",
    "python3",
    "python2",
    "node",
    "ruby",
    "perl",
    "php",
    "java",
    "javac",
    "rustc",
    "rustfmt",
    "gcc",
    "g++",
    "cc",
    "c++",
    "clang",
    "clang++",
    "make",
    "cmake",
    "ninja",
    "bash",
    "zsh",
    "sh",
    "fish",
    "curl",
    "wget",
    "ssh",
    "openssl",
    "psql",
    "mysql",
    "sqlite3",
    "redis-cli",
    "terraform",
    "ansible",
    "helm",
    "aws",
    "gcloud",
    "az",
    "vim",
    "nvim",
    "code",
    "emacs",
    "nano",
    "tmux",
    "screen",
    "ffmpeg",
    "convert",
    "magick",
    "pandoc",
    "latex",
    "pdflatex",
    "swift",
    "kotlin",
    "scala",
    "ghc",
    "cabal",
    "stack",
    "elixir",
    "erl",
    "lua",
    "julia",
    "Rscript",
    "R",
    "tsc",
    "eslint",
    "prettier",
    "black",
    "ruff",
    "mypy",
    "flake8",
    "isort",
    "esbuild",
    "zig",
    "nim",
    "dart",
    "flutter",
    "gofmt",
    "golangci-lint",
    "hugo",
    "jekyll",
    "make",
    "gmake",
    "autoconf",
    "automake",
    "pkg-config",
    "ld",
    "as",
    "ar",
    "gdb",
    "lldb",
    "valgrind",
    "strace",
    "nginx",
    "rsync",
    "zip",
    "tee",
    "less",
    "more",
    "sudo",
    "systemd",
    "minikube",
    "kind",
    "k3s",
    "packer",
    "consul",
    "vault",
    "nomad",
    "jekyll",
    "pipenv",
    "virtualenv",
    "pyenv",
    "nvm",
    "rbenv",
    "asdf",
    "fzf",
    "delta",
    "hyperfine",
    "just",
    "task",
    "buf",
    "protoc",
    "sbt",
    "ant",
    "groovy",
    "clojure",
    "nix",
    "guix",
    "snap",
    "flatpak",
    "dnf",
    "yum",
    "pacman",
    "apk",
    "zypper",
    "cargo-nextest",
    "cargo-clippy",
];

/// Of those, the ones that the folder can replace, by a tool chain file or a local installation.
pub(super) const FOLLOWS_FOLDER: &[&str] = &[
    "rustfmt",
    "cargo-nextest",
    "cargo-clippy",
    "swift",
    "dart",
    "flutter",
    "tsc",
    "eslint",
    "prettier",
    "esbuild",
    "black",
    "ruff",
    "mypy",
    "flake8",
    "isort",
    "golangci-lint",
    "terraform",
];
