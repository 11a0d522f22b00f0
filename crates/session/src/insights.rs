//! The use of sessions and its cost: by day, project, model, tool and skill.
//!
//! Read from the transcripts, agents included. Prices come from the caller, who knows the models.

use crate::export::escaped;
use crate::load::load;
use crate::paths::SessionPaths;
use crate::store::{Scope, SessionStore, info};
use lathe_protocol::content::ContentBlock;
use lathe_protocol::record::{MessageRecord, RecordMessage};
use lathe_protocol::usage::Usage;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Rows of a table that are shown.
const MOST_ROWS: usize = 12;

/// The usage of one row.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Amount {
    /// Tokens that were read, cached ones too.
    pub input: u64,
    /// Tokens that were written.
    pub output: u64,
    /// Dollars, as far as prices are known.
    pub dollars: f64,
    /// Whether a price was not known.
    pub is_partly_unpriced: bool,
}

impl Amount {
    fn add(&mut self, usage: &Usage, dollars: Option<f64>) {
        self.input += usage.total_input();
        self.output += usage.output_tokens;
        self.dollars += dollars.unwrap_or(0.0);
        self.is_partly_unpriced |= dollars.is_none() && usage.total_input() > 0;
    }
}

/// The numbers of many sessions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Insights {
    /// Sessions that were read.
    pub sessions: usize,
    /// Prompts of the user.
    pub prompts: u64,
    /// Everything together.
    pub total: Amount,
    /// By day, oldest first.
    pub days: BTreeMap<String, Amount>,
    /// By model.
    pub models: BTreeMap<String, Amount>,
    /// By folder.
    pub projects: BTreeMap<String, Amount>,
    /// Calls by tool.
    pub tools: BTreeMap<String, u64>,
    /// Uses by skill.
    pub skills: BTreeMap<String, u64>,
}

/// The price of an answer of a model, if it is known.
pub type Price<'a> = &'a dyn Fn(&str, &Usage) -> Option<f64>;

/// Reads the sessions of a scope; `since` is the first day that counts (`2026-11-01`).
#[must_use]
pub fn gather(
    store: &SessionStore,
    scope: Scope<'_>,
    since: Option<&str>,
    price: Price<'_>,
) -> Insights {
    let mut insights = Insights::default();
    let mut seen = HashSet::new();
    for path in store.transcripts(scope) {
        let Some(info) = info(&path) else { continue };
        let newest = crate::template::format_timestamp(info.modified);
        if since.is_some_and(|since| newest.as_str() < since) || !seen.insert(info.id) {
            continue;
        }
        let project = info.cwd.as_deref().map(Path::display);
        let project = project.map_or_else(|| "(unknown)".to_owned(), |it| it.to_string());
        insights.sessions += 1;
        let agents = agent_transcripts(&path);
        for file in std::iter::once(path).chain(agents) {
            insights.read(&file, &project, since, price);
        }
    }
    insights
}

fn agent_transcripts(path: &Path) -> Vec<PathBuf> {
    let folder = SessionPaths::of_transcript(path).subagents();
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .collect()
}

impl Insights {
    fn read(&mut self, path: &Path, project: &str, since: Option<&str>, price: Price<'_>) {
        let Ok(loaded) = load(path) else { return };
        // The records of an answer repeat its usage; the last one has all of it.
        let mut answers: BTreeMap<&str, (&MessageRecord, &Usage, &str)> = BTreeMap::new();
        for message in loaded.messages() {
            if since.is_some_and(|since| message.timestamp.as_str() < since) {
                continue;
            }
            self.prompts += u64::from(message.is_prompt() && !message.is_sidechain);
            let Some(RecordMessage::Assistant(answer)) = &message.message else {
                continue;
            };
            answers.insert(&answer.id, (message, &answer.usage, &answer.model));
            for block in &answer.content {
                let ContentBlock::ToolUse(call) = block else {
                    continue;
                };
                *self.tools.entry(call.name.clone()).or_default() += 1;
                let skill = call.input.get("skill").or_else(|| call.input.get("name"));
                if call.name == "Skill"
                    && let Some(skill) = skill.and_then(serde_json::Value::as_str)
                {
                    *self.skills.entry(skill.to_owned()).or_default() += 1;
                }
            }
        }
        for (message, usage, model) in answers.into_values() {
            if model == lathe_protocol::message::SYNTHETIC_MODEL {
                continue;
            }
            let dollars = price(model, usage);
            let day = message.timestamp.get(..10).unwrap_or("?").to_owned();
            self.total.add(usage, dollars);
            self.days.entry(day).or_default().add(usage, dollars);
            let by_model = self.models.entry(model.to_owned()).or_default();
            by_model.add(usage, dollars);
            let by_project = self.projects.entry(project.to_owned()).or_default();
            by_project.add(usage, dollars);
        }
    }

