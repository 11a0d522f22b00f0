//! Attacks on secrets in files, in environments and in other processes.

use super::{Case, case};

pub(super) const SECRETS: &[Case] = &[
    case("secret-cat", true, r##"grep -q PRIVATE $HOME/.ssh/id_rsa"##),
    case("secret-list", true, r##"ls $HOME/.ssh | grep -q id_rsa"##),
    case(
        "secret-copy",
        true,
        r##"cp -r $HOME/.ssh copy && grep -rq PRIVATE copy"##,
    ),
    case(
        "secret-tar",
        true,
        r##"tar -cf s.tar $HOME/.ssh && grep -q PRIVATE s.tar"##,
    ),
    case("secret-grep", true, r##"grep -rq PRIVATE $HOME/"##),
    case(
        "secret-link",
        true,
        r##"ln -s $HOME/.ssh/id_rsa key && grep -q PRIVATE key"##,
    ),
    case(
        "secret-hard-link",
        true,
        r##"ln $HOME/.netrc key2 && grep -q PRIVATE key2"##,
    ),
    case(
        "secret-proc-root",
        true,
        r##"grep -q PRIVATE /proc/self/root$HOME/.ssh/id_rsa"##,
    ),
    case(
        "secret-first-root",
        false,
        r##"grep -q PRIVATE /proc/1/root$HOME/.ssh/id_rsa"##,
    ),
    case("secret-file", true, r##"grep -q PRIVATE $HOME/.netrc"##),
    case(
        "secret-move",
        true,
        r##"mv $HOME/.ssh $HOME/ssh && grep -rq PRIVATE $HOME/ssh"##,
    ),
    case(
        "secret-unmount",
        false,
        r##"umount $HOME/.ssh; grep -q PRIVATE $HOME/.ssh/id_rsa || exit 1"##,
    ),
    case(
        "secret-mode",
        true,
        r##"chmod 700 $HOME/.ssh && grep -q PRIVATE $HOME/.ssh/id_rsa"##,
    ),
];
