//! The language servers of a session: which there are, the edits that they get, and the problems that the model gets.
//!
//! [`lathe_lsp`] starts and asks them; here they are put together from settings and plugins, told of what our
//! tools change ([`Observed`]) and what commands change, and what is new since an edit goes with the next
//! request as a reminder. Without a configured server nothing of it costs anything, and the LSP tool isn't
//! offered.

use crate::conversation::undo::Undo;
use crate::conversation::{Conversation, ConversationShared, RunningTurn};
use crate::session::events::EventSink;
use lathe_extensions::plugins::LoadedPlugins;
use lathe_lsp::{
    Conversation as LspConversation, LanguageServers, Servers, Surroundings, patience,
};
use lathe_permissions::Permissions;
use lathe_process::{Command, Confine};
use lathe_protocol::diagnostic::Diagnostic;
use lathe_protocol::event::{News, NoticeLevel, Priority};
use lathe_protocol::ids::RecordId;
use lathe_settings::{Environment, Resolved, Source};
use lathe_tools::lsp::{Lsp, NAME};
use lathe_tools::lsp_edit::{LspEdit, NAME as EDIT};
use lathe_tools::{ToolContext, ToolRegistry, context::ChangeObserver};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Handle;

/// A conversation's hold on the language servers; all conversations of a session have the same servers.
#[derive(Clone)]
pub(crate) struct Language {
    pub(crate) servers: LanguageServers,
    /// The conversation that edits belong to.
    conversation: LspConversation,
    /// Whether the caller wants the tool, should there be servers.
    wanted: bool,
}

impl Language {
    /// The servers that settings and plugins name. None is started.
    pub(crate) fn new(
        settings: &Resolved,
        plugins: &LoadedPlugins,
        tools: &ToolContext,
        permissions: &Arc<Permissions>,
        events: &EventSink,
        remarks: &mut Vec<Diagnostic>,
    ) -> Self {
        let configured = configured(settings, plugins, permissions);
        remarks.extend(configured.problems.iter().cloned().map(Diagnostic::error));
        let (permissions, events) = (permissions.clone(), events.clone());
        let surroundings = Surroundings {
            environment: Environment::clone(&tools.environment),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            confine: confine(tools, &permissions),
            roots: Box::new(move || permissions.snapshot().roots.clone()),
            on_problem: Box::new(move |text| {
                events.news(
                    News::new(Priority::Medium),
                    NoticeLevel::Warning,
                    first_upper(&text),
                );
            }),
        };
        let wait = patience(settings.settings.lsp_diagnostics.as_ref());
        let servers = LanguageServers::new(configured, surroundings, wait);
        Self {
            conversation: servers.conversation(),
            servers,
            wanted: true,
        }
    }

    /// For a conversation beside this one.
    pub(crate) fn beside(&self) -> Self {
        Self {
            conversation: self.servers.conversation(),
            ..self.clone()
        }
    }

    /// Offers the tool, if there are servers. `names` are the only tools that the caller wants.
    pub(crate) fn offer(&mut self, registry: &mut ToolRegistry, names: Option<&[String]>) {
        self.wanted = names.is_none_or(|names| names.iter().any(|name| name == NAME));
        if !self.servers.is_empty() {
            registry.add(Lsp::new(self.servers.clone()));
            registry.add(LspEdit::new(self.servers.clone()));
        }
    }

    /// Has the servers told of what the tools of a conversation change.
    pub(crate) fn observe(&self, tools: &mut ToolContext, undo: Option<Arc<Undo>>) {
        tools.change_observer = Arc::new(Observed {
            undo,
            servers: self.servers.clone(),
            conversation: self.conversation,
            runtime: Handle::current(),
        });
    }
}

/// Language servers run in the sandbox where commands do, but for those whose program settings exclude from it. Without
/// one they run as before: nobody asked for more.
fn confine(tools: &ToolContext, permissions: &Arc<Permissions>) -> Confine {
    let (confine, permissions) = (tools.programs.confine.clone(), permissions.clone());
    Arc::new(move |command: Command| {
        let facts = &permissions.snapshot().sandbox;
        match &confine {
            Some(confine) if facts.bash_sandboxed && !facts.excludes_program(command.program()) => {
                confine(command)
            }
            _ => Ok(command),
        }
    })
}

/// The servers of settings and plugins. They run programs that a project names (build tools, compilers, its own
/// packages), so in a folder that no person trusted only those are used that the command line names.
fn configured(settings: &Resolved, plugins: &LoadedPlugins, permissions: &Permissions) -> Servers {
    let mut named = settings.settings.lsp_servers.clone();
    if permissions.snapshot().trusted {
        return Servers::new(&named, &plugins.lsp_servers());
    }
    let all = named.len() + plugins.lsp_servers().len();
    let on_command_line = |name: &str| {
        let flags = settings.layers.iter();
        flags
            .filter(|layer| layer.source == Source::Flag)
            .any(|layer| layer.value["lspServers"].get(name).is_some())
    };
    named.retain(|name, _| on_command_line(name));
    let mut servers = Servers::new(&named, &[]);
    if named.len() < all {
        servers.problems.push(
            "language servers are not started, because this folder is not trusted and they run programs of the project. Trust it with `lathe trust add`"
                .to_owned(),
        );
    }
    servers
}

/// Takes over what settings and plugins say now.
pub(crate) fn reconfigure(shared: &ConversationShared, settings: &Resolved) {
    let language = &shared.integrations.language;
    let configured = configured(
        settings,
        &shared.session.plugins.loaded(),
        &shared.permissions,
    );
    for problem in &configured.problems {
        shared.events.news(
            News::new(Priority::Medium),
            NoticeLevel::Warning,
            first_upper(problem),
        );
    }
    let wait = patience(settings.settings.lsp_diagnostics.as_ref());
    language.servers.set(configured, wait);
    let mut registry = shared.toolbox.registry.write();
    let there = registry.find(NAME).is_some();
    match (language.servers.is_empty(), there) {
        (false, false) if language.wanted => {
            registry.add(Lsp::new(language.servers.clone()));
            registry.add(LspEdit::new(language.servers.clone()));
        }
        (true, true) => registry.retain(|tool| ![NAME, EDIT].contains(&tool.name())),
        _ => {}
    }
}

fn first_upper(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

/// Keeps what is needed for undo, and tells language servers.
struct Observed {
    undo: Option<Arc<Undo>>,
    servers: LanguageServers,
    conversation: LspConversation,
    runtime: Handle,
}

impl ChangeObserver for Observed {
    fn before_change(
        &self,
        path: &Path,
        turn: RecordId,
    ) -> Result<(), lathe_session::SessionError> {
        if let Some(undo) = &self.undo {
            undo.before_change(path, turn)?;
        }
        self.servers.before_edit(path);
        Ok(())
    }

    fn after_change(&self, path: &Path, turn: RecordId) {
        if let Some(undo) = &self.undo {
            undo.after_change(path, turn);
        }
        self.servers
            .after_edit(path, self.conversation, &self.runtime);
    }
}

/// New problems that language servers find in changed files.
pub(crate) async fn language_news(
    conversation: &Conversation,
    turn: &RunningTurn,
) -> Option<String> {
    let language = &conversation.shared.integrations.language;
    if language.servers.is_empty() {
        return None;
    }
    let news = language
        .servers
        .news(language.conversation, &turn.cancel)
        .await;
    lathe_lsp::tell(&news, &|path| conversation.shared.tools.shown(path))
}
