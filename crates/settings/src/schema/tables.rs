//! Keys with special rules.

/// Top-level keys under another name that files of this ecosystem use; read as the key beside it.
pub const ALIASES: &[(&str, &str)] = &[
    ("effortLevel", "effort"),
    ("autoCompactEnabled", "autoCompact"),
    ("autoMemoryEnabled", "autoMemory"),
    ("alwaysThinkingEnabled", "thinking"),
    ("claudeMdExcludes", "instructionExcludes"),
    ("smallFastModel", "smallModel"),
    ("promptSuggestionEnabled", "promptSuggestions"),
    ("awaySummaryEnabled", "awaySummary"),
    ("preferredNotifChannel", "notifications"),
    ("promptCacheTtl", "promptCache"),
    ("additionalMarketplaces", "extraKnownMarketplaces"),
    ("allowedMarketplaces", "strictKnownMarketplaces"),
];

/// Keys whose lists are not united over the sources: the highest source's list applies as it is. They
/// are either ordered choices or restrictions, which a lower source must not widen.
pub const REPLACED_LISTS: &[&str] = &[
    "fallbackModel",
    "availableModels",
    "allowedMcpServers",
    "strictKnownMarketplaces",
    "allowedHttpHookUrls",
    "httpHookAllowedEnvVars",
];

/// Keys that restrict. When one of them has to be ignored, that is said louder.
pub const RESTRICTING: &[&str] = &[
    "permissions.deny",
    "permissions.ask",
    "permissions.disableBypassPermissionsMode",
    "permissions.disableAutoMode",
    "permissions.blockReadsOutsideWorkingDirectories",
    "permissions.blockWritesOutsideWorkingDirectories",
    "permissions.denyInsteadOfPrompting",
    "disableAutoMode",
    "autoMode.softDeny",
    "autoMode.soft_deny",
    "autoMode.hardDeny",
    "autoMode.hard_deny",
    "autoMode.classifyAllShell",
    "hooks",
    "sandbox",
    "allowManagedHooksOnly",
    "allowManagedPermissionRulesOnly",
    "availableModels",
    "allowedMcpServers",
    "deniedMcpServers",
    "disabledMcpjsonServers",
    "strictKnownMarketplaces",
    "blockedMarketplaces",
    "allowedHttpHookUrls",
    "httpHookAllowedEnvVars",
];

/// Keys of managed policy: anywhere else they are ignored, with a warning.
pub const MANAGED_ONLY: &[&str] = &[
    "allowManagedHooksOnly",
    "allowManagedPermissionRulesOnly",
    "sandbox.network.allowManagedDomainsOnly",
    "strictKnownMarketplaces",
    "blockedMarketplaces",
    "companyAnnouncements",
];

/// The key that decides whether `~/.claude` is read.
pub const READ_CLAUDE_HOME: &str = "readClaudeHome";

/// Keys of the user: in the files of a folder they are ignored, with a warning. With them, a folder could
/// take away what the user's own files deny.
pub const PERSONAL: &[&str] = &[
    READ_CLAUDE_HOME,
    "permissions.denyInsteadOfPrompting",
    "autoUpdates",
    "autoUpdatesChannel",
    "releaseUrl",
    "telemetry",
    "fleet",
];

/// Keys that apply as soon as one source sets them to true.
pub const ANY_TRUE: &[&str] = &[
    "permissions.blockReadsOutsideWorkingDirectories",
    "permissions.blockWritesOutsideWorkingDirectories",
    "permissions.denyInsteadOfPrompting",
    "autoMode.classifyAllShell",
];

/// Other names for keys inside of objects; read as the key beside it.
pub const INNER_ALIASES: &[(&str, &str)] = &[
    ("autoMode.soft_deny", "autoMode.softDeny"),
    ("autoMode.hard_deny", "autoMode.hardDeny"),
    ("disableAutoMode", "permissions.disableAutoMode"),
    ("otelHeadersHelper", "telemetry.headersHelper"),
    ("autoConnectIde", "ide.autoConnect"),
];

/// Keys that `null` doesn't take away: a denial of any source is final.
pub const FINAL: &[&str] = &[
    "permissions",
    "permissions.deny",
    "permissions.disableBypassPermissionsMode",
    "permissions.disableAutoMode",
    "deniedMcpServers",
    "disabledMcpjsonServers",
    "blockedMarketplaces",
];

/// Words that files of this ecosystem use for a value, at a key, and the word that we use.
pub const WORDS: &[(&str, &str, &str)] = &[
    ("permissions.defaultMode", "manual", "default"),
    ("permissions.defaultMode", "delegate", "default"),
    ("preferredNotifChannel", "terminal_bell", "bell"),
    ("preferredNotifChannel", "iterm2", "desktop"),
    ("preferredNotifChannel", "iterm2_with_bell", "desktop"),
    ("preferredNotifChannel", "kitty", "desktop"),
    ("preferredNotifChannel", "ghostty", "desktop"),
    ("preferredNotifChannel", "notifications_disabled", "off"),
];
