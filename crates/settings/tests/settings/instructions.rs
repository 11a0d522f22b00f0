//! Instruction files: which are loaded, in which order, and why.

use crate::{Machine, git};
use lathe_settings::instructions::{InstructionOptions, Instructions, LARGEST_FILE, Reason, Scope};
use pretty_assertions::assert_eq;
use std::path::Path;

fn texts(instructions: &Instructions) -> Vec<String> {
    instructions
        .files()
        .iter()
        .map(|file| file.text.trim().to_owned())
        .collect()
}

fn discover(machine: &Machine, cwd: &str) -> Instructions {
    Instructions::discover(&machine.places_at(cwd), InstructionOptions::default())
}

#[test]
fn files_speak_from_the_company_over_the_person_down_to_the_folder() {
    let machine = Machine::new();
    machine.write("etc/lathe/CLAUDE.md", "managed");
    machine.write("home/.lathe/AGENTS.md", "user");
    machine.write("AGENTS.md", "top");
    machine.write("home/project/AGENTS.md", "project agents");
    machine.write("home/project/CLAUDE.md", "project claude");
    machine.write("home/project/.claude/CLAUDE.md", "project dot claude");
    machine.write("home/project/.lathe/AGENTS.md", "project dot lathe");
    machine.write("home/project/CLAUDE.local.md", "project local");
    machine.write("home/project/a/AGENTS.md", "inner");
    machine.write("home/project/a/b/AGENTS.md", "below");
    let instructions = discover(&machine, "home/project/a");
    assert_eq!(
        texts(&instructions),
        [
            "managed",
            "user",
            "top",
            "project agents",
            "project claude",
            "project dot claude",
            "project dot lathe",
            "project local",
            "inner"
        ]
    );
    let scopes: Vec<Scope> = instructions.files().iter().map(|file| file.scope).collect();
    assert_eq!(scopes[0], Scope::Managed);
    assert_eq!(scopes[1], Scope::User);
    assert_eq!(scopes[7], Scope::Local);
    assert!(
        instructions
            .files()
            .iter()
            .all(|file| file.reason == Reason::Start)
    );
}

#[test]
fn the_same_content_counts_once_even_behind_a_link() {
    let machine = Machine::new();
    machine.write("home/project/AGENTS.md", "rules\n");
    machine.write("home/project/CLAUDE.md", "rules");
    let instructions = discover(&machine, "home/project");
    assert_eq!(texts(&instructions), ["rules"]);
    let skipped: Vec<String> = instructions
        .skipped()
        .map(|skipped| skipped.why.clone())
        .collect();
    assert!(
        skipped[0].contains("is a duplicate of") && skipped[0].ends_with("AGENTS.md"),
        "{skipped:?}"
    );

    std::fs::remove_file(machine.path("home/project/CLAUDE.md")).unwrap();
    std::os::unix::fs::symlink("AGENTS.md", machine.path("home/project/CLAUDE.md")).unwrap();
    assert_eq!(texts(&discover(&machine, "home/project")), ["rules"]);
}

