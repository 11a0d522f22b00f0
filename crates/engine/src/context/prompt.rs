//! The system prompt: what never changes first, then what varies from session to session. Both parts
//! are serialised once; the first ends in a cache marker, so every session of a user shares it.

use bytes::Bytes;
use lathe_model::CacheMarkers;
use lathe_settings::instructions::{InstructionFile, Instructions, Reason};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The parts that never change, in order.
const FIXED: [&str; 4] = [
    include_str!("../../prompts/identity.md"),
    include_str!("../../prompts/work.md"),
    include_str!("../../prompts/tools.md"),
    include_str!("../../prompts/safety.md"),
];

/// Where the part of a host's own system prompt ends that never changes.
const BOUNDARY: &str = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__";

/// Which of them is about writing code.
const WORK: usize = 1;

/// The line of that part about the task list, up to the name of its tool.
const TASK_LIST: &str = "- For work of three or more steps keep the task list current with ";

/// The part of a conversation that directs workers.
const COORDINATOR: &str = crate::conversation::coordinator::PROMPT;

/// The line about the folder that workers share.
fn scratch_line(folder: &Path) -> String {
    format!(
        "- Scratch folder that all workers share, to read and write without questions, removed at the end: {}",
        folder.display()
    )
}

/// The parts of the system prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptParts {
    /// Replaces the part of the prompt that never changes; empty means none at all.
    pub replacement: Option<String>,
    /// Added at the end.
    pub appended: Option<String>,
    /// Where the session works.
    pub surroundings: Surroundings,
    /// The instruction files, already put together.
    pub instructions: String,
    /// The part about kept memory; may be empty.
    pub memory: String,
    /// The language to answer in, if set.
    pub language: Option<String>,
    /// The text at the end of commits and pull requests; may be empty.
    pub attribution: String,
    /// The text of the output style; empty for the default one.
    pub style: String,
    /// Whether the output style takes the place of what is said about writing code.
    pub style_alone: bool,
    /// Whether the varying part is in the conversation instead, so that many people share the prompt.
    pub varying_apart: bool,
    /// A host's instructions for planning; part of the reminder of plan mode, not of the system prompt.
    pub planning: Option<String>,
    /// Whether the window is small: a short text stands for our own.
    pub lean: bool,
    /// The tool that keeps the task list, as the prompt names it; `None` when there is none.
    pub task_tool: Option<&'static str>,
    /// The scratch folder of a conversation that directs workers; `None` for all others.
    pub coordinator: Option<PathBuf>,
    /// Whether, and for how long, the provider keeps it.
    pub cache: CacheMarkers,
}

/// Where the session works. Computed once per session: it must not change the prompt's bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Surroundings {
    /// The working folder.
    pub cwd: PathBuf,
    /// Further roots.
    pub other_roots: Vec<PathBuf>,
    /// The git branch; `None` outside a repository.
    pub git_branch: Option<String>,
    /// `linux`, `macos`.
    pub platform: String,
    /// The shell that commands run in.
    pub shell: String,
    /// The folder that the workers of a coordinator share.
    pub scratch: Option<PathBuf>,
    /// Today, as `2026-01-31`.
    pub date: String,
    /// The model's id.
    pub model: String,
}

impl PromptParts {
    /// The text blocks, in order, as `(text, ends a cached part)`.
    #[must_use]
    pub fn blocks(&self) -> Vec<(String, bool)> {
        let mut blocks = Vec::new();
        match &self.replacement {
            Some(text) if text.trim().is_empty() => {}
            // A host may say where the part ends that never changes.
            Some(text) => match text.split_once(BOUNDARY) {
                Some((fixed, varying)) => {
                    let parts = [(fixed, true), (varying, false)];
                    blocks.extend(
                        parts
                            .map(|(part, marked)| (part.trim().to_owned(), marked))
                            .into_iter()
                            .filter(|(part, _)| !part.is_empty()),
                    );
                }
                None => blocks.push((text.clone(), false)),
            },
            None if self.lean => {
                blocks.push((super::lean::PROMPT.trim_end().to_owned(), true));
                if !self.varying_apart {
                    blocks.push((self.varying(), false));
                }
            }
            None => {
                blocks.push((self.fixed(), true));
                if !self.varying_apart {
                    blocks.push((self.varying(), false));
                }
            }
        }
        if let Some(scratch) = &self.coordinator {
            let own = self.replacement.is_some() || self.lean;
            let text = if own { COORDINATOR.trim_end() } else { "" };
            let line = scratch_line(scratch);
            blocks.push((format!("{text}\n{line}").trim().to_owned(), false));
        }
        if let Some(text) = &self.appended
            && !text.trim().is_empty()
        {
            blocks.push((text.clone(), false));
        }
        if let Some(last) = blocks.last_mut() {
            last.1 = true;
        }
        blocks
    }

