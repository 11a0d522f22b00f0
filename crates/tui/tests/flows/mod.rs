mod agents;
mod away;
mod basics;
mod commands;
mod dialogs;
mod editing;
mod editors;
mod extending;
mod extension;
mod failing;
mod goals;
mod looking_back;
mod loops;
mod permission;
mod phases;
mod plain;
mod plugins;
mod screen;
mod servers;
mod sessions;
mod staying;
mod terminals;
mod tour;

use lathe_scripted::{BlockingServer, Reply, Scenario};
use lathe_testkit::{Terminal, TestHome};

/// A home, its model and a terminal in which the prompt is painted.
pub(crate) struct Stage {
    pub(crate) server: BlockingServer,
    pub(crate) home: TestHome,
}

impl Stage {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let server = BlockingServer::start(scenario).unwrap();
        let home = TestHome::with_server(&server);
        Self { server, home }
    }

    pub(crate) fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::new(replies.into_iter().fold(Scenario::new(), Scenario::reply))
    }

    pub(crate) fn open(&self) -> Terminal {
        self.open_sized(80, 24)
    }

    pub(crate) fn open_sized(&self, columns: u16, rows: u16) -> Terminal {
        self.open_with(&[], columns, rows)
    }

    pub(crate) fn open_with(&self, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
        let terminal = self.home.terminal(arguments, columns, rows);
        terminal.wait_for("❯");
        terminal
    }
}

/// Rows of the screen.
pub(crate) fn rows(terminal: &Terminal) -> Vec<String> {
    terminal
        .screen()
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// The user's last words in a request, without attachments.
pub(crate) fn said(stage: &Stage, request: usize) -> String {
    let text = stage.server.message_requests()[request].last_user_text();
    let end = text.find("\n<system-reminder>").unwrap_or(text.len());
    text[..end].to_owned()
}