#[test]
fn imports_follow_their_file_and_say_who_imported_them() {
    let machine = Machine::new();
    machine.write(
        "home/project/CLAUDE.md",
        "See @docs/style.md and `@docs/not.md`, write to me@example.com.",
    );
    let style = machine.write("home/project/docs/style.md", "style, and @more.md");
    machine.write("home/project/docs/more.md", "more");
    machine.write("home/project/docs/not.md", "not");
    let instructions = discover(&machine, "home/project");
    let loaded: Vec<&str> = instructions
        .files()
        .iter()
        .map(|file| file.path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(loaded, ["CLAUDE.md", "style.md", "more.md"]);
    assert_eq!(instructions.files()[2].reason, Reason::Import { by: style });
}

#[test]
fn a_circle_ends_and_depth_is_bounded() {
    let machine = Machine::new();
    machine.write("home/project/CLAUDE.md", "a @b.md");
    machine.write("home/project/b.md", "b @CLAUDE.md @b.md @1.md");
    for number in 1..9 {
        machine.write(
            &format!("home/project/{number}.md"),
            &format!("{number} @{}.md", number + 1),
        );
    }
    let instructions = discover(&machine, "home/project");
    // CLAUDE.md imports b.md (1), which imports 1.md (2), … 4.md is the fifth level.
    let loaded: Vec<&str> = instructions
        .files()
        .iter()
        .map(|file| &file.text[..1])
        .collect();
    assert_eq!(loaded, ["a", "b", "1", "2", "3", "4"]);
    let skipped: Vec<_> = instructions.skipped().collect();
    assert_eq!(skipped.len(), 1);
    assert!(skipped[0].path.ends_with("5.md") && skipped[0].why.contains("more than 5 levels"));
}

#[test]
fn a_folder_imports_from_outside_only_after_approval_and_a_person_always() {
    let machine = Machine::new();
    machine.write("outside.md", "from outside");
    machine.write("home/notes.md", "the person's notes");
    machine.write("home/.lathe/CLAUDE.md", "mine: @~/notes.md");
    machine.write(
        "home/project/CLAUDE.md",
        "project: @../../outside.md @link.md",
    );
    std::os::unix::fs::symlink("../../outside.md", machine.path("home/project/link.md")).unwrap();
    let instructions = discover(&machine, "home/project");
    assert_eq!(texts(&instructions).len(), 3, "{:?}", texts(&instructions));
    assert!(texts(&instructions).contains(&"the person's notes".to_owned()));
    let waiting: Vec<_> = instructions
        .skipped()
        .filter(|skipped| skipped.needs_approval)
        .collect();
    assert_eq!(waiting.len(), 2, "the path and the link that leads there");
    let mut asked = discover(&machine, "home/project");
    let new = asked.approve_outside_imports();
    assert_eq!(new.len(), 1, "the path and the link are one file");
    assert_eq!(new[0].text, "from outside");
    assert!(!asked.skipped().any(|skipped| skipped.needs_approval));
    let options = InstructionOptions {
        outside_imports: true,
        ..InstructionOptions::default()
    };
    let approved = Instructions::discover(&machine.places(), options);
    assert!(texts(&approved).contains(&"from outside".to_owned()));
}

#[test]
fn files_of_a_sub_folder_load_when_something_there_is_touched() {
    let machine = Machine::new();
    machine.write("home/project/AGENTS.md", "top");
    machine.write("home/project/web/AGENTS.md", "web");
    machine.write("home/project/web/ui/CLAUDE.md", "ui");
    machine.write("home/elsewhere/AGENTS.md", "elsewhere");
    let mut instructions = discover(&machine, "home/project");
    assert_eq!(texts(&instructions), ["top"]);
    let touched = machine.path("home/project/web/ui/button.ts");
    let new = instructions.on_touch(&touched);
    let new_texts: Vec<&str> = new.iter().map(|file| file.text.as_str()).collect();
    assert_eq!(new_texts, ["web", "ui"]);
    assert_eq!(new[0].reason, Reason::Folder { touched });
    assert_eq!(
        instructions.on_touch(Path::new("web/other.ts")),
        [],
        "once is enough"
    );
    assert_eq!(
        instructions.on_touch(&machine.path("home/elsewhere/x.rs")),
        [],
        "outside the roots"
    );
    assert_eq!(
        instructions.on_touch(Path::new("web/../../elsewhere/x.rs")),
        [],
        "outside by a detour"
    );
    assert_eq!(texts(&instructions), ["top", "web", "ui"]);
}

#[test]
fn an_added_root_brings_its_instructions_when_it_is_used() {
    let machine = Machine::new();
    machine.write("library/AGENTS.md", "library");
    let options = InstructionOptions {
        roots: vec![machine.path("library")],
        ..InstructionOptions::default()
    };
    let mut instructions = Instructions::discover(&machine.places(), options);
    assert_eq!(texts(&instructions), Vec::<String>::new());
    assert_eq!(
        instructions.on_touch(&machine.path("library/src/x.rs"))[0].text,
        "library"
    );
}

#[test]
fn rules_hold_always_or_for_the_paths_that_they_name() {
    let machine = Machine::new();
    machine.write("home/project/.lathe/rules/always.md", "always");
    machine.write(
        "home/project/.claude/rules/web/ts.md",
        "---\npaths:\n  - \"src/**/*.{ts,tsx}\"\n---\ntypescript",
    );
    machine.write(
        "home/project/.lathe/rules/sql.md",
        "---\npaths: '*.sql'\n---\nsql",
    );
    machine.write(
        "home/project/.lathe/rules/top.md",
        "---\npaths: '/*.ini'\n---\ntop",
    );
    machine.write(
        "home/project/.lathe/rules/odd.md",
        "---\npaths: 'src/[x'\n---\nodd",
    );
    let mut instructions = discover(&machine, "home/project");
    assert_eq!(texts(&instructions), ["always"]);
    assert!(
        instructions
            .skipped()
            .any(|skipped| skipped.why.contains("bad path pattern"))
    );
    assert_eq!(instructions.on_touch(Path::new("src/deep/x.rs")), []);
    let new = instructions.on_touch(Path::new("src/deep/x.tsx"));
    assert_eq!(new.len(), 1);
    assert_eq!(new[0].text, "typescript");
    assert!(
        new[0].reason.text().contains("src/**/*.{ts,tsx}"),
        "{}",
        new[0].reason.text()
    );
    assert_eq!(
        instructions.on_touch(Path::new("a/c.ini")),
        [],
        "a pattern that begins with a slash is for the top"
    );
    assert_eq!(instructions.on_touch(Path::new("c.ini")).len(), 1);
    // As in .gitignore, one without a slash is for every folder.
    assert_eq!(instructions.on_touch(Path::new("a/b.sql")).len(), 1);
}

#[test]
fn a_long_file_is_cut_at_a_line_and_says_so() {
    let machine = Machine::new();
    let line = "a line of instructions that goes on\n";
    machine.write("home/project/AGENTS.md", &line.repeat(5_000));
    let instructions = discover(&machine, "home/project");
    let file = &instructions.files()[0];
    assert!(file.text.len() <= LARGEST_FILE && file.text.ends_with("on\n"));
    assert_eq!(file.cut, file.bytes - file.text.len() as u64);
    let notice = file.text_with_notice();
    assert!(
        notice.ends_with("AGENTS.md for the rest.]"),
        "{}",
        &notice[notice.len() - 200..]
    );
}

#[test]
fn what_changes_later_is_noticed_and_taken_over() {
    let machine = Machine::new();
    let file = machine.write("home/project/AGENTS.md", "before");
    machine.write("home/project/CLAUDE.md", "stays");
    let mut instructions = discover(&machine, "home/project");
    assert_eq!(instructions.changed(), []);
    std::fs::write(&file, "after!").unwrap();
    let changed = instructions.changed();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].now.as_ref().unwrap().text, "after!");
    assert_eq!(texts(&instructions), ["after!", "stays"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(instructions.changed()[0].now, None);
    assert_eq!(texts(&instructions), ["stays"]);
}

#[test]
fn excluded_files_binary_files_pipes_and_empty_files_are_left_alone() {
    let machine = Machine::new();
    machine.write("AGENTS.md", "excluded");
    machine.write("home/project/AGENTS.md", "  \n");
    std::fs::write(machine.path("home/project/CLAUDE.md"), b"\x00\x01\x02").unwrap();
    let pipe = machine.path("home/project/CLAUDE.local.md");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let options = InstructionOptions {
        excludes: vec![machine.path("AGENTS.md").display().to_string()],
        ..InstructionOptions::default()
    };
    let instructions = Instructions::discover(&machine.places(), options);
    assert_eq!(texts(&instructions), Vec::<String>::new());
    assert!(
        instructions
            .skipped()
            .any(|skipped| skipped.why == "is not a text")
    );
}

#[test]
fn without_the_project_source_only_the_persons_files_count() {
    let machine = Machine::new();
    machine.write("home/.lathe/CLAUDE.md", "mine");
    machine.write(
        "home/.lathe/rules/rust.md",
        "---\npaths: [\"**/*.rs\"]\n---\nmy rule",
    );
    machine.write("home/project/CLAUDE.md", "theirs");
    machine.write("home/project/.claude/rules/all.md", "their rule");
    machine.write("home/project/CLAUDE.local.md", "mine for here");
    let without = |without_local| InstructionOptions {
        without_project: true,
        without_local,
        ..InstructionOptions::default()
    };
    let instructions = Instructions::discover(&machine.places(), without(false));
    assert_eq!(texts(&instructions), ["mine", "mine for here"]);
    let mut instructions = Instructions::discover(&machine.places(), without(true));
    assert_eq!(texts(&instructions), ["mine"]);
    assert_eq!(instructions.on_touch(Path::new("x.txt")), []);
    let touched = instructions.on_touch(Path::new("x.rs"));
    assert_eq!(touched.len(), 1, "{touched:?}");
    assert!(touched[0].text.contains("my rule"), "{touched:?}");
    // What was left out is not news later either.
    assert_eq!(instructions.changed(), []);
}

#[test]
fn a_file_above_the_folder_may_import_from_its_own_repository() {
    let machine = Machine::new();
    git(&machine.path("home/project"), &["init", "-q"]);
    machine.write("home/project/CLAUDE.md", "root @docs/guide.md");
    machine.write("home/project/docs/guide.md", "guide");
    std::fs::create_dir_all(machine.path("home/project/app/src")).unwrap();
    assert_eq!(
        texts(&discover(&machine, "home/project/app/src")),
        ["root @docs/guide.md", "guide"]
    );
}

#[test]
fn files_and_imports_that_appear_later_are_found() {
    let machine = Machine::new();
    machine.write("home/project/AGENTS.md", "one");
    machine.write("home/project/CLAUDE.md", "one");
    let mut instructions = discover(&machine, "home/project");
    assert_eq!(texts(&instructions), ["one"]);
    machine.write("home/project/CLAUDE.local.md", "mine");
    machine.write("home/project/more.md", "more");
    machine.write("home/project/AGENTS.md", "two, see @more.md");
    let now: Vec<String> = instructions
        .changed()
        .into_iter()
        .map(|change| change.now.unwrap().text)
        .collect();
    // What AGENTS.md said before is now said by CLAUDE.md alone.
    assert_eq!(now, ["two, see @more.md", "more", "one", "mine"]);
    assert_eq!(instructions.changed(), []);
}

#[test]
fn a_root_that_is_added_while_running_brings_its_files() {
    let machine = Machine::new();
    machine.write("library/AGENTS.md", "library");
    let mut instructions = discover(&machine, "home/project");
    let file = machine.path("library/src/x.rs");
    assert_eq!(instructions.on_touch(&file), []);
    instructions.add_root(machine.path("library"));
    assert_eq!(instructions.on_touch(&file).len(), 1);
}
