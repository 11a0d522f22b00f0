//! Made-up names of servers, tools, skills and agents, and rules about others.

use super::common::{World, add_rule, decide_on};
use super::{Random, variants};
use lathe_protocol::permission::{Behavior, Decision, RuleSource, Subject};

/// Cause 11: a rule for a server or a tool is about that one and no other, however alike the names look.
#[test]
fn a_rule_for_a_server_allows_no_other() {
    const SERVERS: &[&str] = &[
        "github",
        "git",
        "hub",
        "github__evil",
        "evil__github",
        "Github",
        "github_",
        "_github",
        "git-hub",
        "github2",
        "a__b",
        "mcp",
        "mcp__github",
        "",
        "*",
    ];
    const TOOLS: &[&str] = &[
        "list",
        "evil__list",
        "list__evil",
        "List",
        "list2",
        "li",
        "github",
        "*",
        "a__b",
        "_list",
        "list_",
    ];
    let world = World::new();
    let mut random = Random::new();
    for _ in 0..variants() {
        let (server, tool) = (random.one(SERVERS), random.one(TOOLS));
        let (about, of) = (
            random.one(&["github", "git", "a"]),
            random.one(&["list", "b", "li"]),
        );
        let (rule, covers) = match random.below(4) {
            0 => (format!("mcp__{about}"), server == about),
            1 => (format!("mcp__{about}__*"), server == about),
            2 => (format!("mcp__{about}__{of}"), server == about && tool == of),
            _ => (
                format!("mcp__{about}__{of}*"),
                server == about && tool.starts_with(of),
            ),
        };
        let mut context = world.context();
        add_rule(
            &mut context,
            Behavior::Allow,
            &rule,
            RuleSource::UserSettings,
        );
        let subject = Subject::Mcp {
            server: server.to_owned(),
            tool: tool.to_owned(),
            read_only: false,
        };
        let decision = decide_on(&format!("mcp__{server}__{tool}"), &subject, &context);
        let allowed = matches!(decision, Decision::Allow { .. });
        assert!(!allowed || covers, "{rule} allows {tool} of {server}");
    }
}

/// Cause 11: the same for skills and agents.
#[test]
fn a_rule_for_a_skill_or_an_agent_allows_no_other() {
    const NAMES: &[&str] = &[
        "p",
        "p:review",
        "pq",
        "pq:review",
        "p:",
        ":review",
        "P:review",
        "p:review:x",
        "p/review",
        "review",
        "*",
        "",
        "p*",
        "model:opus",
    ];
    let world = World::new();
    let mut random = Random::new();
    for _ in 0..variants() {
        let name = random.one(NAMES);
        let tool = random.one(&["Skill", "Agent"]);
        let (rule, covers) = match random.below(3) {
            0 => (format!("{tool}(p)"), name == "p"),
            1 => (format!("{tool}(p:review)"), name == "p:review"),
            _ => (
                format!("{tool}(p:*)"),
                name == "p" || name.starts_with("p:"),
            ),
        };
        let other = random.one(&["Skill", "Agent"]);
        let mut context = world.context();
        let value = lathe_permissions::parse_rule(&rule).unwrap();
        let anchors = context.anchors(RuleSource::UserSettings);
        // A rule that could be taken for one about a parameter isn't a rule.
        let Ok(made) = lathe_permissions::Rule::new(
            value,
            Behavior::Allow,
            RuleSource::UserSettings,
            &anchors,
        ) else {
            continue;
        };
        context.rules.add(made);
        let subject = Subject::Named {
            name: name.to_owned(),
            harmless: false,
        };
        let decision = decide_on(other, &subject, &context);
        let allowed = matches!(decision, Decision::Allow { .. });
        assert!(
            !allowed || (covers && other == tool),
            "{rule} allows {other}({name})"
        );
    }
}
