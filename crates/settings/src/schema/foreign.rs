//! Keys that files of this ecosystem have and that mean nothing here, with the reason.
//!
//! They are no mistakes, so nothing is guessed about them. A key that restricts is reported as a restriction
//! without effect: its author relies on it.

/// A key that has no effect here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignKey {
    /// The key, with dots.
    pub key: &'static str,
    /// Why it has no effect.
    pub why: &'static str,
    /// Whether it restricts something.
    pub restricts: bool,
}

/// The entry of a key.
#[must_use]
pub fn foreign_key(key: &str) -> Option<ForeignKey> {
    let groups = FOREIGN.iter().map(|group| (group, false));
    let groups = groups.chain(RESTRICTIONS.iter().map(|group| (group, true)));
    for ((why, keys), restricts) in groups {
        if let Some(key) = keys.iter().find(|known| **known == key) {
            return Some(ForeignKey {
                key,
                why,
                restricts,
            });
        }
    }
    None
}

/// Every key of this kind, for the documentation.
pub fn foreign_keys() -> impl Iterator<Item = ForeignKey> {
    FOREIGN
        .iter()
        .map(|group| (group, false))
        .chain(RESTRICTIONS.iter().map(|group| (group, true)))
        .flat_map(|((why, keys), restricts)| {
            keys.iter().map(move |key| ForeignKey {
                key,
                why,
                restricts,
            })
        })
}

type Group = (&'static str, &'static [&'static str]);

const FOREIGN: &[Group] = &[
    (
        "Lathe has one way to draw the terminal",
        &[
            "tui",
            "viewMode",
            "defaultView",
            "autoScrollEnabled",
            "wheelScrollAccelerationEnabled",
            "syntaxHighlightingDisabled",
            "maxProseWidth",
            "spellcheck",
            "showTurnDuration",
            "showMessageTimestamps",
            "terminalTitleFromRename",
            "todoFeatureEnabled",
            "emojiCompletionEnabled",
            "timeFormat",
            "timeZone",
            "footerLinksRegexes",
            "prUrlTemplate",
            "subagentStatusLine",
            "keybindingFlavor",
            "bashEditDiffEnabled",
        ],
    ),
    (
        "the spinner has no configurable verbs or tips",
        &["spinnerVerbs", "spinnerTipsOverride"],
    ),
    (
        "push messages are set up with `lathe devices notify`",
        &["agentPushNotifEnabled", "inputNeededNotifEnabled"],
    ),
    (
        "Lathe has no cloud sessions; `lathe serve` lets you reach a session from elsewhere",
        &[
            "remoteControlAtStartup",
            "disableRemoteControl",
            "remote",
            "isolatePeerMachines",
            "crossSessionInbound",
            "autoUploadSessions",
            "daemonColdStart",
            "attribution.sessionUrl",
            "attributionProject",
            "attributionProjectPolicy",
            "syncClaudeAiSkills",
            "syncClaudeAiPlugins",
            "disableClaudeAiConnectors",
            "allowAllClaudeAiMcps",
            "allowClaudeInChromeWithManagedMcp",
            "desktopSessionCleanupPeriodDays",
            "disableDeepLinkRegistration",
            "sshConfigs",
            "sshHostCommands",
            "disableAgentView",
            "disableReplyCheck",
            "channelsEnabled",
            "allowedChannelPlugins",
        ],
    ),
    (
        "Lathe has no such prompt",
        &[
            "skipAutoPermissionPrompt",
            "skipDangerousModePermissionPrompt",
            "showClearContextOnPlanAccept",
            "askUserQuestionTimeout",
            "dialogExpiry",
            "feedbackSurveyRate",
            "feedbackDrafts",
            "pluginTrustMessage",
            "pluginSuggestionMarketplaces",
            "hasCompletedOnboarding",
        ],
    ),
    ("an update never goes back by itself", &["minimumVersion"]),
    ("Lathe doesn't listen", &["voice", "voiceEnabled"]),
    ("agents run in this process", &["worktree.bgIsolation"]),
    (
        "there is no such feature",
        &[
            "fastMode",
            "fastModePerSessionOptIn",
            "advisorModel",
            "ultracode",
            "enableWorkflows",
            "workflowSizeGuideline",
            "workflowKeywordTriggerEnabled",
            "enableArtifact",
            "disableArtifact",
            "autoDreamEnabled",
            "precomputeCompactionEnabled",
            "idleCompaction",
            "switchModelsOnFlag",
            "autoContinueAtUsageLimit",
            "useAutoModeDuringPlan",
            "respondToBashCommands",
            "wslInheritsWindowsSettings",
            "disableWindowsBashCommandSplit",
            "skipWebFetchPreflight",
            "modelPicker",
            "modelPricing.multiplier",
            "subagentPromptCacheTtl",
            "modelSettings",
            "skillListingMaxDescChars",
            "skillListingBudgetFraction",
            "bashOutputMaxChars",
            "taskOutputMaxChars",
            "autoMemoryDirectory",
            "defaultShell",
            "prependPlugins",
            "appendPlugins",
            "disableBundledSkills",
            "claudeMd",
        ],
    ),
    (
        "keys come from the environment or from apiKeyHelper",
        &[
            "forceLoginMethod",
            "forceLoginGatewayUrl",
            "forceLoginOrgUUID",
            "gatewayInternalNetworks",
            "gcpAuthRefresh",
            "proxyAuthHelper",
        ],
    ),
    (
        "managed settings come from /etc/lathe and from the parent process",
        &[
            "policyHelper",
            "parentSettingsBehavior",
            "managedSourcesBehavior",
            "forceRemoteSettingsRefresh",
            "managedMcpServers",
        ],
    ),
    ("use LATHE_SHELL_PREFIX", &["processWrapper"]),
];

const RESTRICTIONS: &[Group] = &[
    (
        "use availableModels",
        &[
            "enforceAvailableModels",
            "deniedModels",
            "availableModelsMatch",
        ],
    ),
    ("use the deny rule Workflow", &["disableWorkflows"]),
    ("there is no limit of effort", &["maxEffortLevel"]),
    ("use allowedMcpServers", &["allowManagedMcpServersOnly"]),
    (
        "use strictKnownMarketplaces",
        &[
            "strictPluginOnlyCustomization",
            "disableCommandPluginSources",
            "disableSideloadFlags",
        ],
    ),
    ("there is no such switch", &["disableSkillShellExecution"]),
    ("use providers", &["allowedProviders"]),
    (
        "Lathe has its own version numbers",
        &["requiredMinimumVersion", "requiredMaximumVersion"],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_setting_that_has_an_effect_is_said_to_have_none() {
        let schema = crate::schema::json_schema();
        for foreign in foreign_keys() {
            let declared = &schema["properties"][foreign.key];
            assert!(declared.is_null(), "{} is a setting", foreign.key);
        }
    }
}
