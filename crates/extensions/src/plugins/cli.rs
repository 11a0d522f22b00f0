//! The output of the `plugin` commands, as functions of data.

use super::contents::describe;
use super::install::Prepared;
use super::load::{LoadedPlugins, PluginState};
use super::manager::MarketplaceListing;
use super::plain;
use super::validate::Validation;
use lathe_settings::trust::Bring;
use std::fmt::Write as _;

#[must_use]
pub fn list(loaded: &LoadedPlugins) -> String {
    let mut text = String::new();
    if loaded.listings.is_empty() {
        text.push_str(
            "no plugins; add them with `lathe plugin marketplace add` and `lathe plugin install`\n",
        );
    }
    for listing in &loaded.listings {
        let version = listing
            .version
            .as_deref()
            .map_or_else(String::new, |version| format!(" {}", plain(version, 40)));
        let scope = listing
            .scope
            .map_or_else(String::new, |scope| format!(" ({})", scope.name()));
        let _ = writeln!(
            text,
            "{:<18} {}{version}{scope}",
            listing.state.words(),
            listing.id
        );
        if let Some(description) = &listing.description {
            let _ = writeln!(text, "{:<18} {description}", "");
        }
        for bring in &listing.brings {
            let _ = writeln!(text, "{:<18}   {bring}", "");
        }
        if let Some(reason) = &listing.reason {
            let _ = writeln!(text, "{:<18} {reason}", "");
        }
        if listing.state != PluginState::Failed || listing.reason.is_none() {
            for problem in &listing.problems {
                let _ = writeln!(text, "{:<18} problem: {problem}", "");
            }
        }
    }
    for problem in &loaded.problems {
        let _ = writeln!(text, "problem: {problem}");
    }
    text
}

#[must_use]
pub fn marketplaces(all: &[MarketplaceListing]) -> String {
    if all.is_empty() {
        return "no marketplaces; `lathe plugin marketplace add <source>` adds one\n".to_owned();
    }
    let mut text = String::new();
    for listing in all {
        let _ = writeln!(text, "{}  {}", listing.name, plain(&listing.source, 200));
        if let Some(refused) = &listing.refused {
            let _ = writeln!(text, "  can't be used: {refused}");
        } else if listing.install_location.is_none() {
            let _ = writeln!(
                text,
                "  named by settings, not added; installing one of its plugins adds it"
            );
        } else {
            let _ = writeln!(text, "  {}", counted(listing.plugins.len(), "plugin"));
            for name in &listing.plugins {
                let _ = writeln!(text, "    {name}");
            }
        }
        for problem in &listing.problems {
            let _ = writeln!(text, "  problem: {problem}");
        }
    }
    text
}

/// The parts of a plugin, shown before it is installed.
#[must_use]
pub fn confirmation(prepared: &Prepared) -> String {
    let plugin = &prepared.plugin;
    let mut text = format!("{} {}\n", plugin.id, prepared.version);
    if let Some(description) = &plugin.manifest.description {
        let _ = writeln!(text, "  {}", plain(description, 300));
    }
    if let Some(author) = &plugin.manifest.author {
        let _ = writeln!(text, "  by {}", plain(author, 100));
    }
    let _ = writeln!(text, "  from {}", plain(&prepared.origin, 200));
    let brings = plugin.parts();
    if brings.is_empty() {
        text.push_str("  it has no parts that this version supports\n");
    }
    let runs = plugin.runs();
    let rest = brings.iter().filter(|bring| !runs.contains(bring));
    if !runs.is_empty() {
        text.push_str("  runs automatically:\n");
        lines(&mut text, runs.iter());
    }
    let rest: Vec<&Bring> = rest.collect();
    if !rest.is_empty() {
        text.push_str("  it adds:\n");
        lines(&mut text, rest.into_iter());
    }
    for problem in &plugin.problems {
        // The staging folder means nothing to the user.
        let mut problem = problem.clone();
        if let Ok(inside) = problem.file.strip_prefix(&plugin.contribution.root) {
            problem.file = inside.to_path_buf();
        }
        let _ = writeln!(text, "  problem: {problem}");
    }
    text
}

fn lines<'a>(text: &mut String, brings: impl Iterator<Item = &'a Bring>) {
    for bring in brings {
        let _ = writeln!(text, "    {}", describe(bring));
    }
}

/// The results of a validation.
#[must_use]
pub fn validations(all: &[Validation]) -> String {
    let mut text = String::new();
    for validation in all {
        let word = if validation.is_valid() {
            "fine"
        } else {
            "broken"
        };
        let _ = writeln!(
            text,
            "{word}: {} {} ({})",
            validation.kind,
            plain(&validation.name, 80),
            validation.path.display()
        );
        for bring in &validation.brings {
            let _ = writeln!(text, "  {bring}");
        }
        for problem in &validation.problems {
            let word = if problem.fatal { "error" } else { "warning" };
            let _ = writeln!(text, "  {word}: {problem}");
        }
    }
    text
}

fn counted(count: usize, word: &str) -> String {
    if count == 1 {
        format!("1 {word}")
    } else {
        format!("{count} {word}s")
    }
}
