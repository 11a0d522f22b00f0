//! Grep: a regular expression in the files of a tree, with ripgrep's own libraries.
//!
//! The tree is walked in parallel. Results are sorted afterwards, so that the same question
//! has the same answer: lines and counts by path, names of files newest first. A search for lines
//! keeps only those that will be shown, however many there are.

use crate::change::blocking;
use crate::context::{CallContext, ToolContext};
use crate::grep_lines::{Collected, LineSink, Shape};
use crate::text_file::Encoding;
use crate::tool::{CallTraits, Tool, ToolError, ToolOutput};
use crate::walk::{self, GlobFilter, Ignored};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::WalkState;
use lathe_protocol::display::Display;
use lathe_protocol::permission::Subject;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

/// Lines or files shown unless asked otherwise.
const DEFAULT_LIMIT: usize = 250;
/// The most memory that one file may take (a multi-line search loads files whole).
const LARGEST_FILE_IN_MEMORY: usize = 256 * 1024 * 1024;

/// Searches in files.
pub struct Grep;

/// A search.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Input {
    /// The regular expression (Rust syntax).
    pattern: String,
    /// File or folder to search. Default: the working folder.
    #[serde(default)]
    path: Option<String>,
    /// Only files that match: "*.ts", "src/**/*.{c,h}", "!*.min.js".
    #[serde(default)]
    glob: Option<String>,
    /// Only files of a type: "rust", "py", "js".
    #[serde(default)]
    r#type: Option<String>,
    /// Default: files_with_matches.
    #[serde(default)]
    output_mode: Option<OutputMode>,
    /// Lines after each match.
    #[serde(default, rename = "-A")]
    after: Option<usize>,
    /// Lines before each match.
    #[serde(default, rename = "-B")]
    before: Option<usize>,
    /// Lines before and after.
    #[serde(default, rename = "-C")]
    around: Option<usize>,
    /// Line numbers (default true).
    #[serde(default, rename = "-n")]
    numbers: Option<bool>,
    /// Ignore case.
    #[serde(default, rename = "-i")]
    ignore_case: Option<bool>,
    /// Let matches span lines and `.` match line ends.
    #[serde(default)]
    multiline: Option<bool>,
    /// At most so many lines or files. Default 250; 0: no limit.
    #[serde(default)]
    head_limit: Option<usize>,
    /// Leave out the first so many.
    #[serde(default)]
    offset: Option<usize>,
}

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    Content,
    FilesWithMatches,
    Count,
}

impl Input {
    fn mode(&self) -> OutputMode {
        self.output_mode.unwrap_or(OutputMode::FilesWithMatches)
    }

    fn start(&self, context: &ToolContext) -> PathBuf {
        match &self.path {
            Some(path) => context.resolve_path(path),
            None => context.working_folder.read().clone(),
        }
    }

    fn limit(&self) -> usize {
        match self.head_limit.unwrap_or(DEFAULT_LIMIT) {
            0 => usize::MAX,
            limit => limit,
        }
    }

    fn offset(&self) -> usize {
        self.offset.unwrap_or(0)
    }

    fn matcher(&self) -> Result<RegexMatcher, ToolError> {
        let multiline = self.multiline.unwrap_or(false);
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(self.ignore_case.unwrap_or(false))
            .multi_line(true)
            .dot_matches_new_line(multiline);
        if !multiline {
            builder.line_terminator(Some(b'\n'));
        }
        builder.build(&self.pattern).map_err(|error| {
            let advice = match error.kind() {
                grep_regex::ErrorKind::NotAllowed(_) => {
                    "To search across lines, set multiline to true."
                }
                _ => "Write a literal ( [ { . * + ? | \\ with a backslash in front.",
            };
            // The matcher wraps the pattern in a group; the plain library points into the pattern as
            // it was written.
            let error = match regex::Regex::new(&self.pattern) {
                Err(plain) => plain.to_string(),
                Ok(_) => error.to_string(),
            };
            ToolError::invalid(format!(
                "The pattern is not a valid regular expression: {error}\n{advice}"
            ))
        })
    }

