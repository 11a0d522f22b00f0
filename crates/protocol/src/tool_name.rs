//! The names of tools of MCP servers: `mcp__server__tool`.

/// A server's or tool's name as the names of tools contain it (`mcp__google_calendar__…`): an underscore
/// for every character that the API doesn't accept.
#[must_use]
pub fn in_tool_names(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => letter,
            _ => '_',
        })
        .collect()
}

/// The name of a server in rules and lists of tools: it means all tools of the server.
#[must_use]
pub fn server_name(server: &str) -> String {
    format!("mcp__{}", in_tool_names(server))
}

/// The prefix of the names of a server's tools.
#[must_use]
pub fn prefix(server: &str) -> String {
    format!("{}__", server_name(server))
}

/// The name under which the model calls a server's tool.
#[must_use]
pub fn tool_name(server: &str, tool: &str) -> String {
    format!("{}{}", prefix(server), in_tool_names(tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_the_api_does_not_accept_become_underscores() {
        assert_eq!(in_tool_names("google calendar"), "google_calendar");
        assert_eq!(server_name("my.server"), "mcp__my_server");
        assert_eq!(tool_name("my server", "ask.me"), "mcp__my_server__ask_me");
    }
}
