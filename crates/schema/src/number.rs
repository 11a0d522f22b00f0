//! Numbers in JSON Schema: compared by value, not by spelling.
//!
//! `1` and `1.0` are the same number, and `0.3` is a multiple of `0.1` although their binary fractions
//! are not. Integers are compared as integers, fractions by their decimal digits.

use serde_json::{Number, Value};
use std::cmp::Ordering;

/// The largest power of ten for exact arithmetic.
const MOST_DIGITS: u32 = 36;

/// The number as an integer, if it is one and fits.
pub(crate) fn whole(number: &Number) -> Option<i128> {
    if let Some(value) = number.as_i64() {
        return Some(value.into());
    }
    if let Some(value) = number.as_u64() {
        return Some(value.into());
    }
    let value = number.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an integer within the range of i128"
    )]
    (value.fract() == 0.0 && value.abs() < 1e38).then_some(value as i128)
}

/// True if a number has no fractional part, however large it is.
pub(crate) fn is_whole(number: &Number) -> bool {
    number.is_i64()
        || number.is_u64()
        || number
            .as_f64()
            .is_some_and(|value| value.is_finite() && value.fract() == 0.0)
}

pub(crate) fn compare(left: &Number, right: &Number) -> Ordering {
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        return left.cmp(&right);
    }
    let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
    float(left)
        .partial_cmp(&float(right))
        .unwrap_or(Ordering::Equal)
}

/// True if `value` is an integer multiple of `divisor`.
pub(crate) fn is_multiple(value: &Number, divisor: &Number) -> bool {
    let exact = || {
        let (left, left_scale) = decimal(value)?;
        let (right, right_scale) = decimal(divisor)?;
        let scale = left_scale.min(right_scale);
        let left = left.checked_mul(power(left_scale - scale)?)?;
        let right = right.checked_mul(power(right_scale - scale)?)?;
        left.checked_rem(right)
    };
    match exact() {
        Some(rest) => rest == 0,
        // Out of range for exact arithmetic; the remainder of two floats is itself exact.
        None => match (value.as_f64(), divisor.as_f64()) {
            (Some(value), Some(divisor)) => value % divisor == 0.0,
            _ => false,
        },
    }
}

fn power(exponent: i32) -> Option<i128> {
    let exponent = u32::try_from(exponent).ok()?;
    (exponent <= MOST_DIGITS).then(|| 10_i128.pow(exponent))
}

/// A number as digits and a power of ten.
fn decimal(number: &Number) -> Option<(i128, i32)> {
    let text = number.to_string();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text.as_str(), 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}").parse().ok()?;
    let places = i32::try_from(fraction.len()).ok()?;
    Some((digits, exponent.checked_sub(places)?))
}

/// Equality of JSON Schema: numbers by value, objects regardless of order.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare(left, right) == Ordering::Equal,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(one, two)| equal(one, two))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, one)| right.get(name).is_some_and(|two| equal(one, two)))
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn multiples_are_computed_in_decimal() {
        for (value, divisor, expected) in [
            ("10", "2", true),
            ("7", "2", false),
            ("0.3", "0.1", true),
            ("4.5", "1.5", true),
            ("35", "1.5", false),
            ("0.0075", "0.0001", true),
            ("0.00751", "0.0001", false),
            ("12391239123", "1e-8", true),
            ("1e308", "0.5", true),
            ("1e308", "0.123456789", false),
            ("0", "3", true),
            ("-9", "3", true),
            ("18446744073709551615", "5", true),
        ] {
            let (value, divisor) = (number(value), number(divisor));
            assert_eq!(is_multiple(&value, &divisor), expected, "{value} {divisor}");
        }
    }

    #[test]
    fn equality_ignores_spelling_and_order() {
        assert!(equal(
            &json!({"a": 1, "b": [2.0]}),
            &json!({"b": [2], "a": 1.0})
        ));
        assert!(!equal(&json!([1, 2]), &json!([2, 1])));
        assert!(!equal(&json!(0), &json!(false)));
        assert!(!equal(&json!({"a": null}), &json!({"b": null})));
        assert_eq!(
            compare(&number("9007199254740993"), &number("9007199254740992.0")),
            Ordering::Greater
        );
        assert!(is_whole(&number("1e300")) && is_whole(&number("2.0")));
        assert!(!is_whole(&number("2.5")));
    }
}
