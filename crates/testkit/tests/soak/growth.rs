//! Memory and file descriptors of a process over its turns.

use std::fmt;

/// A process between two prompts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    turns: usize,
    bytes: u64,
    descriptors: usize,
}

impl Sample {
    pub(crate) fn of(pid: u32, turns: usize) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let kilobytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"));
        Self {
            turns,
            bytes: kilobytes.unwrap_or_default() * 1024,
            descriptors: descriptors.map_or(0, Iterator::count),
        }
    }
}

/// The samples of a run.
#[derive(Debug, Default)]
pub(crate) struct Growth(Vec<Sample>);

impl Growth {
    pub(crate) fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// The least of each of twelve equal parts, so that what a compaction frees a moment later does not count.
    fn floors(&self) -> Vec<Sample> {
        let size = self.0.len().div_ceil(12).max(1);
        let least = |part: &[Sample]| part.iter().copied().min_by_key(|sample| sample.bytes);
        self.0.chunks(size).filter_map(least).collect()
    }

    /// The slope of a straight line through the floors, in bytes a turn.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a slope, shown without decimals"
    )]
    pub(crate) fn bytes_a_turn(&self) -> f64 {
        let points: Vec<(f64, f64)> = self
            .floors()
            .iter()
            .map(|sample| (sample.turns as f64, sample.bytes as f64))
            .collect();
        let count = points.len().max(1) as f64;
        let mean_turn = points.iter().map(|point| point.0).sum::<f64>() / count;
        let mean_bytes = points.iter().map(|point| point.1).sum::<f64>() / count;
        let above: f64 = points
            .iter()
            .map(|point| (point.0 - mean_turn) * (point.1 - mean_bytes))
            .sum();
        let below: f64 = points
            .iter()
            .map(|point| (point.0 - mean_turn).powi(2))
            .sum();
        if below > 0.0 { above / below } else { 0.0 }
    }

    /// How many descriptors more the last third has than the first, at its calmest: a call in the background has some for a while.
    pub(crate) fn descriptors(&self) -> usize {
        let third = self.0.len() / 3;
        let least = |part: &[Sample]| part.iter().map(|sample| sample.descriptors).min();
        let early = least(&self.0[..third]).unwrap_or_default();
        let late = least(&self.0[self.0.len() - third..]).unwrap_or_default();
        late.saturating_sub(early)
    }
}

impl fmt::Display for Growth {
    #[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes =
            |sample: Option<&Sample>| sample.map_or(0.0, |sample| sample.bytes as f64 / 1e6);
        let floors = self.floors();
        write!(
            f,
            "memory {:.1} → {:.1} MB ({:.0} bytes a turn), {} descriptors more",
            bytes(floors.first()),
            bytes(floors.last()),
            self.bytes_a_turn(),
            self.descriptors()
        )
    }
}

#[test]
fn a_leak_shows_as_a_slope_and_noise_does_not() {
    let samples = |leak: u64| {
        let mut growth = Growth::default();
        for turn in 0..2_000_u64 {
            growth.push(Sample {
                turns: usize::try_from(turn).unwrap(),
                // Memory goes up and down between compactions.
                bytes: 30_000_000 + turn % 40 * 100_000 + turn * leak,
                descriptors: usize::try_from(20 + turn * leak / 200_000).unwrap(),
            });
        }
        growth
    };
    assert!(samples(0).bytes_a_turn().abs() < 100.0, "{}", samples(0));
    assert!(
        samples(2_000).bytes_a_turn() > 1_500.0,
        "{}",
        samples(2_000)
    );
    assert_eq!(samples(0).descriptors(), 0);
    assert!(samples(2_000).descriptors() > 3, "{}", samples(2_000));
}
