//! Names in agent definitions that nothing has: a misspelled tool would silently leave its agent without
//! that tool.

use lathe_extensions::plugins::validate::replacement_of_tool;
use lathe_extensions::{AgentCatalog, AgentDefinition, ExtensionSource, Problem, SkillCatalog};
use lathe_permissions::parse_rule;
use lathe_permissions::rule::known_tools;
use lathe_settings::nearest::nearest;
use std::path::PathBuf;

/// Looks at the names in the definitions of agents.
#[must_use]
pub fn of_agents(agents: &AgentCatalog, skills: &SkillCatalog) -> Vec<Problem> {
    agents
        .iter()
        .filter(|agent| agent.source != ExtensionSource::Builtin)
        .flat_map(|agent| {
            let mut problems = Vec::new();
            let tools = agent.tools.iter().flatten();
            problems.extend(tools.filter_map(|tool| unknown_tool(agent, "tools", tool)));
            let tools = agent.disallowed_tools.iter();
            problems.extend(tools.filter_map(|tool| unknown_tool(agent, "disallowedTools", tool)));
            problems.extend(types(agent, agents));
            for name in &agent.skills {
                if skills.get(name).is_none() {
                    let names = skills.iter().map(|skill| skill.name.as_str());
                    problems.push(unknown(
                        agent,
                        "skills",
                        "skill",
                        name,
                        nearest(name, names),
                    ));
                }
            }
            problems
        })
        .collect()
}

fn unknown_tool(agent: &AgentDefinition, key: &str, text: &str) -> Option<Problem> {
    let name = match parse_rule(text) {
        Ok(rule) => rule.tool_name,
        Err(error) => {
            return Some(problem(agent, key, error.to_string()));
        }
    };
    if let Some(instead) = replacement_of_tool(&name) {
        let message = format!("no session has the tool {name}");
        return Some(problem(agent, key, message).fix(instead));
    }
    let known = name == "*" || name.starts_with("mcp__") || known_tools().any(|tool| tool == name);
    (!known).then(|| unknown(agent, key, "tool", &name, nearest(&name, known_tools())))
}

/// The types in `Agent(a, b)` that nothing has.
fn types(agent: &AgentDefinition, agents: &AgentCatalog) -> Vec<Problem> {
    let lists = agent.tools.iter().flatten().filter_map(|text| {
        let rule = parse_rule(text).ok()?;
        let is_agent = matches!(rule.tool_name.as_str(), "Agent" | "Task");
        rule.rule_content.filter(|_| is_agent)
    });
    let mut problems = Vec::new();
    for list in lists {
        for name in list
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            if name != "fork" && agents.get(name).is_none() {
                problems.push(unknown(agent, "tools", "agent", name, agents.nearest(name)));
            }
        }
    }
    problems
}

fn unknown(
    agent: &AgentDefinition,
    key: &str,
    kind: &str,
    name: &str,
    near: Option<&str>,
) -> Problem {
    let problem = problem(agent, key, format!("there is no {kind} {name} here"));
    match near {
        Some(near) => problem.fix(format!("did you mean {near}?")),
        None => problem,
    }
}

fn problem(agent: &AgentDefinition, key: &str, message: String) -> Problem {
    let file = agent
        .path
        .clone()
        .unwrap_or_else(|| PathBuf::from("--agents"));
    let key = if agent.path.is_some() {
        key.to_owned()
    } else {
        format!("{}.{key}", agent.name)
    };
    Problem::field(file, key, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_extensions::Sources;
    use serde_json::json;

    #[test]
    fn names_that_nothing_has_are_said_with_what_may_be_meant() {
        let definition = json!({"a": {
            "description": "d", "prompt": "p",
            "tools": ["Read", "Grpe", "mcp__any__tool", "Bash(git *)", "Agent(Explore, Explroe)"],
            "disallowedTools": ["Write"], "skills": ["commit", "comit"],
        }});
        let agents = AgentCatalog::load(&Sources::default(), &[definition]);
        let skills = SkillCatalog::load(&Sources::default());
        let said: Vec<String> = of_agents(&agents, &skills)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            said,
            [
                "--agents: a.tools: unknown tool `Grpe`; did you mean `Grep`?",
                "--agents: a.tools: there is no agent Explroe here (did you mean Explore?)",
                "--agents: a.skills: there is no skill comit here (did you mean commit?)",
            ]
        );
    }
}
