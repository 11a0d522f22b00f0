//! The MCP servers of a session.

mod elicitation;

pub(crate) use elicitation::Elicitations;

/// The MCP servers of a session. A conversation inside it shares them.
#[derive(Default)]
pub(crate) struct Mcp {
    /// Questions of servers to the person.
    pub(crate) elicitations: Elicitations,
}
