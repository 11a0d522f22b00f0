//! Programs that tell about the machine, its processes and its manual.

use super::super::checks;
use super::super::table::{Operands, Program};

pub(super) const PROGRAMS: &[Program] = &[
    Program::new(&["pwd"], Operands::None, "-L -P --logical --physical"),
    Program::new(&["whoami"], Operands::None, ""),
    Program::new(&["pstree"], Operands::Words, "-A -U -c -h -l -n -p -T"),
    Program::new(&["logname"], Operands::None, ""),
    Program::new(&["users"], Operands::None, ""),
    Program::new(&["hostid"], Operands::None, ""),
    Program::new(&["nproc"], Operands::None, "--all --ignore="),
    Program::new(&["tty"], Operands::None, "-s --silent --quiet"),
    Program::new(&["runlevel"], Operands::None, ""),
    Program::new(&["vm_stat"], Operands::None, ""),
    Program::new(&["sw_vers"], Operands::None, "--productName --productVersion --buildVersion"),
    Program::new(&["lsmod"], Operands::None, ""),
    Program::new(
        &["id"],
        Operands::Words,
        "-a -u -g -G -n -r -z -Z --user --group --groups --name --real --zero --context",
    ).only_ever_reads(),
    Program::new(&["groups"], Operands::Words, "").only_ever_reads(),
    Program::new(
        &["uname"],
        Operands::None,
        "-a -s -n -r -v -m -p -i -o --all --kernel-name --nodename --kernel-release --kernel-version --machine \
        --processor --hardware-platform --operating-system",
    ).only_ever_reads(),
    Program::new(&["uptime"], Operands::None, "-p -s --pretty --since"),
    Program::new(
        &["free"],
        Operands::None,
        "-b -k -m -g -h -l -t -w -s= -c= --bytes --kibi --mebi --gibi --mega --giga --human --lohi --total --wide --si \
        --seconds= --count=",
    ),
    Program::new(&["sleep"], Operands::Words, "").only_ever_reads(),
    Program::new(
        &["who"],
        Operands::Files,
        "-a -b -d -H -l -m -p -q -r -s -t -T -u -w --all --boot --count --heading --short --users",
    ),
    Program::new(&["w"], Operands::Words, "-h -s -f -u -i -o"),
    Program::new(&["getconf"], Operands::Words, "-a"),
    Program::new(
        &["locale"],
        Operands::Words,
        "-a -m -k -c --all-locales --charmaps --keyword-name --category-name",
    ),
    Program::new(&["cal"], Operands::Words, "-1 -3 -y -j"),
    Program::new(&["pidof"], Operands::Words, "-s -x -c -q -o="),
    Program::new(
        &["pgrep"],
        Operands::Words,
        "-a -f -l -n -o -x -c -i -v -u= -P= -d= -g= -G= -t= --full --list-name --list-full --newest --oldest --exact \
        --count --ignore-case --inverse --uid= --euid= --parent= --delimiter=",
    ),
    Program::new(
        &["lscpu"],
        Operands::None,
        "-a -b -c -e? -p? -J -x -y --all --online --offline --json --parse? --extended? --hex --physical",
    ),
    Program::new(&["lspci"], Operands::None, "-v -n -k -t -m -D -b -d= -s="),
    Program::new(&["lsusb"], Operands::None, "-v -t -d= -s="),
    Program::new(
        &["lsb_release"],
        Operands::None,
        "-a -i -d -r -c -s -v --all --id --description --release --codename --short --version",
    ),
    Program::new(&["which"], Operands::Words, "-a --all").only_ever_reads(),
    Program::new(&["whereis"], Operands::Words, "-b -m -s -u"),
    Program::new(&["type"], Operands::Words, "-a -f -p -P -t").only_ever_reads(),
    Program::new(
        &["date"],
        Operands::Words,
        "-u -R -I? -d= -r@ --utc --universal --iso-8601? --rfc-3339= --rfc-email --date= --reference@ --debug --version",
    )
    .checked(checks::date),
    Program::new(
        &["hostname"],
        Operands::None,
        "-a -A -d -f -i -I -s -y --alias --all-fqdns --domain --fqdn --long --ip-address --all-ip-addresses --short",
    ),
    Program::new(&["vmstat"], Operands::Words, "-a -s -S= -w -d -D -m -t -f -n"),
    Program::new(&["iostat"], Operands::Words, "-c -d -h -k -m -N -t -x -y -z"),
    Program::new(&["mpstat"], Operands::Words, "-A -u -P="),
    Program::new(
        &["last"],
        Operands::Words,
        "-n= -a -d -F -i -w -x -# -t= -p= --limit= --fulltimes --nohostname",
    ),
    Program::new(&["lastlog"], Operands::None, "-u= -t= -b="),
    Program::new(
        &["lsof"],
        Operands::Files,
        "-a -b -c= -d= -F? -g? -h -i? -l -n -N -o -O -p= -P -R -s? -S? -t -T? -u= -U -v -V -w -X",
    )
    .names_only()
    .checked(checks::no_host_names),
    Program::new(
        &["ss"],
        Operands::Words,
        "-n -a -l -o -e -m -p -i -s -4 -6 -0 -t -u -d -w -x -h -H -O -b --numeric --all --listening --processes --tcp \
        --udp --unix --summary --extended --info --no-header --options --memory --oneline",
    )
    .checked(checks::no_host_names),
    Program::new(
        &["netstat"],
        Operands::None,
        "-a -l -n -p -t -u -x -r -i -s -e -o -W -g --all --listening --numeric --program --tcp --udp --unix --route \
        --interfaces --statistics",
    ),
    Program::new(&["ip"], Operands::Text, "").checked(checks::ip),
    Program::new(&["ifconfig"], Operands::None, "-a -s"),
    Program::new(&["sysctl"], Operands::Words, "-a -n -e -N").checked(checks::sysctl),
    Program::new(
        &["journalctl"],
        Operands::Words,
        "-u= -n= -f -b? -k -r -e -x -o= -p= -S= -U= -t= -g= -a -q --no-pager --unit= --lines= --since= --until= --boot? \
        --dmesg --output= --priority= --reverse --catalog --follow --list-boots --user --disk-usage --grep= \
        --identifier= --no-hostname --utc --all --quiet",
    ),
    Program::new(
        &["dmesg"],
        Operands::None,
        "-T -k -l= -f= -L -t -x -u -r -P -w -H --ctime --kernel --level= --facility= --decode --notime --userspace --raw \
        --color? --nopager --human --follow",
    ),
    Program::new(
        &["man"],
        Operands::Words,
        "-k -f -w -a --whatis --apropos --where --path",
    )
    .checked(checks::man),
    Program::new(&["apropos"], Operands::Words, "-s= -e -l"),
    Program::new(&["whatis"], Operands::Words, "-s= -l"),
];
