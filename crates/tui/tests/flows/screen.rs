use super::{Stage, rows};
use lathe_scripted::{Position, Reply};
use nix::sys::signal::Signal;
use serde_json::json;

fn long_answer() -> String {
    (0..40)
        .map(|n| format!("Paragraph number {n} has some words in it.\n\n"))
        .collect()
}

#[test]
fn a_long_answer_scrolls_into_the_scrollback_whole_and_once() {
    let stage = Stage::replies([Reply::text(long_answer()).delta_characters(7)]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Paragraph number 39");
    terminal.wait_gone("esc to interrupt");
    let all = terminal.everything();
    for n in 0..40 {
        assert_eq!(
            all.matches(&format!("Paragraph number {n} has")).count(),
            1,
            "paragraph {n} in\n{all}"
        );
    }
    assert!(
        !all.contains("esc to interrupt"),
        "a piece of the live area is in the scrollback:\n{all}"
    );
    assert_eq!(all.matches("? for keys").count(), 1, "{all}");
}

#[test]
fn a_resumed_session_prints_the_same_scrollback() {
    let answer = "# Plan\n\nText with `code`.\n\n1. one\n2. two\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd.";
    let stage = Stage::replies([
        Reply::text(answer).delta_characters(3),
        Reply::tool_use("Bash", json!({"command": "echo hi"})),
        Reply::text("done"),
    ]);
    let mut terminal = stage.open_sized(80, 40);
    terminal.say("go");
    terminal.wait_for("  End.");
    terminal.wait_gone("esc to interrupt");
    terminal.say("more");
    terminal.wait_for("● done");
    terminal.wait_gone("esc to interrupt");
    let conversation = |all: &str| {
        let from = all.find("❯ go").unwrap();
        let to = all.find("● done").unwrap();
        all[from..to].to_owned()
    };
    let streamed = conversation(&terminal.everything());
    terminal.leave();
    let terminal = stage.open_with(&["--continue"], 80, 40);
    terminal.wait_for("● done");
    assert_eq!(conversation(&terminal.everything()), streamed);
}

#[test]
fn the_bytes_written_for_a_streamed_kilobyte_are_bounded() {
    let text = long_answer();
    let stage = Stage::replies([Reply::text(text.clone()).delta_characters(4)]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("Paragraph number 39");
    terminal.wait_gone("esc to interrupt");
    let raw = terminal.raw();
    assert!(
        !raw.contains("\x1b[2J") && !raw.contains("\x1b[H"),
        "the screen was cleared"
    );
    // Every finished line costs the live area once more, and frames are drawn at most 60 times a
    // second however slowly the pieces come: 20 bytes for each are generous.
    assert!(
        raw.len() < text.len() * 20 + 20_000,
        "{} bytes for {} streamed",
        raw.len(),
        text.len()
    );
}

#[test]
fn frames_are_written_inside_synchronized_output() {
    let stage = Stage::replies([Reply::text("some words")]);
    let mut terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("● some words");
    terminal.leave();
    let raw = terminal.raw();
    // Leaving switches it off once more, whatever was going on.
    assert_eq!(
        raw.matches("\x1b[?2026h").count() + 1,
        raw.matches("\x1b[?2026l").count()
    );
    assert!(raw.matches("\x1b[?2026h").count() > 1);
}

#[test]
fn a_storm_of_resizes_while_streaming_loses_and_doubles_nothing() {
    let stage = Stage::replies([Reply::text(long_answer())
        .delta_characters(40)
        .gate(Position::MidBlock(0), "rest")]);
    let terminal = stage.open_sized(100, 30);
    terminal.say("go");
    terminal.wait_for("Paragraph number 12");
    for columns in [90, 70, 60, 80, 120, 100, 64, 100] {
        terminal.resize(columns, 30);
        std::thread::yield_now();
    }
    stage.server.gate("rest").release();
    terminal.wait_for("Paragraph number 39");
    terminal.wait_gone("esc to interrupt");
    let all = terminal.everything();
    for n in 0..40 {
        assert_eq!(
            all.matches(&format!("Paragraph number {n} has")).count(),
            1,
            "paragraph {n} in\n{all}"
        );
    }
}

#[test]
fn a_narrower_terminal_reflows_the_live_area() {
    let stage = Stage::replies([]);
    let terminal = stage.open_sized(100, 24);
    terminal
        .send("a prompt that is longer than the narrow terminal will be wide, and so it must wrap");
    terminal.wait_for("must wrap");
    terminal.resize(50, 24);
    terminal.wait("rows that fit", |screen| {
        let prompt: Vec<&str> = screen
            .lines()
            .skip_while(|line| !line.starts_with('❯'))
            .take(2)
            .collect();
        prompt.len() == 2 && prompt[0].chars().count() <= 50 && prompt[1].starts_with("  ")
    });
    terminal.wait("the prompt once", |screen| {
        screen.matches("a prompt that").count() == 1
    });
}

#[test]
fn the_transcript_is_searched() {
    let stage = Stage::replies([Reply::text(long_answer()), Reply::text("the end")]);
    let terminal = stage.open();
    terminal.say("first question");
    terminal.wait_for("Paragraph number 39");
    terminal.wait_gone("esc to interrupt");
    terminal.send("\x0f");
    terminal.wait_for("q back");
    assert!(terminal.with_screen(vt100::Screen::alternate_screen));
    terminal.send("g");
    terminal.wait_for("❯ first question");
    terminal.send("/number 27");
    terminal.wait_for("/number 27");
    terminal.send("\r");
    terminal.wait_for("Paragraph number 27");
    terminal.send("nN");
    terminal.send("G");
    terminal.wait_for("Paragraph number 39");
    terminal.send("/nowhere to be found\r");
    terminal.wait_for("no match for");
    terminal.send("q");
    terminal.wait_for("? for keys");
    assert!(!terminal.with_screen(vt100::Screen::alternate_screen));
    terminal.say("go on");
    terminal.wait_for("● the end");
    terminal.wait_everything("the conversation once", |all| {
        all.matches("❯ first question").count() == 1
    });
}

#[test]
fn output_during_the_transcript_is_there_when_it_is_closed() {
    let stage =
        Stage::replies([Reply::text("hidden while looking").gate(Position::MidBlock(0), "go")]);
    let terminal = stage.open();
    terminal.say("question");
    terminal.wait_for("esc to interrupt");
    terminal.send("\x0f");
    terminal.wait_for("q back");
    stage.server.gate("go").release();
    terminal.resize(70, 24);
    terminal.wait_for("q back");
    terminal.send("q");
    terminal.wait_for("● hidden while looking");
    terminal.wait_gone("esc to interrupt");
}

#[test]
fn suspended_and_continued_it_is_as_before() {
    let stage = Stage::replies([Reply::text("still here")]);
    let mut terminal = stage.open();
    terminal.send("half typed");
    terminal.wait_for("❯ half typed");
    terminal.send("\x1a");
    terminal.wait("the terminal to be given back", |screen| {
        !screen.contains("half typed")
    });
    let status = || std::fs::read_to_string(format!("/proc/{}/stat", terminal.pid())).unwrap();
    let until = std::time::Instant::now() + lathe_testkit::HANG_LIMIT;
    while !status().contains(") T ") {
        assert!(std::time::Instant::now() < until, "it doesn't stop");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    terminal.wait_screen("the modes to be given back", |screen| {
        !screen.bracketed_paste()
    });
    terminal.signal(Signal::SIGCONT);
    terminal.wait_screen("the screen as it was", |screen| {
        screen.bracketed_paste() && screen.contents().contains("❯ half typed")
    });
    terminal.send("\r");
    terminal.wait_for("● still here");
    assert!(terminal.leave().success());
}

#[test]
fn no_color_means_no_color() {
    let mut stage = Stage::replies([Reply::text("**plain** `words`")]);
    stage.home = stage.home.variable("NO_COLOR", "1");
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("● plain words");
    let raw = terminal.raw();
    // Sequences that end in `m` set looks; only bold, italic and their like may be among them.
    for sequence in raw.split("\x1b[").skip(1) {
        let end = sequence.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        if sequence[end..].starts_with('m') {
            assert!(
                sequence[..end].split(';').all(|code| code.len() <= 1),
                "{sequence:?}"
            );
        }
    }
}

#[test]
fn colours_are_as_many_as_the_terminal_has() {
    let mut stage = Stage::replies([Reply::text("words").times(1)]);
    stage.home = stage.home.variable("COLORTERM", "truecolor");
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("● words");
    assert!(terminal.raw().contains("38;2;"));
}

#[test]
fn a_light_terminal_gets_the_light_theme() {
    let mut stage = Stage::replies([]);
    stage.home = stage.home.variable("COLORTERM", "truecolor");
    let terminal = stage.open();
    terminal.wait_for_bytes("\x1b]11;?");
    terminal.send("\x1b]11;rgb:ffff/ffff/ffff\x1b\\");
    // The muted colour of the light theme.
    terminal.wait_for_bytes("38;2;106;111;120");
}

#[test]
fn the_kitty_keyboard_is_used_where_it_is_there_and_given_back() {
    let stage = Stage::replies([]);
    let mut terminal = stage.open();
    terminal.wait_for_bytes("\x1b[?u");
    terminal.send("\x1b[?1u");
    terminal.wait_for_bytes("\x1b[>1u");
    terminal.leave();
    assert!(terminal.raw().contains("\x1b[<u"));
}

#[test]
fn an_unfocused_user_is_notified_of_a_question() {
    let stage = Stage::replies([Reply::tool_use("Bash", json!({"command": "touch x"}))]);
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"notifications": "desktop"}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    terminal.send("\x1b[O");
    terminal.say("go");
    terminal.wait_for("Run this command?");
    terminal.wait_for_bytes("\x1b]9;Lathe asks");
}

#[test]
fn links_can_be_clicked() {
    let stage = Stage::replies([Reply::text("see [the page](https://example.com/x)")]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("see the page");
    terminal.wait_for_bytes("\x1b]8;;https://example.com/x");
}

#[test]
fn command_output_can_not_change_the_terminal() {
    let stage = Stage::replies([
        Reply::tool_use(
            "Bash",
            json!({"command": "printf '\\033[2J\\033[31mred\\033]0;evil\\007 \\033[?1049hdone\\n'"}),
        ),
        Reply::text("ok"),
    ]);
    let terminal = stage.open_with(&["--allowedTools", "Bash"], 80, 24);
    terminal.say("go");
    terminal.wait_for("● ok");
    let raw = terminal.raw();
    assert!(
        !raw.contains("\x1b]0;evil") && !raw.contains("\x1b[?1049h") && !raw.contains("\x1b[2J")
    );
    assert!(terminal.screen().contains("red done"));
}

#[test]
fn a_tiny_terminal_is_no_reason_to_fall() {
    let stage = Stage::replies([Reply::text(
        "many words that do not fit into so small a place at all",
    )]);
    let mut terminal = stage.open_sized(20, 6);
    terminal.say("go");
    terminal.wait_for("at all");
    terminal.wait_gone("esc to int");
    terminal.resize(8, 3);
    terminal.send("x");
    terminal.wait_for("❯ x");
    terminal.resize(60, 20);
    terminal.wait_for("enter send");
    terminal.wait_for("❯ x");
    assert!(rows(&terminal).len() <= 20);
    terminal.send("\x03");
    terminal.wait_gone("❯ x");
    assert!(terminal.leave().success());
}

#[test]
fn the_users_own_status_line_is_shown() {
    let stage = Stage::replies([]);
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"statusLine": {"type": "command", "command": "cat > status-input.json; echo my own line"}}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    terminal.wait_for("my own line");
    let input: serde_json::Value =
        serde_json::from_str(&stage.home.read("status-input.json")).unwrap();
    assert!(input["model"]["id"].as_str().unwrap().contains("claude"));
    assert_eq!(input["output_style"]["name"], "default");
    assert!(input["context_window"]["used_percentage"].is_u64());
    assert_eq!(input["cost"]["total_cost_usd"], 0.0);
}

#[test]
fn the_users_own_status_line_is_asked_again_as_often_as_they_wish() {
    let stage = Stage::replies([]);
    let command = "echo x >> runs; echo \"ran $(wc -l < runs | tr -d ' ') times\"";
    std::fs::write(
        stage.home.config().join("settings.json"),
        json!({"statusLine": {"type": "command", "command": command, "refreshInterval": 0.3, "padding": 3}}).to_string(),
    )
    .unwrap();
    let terminal = stage.open();
    terminal.wait("the third run, with blanks before it", |screen| {
        screen
            .lines()
            .filter_map(|line| line.strip_prefix("   ran "))
            .filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok())
            .any(|runs| runs >= 3)
    });
}

#[test]
fn a_log_is_not_written_into_the_picture() {
    let stage = Stage::replies([Reply::text("hello")]);
    let terminal = stage.home.terminal(["--debug"], 80, 24);
    terminal.wait_for("Say what to do");
    terminal.say("hi");
    terminal.wait_for("● hello");
    let log = std::fs::read_to_string(stage.home.config().join("debug.log")).unwrap();
    assert!(log.contains("DEBUG lathe_model"), "{log}");
    assert!(!terminal.everything().contains("DEBUG"));
}

#[test]
fn it_works_inside_tmux() {
    if std::process::Command::new("tmux")
        .arg("-V")
        .output()
        .is_err()
    {
        lathe_testkit::report_skipped("it_works_inside_tmux", "tmux is not installed");
        return;
    }
    let stage = Stage::replies([Reply::text("hello from inside")]);
    let socket = stage.home.root().join("tmux.sock");
    let tmux = |arguments: &[&str]| {
        let mut command = std::process::Command::new("tmux");
        stage.home.dress(&mut command);
        command
            .arg("-S")
            .arg(&socket)
            .arg("-f")
            .arg("/dev/null")
            .args(arguments);
        command
    };
    let lathe = lathe_testkit::binary::lathe().display().to_string();
    assert!(
        tmux(&[
            "new-session",
            "-d",
            "-x",
            "90",
            "-y",
            "20",
            "-s",
            "s",
            &lathe
        ])
        .env("TERM", "xterm-256color")
        .status()
        .unwrap()
        .success()
    );
    let wait_until = |what: &str, fine: &dyn Fn(&str) -> bool| {
        let until = std::time::Instant::now() + lathe_testkit::HANG_LIMIT;
        loop {
            let shown = tmux(&["capture-pane", "-p", "-S", "-200", "-t", "s"])
                .output()
                .unwrap();
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            if fine(&shown) {
                return;
            }
            assert!(
                std::time::Instant::now() < until,
                "waited for {what}:\n{shown}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let wait = |text: &str| wait_until(text, &|shown| shown.contains(text));
    wait("❯");
    tmux(&["send-keys", "-t", "s", "hi there", "Enter"])
        .status()
        .unwrap();
    wait("● hello from inside");
    wait_until("the turn to be over", &|shown| {
        !shown.contains("esc to interrupt")
    });
    tmux(&["resize-window", "-t", "s", "-x", "50", "-y", "15"])
        .status()
        .unwrap();
    tmux(&["send-keys", "-t", "s", "next"]).status().unwrap();
    // A live area that was left behind would show twice.
    wait_until("one live area and one conversation", &|shown| {
        ["❯ next", "❯ hi there", "enter send"]
            .iter()
            .all(|text| shown.matches(text).count() == 1)
    });
    tmux(&["kill-server"]).status().unwrap();
}

#[test]
fn nothing_runs_while_nothing_happens() {
    let stage = Stage::replies([Reply::text("done")]);
    let terminal = stage.open();
    terminal.say("go");
    terminal.wait_for("● done");
    terminal.wait_gone("esc to interrupt");
    // How often the threads of the interface gave the processor up; other parts have clocks of their own.
    let switches = || -> u64 {
        std::fs::read_dir(format!("/proc/{}/task", terminal.session_pid()))
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok())
            .filter(|status| !status.starts_with("Name:\tnotify"))
            .filter_map(|status| {
                status
                    .lines()
                    .find(|line| line.starts_with("voluntary_ctxt_switches"))?
                    .split_whitespace()
                    .nth(1)?
                    .parse::<u64>()
                    .ok()
            })
            .sum()
    };
    let bytes = terminal.bytes_written();
    // Measured until a calm second was seen: what was started before may still be finishing.
    let mut calm = u64::MAX;
    for _ in 0..20 {
        let before = switches();
        std::thread::sleep(std::time::Duration::from_secs(1));
        calm = calm.min(switches() - before);
        if calm <= 4 {
            break;
        }
    }
    assert!(calm <= 4, "{calm} wake-ups in the calmest second");
    assert!(terminal.bytes_written() - bytes < 200);
}
