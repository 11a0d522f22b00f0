//! `${NAME}` and `${NAME:-default}` in addresses, headers and parameters.

use lathe_settings::Environment;

/// A variable that has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {0} is not set")]
pub struct Unset(pub String);

/// Fills in the variables of a value. What isn't a reference stays as it is.
///
/// # Errors
/// When a variable without a default isn't set.
pub fn filled(text: &str, environment: &Environment) -> Result<String, Unset> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = from.find('}') else {
            out.push_str(from);
            return Ok(out);
        };
        let inner = &from[2..end];
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        match (environment.foreign(name), default) {
            (Some(value), _) => out.push_str(value.trim()),
            (None, Some(default)) => out.push_str(default),
            (None, None) => return Err(Unset(name.to_owned())),
        }
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}
