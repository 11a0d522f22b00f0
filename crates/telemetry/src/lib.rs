//! Telemetry: metrics, events and traces of sessions, sent to the user's own OpenTelemetry collector. Off unless it
//! is switched on; nothing is sent anywhere else.
//!
//! A session's events reach [`Telemetry`] through an observer, a function that the engine calls and never waits for.
//! `record` turns them into numbers, log records and spans; it is a pure state machine that is given the time.
//! `encode` writes them as OTLP/JSON, and `export` sends them from a task of its own. What waits to be sent is
//! bounded, and the end of a session waits at most two seconds for it.
//!
//! No attribute holds code, paths or prompts, unless `OTEL_LOG_USER_PROMPTS=1` asks for prompts.
#![forbid(unsafe_code)]

mod config;
mod encode;
mod export;
mod record;

pub use config::Config;

use export::Exporter;
use lathe_protocol::event::Event;
use lathe_settings::{Environment, Settings, Variable};
use parking_lot::Mutex;
use record::Recorder;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of a session waits for the last export.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Sees the events of a session.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// The telemetry of a process. One exporter serves all of its sessions.
#[derive(Default)]
pub struct Telemetry {
    running: Mutex<Option<Running>>,
}

struct Running {
    recorder: Arc<Mutex<Recorder>>,
    exporter: Exporter,
}

impl Telemetry {
    /// Begins to observe a session; `None` where telemetry is off, which costs two look-ups. Child processes find the
    /// trace in the environment.
    ///
    /// # Panics
    /// Outside of a runtime, where it is switched on.
    pub fn begin(&self, settings: &Settings, environment: &mut Environment) -> Option<Observer> {
        let config = Config::of(settings, environment)?;
        let mut running = self.running.lock();
        let running = running.get_or_insert_with(|| {
            let recorder = Arc::new(Mutex::new(Recorder::new(&config)));
            let exporter = Exporter::start(config, environment, recorder.clone());
            Running { recorder, exporter }
        });
        let parent = environment.get(Variable::TraceParent).map(str::to_owned);
        let trace = running.recorder.lock().begin_session(parent.as_deref());
        let name = Variable::TraceParent.name().to_owned();
        environment.variables.insert(name, trace);
        let (recorder, wake) = (running.recorder.clone(), running.exporter.waker());
        Some(Arc::new(move |event| {
            if recorder.lock().observe(event, std::time::SystemTime::now()) {
                wake.notify_one();
            }
        }))
    }

    /// Sends what is left, for at most two seconds.
    pub async fn end(&self) {
        let Some(running) = self.running.lock().take() else {
            return;
        };
        running.recorder.lock().end(std::time::SystemTime::now());
        let sent = tokio::time::timeout(END_LIMIT, running.exporter.finish()).await;
        if sent.is_err() {
            tracing::debug!("the collector did not take the last telemetry in time");
        }
    }
}
