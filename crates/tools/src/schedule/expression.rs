//! Cron expressions: five fields in local time.
//!
//! A job at fixed hours fires once for each of its times: a time that the clock skips is as much later as the clock
//! skips, a time that comes twice counts the first time. A job whose hours begin with `*` follows the real time: it
//! fires in both of the doubled hours and not for the skipped one.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// Days that are searched: February 29 may be eight years away.
const MOST_DAYS: usize = 366 * 8 + 2;
/// More than any change of a clock, in minutes.
const LARGEST_CHANGE: i64 = 180;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Why a text is no cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Not five fields.
    #[error("a cron expression has five fields (minute hour day month weekday), this one has {0}")]
    Fields(usize),
    /// A value that the field doesn't have.
    #[error("{field}: `{text}` is not a value from {least} to {most}")]
    Value {
        /// The field.
        field: &'static str,
        /// The value.
        text: String,
        /// The smallest one.
        least: u8,
        /// The greatest one.
        most: u8,
    },
    /// A range that ends before it begins.
    #[error("{field}: the range `{text}` ends before it begins")]
    Range {
        /// The field.
        field: &'static str,
        /// The range.
        text: String,
    },
    /// A step of zero, or none.
    #[error("{field}: `{text}` has no step of 1 or more")]
    Step {
        /// The field.
        field: &'static str,
        /// The part.
        text: String,
    },
    /// No day has these fields.
    #[error("this expression matches no day")]
    Never,
}

/// A cron expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpression {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
    follows_real_time: bool,
}

struct Field {
    name: &'static str,
    least: u8,
    most: u8,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field {
        name: "minute",
        least: 0,
        most: 59,
        names: &[],
    },
    Field {
        name: "hour",
        least: 0,
        most: 23,
        names: &[],
    },
    Field {
        name: "day",
        least: 1,
        most: 31,
        names: &[],
    },
    Field {
        name: "month",
        least: 1,
        most: 12,
        names: &MONTHS,
    },
    Field {
        name: "weekday",
        least: 0,
        most: 7,
        names: &WEEKDAYS,
    },
];

impl Field {
    fn value(&self, text: &str) -> Result<u8, CronError> {
        let lower = text.to_ascii_lowercase();
        if let Some(at) = self.names.iter().position(|name| *name == lower) {
            return Ok(u8::try_from(at).unwrap_or(0) + self.least);
        }
        let number = text.parse().ok();
        number
            .filter(|number| (self.least..=self.most).contains(number))
            .ok_or_else(|| CronError::Value {
                field: self.name,
                text: text.to_owned(),
                least: self.least,
                most: self.most,
            })
    }

    /// One part of a list: `*`, `5`, `1-5`, each with a step.
    fn part(&self, text: &str) -> Result<u64, CronError> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most.min(self.last())),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            None if step.is_some() => (self.value(range)?, self.last()),
            None => {
                let value = self.value(range)?;
                (value, value)
            }
        };
        if from > to {
            return Err(CronError::Range {
                field: self.name,
                text: range.to_owned(),
            });
        }
        let step = match step {
            None => 1,
            Some(step) => {
                step.parse()
                    .ok()
                    .filter(|step| *step > 0)
                    .ok_or_else(|| CronError::Step {
                        field: self.name,
                        text: text.to_owned(),
                    })?
            }
        };
        let values = (from..=to).step_by(step);
        Ok(values.fold(0, |set, value| set | (1 << value)))
    }

    /// The last value that is not another name of the first.
    fn last(&self) -> u8 {
        self.most.min(if self.name == "weekday" { 6 } else { 59 })
    }

    fn set(&self, text: &str) -> Result<u64, CronError> {
        text.split(',')
            .try_fold(0, |set, part| Ok(set | self.part(part)?))
    }
}

