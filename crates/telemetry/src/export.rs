//! Sending, from a task of its own. What can't be sent is dropped: a dead collector costs nothing.

use crate::config::{Config, Signal};
use crate::encode;
use crate::record::{Log, Recorder, SeriesKey, Span};
use lathe_net::{ClientOptions, Network, Reach, Redirects};
use lathe_process::{Command, Ending};
use lathe_settings::Environment;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// How long the helper for headers may take.
const HELPER_LIMIT: Duration = Duration::from_secs(30);
/// How much of a request to the metrics page is read.
const LONGEST_REQUEST: usize = 4096;

/// Sums by series.
type Sums = BTreeMap<SeriesKey, f64>;

/// The task that sends.
pub(crate) struct Exporter {
    wake: Arc<Notify>,
    finish: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
    page: Option<tokio::task::JoinHandle<()>>,
}

impl Exporter {
    pub(crate) fn start(
        config: Config,
        environment: &Environment,
        recorder: Arc<Mutex<Recorder>>,
    ) -> Self {
        let wake = Arc::new(Notify::new());
        let (finish, finished) = oneshot::channel();
        let page = config
            .metrics
            .prometheus
            .then(|| lathe_spawn::task(serve(config.prometheus_port, recorder.clone())));
        let work = Work {
            network: Network::of(environment),
            headers: None,
            config,
            recorder,
        };
        let task = lathe_spawn::task(work.run(wake.clone(), finished));
        Self {
            wake,
            finish,
            task,
            page,
        }
    }

    pub(crate) fn waker(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    /// Sends what is left and ends.
    pub(crate) async fn finish(self) {
        let _ = self.finish.send(());
        let _ = self.task.await;
        if let Some(page) = self.page {
            page.abort();
        }
    }
}

struct Work {
    config: Config,
    network: Network,
    /// With those of the helper, once it was asked.
    headers: Option<Vec<(String, String)>>,
    recorder: Arc<Mutex<Recorder>>,
}

impl Work {
    async fn run(mut self, wake: Arc<Notify>, mut finished: oneshot::Receiver<()>) {
        let mut next_metrics = Instant::now() + self.config.metrics_interval;
        loop {
            let events = tokio::time::sleep(self.config.events_interval);
            let last = tokio::select! {
                () = events => false,
                () = wake.notified() => false,
                _ = &mut finished => true,
            };
            let due = last || Instant::now() >= next_metrics;
            if due {
                next_metrics = Instant::now() + self.config.metrics_interval;
            }
            self.send_all(due).await;
            if last {
                return;
            }
        }
    }

    async fn send_all(&mut self, with_metrics: bool) {
        let (logs, spans, sums, started) = self.take(with_metrics);
        let of = &self.config.resource;
        let mut documents: Vec<(Signal, Value)> = Vec::new();
        if let Some(sums) = sums {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            documents.push((Signal::Metrics, encode::metrics(of, &sums, started, now)));
        }
        if !logs.is_empty() {
            documents.push((Signal::Logs, encode::logs(of, &logs)));
        }
        if !spans.is_empty() {
            documents.push((Signal::Traces, encode::traces(of, &spans)));
        }
        for (signal, document) in documents {
            if self.config.route(signal).console {
                let _ = writeln!(std::io::stderr(), "{document}");
            }
            if let Some(address) = self.config.route(signal).otlp.clone() {
                self.post(&address, &document).await;
            }
        }
    }

    /// Takes what waits. Metrics are sums since the start, so they stay.
    fn take(&self, with_metrics: bool) -> (Vec<Log>, Vec<Span>, Option<Sums>, u64) {
        let mut recorder = self.recorder.lock();
        let dropped = std::mem::take(&mut recorder.dropped);
        if dropped > 0 {
            tracing::debug!(dropped, "telemetry that did not fit the queue");
        }
        let sums = with_metrics.then(|| recorder.sums.clone());
        (
            std::mem::take(&mut recorder.logs),
            std::mem::take(&mut recorder.spans),
            sums,
            recorder.started,
        )
    }

    async fn post(&mut self, address: &str, document: &Value) {
        if let Err(why) = self.try_post(address, document).await {
            tracing::debug!(address, why, "telemetry was not sent");
        }
    }

    async fn try_post(&mut self, address: &str, document: &Value) -> Result<(), &'static str> {
        let url: url::Url = address.parse().map_err(|_| "the address is not one")?;
        let options = ClientOptions {
            redirects: Redirects::None,
            reach: Reach::by_host(&url),
            user_agent: Some("lathe"),
            timeout: Some(self.config.timeout),
            ..ClientOptions::default()
        };
        let client = self
            .network
            .shared_client(&options)
            .map_err(|_| "no client can be made")?;
        let mut request = client.post(url).json(document);
        for (name, value) in self.headers().await {
            request = request.header(name, value);
        }
        let response = request
            .send()
            .await
            .map_err(|_| "the collector can't be reached")?;
        response
            .error_for_status()
            .map_err(|_| "the collector refused it")?;
        Ok(())
    }

    /// The headers of settings and variables, and those that the helper prints as a JSON object.
    async fn headers(&mut self) -> Vec<(String, String)> {
        if let Some(known) = &self.headers {
            return known.clone();
        }
        let mut headers = self.config.headers.clone();
        if let Some(helper) = self.config.headers_helper.clone() {
            let run = lathe_spawn::blocking(move || {
                lathe_process::run_blocking(Command::shell(helper, None), Vec::new(), HELPER_LIMIT)
            });
            if let Ok(Ok(output)) = run.await
                && output.ending == Ending::Exited(0)
                && let Ok(Value::Object(found)) = serde_json::from_str(&output.stdout)
            {
                let found = found.into_iter();
                headers.extend(
                    found.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))),
                );
            } else {
                tracing::debug!("telemetry.headersHelper printed no JSON object");
            }
        }
        self.headers = Some(headers.clone());
        headers
    }
}

/// The page that Prometheus reads, on this machine only.
async fn serve(port: u16, recorder: Arc<Mutex<Recorder>>) {
    let listener = match tokio::net::TcpListener::bind(("127.0.0.1", port)).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::debug!(%error, port, "metrics can't be offered to Prometheus");
            return;
        }
    };
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = vec![0; LONGEST_REQUEST];
        let read = stream.read(&mut request).await.unwrap_or(0);
        let known = request[..read].starts_with(b"GET /metrics");
        let (status, body) = if known {
            ("200 OK", encode::prometheus(&recorder.lock().sums))
        } else {
            ("404 Not Found", String::new())
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}
