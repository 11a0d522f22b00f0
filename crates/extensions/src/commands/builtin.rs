//! The commands that come with Lathe and are not prompts, declared once.

use super::CommandKind;

/// A command that comes with Lathe.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What it does.
    pub description: &'static str,
    /// What may follow it.
    pub hint: &'static str,
    /// What kind it is.
    pub kind: CommandKind,
    /// Whether it works while the model is busy.
    pub while_busy: bool,
    /// Whether it works without a terminal.
    pub headless: bool,
    /// Whether it is left out of listings.
    pub hidden: bool,
}

const fn local(
    name: &'static str,
    aliases: &'static [&'static str],
    hint: &'static str,
    description: &'static str,
) -> Builtin {
    Builtin {
        name,
        aliases,
        description,
        hint,
        kind: CommandKind::Local,
        while_busy: true,
        headless: true,
        hidden: false,
    }
}

const fn dialog(
    name: &'static str,
    aliases: &'static [&'static str],
    hint: &'static str,
    description: &'static str,
) -> Builtin {
    Builtin {
        kind: CommandKind::Dialog,
        headless: false,
        ..local(name, aliases, hint, description)
    }
}

const fn idle(builtin: Builtin) -> Builtin {
    Builtin {
        while_busy: false,
        ..builtin
    }
}

/// All of them, in the order of the help.
pub const BUILTIN: &[Builtin] = &[
    local("help", &["?"], "[command]", "What can be done here"),
    idle(local(
        "clear",
        &["new", "reset"],
        "",
        "Start a new conversation",
    )),
    idle(local(
        "compact",
        &[],
        "[what matters]",
        "Replace the conversation by a summary",
    )),
    local("context", &[], "", "How full the model's window is"),
    local("cost", &["usage"], "", "What this session has used"),
    local("stats", &[], "", "Numbers about this session"),
    local(
        "config",
        &["settings"],
        "[key[=value]]",
        "Settings that count here",
    ),
    local("model", &[], "[name]", "Show or choose the model"),
    local(
        "fallback",
        &[],
        "[model|off]",
        "The model that takes over when the first is overloaded",
    ),
    local(
        "effort",
        &["think"],
        "[level|tokens|off]",
        "How hard the model tries and how much it may think",
    ),
    local(
        "permissions",
        &["allowed-tools"],
        "",
        "What may run without a question",
    ),
    local("mode", &[], "[mode]", "Show or choose the permission mode"),
    local("plan", &[], "", "Plan mode: look, don't touch"),
    local("sandbox", &[], "", "How commands are isolated"),
    local("hooks", &[], "", "The hooks that are set up"),
    local("mcp", &[], "", "The servers and their state"),
    local("agents", &[], "", "The agents that work can be given to"),
    local("skills", &[], "", "The skills that are there"),
    local("plugin", &["plugins"], "", "The plugins that are on"),
    local("tools", &[], "", "The tools that the model has"),
    local(
        "memory",
        &[],
        "",
        "The instruction files and notes that are loaded",
    ),
    local(
        "output-style",
        &[],
        "[name]",
        "Show or choose how the model talks",
    ),
    idle(dialog(
        "resume",
        &["continue"],
        "[session]",
        "Go on with another session",
    )),
    local("rename", &[], "<title>", "Give this session a title"),
    local("tag", &[], "<tag>", "Give this session a tag"),
    idle(dialog(
        "fork",
        &["branch"],
        "",
        "Go on in a copy of this session",
    )),
    idle(dialog(
        "rewind",
        &["checkpoint", "undo"],
        "",
        "Go back to before a prompt",
    )),
    local("diff", &[], "", "What changed in the working folder"),
    local("export", &[], "[file]", "Write the conversation to a file"),
    dialog("copy", &[], "", "Copy the last answer"),
    local("add-dir", &[], "<folder>", "Allow work in one more folder"),
    local("cd", &[], "<folder>", "Change the working folder"),
    local("tasks", &["bashes"], "", "What runs in the background"),
    local("todos", &[], "", "The task list"),
    local("status", &[], "", "Session, model, folder, settings"),
    dialog("statusline", &[], "", "How to have your own status line"),
    local("doctor", &[], "", "Check this installation"),
    dialog("theme", &[], "[name]", "Choose the colours"),
    dialog("vim", &[], "", "Switch vim keys on or off"),
    dialog("ide", &[], "", "Connect to an editor"),
    dialog("login", &[], "", "Where the key for the model comes from"),
    dialog("logout", &[], "", "How to take the key away"),
    local("version", &[], "", "The version of Lathe"),
    local("release-notes", &[], "", "What is new in this version"),
    dialog(
        "feedback",
        &["bug"],
        "",
        "Write a report to a file; nothing is sent",
    ),
    Builtin {
        hidden: true,
        ..local(
            "reload-skills",
            &[],
            "",
            "Read agents, skills and commands again",
        )
    },
    Builtin {
        hidden: true,
        ..local(
            "reload-plugins",
            &[],
            "",
            "Read plugins again: what was installed or switched since counts",
        )
    },
    dialog("exit", &["quit", "q"], "", "Leave"),
];
