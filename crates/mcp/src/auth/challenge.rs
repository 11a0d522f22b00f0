//! The `WWW-Authenticate` header of a server.

/// The relevant parameters of a bearer challenge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Challenge {
    /// The address of the server's metadata (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The required scopes.
    pub scope: Option<String>,
    /// `invalid_token`, `insufficient_scope`, …
    pub error: Option<String>,
}

impl Challenge {
    /// Parses a header. Unknown parts are ignored.
    #[must_use]
    pub fn parse(header: &str) -> Self {
        let mut challenge = Self::default();
        let mut rest = header;
        while let Some(equals) = rest.find('=') {
            let name = rest[..equals]
                .rsplit([' ', ',', '\t'])
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase();
            let (value, after) = value(&rest[equals + 1..]);
            rest = after;
            let field = match name.as_str() {
                "resource_metadata" => &mut challenge.resource_metadata,
                "scope" => &mut challenge.scope,
                "error" => &mut challenge.error,
                _ => continue,
            };
            if !value.is_empty() {
                field.get_or_insert(value);
            }
        }
        challenge
    }

    /// The required scopes as a list.
    #[must_use]
    pub fn scopes(&self) -> Vec<String> {
        let scope = self.scope.as_deref().unwrap_or_default();
        scope.split_whitespace().map(str::to_owned).collect()
    }
}

/// A quoted string or a token, and the rest.
fn value(text: &str) -> (String, &str) {
    let text = text.trim_start();
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text
            .find(|character: char| character == ',' || character.is_whitespace())
            .unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut out = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (out, &quoted[at + 1..]),
            '\\' => out.extend(characters.next().map(|(_, escaped)| escaped)),
            other => out.push(other),
        }
    }
    (out, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_in_any_order_quoted_or_not() {
        let challenge = Challenge::parse(
            r#"Bearer realm="a=b, scope=\"no\"", error=insufficient_scope, scope="files:read files:write", resource_metadata="https://x/.well-known/y""#,
        );
        assert_eq!(challenge.error.as_deref(), Some("insufficient_scope"));
        assert_eq!(challenge.scopes(), ["files:read", "files:write"]);
        assert_eq!(
            challenge.resource_metadata.as_deref(),
            Some("https://x/.well-known/y")
        );
        assert_eq!(Challenge::parse(""), Challenge::default());
        assert_eq!(
            Challenge::parse("Bearer scope=\"unended"),
            Challenge {
                scope: Some("unended".to_owned()),
                ..Challenge::default()
            }
        );
    }
}
