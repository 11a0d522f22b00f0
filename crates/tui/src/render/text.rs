//! Widths, wrapping and cleaning of text.

use crate::prompt::keymap::{Action, Context, Keymap};
use crate::render::style::{Line, Span, Style};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    if text.chars().all(is_single) {
        return text.chars().count();
    }
    text.graphemes(true).map(grapheme_width).sum()
}

/// Whether a character is a grapheme of one column, whatever other such characters stand beside it: letters of the
/// Latin scripts, punctuation, arrows, and the lines and blocks that frames and bars are drawn with. Most texts of the
/// terminal have nothing else, and finding the graphemes of a text costs some 500 instructions for each.
fn is_single(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' | '\u{2010}'..='\u{2027}'
        | '\u{2190}'..='\u{21ff}' | '\u{2500}'..='\u{25fc}' | '❯')
}

/// Columns that one grapheme takes. Terminals never give one more than two.
pub(crate) fn grapheme_width(grapheme: &str) -> usize {
    if grapheme.len() == 1 {
        return 1;
    }
    grapheme.width().min(2)
}

/// Makes text from outside harmless: tabs become spaces, escape sequences and other control
/// characters go, and so do the characters that turn the direction of text around.
pub(crate) fn clean(text: &str) -> String {
    let text = lathe_protocol::printable::clean(text);
    if !text.contains('\t') {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut column = 0_usize;
    for c in text.chars() {
        match c {
            '\t' => {
                let spaces = 4 - column % 4;
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            '\n' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    out
}

/// Output of a command as a user would see it: a line that is overwritten by a carriage
/// return is kept only in its last state.
pub(crate) fn terminal_lines(output: &str) -> Vec<String> {
    output
        .lines()
        .map(|line| {
            let line = line.trim_end_matches('\r');
            clean(
                line.rsplit('\r')
                    .find(|part| !part.is_empty())
                    .unwrap_or(""),
            )
        })
        .collect()
}

/// Shows characters that can't be seen, for places where a hidden one could deceive.
pub(crate) fn reveal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            '\t' => out.push_str("    "),
            c if c.is_control()
                || !lathe_protocol::printable::is_printable(c)
                || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{ad}') =>
            {
                out.push_str(&format!("<U+{:04X}>", c as u32));
            }
            c => out.push(c),
        }
    }
    out
}

/// The mark of a line end in a text that is shown in one row.
const LINE_END: &str = " ⏎ ";

/// The text in one row: line ends become marks.
pub(crate) fn one_line(text: &str) -> String {
    let text = text.trim_end();
    if !text.contains('\n') {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join(LINE_END)
}

/// Cuts a text to a number of columns; `…` says that something is gone.
pub(crate) fn truncate(text: &str, columns: usize) -> String {
    if text.contains('\n') {
        return truncate(&one_line(text), columns);
    }
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let wide = grapheme_width(grapheme);
        if used + wide > columns - 1 {
            break;
        }
        out.push_str(grapheme);
        used += wide;
    }
    out.push('…');
    out
}

/// Cuts a line to a number of columns.
pub(crate) fn truncate_line(line: &Line, columns: usize) -> Line {
    if has_line_end(line) {
        let mut one = line.clone();
        for span in &mut one.spans {
            span.text = span.text.replace('\n', LINE_END);
        }
        return truncate_line(&one, columns);
    }
    if line.width() <= columns {
        return line.clone();
    }
    let mut out = Line {
        fill: line.fill,
        ..Line::empty()
    };
    let mut left = columns.saturating_sub(1);
    for span in &line.spans {
        let wide = width(&span.text);
        if wide <= left {
            out.push_span(span.clone());
            left -= wide;
            continue;
        }
        let mut kept = String::new();
        for grapheme in span.text.graphemes(true) {
            let wide = grapheme_width(grapheme);
            if wide > left {
                break;
            }
            kept.push_str(grapheme);
            left -= wide;
        }
        kept.push('…');
        out.push_span(Span {
            text: kept,
            style: span.style,
            link: span.link.clone(),
        });
        return out;
    }
    out
}

/// A unit that is not broken: a word or a run of blanks.
struct Piece {
    text: String,
    style: Style,
    link: Option<String>,
    columns: usize,
    blank: bool,
}

fn has_line_end(line: &Line) -> bool {
    line.spans.iter().any(|span| span.text.contains('\n'))
}

/// The lines of a text with line ends in it. Those after the first are indented.
fn divided(line: &Line, hanging: usize) -> Vec<Line> {
    let mut lines = vec![Line::empty()];
    for span in &line.spans {
        for (index, part) in span.text.split('\n').enumerate() {
            if index > 0 {
                lines.push(Line::plain(" ".repeat(hanging)));
            }
            if let Some(last) = lines.last_mut() {
                last.push_span(Span {
                    text: part.trim_end_matches('\r').to_owned(),
                    style: span.style,
                    link: span.link.clone(),
                });
            }
        }
    }
    for part in &mut lines {
        part.fill = line.fill;
    }
    lines
}

/// Makes rows of a line: breaks it at line ends and between words. Rows after the first begin with `hanging`
/// blanks. A word that is longer than a row is broken where the row ends.
pub(crate) fn wrap(line: &Line, columns: usize, hanging: usize) -> Vec<Line> {
    let columns = columns.max(4);
    let hanging = if hanging + 8 > columns { 0 } else { hanging };
    if has_line_end(line) {
        return divided(line, hanging)
            .iter()
            .flat_map(|part| wrap(part, columns, hanging))
            .collect();
    }
    if line.width() <= columns {
        return vec![line.clone()];
    }
    let mut rows = Vec::new();
    let mut row = Line::empty();
    let mut used = 0;
    let mut fresh = true;
    // Blanks wait until a word follows them in the same row.
    let mut blanks: Vec<Piece> = Vec::new();
    let mut word: Vec<Piece> = Vec::new();
    let mut pieces = pieces(line).into_iter().peekable();
    while let Some(piece) = pieces.next() {
        if piece.blank {
            blanks.push(piece);
            continue;
        }
        let more = pieces
            .peek()
            .is_some_and(|next| !next.blank && !breaks_after(&piece));
        word.push(piece);
        if more {
            continue;
        }
        let word_columns: usize = word.iter().map(|piece| piece.columns).sum();
        let blank_columns: usize = blanks.iter().map(|piece| piece.columns).sum();
        if used + blank_columns + word_columns > columns && !fresh {
            rows.push(std::mem::take(&mut row));
            row.push(" ".repeat(hanging), Style::PLAIN);
            used = hanging;
            blanks.clear();
        }
        for piece in blanks.drain(..).chain(word.drain(..)) {
            place(piece, &mut row, &mut used, &mut rows, columns, hanging);
        }
        fresh = false;
    }
    if !row.spans.is_empty() || rows.is_empty() {
        rows.push(row);
    }
    for row in &mut rows {
        row.fill = line.fill;
    }
    rows
}

/// Breaks a line inside its gutter: rows after the first begin with `gutter` in place of the first columns.
pub(crate) fn wrap_beside(gutter: &Line, first: &Line, rest: &Line, columns: usize) -> Vec<Line> {
    let room = columns.saturating_sub(gutter.width()).max(8);
    wrap(rest, room, 0)
        .into_iter()
        .enumerate()
        .map(|(index, row)| {
            let mut out = if index == 0 { first } else { gutter }.clone();
            out.fill = rest.fill;
            for span in row.spans {
                out.push_span(span);
            }
            out
        })
        .collect()
}

/// Breaks a line of a list so that what continues stands below what it belongs to: the second column, where
/// the line has two, else its own indentation.
pub(crate) fn wrap_below(line: &Line, columns: usize) -> Vec<Line> {
    let text = line.text();
    let indent = width(&text) - width(text.trim_start());
    let second = text
        .trim_start()
        .split_once("  ")
        .map(|(first, rest)| (indent + width(first) + 2, rest))
        .map(|(at, rest)| at + width(rest) - width(rest.trim_start()))
        .filter(|at| *at <= columns / 2);
    wrap(line, columns, second.unwrap_or(indent.max(2)))
}

fn breaks_after(piece: &Piece) -> bool {
    // Wide scripts are written without blanks: a row may end after any of their characters.
    piece.columns == 2 && piece.text.chars().count() <= 2 && !piece.text.is_ascii()
}

fn place(
    piece: Piece,
    row: &mut Line,
    used: &mut usize,
    rows: &mut Vec<Line>,
    columns: usize,
    hanging: usize,
) {
    if *used + piece.columns <= columns {
        *used += piece.columns;
        row.push_span(Span {
            text: piece.text,
            style: piece.style,
            link: piece.link,
        });
        return;
    }
    for grapheme in piece.text.graphemes(true) {
        let wide = grapheme_width(grapheme);
        if *used + wide > columns {
            rows.push(std::mem::take(row));
            row.push(" ".repeat(hanging), Style::PLAIN);
            *used = hanging;
        }
        let span = Span {
            text: grapheme.to_owned(),
            style: piece.style,
            link: piece.link.clone(),
        };
        match row.spans.last_mut() {
            Some(last) if last.style == span.style && last.link == span.link => {
                last.text.push_str(grapheme);
            }
            _ => row.push_span(span),
        }
        *used += wide;
    }
}

fn pieces(line: &Line) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for span in &line.spans {
        for grapheme in span.text.graphemes(true) {
            let blank = grapheme == " ";
            let columns = grapheme_width(grapheme);
            let wide = columns == 2;
            match pieces.last_mut() {
                Some(last)
                    if last.blank == blank
                        && last.style == span.style
                        && last.link == span.link
                        && !wide
                        && !breaks_after(last) =>
                {
                    last.text.push_str(grapheme);
                    last.columns += columns;
                }
                _ => pieces.push(Piece {
                    text: grapheme.to_owned(),
                    style: span.style,
                    link: span.link.clone(),
                    columns,
                    blank,
                }),
            }
        }
    }
    pieces
}