    /// Our own text, which never changes. A coordinator has its own instead of those about work and its tools.
    fn fixed(&self) -> String {
        if self.coordinator.is_some() {
            let parts = [FIXED[0], COORDINATOR, FIXED[3]];
            return parts.map(str::trim_end).join("\n\n");
        }
        let fixed: Vec<String> = FIXED
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != WORK || !self.style_alone)
            .map(|(index, part)| match self.task_tool {
                Some(tool) if index == WORK => {
                    format!("{}\n{TASK_LIST}{tool}.", part.trim_end())
                }
                _ => part.trim_end().to_owned(),
            })
            .collect();
        fixed.join("\n\n")
    }

    /// The varying part, if it belongs into the conversation.
    #[must_use]
    pub fn told_apart(&self) -> Option<String> {
        self.varying_apart.then(|| self.varying())
    }

    /// The part that varies from session to session.
    pub(crate) fn varying(&self) -> String {
        let at = &self.surroundings;
        let mut text = format!("Surroundings:\n- Working folder: {}\n", at.cwd.display());
        for root in &at.other_roots {
            text.push_str(&format!(
                "- Additional working folders: {}\n",
                root.display()
            ));
        }
        if let Some(scratch) = &at.scratch {
            text.push_str(&format!("{}\n", scratch_line(scratch)));
        }
        match &at.git_branch {
            Some(branch) => text.push_str(&format!("- Git repository, branch {branch}\n")),
            None => text.push_str("- Not a git repository\n"),
        }
        text.push_str(&format!(
            "- Platform: {}, shell: {}\n- Today: {}\n- Model: {}",
            at.platform, at.shell, at.date, at.model
        ));
        if !self.style.is_empty() {
            text.push_str("\n\nOutput style of this session:\n");
            text.push_str(self.style.trim());
        }
        if let Some(language) = &self.language {
            text.push_str(&format!("\n\nAnswer in {language}."));
        }
        if !self.attribution.is_empty() {
            text.push_str("\n\n");
            text.push_str(&self.attribution);
        }
        if !self.memory.is_empty() {
            text.push_str("\n\n");
            text.push_str(self.memory.trim_end());
        }
        if !self.instructions.trim().is_empty() {
            text.push_str(
                "\n\nInstructions of this user and project. They override your defaults; the user's messages in the conversation override them.\n\n",
            );
            text.push_str(self.instructions.trim());
        }
        text
    }

    /// The `system` field of a request.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let blocks: Vec<Value> = self
            .blocks()
            .into_iter()
            .map(|(text, marked)| {
                let mut block = json!({"type": "text", "text": text});
                let marker = match self.cache {
                    CacheMarkers::OneHour => json!({"type": "ephemeral", "ttl": "1h"}),
                    CacheMarkers::FiveMinutes => json!({"type": "ephemeral"}),
                    CacheMarkers::None => return block,
                };
                if marked && let Some(object) = block.as_object_mut() {
                    object.insert("cache_control".into(), marker);
                }
                block
            })
            .collect();
        if blocks.is_empty() {
            return Bytes::new();
        }
        Bytes::from(Value::Array(blocks).to_string())
    }
}

/// The lines that commits and pull requests end with, by settings: commit, pull request.
#[must_use]
pub fn attribution_lines(settings: &lathe_settings::schema::Settings) -> [Option<String>; 2] {
    let wanted = settings.include_co_authored_by == Some(true);
    let lines = |own: Option<&String>, usual: &str| match own {
        Some(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        None => wanted.then(|| usual.to_owned()),
    };
    let own = settings.attribution.as_ref();
    [
        lines(
            own.and_then(|own| own.commit.as_ref()),
            "Co-Authored-By: Lathe <noreply@lathe.invalid>",
        ),
        lines(own.and_then(|own| own.pr.as_ref()), "Made with Lathe."),
    ]
}

/// Their part of the system prompt.
#[must_use]
pub fn attribution_text(settings: &lathe_settings::schema::Settings) -> String {
    let [commit, pull_request] = attribution_lines(settings);
    let mut text = String::new();
    if let Some(lines) = commit {
        text.push_str(&format!(
            "Commit messages end with a blank line and then:\n{lines}"
        ));
    }
    if let Some(lines) = pull_request {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!(
            "Descriptions of pull requests end with a blank line and then:\n{lines}"
        ));
    }
    text
}

/// The instruction files that the model always has. Those of folders and for paths come as messages.
pub(crate) fn instructions_always(
    instructions: &Instructions,
) -> impl Iterator<Item = &InstructionFile> {
    let files = instructions.files().iter();
    files.filter(|file| !matches!(file.reason, Reason::Folder { .. } | Reason::Rule { .. }))
}

/// The instruction files that hold from the start, one after another, nearest last.
#[must_use]
pub fn instructions_text(instructions: &Instructions) -> String {
    let mut text = String::new();
    for file in instructions_always(instructions) {
        let words = match instructions.replacement(&file.path) {
            Some(words) => words.to_owned(),
            None => file.text_with_notice(),
        };
        text.push_str(&format!(
            "# {}\n\n{}\n\n",
            file.path.display(),
            words.trim_end()
        ));
    }
    text
}

