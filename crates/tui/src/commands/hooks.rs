//! `/hooks` lists the hooks.

use crate::app::App;
use crate::layers::{Item, Page, Picker, Purpose};
use crate::render::style::{Line, Style};
use crate::render::theme::Theme;
use lathe_hooks::registry::HookListing;

/// The hooks that are set up; Enter shows one.
pub(crate) fn run(app: &mut App) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let picker = hooks_picker(&session.hooks().list(), &app.look.theme);
    app.layers.open(picker);
}

/// One hook, with everything that is known about it.
pub(crate) fn show(app: &mut App, index: &str) {
    let Some(session) = &app.engine.handle else {
        return;
    };
    let hooks = session.hooks().list();
    let Some(hook) = index.parse().ok().and_then(|index: usize| hooks.get(index)) else {
        return;
    };
    app.layers.open(hook_page(hook, &app.look.theme));
}

/// The hooks, by event.
pub(crate) fn hooks_picker(hooks: &[HookListing], theme: &Theme) -> Picker {
    let items: Vec<Item> = hooks
        .iter()
        .enumerate()
        .map(|(index, hook)| {
            let matcher = hook
                .matcher
                .as_ref()
                .filter(|matcher| !matcher.is_empty())
                .map_or_else(String::new, |matcher| format!("({matcher})"));
            let mut detail = hook.hook.clone();
            if let Some(off) = &hook.off {
                detail = format!("off: {off} · {detail}");
            }
            Item::new(
                index.to_string(),
                format!("{}{matcher}", hook.event),
                detail,
            )
        })
        .collect();
    let words = if items.is_empty() {
        "No hooks. Configure them under `hooks` in settings.json, or with /update-config."
    } else {
        "Enter shows a hook. Configure them under `hooks` in settings.json; `lathe hooks test` runs them."
    };
    Picker::new(Purpose::Hooks, "Hooks", items)
        .explained(vec![Line::styled(words, theme.muted)])
        .filterable()
}

/// One hook, with everything that is known about it.
pub(crate) fn hook_page(hook: &HookListing, theme: &Theme) -> Page {
    let mut facts = vec![
        ("event", hook.event.to_string()),
        ("when", hook.event.description().to_owned()),
    ];
    facts.extend(hook.matcher.clone().map(|matcher| ("matches", matcher)));
    facts.extend(hook.condition.clone().map(|rule| ("if", rule)));
    facts.push(("limit", format!("{} s", hook.timeout)));
    facts.extend(
        hook.file
            .as_ref()
            .map(|file| ("file", file.display().to_string())),
    );
    facts.extend(hook.off.clone().map(|off| ("off", off)));
    let mut lines: Vec<Line> = facts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| {
            Line::styled(format!("{name:<9}"), theme.muted)
                .with(crate::render::text::clean(&value), Style::PLAIN)
        })
        .collect();
    lines.push(Line::empty());
    lines.extend(
        crate::render::text::reveal(&hook.hook)
            .lines()
            .map(|line| Line::styled(line, theme.code)),
    );
    let title = format!("Hook on {}", hook.event);
    Page::of_lines(Purpose::Reading, title, lines)
}