impl CronExpression {
    /// Reads an expression.
    ///
    /// # Errors
    /// When it isn't one, or no day fits it.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = words.as_slice() else {
            return Err(CronError::Fields(words.len()));
        };
        let [minutes, hours, days, months, mut weekdays] = [
            FIELDS[0].set(minute)?,
            FIELDS[1].set(hour)?,
            FIELDS[2].set(day)?,
            FIELDS[3].set(month)?,
            FIELDS[4].set(weekday)?,
        ];
        // 7 is Sunday, too.
        weekdays |= (weekdays >> 7) & 1;
        let expression = Self {
            minutes,
            hours,
            days,
            months,
            weekdays,
            any_day: day.starts_with('*'),
            any_weekday: weekday.starts_with('*'),
            follows_real_time: hour.starts_with('*'),
        };
        let somewhere = Timestamp::UNIX_EPOCH;
        match expression.next_after(somewhere, &TimeZone::UTC) {
            Some(_) => Ok(expression),
            None => Err(CronError::Never),
        }
    }

    /// The first time after a moment at which it fires.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let local = zone.to_datetime(after);
        let mut date = local.date();
        for _ in 0..MOST_DAYS {
            if self.fits(date)
                && let Some(found) = self.on_day(date, after, local, zone)
            {
                return Some(found);
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    fn fits(&self, date: Date) -> bool {
        let has = |set: u64, value: i8| set >> value & 1 == 1;
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        // Of two restrictions one is enough; `*` restricts nothing.
        let either = if self.any_day || self.any_weekday {
            day && weekday
        } else {
            day || weekday
        };
        either && has(self.months, date.month())
    }

    /// The first time of a day after a moment.
    fn on_day(
        &self,
        date: Date,
        after: Timestamp,
        local: DateTime,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        let minutes_of = |time: DateTime| {
            let moment = jiff::tz::Offset::UTC.to_timestamp(time).ok()?;
            Some(moment.as_second().div_euclid(60))
        };
        let from = minutes_of(local)?;
        let mut found: Option<(Timestamp, i64)> = None;
        for hour in (0..24).filter(|hour| self.hours >> hour & 1 == 1) {
            for minute in (0..60).filter(|minute| self.minutes >> minute & 1 == 1) {
                let time = date.to_datetime(Time::new(hour, minute, 0, 0).ok()?);
                let at = minutes_of(time)?;
                if at + LARGEST_CHANGE < from {
                    continue;
                }
                if found.is_some_and(|(_, civil)| at > civil + LARGEST_CHANGE) {
                    return found.map(|(moment, _)| moment);
                }
                for moment in self.moments(time, zone).into_iter().flatten() {
                    if moment > after && found.is_none_or(|(first, _)| moment < first) {
                        found = Some((moment, at));
                    }
                }
            }
        }
        found.map(|(moment, _)| moment)
    }

    /// The moments at which a clock on the wall shows a time, as far as the expression counts them.
    fn moments(&self, time: DateTime, zone: &TimeZone) -> [Option<Timestamp>; 2] {
        let at = |offset: jiff::tz::Offset| offset.to_timestamp(time).ok();
        match zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => [at(offset), None],
            AmbiguousOffset::Gap { .. } if self.follows_real_time => [None, None],
            AmbiguousOffset::Gap { before, .. } => [at(before), None],
            AmbiguousOffset::Fold { before, after } if self.follows_real_time => {
                [at(before), at(after)]
            }
            AmbiguousOffset::Fold { before, .. } => [at(before), None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The days since 1970 as a date: year, month, day. Written out, so that it shares nothing with the library.
    fn date_of(days: i64) -> (i64, i64, i64) {
        let (mut year, mut left) = (1970, days);
        let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        while left >= 365 + i64::from(leap(year)) {
            left -= 365 + i64::from(leap(year));
            year += 1;
        }
        for (month, length) in [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
            .iter()
            .enumerate()
        {
            let length = length + i64::from(month == 1 && leap(year));
            if left < length {
                return (year, month as i64 + 1, left + 1);
            }
            left -= length;
        }
        unreachable!()
    }

    /// A zone whose summer time begins and ends on a Sunday of a month at a local hour.
    struct Zone {
        rule: &'static str,
        /// Minutes east of UTC, in winter and in summer.
        offsets: (i64, i64),
        /// Month, which Sunday (5 is the last), local minute of the day: the beginning and the end of summer time.
        changes: Option<[(i64, i64, i64); 2]>,
    }

    impl Zone {
        fn is_change_day(days: i64, month: i64, which: i64) -> bool {
            let (_, this_month, day) = date_of(days);
            let is_sunday = (days + 4).rem_euclid(7) == 0;
            let week = if which == 5 {
                date_of(days + 7).1 != month
            } else {
                (day - 1) / 7 + 1 == which
            };
            this_month == month && is_sunday && week
        }

        /// The offset at each minute from `start` on, found by walking from day to day.
        fn offsets_from(&self, start: i64, minutes: i64) -> Vec<i64> {
            let mut offset = self.offsets.0;
            let mut all = Vec::with_capacity(minutes as usize);
            // Half a year earlier, so that the first offset is right.
            let mut at = start - 400 * 1_440;
            while at < start + minutes {
                if let Some([begin, end]) = self.changes {
                    let local = at + offset;
                    let (days, minute) = (local.div_euclid(1_440), local.rem_euclid(1_440));
                    for (change, from, to) in [
                        (begin, self.offsets.0, self.offsets.1),
                        (end, self.offsets.1, self.offsets.0),
                    ] {
                        if offset == from
                            && minute == change.2
                            && Self::is_change_day(days, change.0, change.1)
                        {
                            offset = to;
                            break;
                        }
                    }
                }
                if at >= start {
                    all.push(offset);
                }
                at += 1;
            }
            all
        }
    }

    const ZONES: [Zone; 4] = [
        Zone {
            rule: "UTC0",
            offsets: (0, 0),
            changes: None,
        },
        Zone {
            rule: "CET-1CEST,M3.5.0,M10.5.0/3",
            offsets: (60, 120),
            changes: Some([(3, 5, 120), (10, 5, 180)]),
        },
        Zone {
            rule: "EST5EDT,M3.2.0,M11.1.0",
            offsets: (-300, -240),
            changes: Some([(3, 2, 120), (11, 1, 120)]),
        },
        // Half an hour, in the other half of the year.
        Zone {
            rule: "LHST-10:30LHDT-11,M10.1.0,M4.1.0",
            offsets: (630, 660),
            changes: Some([(10, 1, 120), (4, 1, 120)]),
        },
    ];

    /// A field as text, and the values that it means.
    fn random_field(random: &mut fastrand::Rng, least: u8, most: u8) -> (String, Vec<u8>) {
        let mut value = || random.u8(least..=most);
        let (one, other, third) = (value(), value(), value());
        let step = random.u8(1..=20);
        match random.u8(0..6) {
            0 | 1 => ("*".to_owned(), (least..=most).collect()),
            2 => (
                format!("*/{step}"),
                (least..=most).step_by(step.into()).collect(),
            ),
            3 => (one.to_string(), vec![one]),
            4 => {
                let (from, to) = (one.min(other), one.max(other));
                (
                    format!("{from}-{to}/{step}"),
                    (from..=to).step_by(step.into()).collect(),
                )
            }
            _ => (format!("{one},{other},{third}"), vec![one, other, third]),
        }
    }

    /// 2024-01-01, and twenty years, in minutes.
    const START: i64 = 19_723 * 1_440;
    const MINUTES: i64 = 7_305 * 1_440;

    /// Every minute of twenty years at which an expression fires.
    fn walk(offsets: &[i64], words: &[(String, Vec<u8>); 5]) -> Vec<i64> {
        let star = |field: usize| words[field].0.starts_with('*');
        let has =
            |field: usize, value: i64| words[field].1.iter().any(|it| i64::from(*it) == value);
        let of_day: Vec<bool> = (0..1_440)
            .map(|minute| has(1, minute / 60) && has(0, minute % 60))
            .collect();
        let mut fits_day = (i64::MIN, false);
        let mut fits = |local: i64| {
            if !of_day[local.rem_euclid(1_440) as usize] {
                return false;
            }
            let days = local.div_euclid(1_440);
            if fits_day.0 != days {
                let (_, month, day) = date_of(days);
                let (day, weekday) = (has(2, day), has(4, (days + 4).rem_euclid(7)));
                let either = if star(2) || star(4) {
                    day && weekday
                } else {
                    day || weekday
                };
                fits_day = (days, either && has(3, month));
            }
            fits_day.1
        };
        let mut times: Vec<i64> = Vec::new();
        let mut latest = START + offsets[0] - 1;
        for (index, offset) in offsets.iter().enumerate() {
            let at = START + index as i64;
            let local = at + offset;
            if star(1) {
                if fits(local) {
                    times.push(at);
                }
                continue;
            }
            // Each time of the wall clock once, when it is first reached; skipped ones later by the change.
            if local > latest + 1 {
                for skipped in latest + 1..local {
                    if fits(skipped) {
                        times.push(skipped - offsets[index - 1]);
                    }
                }
            }
            if local > latest && fits(local) {
                times.push(at);
            }
            latest = latest.max(local);
        }
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Compares an expression with the walk: all of its times if they are few, else those of the first weeks and those
    /// around each change of the clock.
    fn check(zone: &Zone, offsets: &[i64], words: &[(String, Vec<u8>); 5]) {
        let text: Vec<&str> = words.iter().map(|(text, _)| text.as_str()).collect();
        let text = text.join(" ");
        let rule = TimeZone::posix(zone.rule).unwrap();
        let times = walk(offsets, words);
        let Ok(expression) = CronExpression::parse(&text) else {
            assert!(times.is_empty(), "{text} in {}", zone.rule);
            return;
        };
        let mut near = vec![false; offsets.len()];
        for change in 1..offsets.len() {
            if offsets[change] != offsets[change - 1] {
                let end = (change + 150).min(near.len());
                near[change.saturating_sub(90)..end].fill(true);
            }
        }
        let mut after = Timestamp::from_second(START * 60 - 1).unwrap();
        for (number, time) in times.iter().enumerate() {
            let wanted = Timestamp::from_second(time * 60).unwrap();
            let index = (time - START) as usize;
            if times.len() < 8_000 || number < 500 || near.get(index) == Some(&true) {
                let next = expression.next_after(after, &rule);
                assert_eq!(next, Some(wanted), "{text} in {} after {after}", zone.rule);
            }
            after = wanted;
        }
        if let Some(next) = expression.next_after(after, &rule) {
            assert!(next.as_second() >= (START + MINUTES) * 60, "{text}: {next}");
        }
    }

    #[test]
    fn twenty_years_agree_with_a_walk_from_minute_to_minute() {
        let mut random = fastrand::Rng::with_seed(0x5eed);
        for zone in &ZONES {
            let offsets = zone.offsets_from(START, MINUTES);
            for _ in 0..3 {
                let words = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]
                    .map(|(least, most)| random_field(&mut random, least, most));
                check(zone, &offsets, &words);
            }
            // The skipped and the doubled hour themselves.
            for hours in ["2", "1", "*", "1-3"] {
                let values = match hours {
                    "*" => (0..24).collect(),
                    "1-3" => vec![1, 2, 3],
                    one => vec![one.parse().unwrap()],
                };
                let any = |least: u8, most: u8| ("*".to_owned(), (least..=most).collect());
                let words = [
                    ("10,40".to_owned(), vec![10, 40]),
                    (hours.to_owned(), values),
                    any(1, 31),
                    any(1, 12),
                    any(0, 6),
                ];
                check(zone, &offsets, &words);
            }
        }
    }

    #[test]
    fn names_and_both_sundays_are_read() {
        let same = |one: &str, other: &str| {
            assert_eq!(
                CronExpression::parse(one).unwrap(),
                CronExpression::parse(other).unwrap(),
                "{one}"
            );
        };
        same("0 9 * jan,MAR mon-fri", "0 9 * 1,3 1-5");
        same("5/20 0 1 1 *", "5-59/20 0 1 1 *");
        let sunday = |text: &str| CronExpression::parse(text).unwrap().weekdays & 0x7f;
        assert_eq!(sunday("0 0 * * 7"), sunday("0 0 * * sun"));
        assert_eq!(sunday("0 0 * * 5-7"), 0b110_0001);
    }

    #[test]
    fn errors_say_which_field_and_why() {
        for (text, part) in [
            ("* * * *", "five fields"),
            ("60 * * * *", "minute: `60`"),
            ("* 5-2 * * *", "ends before it begins"),
            ("*/0 * * * *", "no step"),
            ("* * 0 * *", "from 1 to 31"),
            ("* * * foo *", "month: `foo`"),
            ("0 0 30 2 *", "matches no day"),
            ("-1 * * * *", "minute"),
            ("1,,2 * * * *", "minute"),
        ] {
            let error = CronExpression::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
