//! Telemetry of this process: begun by sessions whose settings ask for it, ended with the process.

use lathe_engine::ObserveOptions;

#[cfg(feature = "telemetry")]
static TELEMETRY: std::sync::LazyLock<lathe_telemetry::Telemetry> =
    std::sync::LazyLock::new(lathe_telemetry::Telemetry::default);

/// Lets telemetry see the events of a session, if its settings say so.
#[cfg(feature = "telemetry")]
pub(crate) fn options() -> ObserveOptions {
    ObserveOptions(Some(std::sync::Arc::new(|settings, environment| {
        TELEMETRY.begin(settings, environment)
    })))
}

/// Sends what is left.
#[cfg(feature = "telemetry")]
pub(crate) async fn end() {
    TELEMETRY.end().await;
}

/// Without telemetry there is nobody to tell.
#[cfg(not(feature = "telemetry"))]
pub(crate) fn options() -> ObserveOptions {
    ObserveOptions::default()
}

/// Without telemetry there is nothing to send.
#[cfg(not(feature = "telemetry"))]
pub(crate) async fn end() {}
