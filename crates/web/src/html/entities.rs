//! Character references.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// U+00A0 to U+00FF, in order.
const LATIN: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 \
    sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring \
    AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times \
    Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute \
    ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml \
    yacute thorn yuml";

/// Others: the name and its character.
const OTHERS: &str = "quot \" amp & lt < gt > apos ' QUOT \" AMP & LT < GT > OElig Œ oelig œ Scaron Š scaron š Yuml Ÿ fnof ƒ circ ˆ tilde ˜ \
    Alpha Α Beta Β Gamma Γ Delta Δ Epsilon Ε Zeta Ζ Eta Η Theta Θ Iota Ι Kappa Κ Lambda Λ Mu Μ Nu Ν Xi Ξ Omicron Ο Pi Π Rho Ρ \
    Sigma Σ Tau Τ Upsilon Υ Phi Φ Chi Χ Psi Ψ Omega Ω alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι \
    kappa κ lambda λ mu μ nu ν xi ξ omicron ο pi π rho ρ sigmaf ς sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω \
    ndash – mdash — lsquo ‘ rsquo ’ sbquo ‚ ldquo “ rdquo ” bdquo „ dagger † Dagger ‡ bull • hellip … permil ‰ prime ′ Prime ″ \
    lsaquo ‹ rsaquo › oline ‾ frasl ⁄ euro € image ℑ weierp ℘ real ℜ trade ™ alefsym ℵ larr ← uarr ↑ rarr → darr ↓ harr ↔ \
    crarr ↵ lArr ⇐ uArr ⇑ rArr ⇒ dArr ⇓ hArr ⇔ forall ∀ part ∂ exist ∃ empty ∅ nabla ∇ isin ∈ notin ∉ ni ∋ prod ∏ sum ∑ \
    minus − lowast ∗ radic √ prop ∝ infin ∞ ang ∠ and ∧ or ∨ cap ∩ cup ∪ int ∫ there4 ∴ sim ∼ cong ≅ asymp ≈ ne ≠ equiv ≡ \
    le ≤ ge ≥ sub ⊂ sup ⊃ nsub ⊄ sube ⊆ supe ⊇ oplus ⊕ otimes ⊗ perp ⊥ sdot ⋅ lceil ⌈ rceil ⌉ lfloor ⌊ rfloor ⌋ lang ⟨ \
    rang ⟩ loz ◊ spades ♠ clubs ♣ hearts ♥ diams ♦ excl ! num # dollar $ percnt % lpar ( rpar ) ast * plus + comma , \
    period . sol / colon : semi ; equals = quest ? commat @ lsqb [ lbrack [ bsol \\ rsqb ] rbrack ] Hat ^ lowbar _ grave ` \
    lcub { lbrace { vert | verbar | rcub } rbrace } check ✓ cross ✗ star ☆ starf ★ phone ☎ hyphen ‐ dash ‐ horbar ― \
    nldr ‥ mldr … lsquor ‚ ldquor „ copysr ℗ numero № half ½ ApplyFunction \u{2061} srarr → rarrw ↝ map ↦ lang ⟨";

/// Names for blanks and for what isn't seen.
const BLANKS: [(&str, char); 12] = [
    ("ensp", '\u{2002}'),
    ("emsp", '\u{2003}'),
    ("thinsp", '\u{2009}'),
    ("hairsp", '\u{200a}'),
    ("numsp", '\u{2007}'),
    ("zwnj", '\u{200c}'),
    ("zwj", '\u{200d}'),
    ("lrm", '\u{200e}'),
    ("rlm", '\u{200f}'),
    ("Tab", '\t'),
    ("NewLine", '\n'),
    ("ZeroWidthSpace", '\u{200b}'),
];

/// The longest name that is looked for.
const LONGEST: usize = 32;

/// The numbers 128 to 159 in pages: characters of windows-1252.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

fn named(name: &str) -> Option<char> {
    static NAMES: OnceLock<HashMap<&str, char>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let mut names: HashMap<&str, char> = BLANKS.into_iter().collect();
        names.extend(LATIN.split_whitespace().zip('\u{a0}'..));
        let mut others = OTHERS.split_whitespace();
        while let (Some(name), Some(value)) = (others.next(), others.next()) {
            names.extend(value.chars().next().map(|value| (name, value)));
        }
        names
    });
    names.get(name).copied()
}

fn numbered(digits: &str, radix: u32) -> char {
    let number = u32::from_str_radix(digits, radix).unwrap_or(u32::MAX);
    let windows = number
        .checked_sub(0x80)
        .and_then(|at| WINDOWS.get(usize::try_from(at).ok()?));
    match (windows, number) {
        (Some(character), _) => *character,
        (None, 0) => char::REPLACEMENT_CHARACTER,
        (None, number) => char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

/// One reference at the start of `text`, which begins after the `&`: its character and its length.
fn reference(text: &str) -> Option<(char, usize)> {
    if let Some(rest) = text.strip_prefix('#') {
        let (digits, radix, prefix) = match rest.strip_prefix(['x', 'X']) {
            Some(rest) => (rest, 16, 2),
            None => (rest, 10, 1),
        };
        let end = digits
            .find(|character: char| !character.is_digit(radix))
            .unwrap_or(digits.len());
        let number = digits.get(..end).filter(|number| !number.is_empty())?;
        let semicolon = usize::from(digits.get(end..)?.starts_with(';'));
        return Some((numbered(number, radix), prefix + end + semicolon));
    }
    let end = text
        .find(|character: char| !character.is_ascii_alphanumeric())
        .unwrap_or(text.len());
    let name = text
        .get(..end)
        .filter(|name| !name.is_empty() && name.len() <= LONGEST)?;
    if text.get(end..)?.starts_with(';') {
        return Some((named(name)?, end + 1));
    }
    // Without a semicolon only the oldest names are valid, and pages use them.
    let old = ["amp", "lt", "gt", "quot", "nbsp", "copy", "reg"];
    old.contains(&name).then(|| Some((named(name)?, end)))?
}

/// Text with its references replaced.
pub(super) fn decode(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('&') else {
        return Cow::Borrowed(text);
    };
    let mut decoded = String::with_capacity(text.len());
    decoded.push_str(text.get(..first).unwrap_or_default());
    let mut rest = text.get(first..).unwrap_or_default();
    while let Some(at) = rest.find('&') {
        decoded.push_str(rest.get(..at).unwrap_or_default());
        let after = rest.get(at + 1..).unwrap_or_default();
        match reference(after) {
            Some((character, length)) => {
                decoded.push(character);
                rest = after.get(length..).unwrap_or_default();
            }
            None => {
                decoded.push('&');
                rest = after;
            }
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_characters() {
        let cases = [
            ("a &amp; b", "a & b"),
            ("&lt;p&gt;", "<p>"),
            ("&nbsp;&yuml;&Agrave;&szlig;", "\u{a0}ÿÀß"),
            ("&hellip;&rarr;&phi;&loz;", "…→φ◊"),
            ("&#65;&#x42;&#X43;", "ABC"),
            ("&#150;&#x92;", "–’"),
            ("&#0;&#xD800;&#99999999999;", "\u{fffd}\u{fffd}\u{fffd}"),
            ("AT&T &unknown; &", "AT&T &unknown; &"),
            ("?a=1&copy=2&ltd", "?a=1©=2&ltd"),
            ("&#;&#x;&;", "&#;&#x;&;"),
            ("&bsol;&lbrace;&apos;", "\\{'"),
        ];
        for (written, expected) in cases {
            assert_eq!(decode(written), expected, "{written}");
        }
    }
}
