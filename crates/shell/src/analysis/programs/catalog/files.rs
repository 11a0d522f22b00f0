//! Programs that show names, sizes and dates of files, or files in a form of their own.

use super::super::checks;
use super::super::table::{Operands, Program};

pub(super) const PROGRAMS: &[Program] = &[
    Program::new(
        &["ls", "dir", "vdir"],
        Operands::Files,
        "-1 -a -A -b -B -c -C -d -f -F -g -G -h -H -i -k -l -L -m -n -o -p -q -Q -r -R -s -S -t -u -U -v -x -X -Z \
        --all --almost-all --author --escape --block-size= --ignore-backups --color? --directory --classify? \
        --file-type --format= --full-time --group-directories-first --no-group --human-readable --si --hide= \
        --hyperlink? --indicator-style= --inode --ignore= --kibibytes --literal --hide-control-chars --quote-name \
        --quoting-style= --reverse --recursive --size --sort= --time= --time-style= --tabsize= --width= --context \
        --zero --dereference",
    ).only_ever_reads()
    .names_only()
    .lists(checks::ls_lists),
    Program::new(
        &["stat"],
        Operands::Files,
        "-L -c= -x --dereference --file-system --format= --printf= --terse",
    ).only_ever_reads()
    .names_only(),
    Program::new(
        &["readlink"],
        Operands::Files,
        "-f -e -m -n -q -s -v -z --canonicalize --canonicalize-existing --canonicalize-missing --no-newline \
        --quiet --silent --verbose --zero",
    ).only_ever_reads()
    .names_only(),
    Program::new(
        &["realpath"],
        Operands::Files,
        "-e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing --logical --physical --quiet \
        --relative-to@ --relative-base@ --strip --no-symlinks --zero",
    ).only_ever_reads()
    .names_only(),
    Program::new(
        &["basename"],
        Operands::Words,
        "-a -s= -z --multiple --suffix= --zero",
    ).only_ever_reads()
    .names_only(),
    Program::new(&["dirname"], Operands::Words, "-z --zero").only_ever_reads().names_only(),
    Program::new(
        &["du"],
        Operands::Files,
        "-0 -a -A -B= -b -c -d= -h -H -k -l -L -m -P -s -S -t= -x --all --null --apparent-size --block-size= \
        --bytes --total --max-depth= --human-readable --inodes --count-links --dereference --dereference-args \
        --no-dereference --separate-dirs --si --summarize --threshold= --time? --time-style= \
        --exclude= --one-file-system",
    ).only_ever_reads()
    .names_only(),
    Program::new(
        &["df"],
        Operands::Files,
        "-a -B= -h -H -i -k -l -m -P -t= -T -x= --all --block-size= --human-readable --si --inodes --local \
        --no-sync --output? --portability --total --type= --print-type --exclude-type=",
    ).only_ever_reads()
    .names_only(),
    Program::new(
        &["file"],
        Operands::Files,
        "-b -i -I -k -L -h -N -r -v -0 -F= -e= --brief --mime --mime-type --mime-encoding --keep-going \
        --dereference --no-dereference --no-pad --raw --print0 --separator= --exclude= --extension --version",
    )
    .names_only(),
    Program::new(
        &["tree"],
        Operands::Files,
        "-a -d -f -x -L= -P= -I= -p -s -h -u -g -D -i -q -N -Q -r -t -c -U -v -A -S -n -C -J -X -F --noreport \
        --nolinks --dirsfirst --filesfirst --filelimit= --charset= --si --du --prune --inodes --device --timefmt= \
        --matchdirs --ignore-case --gitignore --sort= --metafirst --help --version",
    )
    .names_only()
    .checked(checks::tree),
    Program::new(
        &["eza"],
        Operands::Files,
        "-1 -l -G -x -F -R -T -a -A -d -L= -r -s= -I= -D -f -b -B -g -h -H -i -m -n -S -u -U --oneline --long \
        --grid --across --recurse --tree --all --level= --reverse --sort= --ignore-glob= --only-dirs --only-files \
        --binary --bytes --group --header --inode --modified --color= --colour= --icons? --git-ignore \
        --group-directories-first --no-permissions --no-user --no-time --no-filesize --total-size --time-style=",
    )
    .names_only(),
    Program::new(
        &["exa"],
        Operands::Files,
        "-1 -l -G -x -F -R -T -a -d -L= -r -s= -I= -D -b -B -g -h -H -i -m -S -u -U --oneline --long --grid \
        --across --recurse --tree --all --level= --reverse --sort= --ignore-glob= --only-dirs --binary --bytes \
        --group --header --inode --color= --icons --git-ignore --group-directories-first --no-permissions --no-user \
        --no-time --no-filesize",
    )
    .names_only(),
    Program::new(
        &["lsd"],
        Operands::Files,
        "-1 -l -a -A -F -R -d -h -r -t -S -X -i --oneline --long --all --almost-all --recursive --tree \
        --directory-only --depth= --color= --icon= --group-dirs= --reverse --total-size --date=",
    )
    .names_only(),
    Program::new(
        &["tokei"],
        Operands::Files,
        "-C -f -s= -t= -o= -e= -h -V --files --sort= --types= --type= --output= --exclude= --hidden --no-ignore \
        --compact --version",
    )
    .names_only(),
    Program::new(
        &["scc"],
        Operands::Files,
        "-f= -s= -w --by-file --sort= --format= --no-cocomo --wide --version",
    )
    .names_only(),
    Program::new(
        &["diff"],
        Operands::Files,
        "-q -s -c -C= -u -U= -e -n -y -W= -p -F= -t -T -r -N -i -E -Z -b -w -B -I= -a -d -x= -X@ -S= -# --brief \
        --report-identical-files --context? --unified? --ed --rcs --side-by-side --width= --left-column \
        --suppress-common-lines --show-c-function --show-function-line= --label= --expand-tabs --initial-tab \
        --tabsize= --recursive --no-dereference --new-file --ignore-case --ignore-tab-expansion \
        --ignore-trailing-space --ignore-space-change --ignore-all-space --ignore-blank-lines \
        --ignore-matching-lines= --text --strip-trailing-cr --minimal --exclude= --exclude-from@ --color? --normal \
        --speed-large-files --version",
    )
    .below(checks::diff_below),
    Program::new(
        &["bat", "batcat"],
        Operands::Files,
        "-n -p -A -l= -r= -H= -f -P -s --number --plain --show-all --language= --line-range= --highlight-line= \
        --color= --decorations= --style= --theme= --wrap= --tabs= --terminal-width= --list-languages --list-themes \
        --squeeze-blank --version",
    ),
    Program::new(
        &["mountpoint"],
        Operands::Files,
        "-q -d --quiet --fs-devno",
    )
    .names_only(),
    Program::new(
        &["findmnt"],
        Operands::Words,
        "-a -A -b -D -f -i -J -k -l -n -o= -P -r -t= -T= -u -v --all --ascii --bytes --df --first-only --json --list \
        --noheadings --output= --pairs --raw --types= --target=",
    )
    .names_only(),
    Program::new(
        &["lsblk"],
        Operands::Files,
        "-a -b -d -f -i -l -m -n -o= -O -p -P -r -s -S -t -J -x= -e= -I= --all --bytes --nodeps --fs --json --list \
        --noheadings --output= --output-all --paths --pairs --raw --inverse --topology --tree?",
    )
    .names_only(),
    Program::new(
        &["nm"],
        Operands::Files,
        "-a -A -C -D -g -n -o -p -P -r -S -u -v --debug-syms --demangle? --dynamic --defined-only --undefined-only \
        --extern-only --numeric-sort --print-size --size-sort --reverse-sort --no-sort --portability --format= \
        --radix= --version",
    )
    .checked(checks::no_option_files),
    Program::new(
        &["objdump"],
        Operands::Files,
        "-a -f -p -h -x -d -D -r -R -t -T -C -s -w -j= -M= --archive-headers --file-headers --private-headers \
        --headers --section-headers --all-headers --disassemble? --disassemble-all --reloc --dynamic-reloc --syms \
        --dynamic-syms --demangle? --full-contents --wide --section= --no-show-raw-insn --start-address= \
        --stop-address= --version",
    )
    .checked(checks::no_option_files),
    Program::new(
        &["readelf"],
        Operands::Files,
        "-a -h -l -S -t -e -s -n -r -u -d -V -A -I -W -x= -p= -R= -C --all --file-header --program-headers --segments \
        --section-headers --sections --symbols --syms --dyn-syms --notes --relocs --unwind --dynamic --version-info \
        --arch-specific --histogram --wide --hex-dump= --string-dump= --headers --version",
    )
    .checked(checks::no_option_files),
    Program::new(
        &["size"],
        Operands::Files,
        "-A -B -d -o -x -t --format= --radix= --totals",
    )
    .checked(checks::no_option_files),
    Program::new(&["otool"], Operands::Files, "-L -l -h -t -v -D").checked(checks::no_option_files),
];
