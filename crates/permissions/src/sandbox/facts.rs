//! Whether commands run in the sandbox, and which.

use super::Bounds;
use crate::pattern::CommandPattern;
use lathe_sandbox::Tier;
use lathe_settings::schema::SandboxSettings;
use lathe_settings::{Environment, Resolved, Source, Variable};
use lathe_shell::analysis::Analysis;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

/// Whether commands are to run in the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// No: settings, the command line or the environment say so.
    Off,
    /// Nobody said anything: where it protects everything that it should.
    Default,
    /// Yes, and where there is none, that is worth a warning.
    On,
}

impl Wish {
    /// The setting, unless the command line (`--no-sandbox`) or the environment switch it. What managed
    /// settings switch on stays on.
    #[must_use]
    pub fn of(settings: &Resolved, switched_off: bool, environment: &Environment) -> Self {
        let switch = if switched_off {
            Some(false)
        } else {
            environment.switch(Variable::Sandbox)
        };
        let configured = settings.settings.sandbox.as_ref();
        let enabled = configured.and_then(|sandbox| sandbox.enabled);
        let managed = settings.layers.iter().any(|layer| {
            layer.source == Source::Managed
                && layer.value.pointer("/sandbox/enabled") == Some(&Value::Bool(true))
        });
        match (switch.filter(|_| !managed).or(enabled), configured) {
            (Some(true), _) => Self::On,
            (Some(false), _) => Self::Off,
            // Who can't do without it wants it.
            (None, Some(sandbox)) if sandbox.fail_if_unavailable == Some(true) => Self::On,
            (None, _) => Self::Default,
        }
    }

    /// The same for a session. Nobody sees the explanation in print mode, and hosts of the SDK and editors expect their
    /// commands to run as they sent them and to be asked about them: there it is on only if settings speak of it.
    #[must_use]
    pub fn in_session(self, settings: &Resolved, interactive: bool) -> Self {
        match self {
            Self::Default if !interactive && settings.settings.sandbox.is_none() => Self::Off,
            wish => wish,
        }
    }

    /// Whether commands run in the sandbox, for the tier that is available here.
    #[must_use]
    pub fn holds(self, tier: Tier) -> bool {
        match self {
            Self::Off => false,
            Self::Default => tier.is_strong(),
            Self::On => tier.confines(),
        }
    }
}

/// Facts about the sandbox.
#[derive(Debug, Clone, Default)]
pub struct SandboxFacts {
    /// Shell commands run in the sandbox.
    pub bash_sandboxed: bool,
    /// A sandboxed command needs no question.
    pub auto_allow: bool,
    /// The user's choice in this session; overrides settings.
    pub switched: Option<bool>,
    /// Asking to leave the sandbox has no effect.
    pub stays: bool,
    /// The lists of the settings hold for file tools: the sandbox is wanted, whether it is available or not.
    pub binds: bool,
    /// The meaning of these lists.
    pub(crate) bounds: Bounds,
    /// The settings that all this comes from.
    pub settings: Arc<SandboxSettings>,
}

impl SandboxFacts {
    /// The facts of settings, for the tier that is available here. Landlock alone doesn't protect what is obeyed in a
    /// project, so there commands pass by themselves only if settings say that this is fine.
    #[must_use]
    pub fn new(settings: &SandboxSettings, wish: Wish, tier: Tier) -> Self {
        let strong = tier != Tier::Landlock || settings.enable_weaker_nested_sandbox == Some(true);
        Self {
            bash_sandboxed: wish.holds(tier),
            auto_allow: settings.auto_allow_bash_if_sandboxed != Some(false) && strong,
            switched: None,
            stays: settings.allow_unsandboxed_commands == Some(false),
            binds: wish != Wish::Off,
            bounds: Bounds::default(),
            settings: Arc::new(settings.clone()),
        }
    }

    /// Switches the sandbox for the session; on only where there is one.
    pub fn switch(&mut self, on: bool, tier: Tier) {
        self.switched = Some(on);
        self.bash_sandboxed = on && tier.confines();
        self.binds = on;
    }

    /// Whether a command runs in the sandbox. One that settings exclude doesn't, and one that asks to leave doesn't
    /// either, if that is possible.
    #[must_use]
    pub fn holds(&self, analysis: &Analysis, unsandboxed: bool, home: &Path) -> bool {
        self.bash_sandboxed && (!unsandboxed || self.stays) && !self.excludes(analysis, home)
    }

    /// Whether settings exclude a program, whatever its arguments.
    #[must_use]
    pub fn excludes_program(&self, program: &OsStr) -> bool {
        let name = Path::new(program).file_name().and_then(OsStr::to_str);
        let mut excluded = self.settings.excluded_commands.iter();
        name.is_some_and(|name| excluded.any(|text| text.trim() == name))
    }

    /// Whether every part of a command is one that settings exclude from the sandbox.
    #[must_use]
    pub fn excludes(&self, analysis: &Analysis, home: &Path) -> bool {
        let excluded = &self.settings.excluded_commands;
        if excluded.is_empty() || analysis.understood.is_err() || analysis.parts.is_empty() {
            return false;
        }
        // A name alone means the command with any arguments.
        let patterns: Vec<CommandPattern> = excluded
            .iter()
            .flat_map(|text| {
                let text = text.trim();
                let plain = !text.contains(['*', ':']);
                let prefix = plain.then(|| format!("{text}:*"));
                [Some(text.to_owned()), prefix].into_iter().flatten()
            })
            .filter_map(|text| CommandPattern::new(&text, home).ok())
            .collect();
        analysis.parts.iter().all(|part| {
            let words: Vec<Option<&str>> = part
                .effective_argv
                .iter()
                .map(|word| word.fixed())
                .collect();
            !words.is_empty() && patterns.iter().any(|pattern| pattern.grants(&words))
        })
    }
}