    fn searcher(&self) -> Searcher {
        let mut builder = SearcherBuilder::new();
        builder
            .binary_detection(BinaryDetection::quit(0))
            .multi_line(self.multiline.unwrap_or(false))
            .heap_limit(Some(LARGEST_FILE_IN_MEMORY))
            .line_number(self.mode() == OutputMode::Content);
        if self.mode() == OutputMode::Content {
            let around = self.around.unwrap_or(0);
            builder
                .after_context(self.after.unwrap_or(around))
                .before_context(self.before.unwrap_or(around));
        }
        builder.build()
    }
}

impl Tool for Grep {
    type Input = Input;

    fn name(&self) -> &'static str {
        "Grep"
    }

    fn description(&self) -> &'static str {
        include_str!("grep.md")
    }

    fn path_fields(&self) -> &'static [&'static str] {
        &["path"]
    }

    fn field_aliases(&self) -> &'static [(&'static str, &'static str)] {
        &[("context", "-C")]
    }

    fn traits(&self, _input: &Input) -> CallTraits {
        CallTraits::READS
    }

    fn subject(&self, input: &Input, context: &ToolContext) -> Subject {
        Subject::Read {
            paths: vec![input.start(context)],
        }
    }

    fn activity(&self, input: &Input) -> String {
        format!("Searching for {}", input.pattern)
    }

    fn result_limit(&self) -> Option<usize> {
        Some(20_000)
    }

    async fn validate(&self, input: &Input, _context: &ToolContext) -> Result<(), ToolError> {
        input.matcher().map(|_| ())
    }

    async fn call(&self, input: Input, context: CallContext) -> Result<ToolOutput, ToolError> {
        blocking(move || Search::new(input, context)?.run()).await
    }
}

/// One search.
struct Search {
    input: Input,
    context: CallContext,
    start: PathBuf,
    working_folder: PathBuf,
    matcher: RegexMatcher,
    filter: Option<GlobFilter>,
    /// Files that were left out because they hold secrets.
    withheld: AtomicUsize,
    /// Files and folders that could not be read.
    unreadable: AtomicUsize,
}

/// Takes each file that is to be searched.
type Visitor<'s> = Box<dyn FnMut(&Path) + Send + 's>;

impl Search {
    fn new(input: Input, context: CallContext) -> Result<Self, ToolError> {
        let start = input.start(&context.session);
        if !start.exists() {
            return Err(ToolError::failed(crate::missing_file::message(
                &start,
                &context.session,
            )));
        }
        let working_folder = context.session.working_folder.read().clone();
        Ok(Self {
            matcher: input.matcher()?,
            filter: input.glob.as_deref().map(GlobFilter::parse).transpose()?,
            working_folder,
            start,
            input,
            context,
            withheld: AtomicUsize::new(0),
            unreadable: AtomicUsize::new(0),
        })
    }

    fn run(&self) -> Result<ToolOutput, ToolError> {
        let output = match self.input.mode() {
            OutputMode::FilesWithMatches => self.files()?,
            OutputMode::Count => self.counts()?,
            OutputMode::Content => self.lines()?,
        };
        Ok(output)
    }

