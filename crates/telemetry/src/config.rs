//! The standard variables of OpenTelemetry, and `telemetry` in settings.

use lathe_settings::{Environment, Settings, Variable};
use std::time::Duration;

/// A signal of OpenTelemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Metrics,
    Logs,
    Traces,
}

impl Signal {
    /// The end of its address.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Metrics => "v1/metrics",
            Self::Logs => "v1/logs",
            Self::Traces => "v1/traces",
        }
    }

    fn exporter_variable(self) -> Variable {
        match self {
            Self::Metrics => Variable::OtelMetricsExporter,
            Self::Logs => Variable::OtelLogsExporter,
            Self::Traces => Variable::OtelTracesExporter,
        }
    }

    fn endpoint_variable(self) -> Variable {
        match self {
            Self::Metrics => Variable::OtelMetricsEndpoint,
            Self::Logs => Variable::OtelLogsEndpoint,
            Self::Traces => Variable::OtelTracesEndpoint,
        }
    }
}

/// Where a signal goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Route {
    /// The address of the collector.
    pub(crate) otlp: Option<String>,
    /// Whether it is printed to standard error.
    pub(crate) console: bool,
    /// Whether it is offered to Prometheus; metrics only.
    pub(crate) prometheus: bool,
}

/// The configuration of telemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub(crate) metrics: Route,
    pub(crate) logs: Route,
    pub(crate) traces: Route,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) headers_helper: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) metrics_interval: Duration,
    pub(crate) events_interval: Duration,
    pub(crate) prometheus_port: u16,
    /// Attributes of everything.
    pub(crate) resource: Vec<(String, String)>,
    /// Whether events hold the text of prompts.
    pub(crate) with_prompts: bool,
}

impl Config {
    /// The configuration, if telemetry is switched on.
    #[must_use]
    pub fn of(settings: &Settings, environment: &Environment) -> Option<Self> {
        let written = settings.telemetry.as_ref();
        let on = environment
            .switch(Variable::EnableTelemetry)
            .or(written.and_then(|telemetry| telemetry.enabled))
            .unwrap_or(false);
        if !on || environment.is_on(Variable::OtelDisabled) {
            return None;
        }
        let base = environment
            .get(Variable::OtelEndpoint)
            .or(written.and_then(|telemetry| telemetry.endpoint.as_deref()))
            .unwrap_or("http://localhost:4318");
        let route = |signal: Signal| route(signal, base, environment);
        let mut headers: Vec<(String, String)> = written
            .map(|telemetry| telemetry.headers.clone().into_iter().collect())
            .unwrap_or_default();
        headers.extend(pairs(environment.get(Variable::OtelHeaders)));
        let milliseconds = |variable, default| {
            Duration::from_millis(environment.number(variable).unwrap_or(default))
        };
        let mut resource = vec![
            ("service.name".to_owned(), "lathe".to_owned()),
            (
                "service.version".to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            ),
            ("os.type".to_owned(), std::env::consts::OS.to_owned()),
            ("host.arch".to_owned(), std::env::consts::ARCH.to_owned()),
        ];
        let named = environment.get(Variable::OtelServiceName);
        let named = named.map(|name| ("service.name".to_owned(), name.to_owned()));
        for (key, value) in pairs(environment.get(Variable::OtelResourceAttributes))
            .into_iter()
            .chain(named)
        {
            resource.retain(|(known, _)| *known != key);
            resource.push((key, value));
        }
        let port = environment.number(Variable::OtelPrometheusPort);
        Some(Self {
            metrics: route(Signal::Metrics),
            logs: route(Signal::Logs),
            traces: route(Signal::Traces),
            headers,
            headers_helper: written.and_then(|telemetry| telemetry.headers_helper.clone()),
            timeout: milliseconds(Variable::OtelTimeout, 10_000),
            metrics_interval: milliseconds(Variable::OtelMetricInterval, 60_000),
            events_interval: milliseconds(Variable::OtelLogsInterval, 5_000),
            prometheus_port: port
                .and_then(|port| u16::try_from(port).ok())
                .unwrap_or(9464),
            resource,
            with_prompts: environment.is_on(Variable::OtelLogUserPrompts),
        })
    }

    pub(crate) fn route(&self, signal: Signal) -> &Route {
        match signal {
            Signal::Metrics => &self.metrics,
            Signal::Logs => &self.logs,
            Signal::Traces => &self.traces,
        }
    }
}

