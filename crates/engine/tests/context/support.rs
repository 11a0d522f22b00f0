//! A session against a scripted model, in folders of its own.

use lathe_engine::{
    EventStream, ModelOptions, Opened, PermissionOptions, SessionChoice, SessionHandle,
    SessionOptions, SettingsOptions,
};
use lathe_protocol::event::{Event, NoticeLevel, SessionState, TurnResult};
use lathe_protocol::op::{Op, Prompt};
use lathe_protocol::permission::PermissionMode;
use lathe_scripted::{RecordedRequest, Reply, Scenario, ScriptedServer};
use lathe_settings::Environment;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The words of the request for a summary.
pub(crate) const SUMMARY_REQUEST: &str = "about to be replaced by your summary";
/// Nothing here takes that long; only a hang does.
const HANG_LIMIT: Duration = Duration::from_secs(60);

/// Whether a request asks for a summary.
pub(crate) fn wants_summary(request: &RecordedRequest) -> bool {
    request.last_user_text().contains(SUMMARY_REQUEST)
}

/// Folders and a scripted model; sessions are opened in it.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) server: ScriptedServer,
    window: u64,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) settings: Value,
    /// Whether sessions are given titles as they are for people.
    pub(crate) names_sessions: bool,
}

/// An open session.
pub(crate) struct Talk {
    pub(crate) session: SessionHandle,
    pub(crate) events: EventStream,
    pub(crate) seen: Seen,
}

/// The events of the session.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) compactions: Vec<(u64, u64)>,
    pub(crate) compacting: usize,
    pub(crate) notices: Vec<(NoticeLevel, String)>,
}

impl Place {
    pub(crate) async fn new(scenario: Scenario, window: u64) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            server: ScriptedServer::start(scenario).await.unwrap(),
            window,
            variables: Vec::new(),
            settings: json!({}),
            names_sessions: false,
        };
        for folder in ["home", "config", "project"] {
            std::fs::create_dir_all(place.root().join(folder)).unwrap();
        }
        place
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.root().join("config")
    }

    pub(crate) fn environment(&self) -> Environment {
        let root = self.root();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut variables: BTreeMap<String, String> = [
            ("HOME", text(root.join("home"))),
            ("LATHE_CONFIG_DIR", text(root.join("config"))),
            ("PATH", std::env::var("PATH").unwrap()),
            ("ANTHROPIC_BASE_URL", self.server.base_url()),
            ("ANTHROPIC_API_KEY", "k".to_owned()),
            ("LATHE_MAX_RETRIES", "0".to_owned()),
            ("IS_SANDBOX", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        if !self.names_sessions {
            variables.insert("LATHE_SESSION_TITLES".to_owned(), "0".to_owned());
        }
        variables.extend(self.variables.iter().cloned());
        Environment {
            variables,
            home: Some(root.join("home")),
            cwd: self.project(),
            ..Environment::default()
        }
    }

    pub(crate) fn options(&self) -> SessionOptions {
        let mut settings = self.settings.clone();
        settings["models"] =
            json!({"house": {"contextWindow": self.window, "maxOutputTokens": 4_000}});
        settings["prices"] = json!({"house": {"input": 1.0, "output": 2.0}});
        SessionOptions {
            model: ModelOptions {
                name: Some("house".to_owned()),
                ..ModelOptions::default()
            },
            permissions: PermissionOptions {
                mode: Some(PermissionMode::BypassPermissions),
                allow_bypass: true,
                ..PermissionOptions::default()
            },
            settings: SettingsOptions {
                flags: vec![settings.to_string()],
                ..SettingsOptions::default()
            },
            ..SessionOptions::default()
        }
    }

    pub(crate) async fn open(&self) -> Talk {
        self.open_with(self.options()).await
    }

    /// As [`Self::open`], in a folder that the user trusts.
    pub(crate) async fn open_trusted(&self) -> Talk {
        use lathe_settings::Source;
        let mut options = self.options();
        options.settings.sources = Some(vec![Source::User, Source::Project, Source::Local]);
        self.open_with(options).await
    }

    /// Continues with the newest session.
    pub(crate) async fn resume(&self) -> Talk {
        let mut options = self.options();
        options.history.session = SessionChoice::Continue;
        self.open_with(options).await
    }

    pub(crate) async fn open_with(&self, options: SessionOptions) -> Talk {
        let Opened {
            session,
            events,
            remarks,
            ..
        } = lathe_engine::open(self.environment(), options)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(remarks, Vec::new());
        Talk {
            session,
            events,
            seen: Seen::default(),
        }
    }

    /// Requests to the model that are not for a summary.
    pub(crate) fn main_requests(&self) -> Vec<RecordedRequest> {
        let mut requests = self.server.message_requests();
        requests.retain(|request| !wants_summary(request));
        requests
    }

    pub(crate) fn summary_requests(&self) -> usize {
        let requests = self.server.message_requests();
        requests
            .iter()
            .filter(|request| wants_summary(request))
            .count()
    }
}

impl Talk {
    /// Says something and waits for the result.
    pub(crate) async fn say(&mut self, text: impl Into<String>) -> Arc<TurnResult> {
        self.send(Prompt::new(text.into()));
        self.result().await
    }

    pub(crate) fn send(&self, prompt: Prompt) {
        assert!(self.session.send(Op::Prompt(prompt)));
    }

    pub(crate) async fn result(&mut self) -> Arc<TurnResult> {
        loop {
            if let Event::TurnFinished(result) = self.event().await {
                return result;
            }
        }
    }

    /// Waits for the end of a compaction that was asked for; gives whether it took place.
    pub(crate) async fn compacted(&mut self) -> bool {
        loop {
            match self.event().await {
                Event::Compacted { .. } => break,
                Event::Notice { text, .. } if text.contains("was not compacted") => return false,
                _ => {}
            }
        }
        loop {
            if let Event::StateChanged(SessionState::Idle) = self.event().await {
                return true;
            }
        }
    }

    pub(crate) async fn event(&mut self) -> Event {
        let event = tokio::time::timeout(HANG_LIMIT, self.events.next())
            .await
            .expect("the session hangs")
            .expect("the session ended");
        match &event {
            Event::Compacting => self.seen.compacting += 1,
            Event::Compacted {
                pre_tokens,
                post_tokens,
                ..
            } => self
                .seen
                .compactions
                .push((*pre_tokens, post_tokens.unwrap())),
            Event::Notice { level, text, .. } => self.seen.notices.push((*level, text.clone())),
            _ => {}
        }
        event
    }

    pub(crate) async fn finish(self) -> Seen {
        self.session.finish().await;
        self.seen
    }
}

/// A model that answers every prompt with some words and every request for a summary with one.
pub(crate) fn chatter(words: usize) -> Scenario {
    Scenario::new().responder(move |request| {
        if wants_summary(request) {
            Reply::text("<analysis>scratch</analysis><summary>1. Request and intent: everything so far.</summary>")
        } else {
            Reply::text("answer ".repeat(words))
        }
    })
}