    /// The tables with amounts: a title and the rows.
    fn amounts(&self) -> [(&'static str, Vec<(&str, Amount)>); 3] {
        let mut days: Vec<_> = rows(&self.days).collect();
        days.drain(..days.len().saturating_sub(MOST_ROWS * 2));
        [
            ("By day", days),
            ("By model", dearest(&self.models)),
            ("By project", dearest(&self.projects)),
        ]
    }

    fn counts(&self) -> [(&'static str, Vec<(&str, u64)>); 2] {
        [
            ("Tools", most_used(&self.tools)),
            ("Skills", most_used(&self.skills)),
        ]
    }

    fn headline(&self) -> String {
        let plural = |count: u64, word: &str| match count {
            1 => format!("1 {word}"),
            count => format!("{count} {word}s"),
        };
        format!(
            "{}, {}, {} tokens read, {} written, {}",
            plural(self.sessions as u64, "session"),
            plural(self.prompts, "prompt"),
            short(self.total.input),
            short(self.total.output),
            money(self.total)
        )
    }

    /// As text with bars, for a terminal of this width.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let mut out = format!("{}\n", self.headline());
        for (title, rows) in self.amounts() {
            let most = rows.iter().map(|(_, it)| weight(*it)).fold(0.0, f64::max);
            let names = name_width(rows.iter().map(|(name, _)| *name), width);
            // Where there is little room, the dollars and the bar say most.
            let with_tokens = width >= names + 48;
            let others = if with_tokens { 36 } else { 15 };
            let room = width.saturating_sub(names + others).min(40);
            section(&mut out, title, rows.is_empty());
            for (name, amount) in rows {
                let _ = write!(out, "  {:<names$} {:>9}", cut(name, names), money(amount));
                if with_tokens {
                    let (input, output) = (short(amount.input), short(amount.output));
                    let _ = write!(out, " {input:>7} in {output:>6} out");
                }
                let _ = writeln!(out, "  {}", bar(weight(amount), most, room));
            }
        }
        for (title, rows) in self.counts() {
            let most = rows.iter().map(|(_, it)| *it as f64).fold(0.0, f64::max);
            let names = name_width(rows.iter().map(|(name, _)| *name), width);
            let room = width.saturating_sub(names + 12).min(40);
            section(&mut out, title, rows.is_empty());
            for (name, count) in rows {
                let shown = cut(name, names);
                let _ = writeln!(
                    out,
                    "  {shown:<names$} {count:>6}  {}",
                    bar(count as f64, most, room)
                );
            }
        }
        out.lines()
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }

    /// As one page for a browser, with plots.
    #[must_use]
    pub fn html(&self) -> String {
        let mut body = format!("<h1>Insights</h1><p>{}</p>", escaped(&self.headline()));
        for (title, rows) in self.amounts() {
            let rows = rows
                .into_iter()
                .map(|(name, it)| {
                    let about = format!(
                        "{} · {} in · {} out",
                        money(it),
                        short(it.input),
                        short(it.output)
                    );
                    (name, weight(it), about)
                })
                .collect();
            plot(&mut body, title, rows);
        }
        for (title, rows) in self.counts() {
            let rows = rows
                .into_iter()
                .map(|(name, count)| (name, count as f64, count.to_string()))
                .collect();
            plot(&mut body, title, rows);
        }
        include_str!("insights.html").replace("<!-- body -->", &body)
    }
}

fn rows<T: Copy>(from: &BTreeMap<String, T>) -> impl Iterator<Item = (&str, T)> {
    from.iter().map(|(name, value)| (name.as_str(), *value))
}

/// The rows that cost most, dearest first.
fn dearest(from: &BTreeMap<String, Amount>) -> Vec<(&str, Amount)> {
    let mut rows: Vec<_> = rows(from).collect();
    rows.sort_by(|one, other| {
        let by_cost = other.1.dollars.total_cmp(&one.1.dollars);
        by_cost.then(other.1.output.cmp(&one.1.output))
    });
    rows.truncate(MOST_ROWS);
    rows
}

fn most_used(from: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let mut rows: Vec<_> = rows(from).collect();
    rows.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    rows.truncate(MOST_ROWS);
    rows
}

fn section(out: &mut String, title: &str, is_empty: bool) {
    if !is_empty {
        let _ = writeln!(out, "\n{title}");
    }
}

fn plot(out: &mut String, title: &str, rows: Vec<(&str, f64, String)>) {
    if rows.is_empty() {
        return;
    }
    let most = rows
        .iter()
        .map(|(_, it, _)| *it)
        .fold(f64::MIN_POSITIVE, f64::max);
    let _ = write!(out, "<h2>{}</h2><table>", escaped(title));
    for (name, weight, about) in rows {
        let _ = write!(
            out,
            "<tr><th>{}</th><td><div style=\"width:{:.1}%\"></div></td><td>{}</td></tr>",
            escaped(name),
            weight * 100.0 / most,
            escaped(&about)
        );
    }
    out.push_str("</table>");
}

/// The length of a bar: dollars, or tokens where there are no prices.
fn weight(amount: Amount) -> f64 {
    if amount.dollars > 0.0 {
        amount.dollars
    } else {
        amount.output as f64 / 1e6
    }
}

fn bar(value: f64, most: f64, room: usize) -> String {
    if most <= 0.0 || value <= 0.0 {
        return String::new();
    }
    let cells = (value / most * room as f64).ceil();
    let cells = (0..room).take_while(|cell| (*cell as f64) < cells).count();
    "█".repeat(cells)
}

fn name_width<'a>(names: impl Iterator<Item = &'a str>, width: usize) -> usize {
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    longest.min((width / 3).max(10))
}

/// The end of a name that is too long: of a path that says most.
fn cut(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width {
        return name.to_owned();
    }
    let end: String = name.chars().skip(count + 1 - width).collect();
    format!("…{end}")
}

fn money(amount: Amount) -> String {
    let mark = if amount.is_partly_unpriced { "+?" } else { "" };
    format!("${:.2}{mark}", amount.dollars)
}

fn short(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => format!("{:.1}k", tokens as f64 / 1e3),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}