    /// Walks the tree and hands every file that is to be searched to a function made once per
    /// thread.
    fn walk<'s>(&'s self, visitor: impl Fn() -> Visitor<'s>) -> Result<(), ToolError> {
        let cancel = &self.context.cancel;
        let mut builder = walk::walk(&self.start, Ignored::LeftOut);
        if let Some(names) = &self.input.r#type {
            builder.types(walk::types(names)?);
        }
        builder.build_parallel().run(|| {
            let mut visit = visitor();
            Box::new(move |entry| {
                if cancel.is_cancelled() {
                    return WalkState::Quit;
                }
                let Ok(entry) = entry else {
                    self.unreadable.fetch_add(1, Ordering::Relaxed);
                    return WalkState::Continue;
                };
                let named = entry.depth() == 0;
                // Symlinks are not followed, except the one that was named.
                let is_file = match entry.file_type() {
                    Some(kind) if kind.is_symlink() && named => entry.path().is_file(),
                    Some(kind) => kind.is_file(),
                    None => false,
                };
                if is_file && (named || self.is_wanted(entry.path())) {
                    visit(entry.path());
                }
                WalkState::Continue
            })
        });
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled("The search was stopped.".to_owned()));
        }
        Ok(())
    }

    fn is_wanted(&self, path: &Path) -> bool {
        if let Some(filter) = &self.filter {
            let passes = |base: &Path| {
                path.strip_prefix(base)
                    .is_ok_and(|relative| filter.passes(relative))
            };
            if !passes(&self.start) && !passes(&self.working_folder) {
                return false;
            }
        }
        // Before it is searched: whether a secret contains something would itself tell of it.
        if (self.context.session.secrets)(path) {
            self.withheld.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn shown(&self, path: &Path) -> String {
        let relative = path.strip_prefix(&self.working_folder).unwrap_or(path);
        relative.display().to_string()
    }

    fn was_read(&self, searched: &std::io::Result<()>) -> bool {
        if searched.is_err() {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
        }
        searched.is_ok()
    }

    /// The entry of each file with a match, given how many lines match; at most `most` are looked
    /// for. It is noted on the thread that has the file open: asking for it afterwards, file by file, would
    /// take as long as the search.
    fn matching<T: Send>(
        &self,
        most: u64,
        note: impl Fn(&Path, &File, u64) -> T + Sync,
    ) -> Result<Vec<T>, ToolError> {
        let found: Mutex<Vec<T>> = Mutex::new(Vec::new());
        self.walk(|| {
            let mut searcher = self.input.searcher();
            let matcher = self.matcher.clone();
            let (found, note) = (&found, &note);
            Box::new(move |path| {
                let mut counter = Counter { count: 0, most };
                let searched = File::open(path).and_then(|file| {
                    searcher.search_file(&matcher, &file, &mut counter)?;
                    if counter.count > 0 {
                        let noted = note(path, &file, counter.count);
                        found.lock().push(noted);
                    }
                    Ok(())
                });
                self.was_read(&searched);
            })
        })?;
        Ok(found.into_inner())
    }

    fn files(&self) -> Result<ToolOutput, ToolError> {
        let mut found: Vec<(SystemTime, PathBuf)> = self.matching(1, |path, file, _| {
            let modified = file.metadata().and_then(|metadata| metadata.modified());
            (modified.unwrap_or(SystemTime::UNIX_EPOCH), path.to_owned())
        })?;
        // Names are compared as bytes: part by part takes longer and matters only at the same moment.
        found.sort_unstable_by(|(one, path), (other, other_path)| {
            other
                .cmp(one)
                .then_with(|| path.as_os_str().cmp(other_path.as_os_str()))
        });
        let total = found.len();
        let names: Vec<String> = found
            .iter()
            .skip(self.input.offset())
            .take(self.input.limit())
            .map(|(_, path)| self.shown(path))
            .collect();
        let mut text = names.join("\n");
        let truncated = names.len() < total;
        if truncated {
            text.push_str(&self.part_note(names.len(), total, "files"));
        }
        Ok(self.output(
            text,
            json!({"numFiles": names.len(), "filenames": names}),
            Display::FileList {
                paths: names,
                truncated,
            },
        ))
    }

    fn counts(&self) -> Result<ToolOutput, ToolError> {
        let mut found = self.matching(u64::MAX, |path, _, count| (path.to_owned(), count))?;
        found.sort_unstable();
        let total: u64 = found.iter().map(|(_, count)| count).sum();
        let rows: Vec<(String, u64)> = found
            .iter()
            .skip(self.input.offset())
            .take(self.input.limit())
            .map(|(path, count)| (self.shown(path), *count))
            .collect();
        let mut text: String = rows
            .iter()
            .map(|(name, count)| format!("{name}:{count}\n"))
            .collect();
        if !found.is_empty() {
            text.push_str(&format!(
                "\n[{total} matching lines in {} files.]",
                found.len()
            ));
        }
        if rows.len() < found.len() {
            text.push_str(&self.part_note(rows.len(), found.len(), "files"));
        }
        let names: Vec<&String> = rows.iter().map(|(name, _)| name).collect();
        let structured = json!({
            "numFiles": found.len(),
            "filenames": names,
            "numMatches": total,
            "content": text,
        });
        Ok(self.output(
            text,
            structured,
            Display::Table {
                columns: vec!["File".to_owned(), "Matches".to_owned()],
                rows: rows
                    .into_iter()
                    .map(|(name, count)| vec![name, count.to_string()])
                    .collect(),
            },
        ))
    }

    fn lines(&self) -> Result<ToolOutput, ToolError> {
        let needed = self.input.offset().saturating_add(self.input.limit());
        let collected = Mutex::new(Collected::new(needed));
        let shape = Shape {
            numbers: self.input.numbers.unwrap_or(true),
            // One more than is shown, to know that there is more.
            most: needed.saturating_add(1),
        };
        self.walk(|| {
            let mut searcher = self.input.searcher();
            let matcher = self.matcher.clone();
            let (collected, shape) = (&collected, &shape);
            Box::new(move |path| {
                if collected.lock().is_beyond(path) {
                    return;
                }
                let name = self.shown(path);
                let mut sink = LineSink::new(&matcher, &name, shape);
                let searched = searcher.search_path(&matcher, path, &mut sink);
                let lines = sink.into_lines();
                if self.was_read(&searched) && !lines.is_empty() {
                    collected.lock().add(path, lines);
                }
            })
        })?;
        let (files, lines, more) = collected
            .into_inner()
            .window(self.input.offset(), self.input.limit());
        let names: Vec<String> = files.iter().map(|path| self.shown(path)).collect();
        let mut text = lines.join("\n");
        if more && !lines.is_empty() {
            text.push_str(&format!(
                "\n\n[There are more lines; see them with offset {}, or narrow the search.]",
                self.input.offset() + lines.len()
            ));
        }
        let structured = json!({
            "numFiles": names.len(),
            "filenames": names,
            "content": text,
            "numLines": lines.len(),
        });
        let display = Display::Text { text: text.clone() };
        Ok(self.output(text, structured, display))
    }

    /// Whether the search was for one file, and that is no text.
    fn is_named_binary(&self) -> bool {
        let mut start = Vec::new();
        self.start.is_file()
            && File::open(&self.start)
                .and_then(|file| file.take(8192).read_to_end(&mut start))
                .is_ok()
            && memchr::memchr(0, &start).is_some()
            && Encoding::of_mark(&start).is_none()
    }

    fn part_note(&self, shown: usize, total: usize, what: &str) -> String {
        format!(
            "\n\n[{shown} of {total} {what} are shown; see others with offset {}, or narrow the search.]",
            self.input.offset() + shown
        )
    }

    /// The result, with what must be said in every mode.
    fn output(&self, mut text: String, mut structured: Value, display: Display) -> ToolOutput {
        if text.is_empty() && self.is_named_binary() {
            text.push_str("The file is binary, so it was not searched.");
        } else if text.is_empty() {
            text.push_str(if self.input.offset() > 0 {
                "No more matches."
            } else {
                "No matches found."
            });
        }
        let withheld = self.withheld.load(Ordering::Relaxed);
        if withheld > 0 {
            text.push_str(&format!(
                "\n[{withheld} files that may contain secrets were not searched. Name one in path to request it.]"
            ));
        }
        let unreadable = self.unreadable.load(Ordering::Relaxed);
        if unreadable > 0 {
            text.push_str(&format!(
                "\n[{unreadable} files or folders could not be read.]"
            ));
        }
        if let Some(fields) = structured.as_object_mut() {
            fields.insert("mode".into(), json!(self.input.mode()));
            fields.insert("appliedOffset".into(), json!(self.input.offset()));
            if self.input.limit() != usize::MAX {
                fields.insert("appliedLimit".into(), json!(self.input.limit()));
            }
        }
        ToolOutput::new(text, structured, display)
    }
}

/// Counts matching lines, up to a number.
struct Counter {
    count: u64,
    most: u64,
}

impl Sink for Counter {
    type Error = std::io::Error;

    fn matched(
        &mut self,
        _searcher: &Searcher,
        found: &SinkMatch<'_>,
    ) -> Result<bool, Self::Error> {
        if self.most == 1 {
            self.count = 1;
        } else {
            self.count += found.lines().count() as u64;
        }
        Ok(self.count < self.most)
    }
}
