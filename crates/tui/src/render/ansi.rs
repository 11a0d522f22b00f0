//! Output of commands with its colours: sequences that set colours become styles, and everything else that
//! isn't text goes, so that a command can't move the cursor or change a mode.

use crate::render::style::{Color, Line, Style};

/// The lines of an output. A line that is overwritten by a carriage return is kept only in its last state.
pub(crate) fn lines(output: &str, base: Style) -> Vec<Line> {
    let mut style = Style::PLAIN;
    output
        .lines()
        .map(|line| one(line.trim_end_matches('\r'), base, &mut style))
        .collect()
}

fn one(text: &str, base: Style, style: &mut Style) -> Line {
    let mut line = Line::empty();
    let mut column = 0;
    // What was overwritten, until something is written over it.
    let mut overwritten = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => overwritten = true,
            '\x1b' => match chars.next() {
                Some('[') => {
                    let mut parameters = String::new();
                    for c in chars.by_ref() {
                        if matches!(c, '\x40'..='\x7e') {
                            if c == 'm' {
                                select(&parameters, style);
                            }
                            break;
                        }
                        parameters.push(c);
                    }
                }
                Some(']' | 'P' | '_' | '^' | 'X') => skip_string(&mut chars),
                Some('(' | ')' | '*' | '+' | '#' | ' ' | '%') => {
                    chars.next();
                }
                _ => {}
            },
            c => {
                let blanks = if c == '\t' { 4 - column % 4 } else { 0 };
                if c != '\t' && (c.is_control() || !lathe_protocol::printable::is_printable(c)) {
                    continue;
                }
                if std::mem::take(&mut overwritten) {
                    line = Line::empty();
                    column = 0;
                }
                let style = style.over(base);
                if blanks > 0 {
                    line.push(" ".repeat(blanks), style);
                    column += blanks;
                } else {
                    line.push(c.to_string(), style);
                    column += 1;
                }
            }
        }
    }
    line
}

/// Skips a string of the terminal's: a title, a link, an image.
fn skip_string(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while let Some(c) = chars.next() {
        if c == '\x07' {
            return;
        }
        if c == '\x1b' && chars.peek() == Some(&'\\') {
            chars.next();
            return;
        }
    }
}

/// Applies the parameters of a sequence that sets colours.
fn select(parameters: &str, style: &mut Style) {
    let numbers: Vec<u16> = parameters
        .split([';', ':'])
        .map(|number| number.parse().unwrap_or(0))
        .collect();
    let mut at = 0;
    while let Some(number) = numbers.get(at) {
        at += 1;
        match number {
            0 => *style = Style::PLAIN,
            1 => style.bold = true,
            2 => style.dim = true,
            3 => style.italic = true,
            4 => style.underline = true,
            7 => style.reverse = true,
            9 => style.strike = true,
            22 => (style.bold, style.dim) = (false, false),
            23 => style.italic = false,
            24 => style.underline = false,
            27 => style.reverse = false,
            29 => style.strike = false,
            30..=37 => style.foreground = ansi(number - 30),
            90..=97 => style.foreground = ansi(number - 90 + 8),
            39 => style.foreground = None,
            40..=47 => style.background = ansi(number - 40),
            100..=107 => style.background = ansi(number - 100 + 8),
            49 => style.background = None,
            38 | 48 => {
                let (color, used) = extended(numbers.get(at..).unwrap_or_default());
                at += used;
                if *number == 38 {
                    style.foreground = color;
                } else {
                    style.background = color;
                }
            }
            _ => {}
        }
    }
}

fn ansi(index: u16) -> Option<Color> {
    u8::try_from(index).ok().map(Color::Ansi)
}

/// A colour of the 256 or an exact one, and how many numbers it took.
fn extended(numbers: &[u16]) -> (Option<Color>, usize) {
    let byte = |number: u16| u8::try_from(number).unwrap_or(u8::MAX);
    match numbers {
        [5, index, ..] => (Some(indexed(byte(*index))), 2),
        [2, r, g, b, ..] => (Some(Color::Rgb(byte(*r), byte(*g), byte(*b))), 4),
        other => (None, other.len()),
    }
}

/// One of the 256 colours.
fn indexed(index: u8) -> Color {
    match index {
        0..=15 => Color::Ansi(index),
        16..=231 => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let cube = index - 16;
            Color::Rgb(level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        _ => {
            let gray = 8 + 10 * (index - 232);
            Color::Rgb(gray, gray, gray)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_stay_and_everything_else_goes() {
        let base = Style::fg(Color::Ansi(8));
        let shown = lines(
            "plain \x1b[1;31mred\x1b[0m\x1b[2J\x1b]0;title\x07\x1b]8;;x\x1b\\ link\n\x1b[38;5;196mstill\nred\x1b[39m\u{202e}",
            base,
        );
        let texts: Vec<String> = shown.iter().map(Line::text).collect();
        assert_eq!(texts, ["plain red link", "still", "red"]);
        let red = &shown[0].spans[1];
        assert_eq!(red.text, "red");
        assert_eq!(red.style, Style::fg(Color::Ansi(1)).bold());
        assert_eq!(
            shown[2].spans[0].style.foreground,
            Some(Color::Rgb(255, 0, 0))
        );
        assert_eq!(shown[0].spans[0].style, base);
    }

    #[test]
    fn an_overwritten_line_is_shown_as_it_ended() {
        let shown = lines("1%\r\x1b[32m50%\r100%\r\nok\tdone\n", Style::PLAIN);
        let texts: Vec<String> = shown.iter().map(Line::text).collect();
        assert_eq!(texts, ["100%", "ok  done"]);
        assert_eq!(shown[0].spans[0].style.foreground, Some(Color::Ansi(2)));
    }

    #[test]
    fn broken_sequences_are_harmless() {
        for text in [
            "\x1b",
            "\x1b[",
            "\x1b[38;5m",
            "\x1b[38;2;1;2",
            "\x1b]8;;",
            "\x1b[999;99999m",
            "\x1b[;;m",
        ] {
            assert!(
                lines(text, Style::PLAIN)
                    .iter()
                    .all(|line| line.text().is_empty())
            );
        }
    }
}
