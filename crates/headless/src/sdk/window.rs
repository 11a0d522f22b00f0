//! `get_context_usage`: how full the model's window is, by part and as a grid of squares.

use super::initialize::skills;
use lathe_engine::SessionHandle;
use serde_json::{Value, json};

/// Squares in a row, and rows.
const SIDE: usize = 10;

/// The answer to `get_context_usage`.
pub(super) fn usage(session: &SessionHandle) -> Value {
    let usage = session.context().usage();
    let used = usage.used();
    let parts: Vec<Part> = usage
        .parts()
        .iter()
        .map(|part| Part::new(part.name, part.kind, part.tokens))
        .collect();
    let categories: Vec<Value> = parts
        .iter()
        .map(|part| {
            json!({
                "id": part.id, "name": part.name, "tokens": part.tokens, "color": part.color,
                "kind": part.kind,
            })
        })
        .collect();
    let files: Vec<Value> = usage
        .instruction_files
        .iter()
        .map(|(path, scope, tokens)| json!({"path": path, "type": scope, "tokens": tokens}))
        .collect();
    json!({
        "categories": categories,
        "totalTokens": used, "maxTokens": usage.window, "rawMaxTokens": usage.window,
        "percentage": share(used, usage.window).min(1.0) * 100.0, "model": usage.model,
        "isAutoCompactEnabled": usage.thresholds.auto_compact,
        "autoCompactThreshold": usage.thresholds.compact_at,
        "memoryFiles": files, "mcpTools": session.mcp().tool_sizes(),
        "agents": agent_sizes(session), "gridRows": grid(&parts, usage.window),
        "apiUsage": usage.api_usage, "skills": skill_sizes(session, usage.skills),
    })
}

/// A part of the window, in the words of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    id: &'static str,
    name: &'static str,
    color: &'static str,
    kind: &'static str,
    tokens: u64,
}

impl Part {
    fn new(name: &'static str, kind: &'static str, tokens: u64) -> Self {
        let (color, kind) = match (name, kind) {
            (_, "free") => ("white", "free"),
            (_, "reserve") => ("yellow", "buffer"),
            ("System prompt", kind) => ("gray", kind),
            ("Messages", kind) => ("purple", kind),
            ("Memory files", kind) => ("green", kind),
            (_, kind) => ("blue", kind),
        };
        let id = match name {
            "System prompt" => "system_prompt",
            "System tools" => "system_tools",
            "MCP tools" => "mcp_tools",
            "Memory files" => "memory_files",
            "Messages" => "messages",
            "Skills" => "skills",
            "Custom agents" => "custom_agents",
            "Free space" => "free_space",
            _ => "autocompact_buffer",
        };
        Self {
            id,
            name,
            color,
            kind,
            tokens,
        }
    }

    fn square(&self, window: u64, fullness: f64) -> Value {
        json!({
            "color": self.color, "isFilled": self.kind == "used", "categoryName": self.name,
            "tokens": self.tokens, "percentage": (share(self.tokens, window) * 100.0).round(),
            "squareFullness": fullness,
        })
    }
}

// Token counts are far below 2^52.
fn share(tokens: u64, window: u64) -> f64 {
    if window == 0 {
        return 0.0;
    }
    tokens as f64 / window as f64
}

/// The window as squares: what is used first, one square at least for each part, then what is free, and
/// what is kept in reserve at the end.
// A number of squares, between 0 and 100.
fn grid(parts: &[Part], window: u64) -> Vec<Vec<Value>> {
    let all = SIDE * SIDE;
    let mut squares: Vec<Value> = Vec::with_capacity(all);
    for part in parts
        .iter()
        .filter(|part| part.kind == "used" && part.tokens > 0)
    {
        let exact = share(part.tokens, window) * all as f64;
        let count = (exact.ceil() as usize).clamp(1, all);
        for index in 0..count {
            squares.push(part.square(window, (exact - index as f64).clamp(0.0, 1.0)));
        }
    }
    squares.truncate(all);
    let reserve = parts.iter().find(|part| part.kind == "buffer");
    let reserved = reserve.map_or(0, |part| {
        ((share(part.tokens, window) * all as f64).round() as usize).min(all - squares.len())
    });
    let nothing = Part::new("Free space", "free", 0);
    let free = parts
        .iter()
        .find(|part| part.kind == "free")
        .unwrap_or(&nothing);
    while squares.len() < all - reserved {
        squares.push(free.square(window, 1.0));
    }
    if let Some(reserve) = reserve {
        squares.extend((0..reserved).map(|_| reserve.square(window, 1.0)));
    }
    squares.chunks(SIDE).map(<[Value]>::to_vec).collect()
}

/// The skills with the size of their line in the request.
fn skill_sizes(session: &SessionHandle, tokens: u64) -> Value {
    let listed: Vec<Value> = skills(session)
        .iter()
        .map(|skill| {
            let text = |name: &str| skill.get(name).and_then(Value::as_str).unwrap_or_default();
            let size = lathe_model::estimate::text(text("name"))
                + lathe_model::estimate::text(text("description"));
            json!({"name": text("name"), "source": "skill", "tokens": size})
        })
        .collect();
    let all = session.extensions().skills();
    let included = all
        .iter()
        .filter(|skill| skill.model_invocable && !skill.is_conditional());
    json!({
        "totalSkills": all.len(), "includedSkills": included.count(), "tokens": tokens,
        "skillFrontmatter": listed,
    })
}

/// The agents with the size of their line in the request.
fn agent_sizes(session: &SessionHandle) -> Vec<Value> {
    session
        .extensions()
        .agents()
        .iter()
        .map(|agent| {
            let tokens = lathe_model::estimate::text(&agent.name)
                + lathe_model::estimate::text(&agent.description);
            json!({
                "agentType": agent.name, "source": agent.source.wire_name(), "tokens": tokens,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_a_hundred_squares_in_the_order_of_the_window() {
        let parts = [
            Part::new("System prompt", "used", 1_500),
            Part::new("MCP tools", "used", 0),
            Part::new("Messages", "used", 20),
            Part::new("Free space", "free", 88_480),
            Part::new("Reserve", "reserve", 10_000),
        ];
        let rows = grid(&parts, 100_000);
        assert_eq!((rows.len(), rows[0].len()), (10, 10));
        let squares: Vec<&Value> = rows.iter().flatten().collect();
        let count = |name: &str| {
            let of_name = |square: &&&Value| square["categoryName"] == name;
            squares.iter().filter(of_name).count()
        };
        assert_eq!(
            [
                "System prompt",
                "MCP tools",
                "Messages",
                "Free space",
                "Reserve"
            ]
            .map(count),
            [2, 0, 1, 87, 10]
        );
        assert_eq!(squares[1]["squareFullness"], 0.5);
        assert_eq!(squares[0]["isFilled"], true);
        assert_eq!(squares[0]["percentage"], 2.0);
        assert_eq!(squares[50]["isFilled"], false);
        assert_eq!(squares[99]["color"], "yellow");
    }

    #[test]
    fn a_window_that_is_more_than_full_is_full() {
        let parts = [
            Part::new("Messages", "used", 300_000),
            Part::new("Free space", "free", 0),
            Part::new("Reserve", "reserve", 10_000),
        ];
        let rows = grid(&parts, 100_000);
        assert_eq!(rows.iter().flatten().count(), 100);
        assert_eq!(rows[9][9]["categoryName"], "Messages");
        assert_eq!(grid(&parts, 0).iter().flatten().count(), 100);
    }
}
