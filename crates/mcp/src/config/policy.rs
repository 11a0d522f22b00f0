//! The policy lists `allowedMcpServers` and `deniedMcpServers`.
//!
//! A denial is final. If there is a list of allowed servers, a server must be on it. If the list
//! names commands, local servers are matched by command; if it names addresses, remote servers are
//! matched by address, since a name alone is easily copied.

use lathe_protocol::wildcard;
use lathe_settings::schema::McpServerMatch;

/// The properties of a server that a policy checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The server's name.
    pub name: &'a str,
    /// Command and arguments of a local server.
    pub command: Option<Vec<&'a str>>,
    /// The address of a remote server.
    pub url: Option<&'a str>,
}

/// Why a server is denied; `None` if it is allowed.
#[must_use]
pub fn refusal(
    subject: &Subject<'_>,
    allowed: Option<&[McpServerMatch]>,
    denied: &[McpServerMatch],
) -> Option<String> {
    if let Some(entry) = denied.iter().find(|entry| matches(entry, subject)) {
        return Some(format!(
            "deniedMcpServers denies it by {}",
            described(entry)
        ));
    }
    let allowed = allowed?;
    let of_kind: Vec<&McpServerMatch> = allowed
        .iter()
        .filter(|entry| {
            (subject.command.is_some() && entry.server_command.is_some())
                || (subject.url.is_some() && entry.server_url.is_some())
        })
        .collect();
    let passes = if of_kind.is_empty() {
        allowed
            .iter()
            .any(|entry| entry.server_name.as_deref() == Some(subject.name))
    } else {
        of_kind.iter().any(|entry| matches(entry, subject))
    };
    (!passes).then(|| {
        "it is not in allowedMcpServers; your administrator can add it by name, command or address".to_owned()
    })
}

/// True if an entry matches a server by any of its properties.
fn matches(entry: &McpServerMatch, subject: &Subject<'_>) -> bool {
    let by_name = entry.server_name.as_deref() == Some(subject.name);
    let by_command = match (&entry.server_command, &subject.command) {
        (Some(wanted), Some(command)) => wanted
            .iter()
            .map(String::as_str)
            .eq(command.iter().copied()),
        _ => false,
    };
    let by_url = match (&entry.server_url, subject.url) {
        (Some(pattern), Some(url)) => wildcard::matches(pattern, url),
        _ => false,
    };
    by_name || by_command || by_url
}

fn described(entry: &McpServerMatch) -> String {
    if let Some(name) = &entry.server_name {
        format!("the name {name}")
    } else if let Some(command) = &entry.server_command {
        format!("the command {}", command.join(" "))
    } else {
        format!("the address {}", entry.server_url.as_deref().unwrap_or("?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_name(name: &str) -> McpServerMatch {
        McpServerMatch {
            server_name: Some(name.to_owned()),
            ..McpServerMatch::default()
        }
    }

    fn by_command(words: &[&str]) -> McpServerMatch {
        McpServerMatch {
            server_command: Some(words.iter().map(|&word| word.to_owned()).collect()),
            ..McpServerMatch::default()
        }
    }

    fn by_url(url: &str) -> McpServerMatch {
        McpServerMatch {
            server_url: Some(url.to_owned()),
            ..McpServerMatch::default()
        }
    }

    fn local<'a>(name: &'a str, command: &[&'a str]) -> Subject<'a> {
        Subject {
            name,
            command: Some(command.to_vec()),
            url: None,
        }
    }

    fn remote<'a>(name: &'a str, url: &'a str) -> Subject<'a> {
        Subject {
            name,
            command: None,
            url: Some(url),
        }
    }

    #[test]
    fn without_lists_everything_passes_and_a_denial_is_final() {
        let server = local("a", &["npx", "x"]);
        assert_eq!(refusal(&server, None, &[]), None);
        for entry in [by_name("a"), by_command(&["npx", "x"])] {
            assert!(refusal(&server, Some(&[by_name("a")]), &[entry]).is_some());
        }
        assert_eq!(refusal(&server, None, &[by_command(&["npx"])]), None);
        let far = remote("b", "https://mcp.example.org/x");
        assert!(refusal(&far, None, &[by_url("https://*.example.org/*")]).is_some());
    }

    #[test]
    fn a_list_of_what_is_allowed_is_the_whole_list() {
        let empty: &[McpServerMatch] = &[];
        assert!(refusal(&local("a", &["x"]), Some(empty), &[]).is_some());
        assert_eq!(
            refusal(&local("a", &["x"]), Some(&[by_name("a")]), &[]),
            None
        );
        // A copied name doesn't help where commands are listed.
        let list = [by_name("a"), by_command(&["good"])];
        assert!(refusal(&local("a", &["bad"]), Some(&list), &[]).is_some());
        assert_eq!(refusal(&local("z", &["good"]), Some(&list), &[]), None);
        assert_eq!(refusal(&remote("a", "https://h"), Some(&list), &[]), None);
        let list = [by_url("https://h/*")];
        assert_eq!(refusal(&remote("r", "https://h/x"), Some(&list), &[]), None);
        assert!(refusal(&remote("r", "https://h.evil/x"), Some(&list), &[]).is_some());
    }
}
