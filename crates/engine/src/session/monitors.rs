//! Monitors of plugins: commands that run beside the session and whose lines reach the model as notifications.
//!
//! They run where the user sits in front of the session, outside the sandbox like the hooks of the same plugin, and
//! each once: with the session, or when a skill of the plugin is first used.

use crate::agents::monitor;
use crate::conversation::ConversationShared;
use lathe_extensions::PluginContribution;
use lathe_extensions::plugin::{Monitor, MonitorStart};
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_shell::run::RunOptions;
use lathe_tools::host::MonitorOrder;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// The monitors of a session.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    /// Whether there is the user to whom they matter.
    run: bool,
    /// Those that were started, by plugin and name.
    started: Mutex<HashSet<(String, String)>>,
}

impl Monitors {
    pub(crate) fn new(interactive: bool) -> Self {
        Self {
            run: interactive,
            started: Mutex::default(),
        }
    }
}

/// Starts the monitors that run with the session, of plugins that are new since the last time.
pub(crate) fn start(shared: &Arc<ConversationShared>) {
    start_where(shared, |_, when| *when == MonitorStart::Always);
}

/// Starts the monitors that wait for a skill.
pub(crate) fn skill_used(shared: &Arc<ConversationShared>, skill: &str) {
    start_where(shared, |plugin, when| match when {
        MonitorStart::Always => false,
        MonitorStart::OnSkill(awaited) => {
            skill == awaited || skill.strip_prefix(plugin) == Some(&format!(":{awaited}"))
        }
    });
}

fn start_where(shared: &Arc<ConversationShared>, wanted: impl Fn(&str, &MonitorStart) -> bool) {
    let plugins = &shared.session.plugins;
    if !plugins.monitors.run {
        return;
    }
    for plugin in &plugins.loaded().plugins {
        let plugin = &plugin.contribution;
        let monitors = plugin.session.monitors.iter();
        for monitor in monitors.filter(|it| plugin.trusted && wanted(&plugin.name, &it.when)) {
            let key = (plugin.name.clone(), monitor.name.clone());
            if plugins.monitors.started.lock().insert(key) {
                run(shared.clone(), plugin, monitor.clone());
            }
        }
    }
}

fn run(shared: Arc<ConversationShared>, plugin: &PluginContribution, monitor: Monitor) {
    let variables = plugin.variables().into_iter();
    let options = RunOptions {
        directory: Some(shared.tools.working_folder.read().clone()),
        description: monitor.description.clone(),
        environment: variables
            .filter(|(name, _)| !name.starts_with("user_config."))
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        is_service: true,
        ..RunOptions::default()
    };
    let name = format!("{}:{}", plugin.name, monitor.name);
    lathe_spawn::task(async move {
        let shell = shared.tools.shell.clone();
        match shell.start_in_background(&monitor.command, options).await {
            Ok(task) => monitor::start(
                &shared,
                MonitorOrder {
                    task,
                    description: monitor.description,
                    pattern: None,
                },
            ),
            Err(error) => shared.events.news(
                News::new(Priority::Medium),
                NoticeLevel::Warning,
                format!("The monitor {name} was not started: {error}"),
            ),
        }
    });
}
