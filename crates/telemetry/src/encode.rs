//! OTLP/JSON, as the protocol defines it: 64-bit integers are text, ids are hexadecimal.

use crate::record::{Attributes, Log, SeriesKey, Span, Value};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Cumulative, in the numbering of the protocol.
const CUMULATIVE: u8 = 2;
/// An informational log record.
const INFO: u8 = 9;
/// A span inside of one program.
const INTERNAL: u8 = 1;
const STATUS_OK: u8 = 1;
const STATUS_ERROR: u8 = 2;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(key: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({"stringValue": text}),
        Value::Int(number) => json!({"intValue": number.to_string()}),
        Value::Bool(flag) => json!({"boolValue": flag}),
    };
    json!({"key": key, "value": value})
}

fn attributes(list: &Attributes) -> Vec<Json> {
    list.iter()
        .map(|(key, value)| attribute(key, value))
        .collect()
}

fn resource(list: &[(String, String)]) -> Json {
    let list = list
        .iter()
        .map(|(key, value)| attribute(key, &Value::Text(value.clone())));
    json!({"attributes": list.collect::<Vec<Json>>()})
}

fn scope() -> Json {
    json!({"name": "lathe", "version": env!("CARGO_PKG_VERSION")})
}

/// The unit of a sum.
fn unit(name: &str) -> &'static str {
    match name {
        "lathe.cost.usage" => "USD",
        "lathe.token.usage" => "tokens",
        "lathe.active_time.total" => "s",
        _ => "1",
    }
}

pub(crate) fn metrics(
    of: &[(String, String)],
    sums: &BTreeMap<SeriesKey, f64>,
    started: u64,
    now: u64,
) -> Json {
    let mut by_name: BTreeMap<&str, Vec<Json>> = BTreeMap::new();
    for ((name, labels), value) in sums {
        let labels: Attributes = labels
            .iter()
            .map(|(key, value)| (*key, Value::Text(value.clone())))
            .collect();
        by_name.entry(name).or_default().push(json!({
            "attributes": attributes(&labels),
            "startTimeUnixNano": started.to_string(),
            "timeUnixNano": now.to_string(),
            "asDouble": value,
        }));
    }
    let all: Vec<Json> = by_name
        .into_iter()
        .map(|(name, points)| {
            json!({"name": name, "unit": unit(name), "sum": {
                "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points,
            }})
        })
        .collect();
    json!({"resourceMetrics": [{"resource": resource(of), "scopeMetrics": [{"scope": scope(), "metrics": all}]}]})
}

pub(crate) fn logs(of: &[(String, String)], records: &[Log]) -> Json {
    let all: Vec<Json> = records
        .iter()
        .map(|log| {
            let mut list = attributes(&log.attributes);
            list.push(attribute("event.name", &Value::Text(log.name.to_owned())));
            let mut record = json!({
                "timeUnixNano": log.at.to_string(),
                "observedTimeUnixNano": log.at.to_string(),
                "severityNumber": INFO,
                "severityText": "INFO",
                "body": {"stringValue": format!("lathe.{}", log.name)},
                "eventName": format!("lathe.{}", log.name),
                "attributes": list,
            });
            if let Some((trace, span)) = &log.trace {
                record["traceId"] = Json::from(hex(trace));
                record["spanId"] = Json::from(hex(span));
            }
            record
        })
        .collect();
    json!({"resourceLogs": [{"resource": resource(of), "scopeLogs": [{"scope": scope(), "logRecords": all}]}]})
}

pub(crate) fn traces(of: &[(String, String)], spans: &[Span]) -> Json {
    let all: Vec<Json> = spans
        .iter()
        .map(|span| {
            let code = if span.failed { STATUS_ERROR } else { STATUS_OK };
            json!({
                "traceId": hex(&span.trace),
                "spanId": hex(&span.id),
                "parentSpanId": span.parent.as_ref().map_or_else(String::new, |id| hex(id)),
                "name": span.name,
                "kind": INTERNAL,
                "startTimeUnixNano": span.began.to_string(),
                "endTimeUnixNano": span.ended.to_string(),
                "attributes": attributes(&span.attributes),
                "status": {"code": code},
            })
        })
        .collect();
    json!({"resourceSpans": [{"resource": resource(of), "scopeSpans": [{"scope": scope(), "spans": all}]}]})
}

/// The text format of Prometheus.
pub(crate) fn prometheus(sums: &BTreeMap<SeriesKey, f64>) -> String {
    let mut text = String::new();
    let mut last = "";
    for ((name, labels), value) in sums {
        let plain = format!(
            "{}_total",
            name.replace('.', "_").trim_end_matches("_total")
        );
        if *name != last {
            let _ = writeln!(text, "# TYPE {plain} counter");
            last = name;
        }
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| {
                let value = value
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"")
                    .replace('\n', "\\n");
                format!("{key}=\"{value}\"")
            })
            .collect();
        let braces = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(text, "{plain}{braces} {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_one_type_line_for_each_metric() {
        let mut sums = BTreeMap::new();
        sums.insert(("lathe.session.count", vec![]), 1.0);
        for (kind, value) in [("added", 3.0), ("re\"moved", 2.5)] {
            let key = ("lathe.lines_of_code.count", vec![("type", kind.to_owned())]);
            sums.insert(key, value);
        }
        assert_eq!(
            prometheus(&sums),
            "# TYPE lathe_lines_of_code_count_total counter\n\
             lathe_lines_of_code_count_total{type=\"added\"} 3\n\
             lathe_lines_of_code_count_total{type=\"re\\\"moved\"} 2.5\n\
             # TYPE lathe_session_count_total counter\n\
             lathe_session_count_total 1\n"
        );
    }
}
