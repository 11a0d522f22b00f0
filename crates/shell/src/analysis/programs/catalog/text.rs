//! Programs that read text and print text.

use super::super::checks;
use super::super::table::{Operands, Program};

pub(super) const PROGRAMS: &[Program] = &[
    Program::new(
        &["echo", "true", "false", ":", "yes", "expr"],
        Operands::Text,
        "",
    ).only_ever_reads()
    .names_only(),
    Program::new(
        &["cat"],
        Operands::Files,
        "-A -b -e -E -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank \
        --show-tabs --show-nonprinting",
    ).only_ever_reads(),
    Program::new(
        &["tac"],
        Operands::Files,
        "-b -r -s= --before --regex --separator=",
    ).only_ever_reads(),
    Program::new(&["rev"], Operands::Files, "").only_ever_reads(),
    Program::new(
        &["nl"],
        Operands::Files,
        "-b= -d= -f= -h= -i= -l= -n= -p -s= -v= -w= --body-numbering= --section-delimiter= \
        --footer-numbering= --header-numbering= --line-increment= --join-blank-lines= --number-format= \
        --no-renumber --number-separator= --starting-line-number= --number-width=",
    ).only_ever_reads(),
    Program::new(
        &["head"],
        Operands::Files,
        "-n= -c= -q -v -z -# --lines= --bytes= --quiet --silent --verbose --zero-terminated",
    ).only_ever_reads(),
    Program::new(
        &["tail"],
        Operands::Files,
        "-n= -c= -q -v -z -f -F -s= -# --lines= --bytes= --quiet --silent --verbose --follow? --retry \
        --pid= --sleep-interval= --zero-terminated",
    ).only_ever_reads(),
    Program::new(
        &["wc"],
        Operands::Files,
        "-c -m -l -L -w --bytes --chars --lines --words --max-line-length --total=",
    ).only_ever_reads()
    .names_only(),
    Program::new(
        &["cut"],
        Operands::Files,
        "-b= -c= -d= -f= -n -s -z --bytes= --characters= --delimiter= --fields= --complement \
        --only-delimited --output-delimiter= --zero-terminated",
    ).only_ever_reads(),
    Program::new(
        &["paste"],
        Operands::Files,
        "-d= -s -z --delimiters= --serial --zero-terminated",
    ).only_ever_reads(),
    Program::new(
        &["fold"],
        Operands::Files,
        "-b -s -w= --bytes --spaces --width=",
    ).only_ever_reads(),
    Program::new(&["fmt"], Operands::Files, "-s -w= --split-only --width=").only_ever_reads(),
    Program::new(
        &["expand"],
        Operands::Files,
        "-i -t= --initial --tabs=",
    ).only_ever_reads(),
    Program::new(
        &["unexpand"],
        Operands::Files,
        "-a -t= --all --first-only --tabs=",
    ).only_ever_reads(),
    Program::new(
        &["join"],
        Operands::Files,
        "-a= -e= -i -j= -o= -t= -v= -1= -2= -z --ignore-case --check-order --nocheck-order --header \
        --zero-terminated",
    ).only_ever_reads(),
    Program::new(
        &["comm"],
        Operands::Files,
        "-1 -2 -3 -z --check-order --nocheck-order --output-delimiter= --total --zero-terminated",
    ).only_ever_reads(),
    Program::new(&["tsort"], Operands::Files, "").only_ever_reads(),
    Program::new(
        &["column"],
        Operands::Files,
        "-t -s= -c= -x -o= -N= -R= --table --separator= --output-width= --fillrows --output-separator= \
        --table-columns= --table-right=",
    ).only_ever_reads(),
    Program::new(
        &["pr"],
        Operands::Files,
        "-a -d -m -t -T -J -F -f -l= -w= -W= -o= -h= -# --across --double-space --merge --omit-header \
        --omit-pagination --join-lines --form-feed --length= --width= --page-width= --indent= --header=",
    ).only_ever_reads(),
    Program::new(
        &["cmp"],
        Operands::Files,
        "-b -i= -l -n= -s --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent",
    ).only_ever_reads(),
    Program::new(
        &["od"],
        Operands::Files,
        "-A= -j= -N= -t= -v -w? -a -b -c -d -f -i -l -o -s -x --address-radix= --skip-bytes= --read-bytes= \
        --format= --output-duplicates --width?",
    ).only_ever_reads(),
    Program::new(
        &["hexdump", "hd"],
        Operands::Files,
        "-b -c -C -d -o -x -v -n= -s= -e= --canonical --length= --skip= --no-squeezing --format= \
        --one-byte-octal --one-byte-char --two-bytes-decimal --two-bytes-octal --two-bytes-hex",
    ).only_ever_reads(),
    Program::new(
        &["strings"],
        Operands::Files,
        "-a -f -n= -t= -# --all --print-file-name --bytes= --radix=",
    ).only_ever_reads()
    .checked(checks::no_option_files),
    Program::new(
        &[
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
        ],
        Operands::Files,
        "-b -c -t -z -w --binary --check --tag --text --zero --ignore-missing --quiet --status --strict --warn",
    ).only_ever_reads(),
    Program::new(
        &["b2sum"],
        Operands::Files,
        "-b -c -l= -t -z -w --binary --check --length= --tag --text --zero --ignore-missing --quiet --status \
        --strict --warn",
    ).only_ever_reads(),
    Program::new(
        &["cksum"],
        Operands::Files,
        "-a= -c -z --algorithm= --check --untagged --tag --zero --ignore-missing --quiet --status --strict --warn",
    ).only_ever_reads(),
    Program::new(&["sum"], Operands::Files, "-r -s --sysv").only_ever_reads(),
    Program::new(&["md5"], Operands::Files, "-q -r").only_ever_reads(),
    Program::new(
        &["shasum"],
        Operands::Files,
        "-a= -b -c -t --algorithm= --binary --check --text",
    ).only_ever_reads(),
    Program::new(
        &["tr"],
        Operands::Words,
        "-c -C -d -s -t --complement --delete --squeeze-repeats --truncate-set1",
    ).only_ever_reads()
    .names_only(),
    Program::new(
        &["sort"],
        Operands::Files,
        "-b -d -f -g -i -M -h -n -R -r -V -c -C -k= -m -s -t= -u -z --ignore-leading-blanks \
        --dictionary-order --ignore-case --general-numeric-sort --ignore-nonprinting --month-sort \
        --human-numeric-sort --numeric-sort --random-sort --reverse --sort= --version-sort --check? --key= --merge \
        --stable --field-separator= --unique --zero-terminated --debug --parallel= --version",
    ),
    Program::new(
        &["uniq"],
        Operands::OneFile,
        "-c -d -D -f= -i -s= -u -z -w= --count --repeated --all-repeated? --skip-fields= --group? --ignore-case \
        --skip-chars= --unique --zero-terminated --check-chars=",
    ),
    Program::new(
        &["shuf"],
        Operands::Files,
        "-e -i= -n= -r -z --echo --input-range= --head-count= --repeat --zero-terminated",
    ),
    Program::new(
        &["iconv"],
        Operands::Files,
        "-f= -t= -l -c -s --from-code= --to-code= --list --silent",
    )
    .checked(checks::iconv),
    Program::new(
        &["base64"],
        Operands::OneFile,
        "-d -w= --decode --wrap= --ignore-garbage",
    ),
    Program::new(
        &["base32"],
        Operands::OneFile,
        "-d -w= --decode --wrap= --ignore-garbage",
    ),
    Program::new(
        &["basenc"],
        Operands::OneFile,
        "-d -w= --base64 --base64url --base32 --base16 --base2msbf --decode --wrap= --ignore-garbage",
    ),
    Program::new(
        &["xxd"],
        Operands::OneFile,
        "-a -b -c= -C -e -E -g= -i -l= -o= -p -s= -u -d",
    )
    .checked(checks::xxd),
    Program::new(
        &["numfmt"],
        Operands::Words,
        "-d= -z --to= --from= --suffix= --padding= --field= --format= --header? --delimiter= --invalid= --round= \
        --to-unit= --from-unit= --grouping --zero-terminated",
    ).only_ever_reads()
    .names_only(),
    Program::new(
        &["seq"],
        Operands::Words,
        "-f= -s= -w -# --format= --separator= --equal-width",
    ).only_ever_reads()
    .names_only(),
    Program::new(&["factor"], Operands::Words, "").names_only(),
    Program::new(
        &["bc"],
        Operands::Files,
        "-l -q -s -w -i --mathlib --quiet --standard --warn --version",
    )
    .checked(checks::all_words_fixed),
];
