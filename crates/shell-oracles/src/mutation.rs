//! Variants of commands, the same in every run.
//!
//! A variant depends on its command and the seed alone, not on the other commands: a new line in a corpus
//! leaves the variants of the old ones, and the list of known misreadings, as they are.

/// Put in somewhere.
const PIECES: &[&str] = &[
    " ",
    "\n",
    ";",
    "&",
    "|",
    "&&",
    "||",
    "'",
    "\"",
    "\\",
    "\\\n",
    "#",
    " #",
    "$(b)",
    " `b` ",
    "$x",
    "${x:-$(b)}",
    "$((1))",
    " <(b) ",
    ">f",
    " 2>&1",
    "<<A\n$(b)\nA\n",
    "<<'A'\n$(b)\nA\n",
    "<<<b",
    "$'\\x62'",
    "''",
    "\"\"",
    "\"$(b)\"",
    "*",
    "~",
    "!",
    " a=b ",
    "(",
    ")",
    "{",
    "}",
    "é",
    "\t",
];

/// Put around the whole, at the `@`.
const FRAMES: &[&str] = &[
    "( @\n)",
    "{ @\n}",
    "$( @\n)",
    "b \"$( @\n)\"",
    "b <( @\n)",
    "b; @",
    "@; b",
    "@ | b",
    "b && @",
    "@ || b",
    "@ & b",
    "! @",
    "time @",
    "if b; then @\nfi",
    "for i in a; do @\ndone",
    "while b; do @\ndone",
    "case a in a) @\n;; esac",
    "f() { @\n}",
    "b=1 @",
    "@ > f",
    "@ <<'A'\n$(c)\nA\n",
    "@ <<A\n$(c)\nA\nb",
    "x=\"$( @\n)\"",
    "b ${x:-$( @\n)}",
];

/// A small generator of random numbers, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let number = usize::try_from(self.0 >> 33).unwrap_or(0);
        number.checked_rem(limit).unwrap_or(0)
    }
}

/// A variant of a command.
#[must_use]
pub fn variant(command: &str, seed: u64) -> String {
    // FNV-1a over the command, so that each has variants of its own.
    let hash = command
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64 ^ seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let mut random = Random(hash | 1);
    let mut text = command.to_owned();
    for _ in 0..=random.below(2) {
        text = mutate(text, &mut random);
    }
    text
}

fn mutate(mut text: String, random: &mut Random) -> String {
    let places: Vec<usize> = text
        .char_indices()
        .map(|(place, _)| place)
        .chain([text.len()])
        .collect();
    let place = places[random.below(places.len())];
    match random.below(4) {
        0 => FRAMES[random.below(FRAMES.len())].replace('@', &text),
        1 if place < text.len() => {
            text.remove(place);
            text
        }
        _ => {
            text.insert_str(place, PIECES[random.below(PIECES.len())]);
            text
        }
    }
}
