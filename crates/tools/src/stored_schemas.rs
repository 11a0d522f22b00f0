//! The schemas of this crate's input types, made beforehand.
//!
//! Making them from the types takes a tenth of a start. A type that is not stored (a caller's own tool) gets its schema
//! made. The test below compares each stored schema with its type; `UPDATE_SCHEMAS=1` writes them anew.

use std::sync::LazyLock;

/// A line each: the type's name, a tab, its schema.
const STORED: &str = include_str!("stored_schemas.txt");

/// The lines, taken apart once: a start asks for nearly all of them.
static LINES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let lines = STORED.lines();
    lines.filter_map(|line| line.split_once('\t')).collect()
});

/// The stored schema of a type, as JSON.
pub(crate) fn find(type_name: &str) -> Option<&'static str> {
    let (_, schema) = LINES.iter().find(|(name, _)| *name == type_name)?;
    Some(schema)
}

#[cfg(test)]
mod tests {
    use crate::input::made_schema;
    use crate::tool::Tool;
    use std::any::type_name;
    use std::fs::{read_dir, read_to_string, write};
    use std::path::Path;

    fn line<T: Tool>() -> String {
        let schema = made_schema::<T::Input>();
        format!("{}\t{schema}\n", type_name::<T::Input>())
    }

    fn lines() -> Vec<String> {
        vec![
            line::<crate::agent::Agent>(),
            line::<crate::ask_user_question::AskUserQuestion>(),
            line::<crate::bash::Bash>(),
            line::<crate::bash_input::BashInput>(),
            line::<crate::config::Config>(),
            line::<crate::cron::CronCreate>(),
            line::<crate::cron::CronDelete>(),
            line::<crate::cron::CronList>(),
            line::<crate::edit::Edit>(),
            line::<crate::glob::Glob>(),
            line::<crate::grep::Grep>(),
            line::<crate::list_agents::ListAgents>(),
            line::<crate::lsp::Lsp>(),
            line::<crate::lsp_edit::LspEdit>(),
            line::<crate::mcp_resources::ListMcpResources>(),
            line::<crate::mcp_resources::ReadMcpResource>(),
            line::<crate::monitor::Monitor>(),
            line::<crate::multi_edit::MultiEdit>(),
            line::<crate::notebook_edit::NotebookEdit>(),
            line::<crate::plan_mode::EnterPlanMode>(),
            line::<crate::plan_mode::ExitPlanMode>(),
            line::<crate::read::Read>(),
            line::<crate::report_findings::ReportFindings>(),
            line::<crate::send_message::SendMessage>(),
            line::<crate::task_list::TaskCreate>(),
            line::<crate::task_list::TaskGet>(),
            line::<crate::task_list::TaskList>(),
            line::<crate::task_list::TaskUpdate>(),
            line::<crate::task_output::TaskOutput>(),
            line::<crate::task_stop::TaskStop>(),
            line::<crate::team_create::TeamCreate>(),
            line::<crate::team_delete::TeamDelete>(),
            line::<crate::todo_write::TodoWrite>(),
            line::<crate::wakeup::ScheduleWakeup>(),
            line::<crate::web_fetch::WebFetch>(),
            line::<crate::web_search::WebSearch>(),
            line::<crate::workflow::Workflow>(),
            line::<crate::worktree::EnterWorktree>(),
            line::<crate::worktree::ExitWorktree>(),
            line::<crate::write::Write>(),
        ]
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "tests stand outside of the program"
    )]
    fn stored_schemas_are_those_of_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let path = folder.join("stored_schemas.txt");
        let made = lines().concat();
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            write(&path, &made).unwrap();
        }
        let stored = read_to_string(&path).unwrap();
        let differing = stored.lines().zip(made.lines()).find(|(a, b)| a != b);
        assert!(
            stored == made,
            "stored_schemas.txt is out of date; run the tests of lathe-tools with UPDATE_SCHEMAS=1: {differing:?}"
        );
    }

    #[test]
    fn every_tool_of_this_crate_is_stored() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut tools = 0;
        for entry in read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let text = read_to_string(&path).unwrap();
                let starts = |line: &&str| line.starts_with("impl Tool for ");
                tools += text.lines().filter(starts).count();
            }
        }
        assert_eq!(lines().len(), tools, "add new tools to `lines`");
    }
}