/// The branch that a folder is on, read from git's own files: no process is started for it.
#[must_use]
pub fn git_branch(folder: &Path) -> Option<String> {
    let dot_git = folder
        .ancestors()
        .map(|at| at.join(".git"))
        .find(|path| path.exists())?;
    let git_folder = if dot_git.is_file() {
        let text = lathe_settings::regular_file::read_text(&dot_git).ok()?;
        let target = text.strip_prefix("gitdir:")?.trim();
        dot_git.parent()?.join(target)
    } else {
        dot_git
    };
    let head = lathe_settings::regular_file::read_text(&git_folder.join("HEAD")).ok()?;
    let head = head.trim();
    Some(match head.strip_prefix("ref: refs/heads/") {
        Some(branch) => branch.to_owned(),
        // Detached: the short commit id.
        None => head.chars().take(12).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_prompt_is_small() {
        let fixed: usize = FIXED.iter().map(|part| part.len()).sum();
        assert!(fixed <= 4_096, "the fixed prompt has {fixed} bytes");
    }

    #[test]
    fn the_same_parts_give_the_same_bytes_and_two_markers() {
        let parts = PromptParts {
            cache: CacheMarkers::FiveMinutes,
            ..PromptParts::default()
        };
        assert_eq!(parts.encode(), parts.encode());
        let value: Value = serde_json::from_slice(&parts.encode()).unwrap();
        let marked = value
            .as_array()
            .unwrap()
            .iter()
            .filter(|block| block.get("cache_control").is_some())
            .count();
        assert_eq!(marked, 2);
    }

    #[test]
    fn a_replacement_replaces_and_an_empty_one_leaves_nothing() {
        let parts = PromptParts {
            replacement: Some("Only this.".into()),
            ..PromptParts::default()
        };
        assert_eq!(parts.blocks(), [("Only this.".to_owned(), true)]);
        let parts = PromptParts {
            replacement: Some(String::new()),
            appended: Some("More.".into()),
            ..PromptParts::default()
        };
        assert_eq!(parts.blocks(), [("More.".to_owned(), true)]);
        let two = PromptParts {
            replacement: Some(format!("Fixed.\n\n{BOUNDARY}\n\nVaries.")),
            ..PromptParts::default()
        };
        let wanted = [("Fixed.".to_owned(), true), ("Varies.".to_owned(), true)];
        assert_eq!(two.blocks(), wanted);
        let none = PromptParts {
            replacement: Some(String::new()),
            ..PromptParts::default()
        };
        assert!(none.encode().is_empty());
    }

    #[test]
    fn what_varies_may_be_told_apart() {
        let parts = PromptParts {
            varying_apart: true,
            language: Some("Latin".into()),
            ..PromptParts::default()
        };
        assert_eq!(parts.blocks().len(), 1);
        assert!(!parts.blocks()[0].0.contains("Surroundings"));
        assert!(parts.told_apart().unwrap().contains("Answer in Latin."));
        assert_eq!(PromptParts::default().told_apart(), None);
        let own = PromptParts {
            replacement: Some("Mine.".into()),
            ..parts
        };
        assert_eq!(own.blocks(), [("Mine.".to_owned(), true)]);
        assert!(own.told_apart().unwrap().contains("Answer in Latin."));
    }

    #[test]
    fn commits_and_pull_requests_end_as_settings_say() {
        let read = |text: &str| serde_json::from_str(text).unwrap();
        assert_eq!(attribution_text(&read("{}")), "");
        let usual = attribution_lines(&read(r#"{"includeCoAuthoredBy": true}"#));
        assert!(
            usual[0]
                .as_deref()
                .unwrap()
                .starts_with("Co-Authored-By: Lathe")
        );
        let own =
            read(r#"{"includeCoAuthoredBy": true, "attribution": {"commit": "", "pr": "By us."}}"#);
        assert_eq!(attribution_lines(&own), [None, Some("By us.".to_owned())]);
        assert_eq!(
            attribution_text(&own),
            "Descriptions of pull requests end with a blank line and then:\nBy us."
        );
    }

    #[test]
    fn the_branch_is_read_from_plain_repositories_and_worktrees() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(git_branch(folder.path()), None);
        let git = folder.path().join(".git");
        std::fs::create_dir_all(git.join("worktrees/w")).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        let inner = folder.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(git_branch(&inner).as_deref(), Some("feature/x"));
        std::fs::write(git.join("worktrees/w/HEAD"), "0123456789abcdef0123\n").unwrap();
        std::fs::write(inner.join(".git"), "gitdir: ../../.git/worktrees/w\n").unwrap();
        assert_eq!(git_branch(&inner).as_deref(), Some("0123456789ab"));
    }
}