/// A number of tokens as people say it.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..=999 => count.to_string(),
        1_000..=99_999 => format!("{:.1}k", count as f64 / 1000.0),
        100_000..=999_999 => format!("{}k", count / 1000),
        _ => format!("{:.1}M", count as f64 / 1_000_000.0),
    }
}

/// A time as people say it.
pub(crate) fn duration(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.as_millis() > 0 => format!("{:.1}s", time.as_secs_f64()),
        0..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// "1 file", "2 files".
pub(crate) fn counted(count: usize, one: &str) -> String {
    if count == 1 {
        format!("1 {one}")
    } else if one.ends_with("ch") {
        format!("{count} {one}es")
    } else {
        format!("{count} {one}s")
    }
}

/// "1 more line (ctrl+o shows everything)".
pub(crate) fn more_lines(count: usize, keys: &Keymap) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let how = keys.hint(Context::Prompt, Action::Transcript, "shows everything");
    let how = how.map_or_else(String::new, |how| format!(" ({how})"));
    format!("… {count} more line{plural}{how}")
}

/// How long ago, in words.
pub(crate) fn ago(time: jiff::Timestamp) -> String {
    let seconds = (jiff::Timestamp::now().as_second() - time.as_second()).max(0);
    match seconds {
        0..=59 => "just now".to_owned(),
        60..=3599 => format!("{} min ago", seconds / 60),
        3600..=86_399 => format!("{} h ago", seconds / 3600),
        86_400..=2_591_999 => format!("{} d ago", seconds / 86_400),
        _ => time.to_string().chars().take(10).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_characters_are_graphemes_of_one_column_in_any_order() {
        let singles: Vec<char> = (' '..='\u{3000}').filter(|c| is_single(*c)).collect();
        assert!(singles.len() > 1_000);
        for (index, first) in singles.iter().enumerate() {
            // Each beside some that are far from it, and beside itself.
            for second in [index, index * 7 + 13, index * 31 + 101] {
                let pair: String = [*first, singles[second % singles.len()]].iter().collect();
                let graphemes: Vec<&str> = pair.graphemes(true).collect();
                assert_eq!(graphemes.len(), 2, "{pair:?}");
                let columns: usize = graphemes.into_iter().map(grapheme_width).sum();
                assert_eq!((columns, width(&pair)), (2, 2), "{pair:?}");
            }
        }
    }

    #[test]
    fn wrapped_lines_are_indented_below_their_start() {
        let table = [
            (
                "  ctrl+b   let commands and agents go on",
                vec![
                    "  ctrl+b   let commands",
                    "           and agents go",
                    "           on",
                ],
            ),
            (
                "    deep words that are many, too",
                vec!["    deep words that are", "    many, too"],
            ),
            (
                "no columns and no indentation",
                vec!["no columns and no", "  indentation"],
            ),
        ];
        for (text, expected) in table {
            let rows: Vec<String> = wrap_below(&Line::plain(text), 24)
                .iter()
                .map(Line::text)
                .collect();
            assert_eq!(rows, expected, "{text}");
        }
    }

    fn wrapped(text: &str, columns: usize, hanging: usize) -> Vec<String> {
        wrap(&Line::plain(text), columns, hanging)
            .iter()
            .map(Line::text)
            .collect()
    }

    #[test]
    fn rows_end_between_words_and_hang() {
        assert_eq!(
            wrapped("- one two three four", 9, 0),
            ["- one two", "three", "four"]
        );
        assert_eq!(
            wrapped("- one two three four five six", 14, 2),
            ["- one two", "  three four", "  five six"]
        );
        assert_eq!(wrapped("abcdefghij", 4, 0), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("", 4, 0), [""]);
    }

    #[test]
    fn line_ends_make_rows_and_are_marks_where_there_is_only_one() {
        assert_eq!(
            wrapped("- one\ntwo and three\n\nfour", 12, 2),
            ["- one", "  two and", "  three", "  ", "  four"]
        );
        let line = Line::plain("one\n").with("two", Style::PLAIN.bold());
        assert_eq!(truncate_line(&line, 20).text(), "one ⏎ two");
        assert_eq!(truncate("one\ntwo", 6), "one ⏎…");
        assert_eq!(one_line("one \r\ntwo\n"), "one ⏎ two");
    }

    #[test]
    fn wrapped_rows_stay_beside_their_gutter() {
        let rows = wrap_beside(
            &Line::plain("    "),
            &Line::plain("12 +"),
            &Line::plain("many words here"),
            12,
        );
        let rows: Vec<String> = rows.iter().map(Line::text).collect();
        assert_eq!(rows, ["12 +many", "    words", "    here"]);
    }

    #[test]
    fn wide_text_breaks_anywhere_and_never_overflows() {
        assert_eq!(wrapped("漢字漢字漢字", 5, 0), ["漢字", "漢字", "漢字"]);
        for columns in 4..20 {
            for row in wrapped("a漢b字 👩‍👩‍👧 e\u{301}ee שלום עולם and more", columns, 2)
            {
                assert!(width(&row) <= columns, "{row:?} in {columns}");
            }
        }
    }

    #[test]
    fn text_from_outside_can_do_nothing() {
        assert_eq!(
            clean("a\x1b[31mb\x1b[0m\x1b]0;title\x07c\x1b]8;;x\x1b\\d"),
            "abcd"
        );
        assert_eq!(clean("a\tb\u{202e}c\x08"), "a   bc");
        assert_eq!(terminal_lines("1%\r50%\r100%\r\nok\n"), ["100%", "ok"]);
        assert_eq!(reveal("rm\u{202e}x"), "rm<U+202E>x");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(tokens(950), "950");
        assert_eq!(tokens(1234), "1.2k");
        assert_eq!(tokens(200_000), "200k");
        assert_eq!(duration(std::time::Duration::from_secs(75)), "1m 15s");
        assert_eq!(counted(2, "search"), "2 searches");
    }

    #[test]
    fn a_long_text_is_cut_with_a_mark() {
        assert_eq!(truncate("abcdef", 4), "abc…");
        assert_eq!(truncate("漢字漢", 4), "漢…");
        assert_eq!(
            truncate_line(&Line::plain("ab").with("cdef", Style::PLAIN.bold()), 4).text(),
            "abc…"
        );
    }
}