fn route(signal: Signal, base: &str, environment: &Environment) -> Route {
    let words = environment
        .get(signal.exporter_variable())
        .unwrap_or("otlp");
    let mut route = Route::default();
    for word in words.split(',').map(str::trim) {
        match word {
            "otlp" => {
                let own = environment
                    .get(signal.endpoint_variable())
                    .map(str::to_owned);
                let usual = || format!("{}/{}", base.trim_end_matches('/'), signal.path());
                route.otlp = Some(own.unwrap_or_else(usual));
            }
            "console" => route.console = true,
            "prometheus" => route.prometheus = signal == Signal::Metrics,
            // `none`, and what is not known.
            _ => {}
        }
    }
    route
}

/// `a=1,b=2`, with values in percent-encoding.
fn pairs(text: Option<&str>) -> Vec<(String, String)> {
    text.unwrap_or_default()
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.trim().to_owned(), decoded(value.trim())))
        .filter(|(key, _)| !key.is_empty())
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_settings::schema::TelemetrySettings;

    fn config(variables: &[(&str, &str)], settings: &Settings) -> Option<Config> {
        Config::of(
            settings,
            &Environment::of_variables(variables.iter().copied()),
        )
    }

    #[test]
    fn telemetry_is_off_unless_it_is_switched_on() {
        let off = Settings::default();
        assert_eq!(config(&[], &off), None);
        assert_eq!(
            config(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x")], &off),
            None
        );
        let on = Settings {
            telemetry: Some(TelemetrySettings {
                enabled: Some(true),
                ..TelemetrySettings::default()
            }),
            ..Settings::default()
        };
        assert!(config(&[], &on).is_some());
        assert_eq!(config(&[("LATHE_ENABLE_TELEMETRY", "0")], &on), None);
        assert!(config(&[("CLAUDE_CODE_ENABLE_TELEMETRY", "1")], &off).is_some());
        let disabled = [
            ("LATHE_ENABLE_TELEMETRY", "1"),
            ("OTEL_SDK_DISABLED", "true"),
        ];
        assert_eq!(config(&disabled, &off), None);
    }

    #[test]
    fn signals_have_their_own_exporters_and_addresses() {
        let found = config(
            &[
                ("LATHE_ENABLE_TELEMETRY", "1"),
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/"),
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x"),
                ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m/y"),
                ("OTEL_METRICS_EXPORTER", "otlp,prometheus"),
                ("OTEL_LOGS_EXPORTER", "none"),
                (
                    "OTEL_EXPORTER_OTLP_HEADERS",
                    "authorization=Bearer%20x, b = 2 ,bad",
                ),
                ("OTEL_RESOURCE_ATTRIBUTES", "team=core,service.name=a"),
                ("OTEL_SERVICE_NAME", "mine"),
            ],
            &Settings::default(),
        )
        .unwrap();
        assert_eq!(found.metrics.otlp.as_deref(), Some("http://m/y"));
        assert!(found.metrics.prometheus);
        assert_eq!(found.logs, Route::default());
        assert_eq!(found.traces.otlp.as_deref(), Some("http://t/x"));
        let header = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(
            found.headers,
            [header("authorization", "Bearer x"), header("b", "2")]
        );
        assert!(found.resource.contains(&header("service.name", "mine")));
        assert!(found.resource.contains(&header("team", "core")));
    }

    #[test]
    fn exporters_and_times_come_from_the_environment() {
        let on = ("LATHE_ENABLE_TELEMETRY", "1");
        let to = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        let usual = config(&[on, to], &Settings::default()).unwrap();
        assert!(usual.traces.otlp.is_some());
        let found = config(
            &[
                on,
                to,
                ("OTEL_TRACES_EXPORTER", "none"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "70"),
                ("OTEL_METRIC_EXPORT_INTERVAL", "80"),
                ("OTEL_LOGS_EXPORT_INTERVAL", "90"),
            ],
            &Settings::default(),
        )
        .unwrap();
        assert_eq!(found.traces, Route::default());
        assert_eq!(found.timeout, Duration::from_millis(70));
        assert_eq!(found.metrics_interval, Duration::from_millis(80));
        assert_eq!(found.events_interval, Duration::from_millis(90));
    }
}
