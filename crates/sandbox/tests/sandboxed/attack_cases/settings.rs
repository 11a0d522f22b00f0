//! Attacks on settings, hooks and repositories that others obey later.

use super::{Case, case};

pub(super) const SETTINGS: &[Case] = &[
    case(
        "git-hook-new",
        true,
        r##"printf x > .git/hooks/pre-commit"##,
    ),
    case(
        "git-hook-change",
        true,
        r##"echo x >> .git/hooks/existing"##,
    ),
    case("git-hook-mode", true, r##"chmod 700 .git/hooks/existing"##),
    case("git-hook-remove", true, r##"rm .git/hooks/existing"##),
    case("git-hooks-rename", true, r##"mv .git/hooks .git/hooks2"##),
    case("git-hooks-remove", true, r##"rm -rf .git/hooks"##),
    case(
        "git-hooks-link",
        true,
        r##"mkdir h && rm -rf .git/hooks && ln -s $WS/h .git/hooks"##,
    ),
    case(
        "git-hooks-copy-over",
        true,
        r##"mkdir h2 && printf x > h2/pre-commit && cp h2/pre-commit .git/hooks/"##,
    ),
    case("git-config-append", true, r##"printf x >> .git/config"##),
    case(
        "git-config-command",
        true,
        r##"git config core.hooksPath /tmp"##,
    ),
    case("git-config-alias", true, r##"git config alias.x '!true'"##),
    case(
        "git-config-fsmonitor",
        true,
        r##"git config core.fsmonitor true"##,
    ),
    case(
        "git-config-rename",
        true,
        r##"mv .git/config .git/config2"##,
    ),
    case(
        "git-config-replace",
        true,
        r##"cp .git/config c && mv -f c .git/config"##,
    ),
    case(
        "git-config-remove",
        true,
        r##"rm -f .git/config && test ! -e .git/config"##,
    ),
    case(
        "git-config-hard-link",
        true,
        r##"ln .git/config linked2 && echo x >> linked2"##,
    ),
    case(
        "git-config-descriptor",
        true,
        r##"exec 5<.git/config && echo '#' > /proc/self/fd/5"##,
    ),
    case("git-folder-rename", true, r##"mv .git git2"##),
    case(
        "git-folder-replace",
        true,
        r##"mv .git git3 && mkdir .git"##,
    ),
    case(
        "git-commondir-new",
        true,
        r##"mkdir -p evil && printf $WS/evil > .git/commondir && grep -q evil .git/commondir"##,
    ),
    case(
        "git-commondir-rename",
        true,
        r##"printf $WS/evil > cd && mv -f cd .git/commondir && grep -q evil .git/commondir"##,
    ),
    case(
        "git-module-config",
        true,
        r##"printf x >> .git/modules/sub/config"##,
    ),
    case(
        "git-module-hook",
        true,
        r##"printf x > .git/modules/sub/hooks/x"##,
    ),
    case(
        "git-module-rename",
        true,
        r##"mv .git/modules/sub .git/modules/sub2"##,
    ),
    case(
        "git-modules-rename",
        true,
        r##"mv .git/modules .git/modules2"##,
    ),
    case(
        "git-worktree-pointer",
        true,
        r##"printf x > .git/worktrees/wt/gitdir"##,
    ),
    case(
        "git-worktree-rename",
        true,
        r##"mv .git/worktrees/wt .git/worktrees/w2"##,
    ),
    case(
        "git-worktree-config",
        true,
        r##"git config extensions.worktreeConfig true && git config --worktree core.fsmonitor x"##,
    ),
    case(
        "own-settings-new",
        true,
        r##"mkdir -p .lathe && echo {} > .lathe/settings.json"##,
    ),
    case(
        "own-settings-rename",
        true,
        r##"mkdir -p .lathe; mv .lathe lathe2"##,
    ),
    case(
        "own-settings-remove",
        true,
        r##"mkdir -p .lathe; rmdir .lathe && mkdir .lathe && touch .lathe/x"##,
    ),
    case(
        "other-settings-change",
        true,
        r##"echo x >> .claude/settings.json"##,
    ),
    case("other-settings-rename", true, r##"mv .claude claude2"##),
    case(
        "other-settings-link",
        true,
        r##"ln -s settings.json .claude/settings.local.json"##,
    ),
    case("other-hooks-new", true, r##"mkdir .claude/hooks"##),
    case(
        "mcp-servers-new",
        true,
        r##"echo {} > .mcp.json && test -s .mcp.json"##,
    ),
    case(
        "mcp-servers-rename",
        true,
        r##"echo {} > m && mv -f m .mcp.json && test -s .mcp.json"##,
    ),
];
