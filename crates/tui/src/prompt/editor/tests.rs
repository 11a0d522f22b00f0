//! Editing as text: before, keys, after. `|` is the cursor.

use super::vim::Vim;
use super::*;
use crate::prompt::keymap::{Context, KeyMatch, Keymap};
use crate::terminal::key::{Key, keys};

const COLUMNS: usize = 20;

fn editor(before: &str) -> Editor {
    let cursor = before.find('|').expect("a cursor");
    Editor {
        text: before.replacen('|', "", 1),
        cursor,
        ..Editor::default()
    }
}

fn shown(editor: &Editor) -> String {
    let mut text = editor.text().to_owned();
    text.insert(editor.cursor(), '|');
    text
}

fn press(editor: &mut Editor, vim: Option<&mut Vim>, pressed: &[Key]) {
    let keymap = Keymap::default();
    let mut chord = Vec::new();
    let mut vim = vim;
    for key in pressed {
        if let Some(vim) = vim.as_deref_mut()
            && vim.key(*key, editor)
        {
            continue;
        }
        chord.push(*key);
        match keymap.find(Context::Prompt, &chord) {
            KeyMatch::Wait => continue,
            KeyMatch::Action(action) => {
                let action = if action == Action::Submit {
                    Action::Newline
                } else {
                    action
                };
                editor.apply(action, COLUMNS);
            }
            KeyMatch::Nothing => {
                if chord.len() == 1
                    && let Some(c) = crate::prompt::keymap::typed(*key)
                {
                    editor.insert(&c.to_string());
                }
            }
        }
        chord.clear();
    }
}

fn check(table: &[(&str, &str, &str)], vim_mode: bool) {
    let mut wrong = Vec::new();
    for (before, pressed, after) in table {
        let mut editor = editor(before);
        let mut vim = vim_mode.then(|| {
            let mut vim = Vim::default();
            let cursor = editor.cursor();
            vim.key(Key::new(crate::terminal::key::Code::Esc), &mut editor);
            editor.set_cursor(cursor);
            vim
        });
        press(&mut editor, vim.as_mut(), &keys(pressed));
        if shown(&editor) != *after {
            wrong.push(format!(
                "{before:?} {pressed:?}\n   is {:?}\n want {after:?}",
                shown(&editor)
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} rows:\n{}",
        wrong.len(),
        table.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_editor_does_what_its_keys_say() {
    check(
        &[
            ("|", "abc", "abc|"),
            ("|", "é漢👍", "é漢👍|"),
            ("ab|cd", "X", "abX|cd"),
            // Moving.
            ("ab|c", "<left>", "a|bc"),
            ("|abc", "<left>", "|abc"),
            ("ab|c", "<right>", "abc|"),
            ("abc|", "<right>", "abc|"),
            ("e\u{301}|x", "<left>", "|e\u{301}x"),
            ("|👩‍👩‍👧x", "<right>", "👩‍👩‍👧|x"),
            ("|漢字", "<right>", "漢|字"),
            ("שלו|ם", "<left>", "של|ום"),
            ("ab|c", "<ctrl+a>", "|abc"),
            ("a|bc", "<ctrl+e>", "abc|"),
            ("a|bc", "<home>", "|abc"),
            ("a|bc", "<end>", "abc|"),
            ("one\ntw|o", "<home>", "one\n|two"),
            ("one\nt|wo", "<end>", "one\ntwo|"),
            ("one\ntw|o", "<ctrl+home>", "|one\ntwo"),
            ("o|ne\ntwo", "<ctrl+end>", "one\ntwo|"),
            ("o|ne", "<alt+>>", "one|"),
            ("on|e", "<alt+<>", "|one"),
            ("a|b", "<ctrl+f>", "ab|"),
            // Words.
            ("one two|", "<alt+b>", "one |two"),
            ("one |two", "<alt+b>", "|one two"),
            ("one, two|", "<alt+left>", "one, |two"),
            ("|one two", "<alt+f>", "one| two"),
            ("one| two", "<alt+f>", "one two|"),
            ("|foo_bar.baz", "<ctrl+right>", "foo_bar|.baz"),
            ("foo_bar.baz|", "<ctrl+left>", "foo_bar.|baz"),
            ("|  x", "<alt+f>", "  x|"),
            ("über alles|", "<alt+b><alt+b>", "|über alles"),
            ("|", "<alt+b>", "|"),
            ("|", "<alt+f>", "|"),
            // Rows.
            ("one\nt|wo", "<up>", "o|ne\ntwo"),
            ("o|ne\ntwo", "<down>", "one\nt|wo"),
            ("long line\nx|", "<up>", "l|ong line\nx"),
            ("abcdef|\nx\nabcdef", "<down><down>", "abcdef\nx\nabcdef|"),
            ("abcd|ef\n\nabcdef", "<down><down>", "abcdef\n\nabcd|ef"),
            ("on|e", "<up>", "on|e"),
            ("on|e", "<down>", "on|e"),
            (
                "aaaa bbbb cccc dddd |eeee",
                "<up>",
                "aaaa |bbbb cccc dddd eeee",
            ),
            (
                "aaaa bbbb |cccc dddd eeee ffff",
                "<down>",
                "aaaa bbbb cccc dddd eeee |ffff",
            ),
            // Deleting.
            ("ab|c", "<backspace>", "a|c"),
            ("|abc", "<backspace>", "|abc"),
            ("e\u{301}|", "<backspace>", "|"),
            ("👩‍👩‍👧|", "<backspace>", "|"),
            ("one\n|two", "<backspace>", "one|two"),
            ("a|bc", "<delete>", "a|c"),
            ("abc|", "<delete>", "abc|"),
            ("a|\nb", "<delete>", "a|b"),
            ("ab|c", "<ctrl+h>", "a|c"),
            ("one two|", "<ctrl+w>", "one |"),
            ("one two  |", "<ctrl+w>", "one |"),
            ("a/b/c|", "<ctrl+w>", "|"),
            ("a/b/c|", "<alt+backspace>", "a/b/|"),
            ("|one two", "<alt+d>", "| two"),
            ("one| two", "<alt+d>", "one|"),
            ("one |two", "<ctrl+delete>", "one |"),
            ("a b|c d", "<ctrl+k>", "a b|"),
            ("ab|\ncd", "<ctrl+k>", "ab|cd"),
            ("a b|c d", "<ctrl+u>", "|c d"),
            ("one\n|two", "<ctrl+u>", "one|two"),
            ("one\ntw|o", "<ctrl+u>", "one\n|o"),
            ("|", "<ctrl+w><ctrl+u><ctrl+k><alt+d>", "|"),
            // The kill ring.
            ("one two|", "<ctrl+w><ctrl+y>", "one two|"),
            ("one two|", "<ctrl+w><ctrl+a><ctrl+y>", "two|one "),
            ("one two|", "<ctrl+w><ctrl+w><ctrl+y>", "one two|"),
            ("one two|", "<ctrl+w>x<ctrl+w><ctrl+y><alt+y>", "one two|"),
            ("a|b c d", "<ctrl+k><ctrl+y><ctrl+y>", "ab c db c d|"),
            ("x|", "<ctrl+y>", "x|"),
            ("x|", "<alt+y>", "x|"),
            ("|one two", "<alt+d><alt+d><ctrl+y>", "one two|"),
            // Undo and redo.
            ("|", "abc<ctrl+_>", "|"),
            ("|", "one two<ctrl+_>", "one |"),
            ("|", "one two<ctrl+_><ctrl+_>", "|"),
            ("|", "one<ctrl+_><alt+_>", "one|"),
            ("one two|", "<ctrl+w><ctrl+_>", "one two|"),
            ("one|", "<ctrl+u><ctrl+_>", "one|"),
            ("|", "a<ctrl+_>b<alt+_>", "b|"),
            ("ab|", "<backspace><backspace><ctrl+_>", "a|"),
            ("|", "<ctrl+_>", "|"),
            ("x|", "y<ctrl+x><ctrl+u>", "x|"),
            ("x|", "y<ctrl+x><ctrl+u><ctrl+x><ctrl+r>", "xy|"),
            // New lines.
            ("a|b", "<shift+enter>", "a\n|b"),
            ("a|b", "<alt+enter>", "a\n|b"),
            ("a|b", "<ctrl+j>", "a\n|b"),
            ("|", "a<ctrl+j>b<ctrl+j>c", "a\nb\nc|"),
            // Swapping.
            ("ab|", "<ctrl+x><ctrl+t>", "ba|"),
            ("a|bc", "<ctrl+x><ctrl+t>", "ba|c"),
            ("a|", "<ctrl+x><ctrl+t>", "a|"),
            // Unknown chords do nothing.
            ("a|", "<ctrl+x>z", "a|"),
            ("a|", "<ctrl+q>", "a|"),
        ],
        false,
    );
}

#[test]
fn vim_moves() {
    check(
        &[
            ("abc| def", "h", "ab|c def"),
            ("|abc", "h", "|abc"),
            ("|abc", "l", "a|bc"),
            ("ab|c", "l", "ab|c"),
            ("|abcdef", "3l", "abc|def"),
            ("o|ne\ntwo", "j", "one\nt|wo"),
            ("one\nt|wo", "k", "o|ne\ntwo"),
            ("on|e\na\nthree", "2j", "one\na\nth|ree"),
            ("|one two", "w", "one |two"),
            ("|one, two", "w", "one|, two"),
            ("|one, two", "W", "one, |two"),
            ("|a b c d", "3w", "a b c |d"),
            ("one |two", "b", "|one two"),
            ("a.b c|", "b", "a.b |c"),
            ("a.b |c", "b", "a.|b c"),
            ("a.b |c", "B", "|a.b c"),
            ("|one two", "e", "on|e two"),
            ("on|e two", "e", "one tw|o"),
            ("|a.b c", "E", "a.|b c"),
            ("one tw|o", "0", "|one two"),
            ("  one tw|o", "^", "  |one two"),
            ("|one two", "$", "one tw|o"),
            ("one\ntwo\nth|ree", "gg", "|one\ntwo\nthree"),
            ("|one\ntwo\nthree", "G", "one\ntwo\n|three"),
            ("|one\ntwo\nthree", "2G", "one\n|two\nthree"),
            ("one\ntwo\nthr|ee", "2gg", "one\n|two\nthree"),
            ("|one two", "fo", "one tw|o"),
            ("|one two", "ft", "one |two"),
            ("|one two", "tt", "one| two"),
            ("one tw|o", "Fo", "|one two"),
            ("one tw|o", "Tn", "on|e two"),
            ("|a,b,c,d", "f,;", "a,b|,c,d"),
            ("|a,b,c,d", "f,;,", "a|,b,c,d"),
            ("|a,b,c,d", "2f,", "a,b|,c,d"),
            ("|a,b,c,d", "t,;", "a,|b,c,d"),
            ("|one", "fz", "|one"),
            ("|(a (b) c)", "%", "(a (b) c|)"),
            ("(a (b) c|)", "%", "|(a (b) c)"),
            ("one two thr|ee", "ge", "one tw|o three"),
            ("|a\nb\n\nc", "}", "a\nb\n|\nc"),
            ("a\nb\n\n|c", "{", "a\nb\n|\nc"),
            ("|ab", "<right><left>", "|ab"),
            ("漢|字", "h", "|漢字"),
            ("|one two", "<esc>w", "one |two"),
        ],
        true,
    );
}

#[test]
fn vim_changes() {
    check(
        &[
            ("|abc", "x", "|bc"),
            ("ab|c", "x", "a|b"),
            ("|abcd", "2x", "|cd"),
            ("ab|c", "X", "a|c"),
            ("|one two", "dw", "|two"),
            ("one |two", "dw", "one| "),
            ("|one two three", "2dw", "|three"),
            ("|one two three", "d2w", "|three"),
            ("|one\ntwo", "dw", "|\ntwo"),
            ("one tw|o", "db", "one |o"),
            ("|one two", "de", "| two"),
            ("one |two three", "D", "one| "),
            ("one |two three", "d$", "one| "),
            ("one two |three", "d0", "|three"),
            ("a\n|b\nc", "dd", "a\n|c"),
            ("a\nb\n|c", "dd", "a\n|b"),
            ("|a", "dd", "|"),
            ("|a\nb\nc", "2dd", "|c"),
            ("|a\nb\nc", "dj", "|c"),
            ("a\nb\n|c", "dk", "|a"),
            ("a\n|b\nc", "dG", "|a"),
            ("a\n|b\nc", "dgg", "|c"),
            ("|one, two", "df,", "| two"),
            ("|one, two", "dt,", "|, two"),
            ("|one two", "cwx<esc>", "|x two"),
            ("|one two", "ccx<esc>", "|x"),
            ("one |two three", "Cx<esc>", "one |x"),
            ("|one", "sx<esc>", "|xne"),
            ("a\n|b", "Sx<esc>", "a\n|x"),
            ("|one", "rx", "|xne"),
            ("|one", "2rx", "x|xe"),
            ("|one", "9rx", "|one"),
            ("|one", "~", "O|ne"),
            ("|oNe", "3~", "On|E"),
            ("|a\nb", "J", "a| b"),
            ("|a\n  b\nc", "3J", "a b| c"),
            ("|a", ">>", "  |a"),
            ("  |a", "<<", "|a"),
            ("|a\nb", ">j", "  |a\n  b"),
            ("|one two", "ix<esc>", "|xone two"),
            ("|one", "ax<esc>", "o|xne"),
            ("o|ne", "Ix<esc>", "|xone"),
            ("|one", "Ax<esc>", "one|x"),
            ("|one", "ox<esc>", "one\n|x"),
            ("one|", "Ox<esc>", "|x\none"),
            ("|one two", "yiwP", "on|eone two"),
            ("|one two", "yiwp", "oon|ene two"),
            ("|one\ntwo", "yyp", "one\n|one\ntwo"),
            ("one\n|two", "yyP", "one\n|two\ntwo"),
            ("|one\ntwo", "Yjp", "one\ntwo\n|one"),
            ("|a\nb", "ddp", "b\n|a"),
            ("|ab", "xp", "b|a"),
            ("|ab", "x3p", "baa|a"),
            ("|abc", "xu", "|abc"),
            ("|abc", "xxuu", "|abc"),
            ("|abc", "xu<ctrl+r>", "|bc"),
            ("|one two three", "dwu", "|one two three"),
        ],
        true,
    );
}

#[test]
fn vim_repeats() {
    check(
        &[
            ("|abcd", "x.", "|cd"),
            ("|abcd", "x2.", "|d"),
            ("|a b c", "dw.", "|c"),
            ("|one two", "cwx<esc>w.", "x |x"),
            ("|a\nb", "Ax<esc>j.", "ax\nb|x"),
            ("|a\nb\nc", "dd.", "|c"),
            ("|aXbXc", "dfX.", "|c"),
            ("|a", "ib<esc>.", "|bba"),
            ("|a", ".", "|a"),
            ("|ab cd", "rxw.", "xb |xd"),
            ("|a\nb\nc", "J.", "a b| c"),
            ("|abc", "~.", "AB|c"),
        ],
        true,
    );
}

#[test]
fn vim_knows_text_objects() {
    check(
        &[
            ("one t|wo three", "diw", "one | three"),
            ("one t|wo three", "daw", "one |three"),
            ("one two| three", "diw", "one two|three"),
            ("one thr|ee", "daw", "on|e"),
            ("a.b|.c d", "diw", "a.b|c d"),
            ("a.b|.c d", "diW", "| d"),
            ("x \"a|b\" y", "di\"", "x \"|\" y"),
            ("x \"a|b\" y", "da\"", "x |y"),
            ("|x \"ab\" y", "ci\"z<esc>", "x \"|z\" y"),
            ("x 'a|b'", "di'", "x '|'"),
            ("f(a, |b)", "di(", "f(|)"),
            ("f(a, |b)", "da(", "|f"),
            ("f(a, (|b))", "dib", "f(a, (|))"),
            ("f[a|b]", "ci[x<esc>", "f[|x]"),
            ("{ a|b }", "diB", "{|}"),
            ("<a|b>", "di<", "<|>"),
            ("a|b", "di(", "a|b"),
            ("one t|wo", "yiwP", "one tw|otwo"),
            ("a\nb|\n\nc", "dip", "|\n\nc"),
        ],
        true,
    );
}

#[test]
fn vim_selects() {
    check(
        &[
            ("|one two", "vlld", "| two"),
            ("|one two", "ved", "| two"),
            ("one |two", "vbd", "|wo"),
            ("|one two", "viwc x<esc>", " |x two"),
            ("a\n|b\nc", "Vd", "a\n|c"),
            ("|a\nb\nc", "Vjd", "|c"),
            ("|one two", "vey$p", "one twoon|e"),
            ("|abc", "vl~", "|ABc"),
            ("|ABC", "vlu", "|abC"),
            ("|abc", "vlU", "|ABc"),
            ("|a\nb", "VJ", "a| b"),
            ("|a\nb", "Vj>", "  |a\n  b"),
            ("|abc", "vlrx", "|xxc"),
            ("|one two", "veywvep", "one on|e"),
            ("|abc", "v<esc>x", "|bc"),
            ("a|bc", "vlohd", "|"),
            ("x (a|b) y", "vi(d", "x (|) y"),
            ("|one two", "v$d", "|"),
        ],
        true,
    );
}

#[test]
fn a_long_paste_becomes_a_placeholder_that_goes_as_one_and_expands_when_sent() {
    let mut editor = Editor::default();
    editor.insert("see ");
    let long = (0..120)
        .map(|n| format!("line {n}"))
        .collect::<Vec<_>>()
        .join("\n");
    editor.paste(&long);
    assert_eq!(editor.text(), "see [Pasted text #1 +120 lines]");
    editor.paste("short\ttext\x1b[31m");
    assert!(editor.text().ends_with("short    text[31m"));
    let sent = Editor::expand(editor.text(), editor.attachments());
    assert!(sent.starts_with("see line 0\n") && sent.contains("line 119short"));

    let mut editor = Editor::default();
    editor.paste(&long);
    editor.apply(Action::Left, 80);
    assert_eq!(editor.cursor(), 0);
    editor.apply(Action::Right, 80);
    editor.apply(Action::DeleteBack, 80);
    assert_eq!(editor.text(), "");
    editor.apply(Action::Undo, 80);
    assert_eq!(editor.text(), "[Pasted text #1 +120 lines]");
}

#[test]
fn rows_wrap_between_words_and_the_cursor_fits_behind_each() {
    let text = "aaaa bbbb cccc dddd eeee";
    let all = rows(text, 11);
    let parts: Vec<&str> = all.iter().map(|row| &text[row.start..row.end]).collect();
    assert_eq!(parts, ["aaaa bbbb ", "cccc dddd ", "eeee"]);
    for columns in 4..30 {
        for text in ["漢字漢字漢字 abc", "", "\n\n", "a\nb", "👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧"]
        {
            let all = rows(text, columns);
            assert_eq!(
                all.iter()
                    .map(|row| &text[row.start..row.end])
                    .collect::<String>(),
                text.replace('\n', "")
            );
            for row in all {
                assert!(
                    crate::render::text::width(&text[row.start..row.end]) <= columns.max(4),
                    "{text:?} in {columns}"
                );
            }
        }
    }
}

#[test]
fn any_keys_leave_a_sound_editor() {
    // A fixed sequence of pseudo-random keys, so that a failure can be repeated.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let pool = keys(
        "abcdwexyzpPuvVJ~rfFtT;,0^$GgiaAIoOhjkl.<>\"'()[]{}%123é漢👩‍👩‍👧 \n<esc><esc><ctrl+w><ctrl+k><ctrl+y><alt+y><ctrl+_><backspace><delete><left><right><up><down><home><end><alt+b><alt+d>",
    );
    for vim_mode in [false, true] {
        let mut editor = Editor::default();
        let mut vim = vim_mode.then(Vim::default);
        for _ in 0..20_000 {
            let key = pool[next(pool.len())];
            press(&mut editor, vim.as_mut(), &[key]);
            assert!(
                editor.text.is_char_boundary(editor.cursor),
                "{:?} at {}",
                editor.text,
                editor.cursor
            );
            if editor.text.len() > 2000 {
                editor = Editor::default();
            }
        }
    }
}
